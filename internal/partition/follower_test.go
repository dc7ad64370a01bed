package partition

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

var (
	followerSeed  = flag.Uint64("follower-seed", 0, "run the test of diverging logs with this seed alone")
	followerSeeds = flag.Int("follower-seeds", 300, "how many seeds the test of diverging logs runs")
)

// epochLog is a log of which only the leader epochs of its records matter, and those that were begun without any.
type epochLog struct {
	start   kafka.Offset
	records []kafka.Epoch // from offset 0 on, those before start too
	begun   []EpochEnd    // where epochs begin: End is the start
}

func (l *epochLog) end() kafka.Offset { return kafka.Offset(len(l.records)) }

func (l *epochLog) assign(epoch kafka.Epoch, at kafka.Offset) {
	n := len(l.begun)
	if n > 0 && l.begun[n-1].Epoch == epoch {
		return
	}
	for n > 0 && (l.begun[n-1].Epoch >= epoch || l.begun[n-1].End >= at) {
		n--
	}
	l.begun = append(l.begun[:n:n], EpochEnd{epoch, at})
}

func (l *epochLog) append(epoch kafka.Epoch) {
	l.assign(epoch, l.end())
	l.records = append(l.records, epoch)
}

func (l *epochLog) latest() kafka.Epoch {
	if len(l.begun) == 0 {
		return kafka.NoEpoch
	}
	return l.begun[len(l.begun)-1].Epoch
}

func (l *epochLog) truncate(to kafka.Offset) {
	l.records = l.records[:min(to, l.end())]
	for len(l.begun) > 0 && l.begun[len(l.begun)-1].End >= to {
		l.begun = l.begun[:len(l.begun)-1]
	}
}

func (l *epochLog) history(asked kafka.Epoch) (kafka.Epoch, kafka.Offset) {
	n := len(l.begun)
	switch {
	case asked < 0 || n == 0 || asked > l.begun[n-1].Epoch:
		return kafka.NoEpoch, kafka.NoOffset
	case asked == l.begun[n-1].Epoch:
		return asked, l.end()
	}
	next := 0
	for l.begun[next].Epoch <= asked {
		next++
	}
	if next == 0 {
		return asked, l.begun[0].End
	}
	return l.begun[next-1].Epoch, l.begun[next].End
}

// answer is what a leader says to a fetch.
func (l *epochLog) answer(epoch, last kafka.Epoch, from kafka.Offset) Answer {
	a := Answer{Epoch: epoch, From: from, HighWatermark: 0, LogStart: l.start}
	if last != kafka.NoEpoch {
		shared, end := l.history(last)
		switch {
		case shared == kafka.NoEpoch || from < l.start:
			a.Err = kafka.OffsetOutOfRange
			return a
		case shared < last || end < from:
			a.Diverging = &EpochEnd{shared, end}
			return a
		}
	}
	if from < l.start || from > l.end() {
		a.Err = kafka.OffsetOutOfRange
	}
	return a
}

// TestDivergedLogsBecomeTheLeaders lets three replicas lead in turn, whoever has what, each with some records of its own and some that others
// have got, and then follow the last one: in the end all have its log, and none has cut off more than it had to.
func TestDivergedLogsBecomeTheLeaders(t *testing.T) {
	first, seeds := rand.Uint64(), *followerSeeds
	if *followerSeed != 0 {
		first, seeds = *followerSeed, 1
	}
	for i := range seeds {
		seed := first + uint64(i)
		if err := converge(rand.New(rand.NewPCG(seed, 5))); err != nil {
			t.Fatalf("%v\nto repeat: go test ./internal/partition -run '^%s$' -follower-seed %d", err, t.Name(), seed)
		}
	}
}

