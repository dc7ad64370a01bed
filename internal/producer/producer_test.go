package producer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

// TestRule49DedupWindow: the last five batches are answered with their first offsets, before and after a restart.
func TestRule49DedupWindow(t *testing.T) {
	p := newPartition(t)
	var batches []record.Batch
	for i := range 8 {
		b := batchOf(record.Producer{ID: 1, BaseSequence: kafka.Sequence(2 * i)}, 2, false, start.Add(time.Duration(i)))
		batches = append(batches, b)
		p.append(b)
	}
	for range 2 {
		for i, b := range batches {
			verdict, err := p.state.Check(b, NoGuard)
			if i < 3 {
				if !errors.Is(err, kafka.OutOfOrderSequenceNumber) {
					t.Errorf("batch %d, which is too old: %+v, %v", i, verdict, err)
				}
				continue
			}
			want := Verdict{Duplicate: true, BaseOffset: kafka.Offset(2 * i), LastOffset: kafka.Offset(2*i + 1), AppendTimeMs: b.MaxTimestampMs()}
			if err != nil || verdict != want {
				t.Errorf("batch %d: %+v, %v; want %+v", i, verdict, err, want)
			}
		}
		p.restart()
	}
}

// TestRule50SequenceGap: of pipelined batches the ones after a refused one are refused, and only a gap is called a gap.
func TestRule50SequenceGap(t *testing.T) { runScenario(t, "rule 50: a gap, and what follows it") }

// TestRule51SequenceWrap: 2147483647 is followed by 0.
func TestRule51SequenceWrap(t *testing.T) {
	runScenario(t, "rule 51: the sequence wraps in a batch")
	runScenario(t, "rule 51: the sequence wraps between batches")
}

// TestRule53NewEpochSequence: a higher epoch must start at 0, a lower one is fenced.
func TestRule53NewEpochSequence(t *testing.T) {
	runScenario(t, "rule 53: a higher epoch starts at 0, a lower one is fenced")
}

// TestRule55RestartDurability: the state rebuilt from a snapshot and the log's tail is the state that was.
func TestRule55RestartDurability(t *testing.T) {
	p := newPartition(t)
	var log []record.Batch
	for i := range 20 {
		b := batchOf(record.Producer{ID: kafka.ProducerID(i % 3), Epoch: kafka.ProducerEpoch(i / 12), BaseSequence: kafka.Sequence(i)}, 1, i%4 == 0, start)
		p.append(b)
		log = append(log, b)
	}
	for cut := range log {
		before := New(0)
		for _, b := range log[:cut] {
			before.Apply(b, start)
		}
		again, err := Decode(before.Encode())
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range log[cut:] {
			again.Apply(b, start)
		}
		if !bytes.Equal(again.Encode(), p.state.Encode()) {
			t.Fatalf("snapshot at %d: %+v, want %+v", cut, again.Producers(), p.state.Producers())
		}
	}
}

func runScenario(t *testing.T, name string) {
	t.Helper()
	for _, s := range scenarios {
		if s.name == name {
			s.run(t)
			return
		}
	}
	t.Fatalf("no scenario %q", name)
}

func TestExpiredProducersAreForgotten(t *testing.T) {
	s := New(0)
	// The timestamps are the application's and long gone: they must not matter.
	s.Apply(batchOf(record.Producer{ID: 1}, 1, false, time.UnixMilli(5)), start)
	s.Apply(batchOf(record.Producer{ID: 2}, 1, false, time.UnixMilli(5)), start.Add(30*time.Minute))
	s.Apply(batchOf(record.Producer{ID: 3}, 1, true, time.UnixMilli(5)), start)
	s.Expire(start.Add(59*time.Minute), time.Hour)
	if s.Len() != 3 {
		t.Fatalf("after 59 minutes %d producers are left, want 3", s.Len())
	}
	s.Expire(start.Add(time.Hour), time.Hour)
	wantProducers(t, s, 2, 3)
	s.Expire(start.Add(1000*time.Hour), time.Hour)
	wantProducers(t, s, 3) // its transaction is open
}

