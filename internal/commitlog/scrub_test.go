package commitlog

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// scrubbed reads the whole log and returns how many bytes that was.
func scrubbed(l *Log, budget int64) (total int64, err error) {
	s := l.Scrub()
	defer s.Close()
	for done := false; !done; {
		var used int64
		used, done, err = s.Step(budget)
		total += used
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// scrubSeed is that of SCRUB_SEED, or any.
func scrubSeed(t *testing.T) (uint64, *rand.Rand) {
	t.Helper()
	seed := uint64(rand.Uint32())
	if n, err := strconv.ParseUint(os.Getenv("SCRUB_SEED"), 10, 64); err == nil {
		seed = n
	}
	return seed, rand.New(rand.NewPCG(seed, 7))
}

// epochMayBe tells whether a byte lies in the leader epoch of a batch, which its CRC does not cover, and neither the batches around it
// in the segment nor the latest epoch are at odds with what it says now.
func epochMayBe(segment []byte, at int, latest kafka.Epoch) bool {
	const epochAt, epochEnd = 12, 16
	before := kafka.NoEpoch
	for begin := 0; begin < len(segment); {
		b, rest, err := record.Split(segment[begin:])
		if err != nil {
			return false
		}
		if begin+epochAt <= at && at < begin+epochEnd {
			after := latest
			if next, _, err := record.Split(rest); err == nil {
				after = next.LeaderEpoch()
			}
			return before <= b.LeaderEpoch() && b.LeaderEpoch() <= after
		}
		before, begin = b.LeaderEpoch(), begin+len(b)
	}
	return false
}

// TestScrubFindsEachFlippedBit: it names the batch, or where a flip makes it look whole the one behind it.
func TestScrubFindsEachFlippedBit(t *testing.T) {
	seed, r := scrubSeed(t)
	fs := vfs.NewMemory()
	l := newLog(t, fs, smallConfig())
	for epoch := range kafka.Epoch(4) {
		fill(t, l, 20, epoch)
	}
	var large record.Builder
	large.Add(nil, make([]byte, scrubWholeMax), nil, testStart.UnixMilli())
	appendBatch(t, l, large.Build(), 4)
	flush(t, l)
	if n, err := scrubbed(l, 1); err != nil || n < l.Size() {
		t.Fatalf("%d bytes of %d, %v", n, l.Size(), err)
	}
	segments := *l.segments.Load()
	for i := range 400 {
		s := segments[r.IntN(len(segments))]
		name := s.name(logSuffix)
		content, err := vfs.ReadFile(fs, name)
		if err != nil {
			t.Fatal(err)
		}
		bit := r.IntN(8 * min(len(content), 4000))
		damaged := slices.Clone(content)
		damaged[bit/8] ^= 1 << (bit % 8)
		// Not a new file: the segment keeps its file open.
		write := func(content []byte) {
			f, err := fs.Open(name, os.O_RDWR)
			if err == nil {
				_, err = f.WriteAt(content, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		write(damaged)
		_, err = scrubbed(l, 1000)
		write(content)
		var corrupt *CorruptError
		if err == nil && epochMayBe(damaged, bit/8, l.LatestEpoch()) {
			continue
		}
		if !errors.As(err, &corrupt) || !strings.HasSuffix(corrupt.File, logSuffix) || corrupt.Advice() == "" {
			t.Errorf("flip %d, bit %d of %s: %v\nrepeat: SCRUB_SEED=%d go test -run %s ./internal/commitlog", i, bit, name, err, seed, t.Name())
			continue
		}
		if corrupt.File == name && corrupt.At > int64(bit/8) && corrupt.At > int64(bit/8)+record.HeaderBytes+400 {
			t.Errorf("flip %d: byte %d of %s is told at byte %d", i, bit/8, name, corrupt.At)
		}
	}
}

// TestScrubPassesOverWhatGoes: appends, flushes, retention, truncation, compaction and deletion happen between any two of its
// steps, and never look like damage.
func TestScrubPassesOverWhatGoes(t *testing.T) {
	seed, r := scrubSeed(t)
	for range 60 {
		fs := vfs.NewMemory()
		c := smallConfig()
		c.Compact, c.Delete, c.RetentionBytes, c.RetentionMs = r.IntN(2) == 0, true, 12_000, -1
		l := newLog(t, fs, c)
		epoch, now := kafka.Epoch(0), testStart
		s := l.Scrub()
		for range 400 {
			now = now.Add(time.Second)
			var err error
			switch n := r.IntN(40); {
			case n < 12:
				appendBatch(t, l, batch(1+r.IntN(5), now.UnixMilli()), epoch)
			case n == 12:
				flush(t, l)
			case n == 13:
				_, err = l.Retain(now, l.FlushedOffset())
			case n == 14:
				err = l.Dir().Sweep(now.Add(time.Duration(r.IntN(3)) * time.Hour))
			case n == 15 && r.IntN(4) == 0:
				epoch++
				err = l.Truncate(l.StartOffset() + kafka.Offset(r.Int64N(int64(l.EndOffset()-l.StartOffset())+1)))
			case n == 16 && c.Compact && len(l.Segments()) > 2:
				flush(t, l)
				compactAll(t, l, now)
			default:
				var done bool
				if _, done, err = s.Step(1); done {
					s.Close()
					s = l.Scrub()
				}
			}
			if err != nil {
				t.Fatalf("%v\nrepeat: SCRUB_SEED=%d go test -run %s ./internal/commitlog", err, seed, t.Name())
			}
		}
		if err := l.Dir().Delete(testTopic); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Step(1); !errors.Is(err, ErrClosed) {
			t.Fatalf("a step in a deleted log: %v", err)
		}
		s.Close()
	}
}

// compactAll cleans what there is to clean.
func compactAll(t *testing.T, l *Log, now time.Time) {
	t.Helper()
	found, err := l.Cleanable(now, l.FlushedOffset())
	if err != nil {
		t.Fatal(err)
	}
	if found.First >= found.End {
		return
	}
	c, err := l.Compact(found, CompactOptions{MapBytes: 1 << 20, MapLoadFactor: 0.9, BufferBytes: 1000, Producers: l.Producers().Lasts()}, now)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for done := false; !done; {
		if _, done, err = c.Step(1 << 20); err != nil {
			t.Fatal(err)
		}
	}
}