func converge(random *rand.Rand) error {
	logs := [3]*epochLog{{}, {}, {}}
	epoch := kafka.Epoch(0)
	for range 2 + random.IntN(8) {
		leader := logs[random.IntN(3)]
		epoch += kafka.Epoch(1 + random.IntN(2))
		leader.assign(epoch, leader.end())
		for _, l := range logs {
			if l != leader && random.IntN(2) == 0 { // it had the time to follow
				if err := followTo(l, leader, epoch); err != nil {
					return err
				}
			}
		}
		for range random.IntN(4) {
			leader.append(epoch)
			for _, l := range logs {
				if l != leader && random.IntN(2) == 0 && slices.Equal(l.records, leader.records[:leader.end()-1]) {
					l.append(epoch)
				}
			}
		}
	}
	leader := logs[random.IntN(3)]
	epoch++
	leader.assign(epoch, leader.end())
	if random.IntN(4) == 0 {
		leader.start = kafka.Offset(random.IntN(len(leader.records) + 1))
	}
	for i, l := range logs {
		if l == leader {
			continue
		}
		if err := followTo(l, leader, epoch); err != nil {
			return fmt.Errorf("replica %d: %w", i, err)
		}
	}
	return nil
}

// followTo lets a log follow another one until nothing is left to do.
func followTo(l, leader *epochLog, epoch kafka.Epoch) error {
	common := kafka.Offset(0)
	for common < min(l.end(), leader.end()) && l.records[common] == leader.records[common] {
		common++
	}
	before := slices.Clone(l.records)
	f := NewFollower(Leading{Leader: 1, Epoch: epoch}, Positions{Start: l.start, End: l.end(), Stable: l.end()})
	for rounds := 0; ; rounds++ {
		if rounds > 50 {
			return fmt.Errorf("%v is still not %v", l.records, leader.records)
		}
		step, to := f.Answered(leader.answer(epoch, l.latest(), f.StableEnd()), l.history, 0, 1000)
		anew := false
		if step == AskForEnds {
			step, to, anew = f.RangeOf(epoch, leader.start, leader.end())
		}
		switch {
		case step == Truncate && anew:
			l.start, l.begun = to, nil
			l.records = slices.Clone(leader.records[:to])
			f.Cut(l.start, l.end())
		case step == Truncate:
			if to < common && to < l.end() {
				return fmt.Errorf("%v is cut off at %d, and %v shares %d with it", before, to, leader.records, common)
			}
			l.truncate(to)
			f.Cut(l.start, l.end())
		case step == TakeIn:
			from := f.StableEnd()
			if !slices.Equal(l.records, leader.records[:from]) {
				return fmt.Errorf("%v goes on with %v", l.records, leader.records)
			}
			if from == leader.end() {
				return nil
			}
			for _, e := range leader.records[from:] {
				l.append(e)
			}
			f.Appended(l.end())
			f.Flushed(l.end())
		default:
			return fmt.Errorf("step %d", step)
		}
	}
}

// TestFollowerTellsAndCountsWhatIsFlushed.
func TestFollowerTellsAndCountsWhatIsFlushed(t *testing.T) {
	f := NewFollower(Leading{Leader: 1, Epoch: 3}, Positions{Start: 0, End: 10, Stable: 10, HighWatermark: 8})
	none := func(kafka.Epoch) (kafka.Epoch, kafka.Offset) { return kafka.NoEpoch, kafka.NoOffset }
	answer := Answer{Epoch: 3, From: 10, HighWatermark: 15}
	if step, _ := f.Answered(answer, none, 0, 1000); step != TakeIn || f.HighWatermark() != 10 {
		t.Errorf("step %d, high watermark %d, want to take in, and what is here", step, f.HighWatermark())
	}
	f.Appended(20)
	if ready, due := f.Ready(0); ready || due != 0 {
		t.Error("it fetches while records are on their way to the disk")
	}
	if f.HighWatermark() != 10 {
		t.Errorf("high watermark %d counts what is not flushed", f.HighWatermark())
	}
	if step, _ := f.Answered(answer, none, 0, 1000); step != Ignore {
		t.Errorf("an answer that is of before is taken: step %d", step)
	}
	f.Flushed(20)
	if ready, _ := f.Ready(0); !ready || f.HighWatermark() != 15 || f.StableEnd() != 20 {
		t.Errorf("flushed: ready %v, high watermark %d, end %d", ready, f.HighWatermark(), f.StableEnd())
	}
	if start := f.Start(); start != 0 {
		t.Errorf("start %d", start)
	}
	f.Answered(Answer{Epoch: 3, From: 20, HighWatermark: 18, LogStart: 19}, none, 0, 1000)
	if f.Start() != 18 {
		t.Errorf("start %d, want the high watermark: not more is known to be committed", f.Start())
	}
}

