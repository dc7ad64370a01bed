package commitlog

import (
	"bytes"
	"os"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
)

// resumable is a killed log of one segment with places from which recovery can go on, and where it was flushed to. Its timestamps go up
// and down.
func resumable(t *testing.T, c Config) (vfs.FS, *Log, kafka.Offset) {
	t.Helper()
	fs := vfs.NewMemory()
	l := newLog(t, fs, c)
	l.dir.resumeBytes = 5000
	for i := range 400 {
		if i == 350 {
			flush(t, l)
			if err := l.dir.WriteCheckpoints(); err != nil {
				t.Fatal(err)
			}
		}
		appendBatch(t, l, idempotent(kafka.ProducerID(i%3), kafka.Sequence(i/3*2), 2, testStart.UnixMilli()+int64(i)-int64(i%5)*7), 0)
	}
	flushed := kafka.Offset(700)
	if err := l.dir.Close(false, 5); err != nil {
		t.Fatal(err)
	}
	return fs, l, flushed
}

func spoil(t *testing.T, fs vfs.FS, name string, at int64) {
	t.Helper()
	f, err := fs.Open(name, os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{b[0] ^ 1}, at); err != nil {
		t.Fatal(err)
	}
}

// TestRecoveryGoesOnNearTheRecoveryPoint: it reads nothing of the segment's begin, so that it does not notice a bit there, which is the
// scrub's; and all that is found by indexes, and the producers, are as in a log that was read from its begin.
func TestRecoveryGoesOnNearTheRecoveryPoint(t *testing.T) {
	c := smallConfig()
	c.SegmentBytes = 1 << 30
	fs, killed, flushed := resumable(t, c)
	name := killed.active().String()
	spoil(t, fs, name, 100)
	l, err := openDir(t, fs).Open(testTopic, testID, c, testStart)
	if err != nil {
		t.Fatalf("it reads from the begin: %v", err)
	}
	spoil(t, fs, name, 100)
	if l.EndOffset() != 800 || l.FlushedOffset() != flushed {
		t.Errorf("it ends at %d, flushed up to %d", l.EndOffset(), l.FlushedOffset())
	}
	checkDense(t, l, 0, 800)
	if got, want := l.Producers().Encode(), killed.Producers().Encode(); !bytes.Equal(got, want) {
		t.Errorf("the producers are\n%x\nwant\n%x", got, want)
	}
	if largest, ok, err := l.MaxTimestamp(800); err != nil || !ok || largest.TimestampMs != testStart.UnixMilli()+396 {
		t.Errorf("the largest timestamp: %+v, %v, %v", largest, ok, err)
	}
	l = reopen(t, fs, l, true)
	checkDense(t, l, 0, 800)
}

// TestRecoveryBelievesNoTornPlace: where the files at a place are torn, or are not all there, it reads the segment.
func TestRecoveryBelievesNoTornPlace(t *testing.T) {
	c := smallConfig()
	c.SegmentBytes = 1 << 30
	for what, tear := range map[string]func(content []byte) []byte{
		"no":          nil,
		"half of":     func(content []byte) []byte { return content[:len(content)/2/24*24] },
		"an empty":    func([]byte) []byte { return []byte{} },
		"zeros of":    func(content []byte) []byte { return make([]byte, len(content)) },
		"a hole in":   func(content []byte) []byte { clear(content[len(content)/3 : len(content)/2]); return content },
		"garbage for": func(content []byte) []byte { return bytes.Repeat([]byte{0xa5}, len(content)) },
	} {
		for _, suffix := range []string{indexSuffix, timeIndexSuffix, snapshotSuffix} {
			fs, killed, _ := resumable(t, c)
			entries, err := fs.ReadDir(killed.folder)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if _, ok := parseOffsetName(e.Name, suffix); !ok {
					continue
				}
				name := killed.folder + "/" + e.Name
				content, err := vfs.ReadFile(fs, name)
				if err != nil {
					t.Fatal(err)
				}
				if tear == nil {
					err = fs.Remove(name)
				} else {
					err = vfs.WriteFile(fs, name, tear(content))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			l, err := openDir(t, fs).Open(testTopic, testID, c, testStart)
			if err != nil {
				t.Fatalf("%s %s: %v", what, suffix, err)
			}
			checkDense(t, l, 0, 800)
			if got, want := l.Producers().Encode(), killed.Producers().Encode(); !bytes.Equal(got, want) {
				t.Errorf("%s %s: the producers are\n%x\nwant\n%x", what, suffix, got, want)
			}
		}
	}
}

// TestPowerCutWhereRecoveryGoesOnInASegment runs what fills large segments.
func TestPowerCutWhereRecoveryGoesOnInASegment(t *testing.T) {
	for seed := range seeds(crashSeeds(200)) {
		err := crash(seed, 6, 60, "", func(c *crasher, life int) int {
			c.config.SegmentBytes, c.config.Compact, c.config.RetentionBytes = 1<<20, false, -1
			c.only = []string{"append", "flush", "flush small", "checkpoint", "new epoch"}
			if c.rand.IntN(3) == 0 {
				c.only = append(c.only, "truncate", "reopen log", "restart", "retain", "set start")
			}
			return 20 + c.rand.IntN(200)
		})
		if err != nil {
			reportSeed(t, seed, err)
		}
	}
}