func TestProducersFromASnapshotExpireAfterAWholePeriod(t *testing.T) {
	s := New(0)
	s.Apply(batchOf(record.Producer{ID: 1}, 1, false, time.UnixMilli(5)), start)
	s, err := Decode(s.Encode())
	if err != nil {
		t.Fatal(err)
	}
	later := start.Add(100 * time.Hour)
	s.Expire(later, time.Hour)
	s.Expire(later.Add(59*time.Minute), time.Hour)
	wantProducers(t, s, 1)
	s.Expire(later.Add(time.Hour), time.Hour)
	wantProducers(t, s)
}

func TestTheLongestIdleProducerMakesRoom(t *testing.T) {
	s := New(3)
	for i := range 3 {
		s.Apply(batchOf(record.Producer{ID: kafka.ProducerID(i)}, 1, i == 1, start), start.Add(time.Duration(i)))
	}
	s.Apply(batchOf(record.Producer{ID: 0, BaseSequence: 1}, 1, false, start), start.Add(10))
	s.Apply(batchOf(record.Producer{ID: 9}, 1, false, start), start.Add(11))
	wantProducers(t, s, 0, 1, 9) // 2 was idle for longest; 1 is older, with its transaction open
	s.Apply(batchOf(record.Producer{ID: 10}, 1, false, start), start.Add(12))
	wantProducers(t, s, 1, 9, 10)
	s.SetMax(2)
	wantProducers(t, s, 1, 10)
}

func TestOpenTransactionsAreNotForgottenForNewOnes(t *testing.T) {
	s := New(2)
	for i := range 2 {
		s.Apply(batchOf(record.Producer{ID: kafka.ProducerID(i)}, 1, true, start), start)
	}
	third := batchOf(record.Producer{ID: 2}, 1, true, start)
	if _, err := s.Check(third, Unguarded); !errors.Is(err, kafka.PolicyViolation) {
		t.Errorf("a third transaction where two are remembered: %v, want %v", err, kafka.PolicyViolation)
	}
	s.Apply(third, start) // as a follower must
	wantProducers(t, s, 0, 1, 2)
}