// TestFollowerWaitsAfterErrors, longer each time, and not at all when the metadata says something new.
func TestFollowerWaitsAfterErrors(t *testing.T) {
	f := NewFollower(Leading{Leader: 1, Epoch: 3}, Positions{})
	for _, want := range []int64{10, 20, 40, 80, 100, 100} {
		step, _ := f.Answered(Answer{Epoch: 3, Err: kafka.NotLeaderOrFollower}, nil, 1000, 100)
		if _, due := f.Ready(1000); step != BackOff || due != 1000+want {
			t.Errorf("step %d, due at %d, want to wait for %d ms", step, due, want)
		}
	}
	f.Follow(Leading{Leader: 2, Epoch: 4})
	if ready, _ := f.Ready(1000); !ready || f.Leader() != 2 {
		t.Error("it waits for another leader's error")
	}
	if step, _ := f.Answered(Answer{Epoch: 3}, nil, 1000, 100); step != Ignore {
		t.Errorf("an answer in the epoch of before: step %d", step)
	}
	if step, _ := f.Answered(Answer{Epoch: 4, Err: kafka.FencedLeaderEpoch}, nil, 1000, 100); step != Stop {
		t.Errorf("fenced: step %d", step)
	}
	if ready, due := f.Ready(1e9); ready || due != 0 {
		t.Error("fenced, and it asks again in the same epoch")
	}
	f.Follow(Leading{Leader: 2, Epoch: 4})
	if ready, _ := f.Ready(1e9); ready {
		t.Error("the same metadata again lets it go on")
	}
}

// TestFollowerChecksBatches of the leader against its log.
func TestFollowerChecksBatches(t *testing.T) {
	batch := func(base kafka.Offset, epoch kafka.Epoch) record.Batch {
		var b record.Builder
		b.Add(nil, []byte("v"), nil, 0)
		b.Add(nil, []byte("w"), nil, 0)
		made := slices.Clone(b.Build())
		made.SetBaseOffset(base)
		made.SetLeaderEpoch(epoch)
		return made
	}
	for _, c := range []struct {
		what           string
		start, end     kafka.Offset
		base           kafka.Offset
		epoch, latest  kafka.Epoch
		take, overlaps bool
		corrupt        bool
	}{
		{"the next", 0, 10, 10, 5, 5, true, false, false},
		{"behind a gap, as the leader has compacted", 0, 10, 15, 5, 5, true, false, false},
		{"one that is there", 0, 10, 8, 5, 5, false, false, false},
		{"one in which the log ends", 0, 10, 9, 5, 5, false, false, true},
		{"one in which an empty log begins", 10, 10, 9, 5, kafka.NoEpoch, true, true, false},
		{"one of an epoch that the leader does not have", 0, 10, 10, 6, 5, false, false, true},
		{"one of an epoch before the last", 0, 10, 10, 3, 4, false, false, true},
	} {
		f := NewFollower(Leading{Leader: 1, Epoch: 5}, Positions{Start: c.start, End: c.end, Stable: c.end})
		take, overlaps, err := f.Check(batch(c.base, c.epoch), c.latest)
		if take != c.take || overlaps != c.overlaps || errors.Is(err, kafka.CorruptMessage) != c.corrupt {
			t.Errorf("%s: take %v, overlaps %v, %v", c.what, take, overlaps, err)
		}
	}
}
