package commitlog

import (
	"bytes"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// roomFS notes what room the segments take on a disk with so much free, and give back.
type roomFS struct {
	vfs.FS
	free  int64
	taken [][2]int64 // position and number of bytes
	cuts  []int64
}

type roomFile struct {
	vfs.File
	fs *roomFS
}

func (r *roomFS) Free(string) (total, usable int64, err error) { return 1 << 40, r.free, nil }

func (r *roomFS) Open(name string, flag int) (vfs.File, error) {
	f, err := r.FS.Open(name, flag)
	if err != nil || !strings.HasSuffix(name, logSuffix) {
		return f, err
	}
	return roomFile{f, r}, nil
}

func (f roomFile) TakeRoom(off, n int64) { f.fs.taken = append(f.fs.taken, [2]int64{off, n}) }

func (f roomFile) Truncate(size int64) error {
	f.fs.cuts = append(f.fs.cuts, size)
	return f.File.Truncate(size)
}

func bigBatch() record.Batch {
	var b record.Builder
	b.Add(nil, bytes.Repeat([]byte("x"), 1_000_000), nil, testStart.UnixMilli())
	return b.Build()
}

func TestSegmentTakesRoomAhead(t *testing.T) {
	disk := &roomFS{FS: vfs.NewMemory(), free: roomFreeMin}
	l := newLog(t, disk, DefaultConfig())
	size := int64(len(bigBatch()))
	end := int64(0)
	for range 40 {
		appendBatch(t, l, bigBatch(), 1)
		end += size
	}
	covered, pieces := int64(0), disk.taken
	for i, piece := range pieces {
		begin, after := piece[0], piece[0]+piece[1]
		if begin < 4*roomBytesMin || i > 0 && begin > covered || after-begin > size+roomBytesMax || after-begin < size+roomBytesMin {
			t.Errorf("piece %d: %d bytes at %d, the one before ended at %d", i, piece[1], begin, covered)
		}
		covered = after
	}
	if len(pieces) < 40/6 || len(pieces) > 20 || covered < end || covered > end+roomBytesMax {
		t.Errorf("%d pieces end at %d, the segment of 40 batches at %d", len(pieces), covered, end)
	}
	if len(disk.cuts) > 0 {
		t.Errorf("the active segment was cut to %d", disk.cuts)
	}

	if err := l.roll(l.EndOffset(), testStart); err != nil {
		t.Fatal(err)
	}
	if len(disk.cuts) != 1 || disk.cuts[0] != end {
		t.Errorf("the complete segment of %d bytes was cut to %d", end, disk.cuts)
	}
	if got, err := l.Read(39, l.EndOffset(), 1<<20, true); err != nil || int64(got.Len) != size {
		t.Errorf("the last batch after that: %v, %v", got, err)
	}
}

func TestSegmentTakesNoRoomOnADiskThatIsNearlyFull(t *testing.T) {
	disk := &roomFS{FS: vfs.NewMemory(), free: roomFreeMin - 1}
	l := newLog(t, disk, DefaultConfig())
	for range 10 {
		appendBatch(t, l, bigBatch(), 1)
	}
	if len(disk.taken) > 0 {
		t.Errorf("took %v", disk.taken)
	}
}