func wantProducers(t *testing.T, s *State, want ...kafka.ProducerID) {
	t.Helper()
	got := []kafka.ProducerID{}
	for _, p := range s.Producers() {
		got = append(got, p.ID)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || s.Len() != len(want) {
		t.Fatalf("producers %v are remembered, %d in all; want %v", got, s.Len(), want)
	}
}

// TestRule63LastStableOffset: an open transaction holds it, and a finished one until its marker is below the high watermark.
func TestRule63LastStableOffset(t *testing.T) {
	p := newPartition(t)
	stable := func(highWatermark, want kafka.Offset) {
		t.Helper()
		if got := p.state.LastStable(highWatermark); got != want {
			t.Fatalf("high watermark %d, end %d: last stable offset %d, want %d", highWatermark, p.end, got, want)
		}
	}
	marker := func(id kafka.ProducerID, commit bool) (Completed, bool) {
		b := record.EndTransaction(id, 0, record.Marker{Commit: commit, CoordinatorEpoch: 7}, start.UnixMilli())
		b.SetBaseOffset(p.end)
		p.end++
		return p.state.Apply(b, p.now)
	}
	p.append(batchOf(record.Producer{ID: 9}, 5, false, start)) // 0-4
	stable(5, 5)
	p.append(batchOf(record.Producer{ID: 1}, 3, true, start)) // 5-7
	p.append(batchOf(record.Producer{ID: 2}, 3, true, start)) // 8-10
	p.append(batchOf(record.Producer{ID: 1, BaseSequence: 3}, 1, true, start))
	stable(11, 5)
	if first, ok := p.state.FirstUnstable(); first != 5 || !ok {
		t.Fatalf("the first open transaction begins at %d, %v; want 5", first, ok)
	}
	done, ok := marker(1, false) // 12
	if want := (Completed{ProducerID: 1, FirstOffset: 5, Marker: 12, Aborted: true, LastStable: 8}); !ok || done != want {
		t.Fatalf("%+v, %v; want %+v", done, ok, want)
	}
	stable(12, 5) // the marker is not replicated
	stable(13, 8)
	done, ok = marker(2, true) // 13
	if want := (Completed{ProducerID: 2, FirstOffset: 8, Marker: 13, LastStable: 14}); !ok || done != want {
		t.Fatalf("%+v, %v; want %+v", done, ok, want)
	}
	stable(13, 8)
	stable(14, 14)
	if _, ok := marker(2, true); ok {
		t.Fatal("a marker without a transaction completed one")
	}
	if first, ok := p.state.FirstUnstable(); ok {
		t.Fatalf("a transaction is open at %d", first)
	}
}

func TestFinishedTransactionsWaitInBoundedMemory(t *testing.T) {
	p := newPartition(t)
	for range 3 * completedMax {
		p.append(batchOf(record.Producer{ID: 1, BaseSequence: -1}, 1, true, start))
		p.append(record.EndTransaction(1, 0, record.Marker{}, start.UnixMilli()))
	}
	if n := len(p.state.completed); n > completedMax {
		t.Errorf("%d are kept", n)
	}
	if got := p.state.LastStable(1); got != 0 {
		t.Errorf("with the first marker unreplicated the last stable offset is %d, want 0", got)
	}
	if got := p.state.LastStable(p.end); got != p.end {
		t.Errorf("with all replicated it is %d, want %d", got, p.end)
	}
}

func TestABatchOutsideItsProducersTransactionIsRefused(t *testing.T) {
	p := newPartition(t)
	p.append(batchOf(record.Producer{ID: 1}, 1, true, start))
	_, err := p.produce(batchOf(record.Producer{ID: 1, BaseSequence: 1}, 1, false, start))
	if !errors.Is(err, kafka.InvalidTxnState) {
		t.Errorf("%v, want %v", err, kafka.InvalidTxnState)
	}
}

// TestRule62MarkersSentAgain: a marker at the producer's epoch with no transaction open is taken once more.
func TestRule62MarkersSentAgain(t *testing.T) {
	s := New(0)
	if err := s.CheckMarker(1, 0, 3, 2); err != nil {
		t.Errorf("of a producer that is not known: %v", err)
	}
	s.Apply(batchOf(record.Producer{ID: 1, Epoch: 4}, 1, true, start), start)
	for _, c := range []struct {
		epoch       kafka.ProducerEpoch
		coordinator int32
		protocol    int16
		want        kafka.Error
	}{
		{4, 3, 1, kafka.None}, {3, 3, 1, kafka.InvalidProducerEpoch}, {4, 3, 2, kafka.InvalidProducerEpoch}, {5, 3, 2, kafka.None},
	} {
		if got, _ := kafka.Answer(s.CheckMarker(1, c.epoch, c.coordinator, c.protocol)); got != c.want {
			t.Errorf("open, protocol %d, epoch %d: %v, want %v", c.protocol, c.epoch, got, c.want)
		}
	}
	s.Apply(record.EndTransaction(1, 5, record.Marker{Commit: true, CoordinatorEpoch: 3}, start.UnixMilli()), start)
	if got := s.Producers()[0]; got.Epoch != 5 || got.CoordinatorEpoch != 3 || got.LastSequence != -1 || got.TxnStartOffset != -1 {
		t.Errorf("after the marker: %+v", got)
	}
	if err := s.CheckMarker(1, 5, 3, 2); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if err := s.CheckMarker(1, 5, 2, 2); !errors.Is(err, kafka.TransactionCoordinatorFenced) {
		t.Errorf("of an older coordinator: %v", err)
	}
}

func TestBatchesWithoutAProducerAreNobodys(t *testing.T) {
	s := New(0)
	b := record.Builder{}
	b.Add(nil, nil, nil, 1)
	plain := b.Build()
	if v, err := s.Check(plain, NoGuard); v.Duplicate || err != nil {
		t.Errorf("%+v, %v", v, err)
	}
	s.Apply(plain, start)
	if s.Len() != 0 || len(s.Encode()) != snapshotHeadBytes {
		t.Errorf("%d producers, a snapshot of %d bytes", s.Len(), len(s.Encode()))
	}
}

func TestSnapshotIsKafkasFormat(t *testing.T) {
	// As Kafka 4.4 wrote it: one producer, epoch 2, five batches of one record.
	const ms = 1795978229187
	theirs := binary.BigEndian.AppendUint16(nil, 1)
	theirs = binary.BigEndian.AppendUint32(theirs, 0)
	theirs = binary.BigEndian.AppendUint32(theirs, 1)
	theirs = binary.BigEndian.AppendUint64(theirs, 777)
	theirs = binary.BigEndian.AppendUint16(theirs, 2)
	theirs = binary.BigEndian.AppendUint32(theirs, 4)
	theirs = binary.BigEndian.AppendUint64(theirs, 4)
	theirs = binary.BigEndian.AppendUint32(theirs, 0)
	theirs = binary.BigEndian.AppendUint64(theirs, ms)
	theirs = binary.BigEndian.AppendUint32(theirs, 0xffffffff)
	theirs = binary.BigEndian.AppendUint64(theirs, 0xffffffffffffffff)
	seal(theirs)
	s, err := Decode(theirs)
	if err != nil {
		t.Fatal(err)
	}
	want := []Producer{{ID: 777, Epoch: 2, LastSequence: 4, LastTimestampMs: ms, CoordinatorEpoch: -1, TxnStartOffset: -1}}
	if got := s.Producers(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if !bytes.Equal(s.Encode(), theirs) {
		t.Errorf("written again it is %x, was %x", s.Encode(), theirs)
	}
}

// seal puts the CRC into a snapshot.
func seal(b []byte) []byte {
	if len(b) >= snapshotEntriesAt {
		binary.BigEndian.PutUint32(b[snapshotCRCAt:], crc32.Checksum(b[snapshotEntriesAt:], castagnoli))
	}
	return b
}

func TestDecodeRefusesHostileSnapshots(t *testing.T) {
	s := New(0)
	s.Apply(batchOf(record.Producer{ID: 1}, 3, false, start), start)
	good := s.Encode()
	for name, change := range map[string]func([]byte) []byte{
		"empty":                     func([]byte) []byte { return nil },
		"cut short":                 func(b []byte) []byte { return b[:len(b)-1] },
		"a byte more":               func(b []byte) []byte { return seal(append(b, 0)) },
		"a byte flipped":            func(b []byte) []byte { b[20] ^= 1; return b },
		"version 2":                 func(b []byte) []byte { b[1] = 2; return b },
		"entries of 2^31-1":         func(b []byte) []byte { binary.BigEndian.PutUint32(b[6:], 1<<31-1); return seal(b) },
		"entries of -1":             func(b []byte) []byte { binary.BigEndian.PutUint32(b[6:], 1<<32-1); return seal(b) },
		"fewer entries than bytes":  func(b []byte) []byte { binary.BigEndian.PutUint32(b[6:], 0); return seal(b) },
		"negative producer id":      func(b []byte) []byte { b[10] = 0x80; return seal(b) },
		"more offsets than the log": func(b []byte) []byte { binary.BigEndian.PutUint32(b[32:], 9); return seal(b) },
		"negative offset delta":     func(b []byte) []byte { binary.BigEndian.PutUint32(b[32:], 1<<31); return seal(b) },
	} {
		_, err := Decode(change(bytes.Clone(good)))
		if _, ok := errors.AsType[*SnapshotError](err); !ok {
			t.Errorf("%s: %v, want a *SnapshotError", name, err)
		}
	}
}

// TestRandomProducers plays honest clients with lost answers, restarts and takeovers against a plain list of what was stored:
// every batch is stored once, in order, and every repeat within the window is answered with the place of its original.
func TestRandomProducers(t *testing.T) {
	if *randomSeed != 0 {
		playRandom(t, *randomSeed)
		return
	}
	first := uint64(time.Now().UnixNano())
	for seed := first; seed < first+200; seed++ {
		if !playRandom(t, seed) {
			t.Logf("to repeat it: go test -run TestRandomProducers ./internal/producer -seed %d", seed)
			return
		}
	}
}

var randomSeed = flag.Uint64("seed", 0, "the one seed that TestRandomProducers plays")

type sent struct {
	batch  record.Batch
	offset kafka.Offset
}

func playRandom(t *testing.T, seed uint64) bool {
	r := rand.New(rand.NewPCG(seed, 0))
	p := newPartition(t)
	clients := make([]struct {
		epoch kafka.ProducerEpoch
		next  kafka.Sequence
		past  []sent
	}, 4)
	for i := range clients {
		clients[i].next = kafka.Sequence(r.IntN(3)) * (1<<30 - 1)
	}
	for range 200 {
		id := r.IntN(len(clients))
		c := &clients[id]
		switch r.IntN(10) {
		case 0:
			p.restart()
		case 1:
			c.epoch, c.next, c.past = c.epoch+1, 0, nil
		case 2, 3, 4:
			if len(c.past) == 0 {
				continue
			}
			old := c.past[max(0, len(c.past)-1-r.IntN(Window))]
			got, err := p.produce(old.batch)
			if err != nil || got != old.offset {
				t.Errorf("seed %d: producer %d sent the batch of offset %d again: %d, %v", seed, id, old.offset, got, err)
				return false
			}
		default:
			count := 1 + r.IntN(20)
			b := batchOf(record.Producer{ID: kafka.ProducerID(id), Epoch: c.epoch, BaseSequence: c.next}, count, false, start)
			end := p.end
			got, err := p.produce(b)
			if err != nil || got != end {
				t.Errorf("seed %d: producer %d, epoch %d, sequence %d: %d, %v; want %d", seed, id, c.epoch, c.next, got, err, end)
				return false
			}
			c.past = append(c.past, sent{b, got})
			c.next = record.AddSequence(c.next, int32(count))
			gap := batchOf(record.Producer{ID: kafka.ProducerID(id), Epoch: c.epoch, BaseSequence: record.AddSequence(c.next, 1)}, 1, false, start)
			if _, err := p.produce(gap); !errors.Is(err, kafka.OutOfOrderSequenceNumber) {
				t.Errorf("seed %d: producer %d, a gap before sequence %d: %v", seed, id, gap.BaseSequence(), err)
				return false
			}
		}
	}
	return true
}

// FuzzDecode: whatever the bytes are, they are refused or come back as they went.
func FuzzDecode(f *testing.F) {
	s := New(0)
	f.Add(s.Encode())
	for i := range 9 {
		s.Apply(batchOf(record.Producer{ID: kafka.ProducerID(i % 2), Epoch: 1, BaseSequence: kafka.Sequence(i)}, 1, i > 5, start), start)
		f.Add(s.Encode())
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := Decode(seal(bytes.Clone(in)))
		if err != nil {
			return
		}
		again, err := Decode(s.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.Encode(), s.Encode()) || !reflect.DeepEqual(again.Producers(), s.Producers()) {
			t.Fatalf("%+v came back as %+v", s.Producers(), again.Producers())
		}
		b := batchOf(record.Producer{ID: 1, Epoch: 1, BaseSequence: 9}, 2, true, start)
		_, _ = s.Check(b, NoGuard)
		s.Apply(b, start)
		s.LastStable(100)
		s.SetMax(1)
		s.Expire(start, 0)
	})
}

func BenchmarkCheckAndApply(b *testing.B) {
	s := New(0)
	batch := batchOf(record.Producer{ID: 1, BaseSequence: 0}, 10, false, start)
	sequence := kafka.Sequence(0)
	b.ReportAllocs()
	for b.Loop() {
		setSequence(batch, sequence)
		if _, err := s.Check(batch, NoGuard); err != nil {
			b.Fatal(err)
		}
		s.Apply(batch, start)
		sequence = record.AddSequence(sequence, 10)
	}
}

func setSequence(b record.Batch, sequence kafka.Sequence) {
	binary.BigEndian.PutUint32(b[53:], uint32(sequence))
}
