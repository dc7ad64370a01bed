package commitlog

import "github.com/raftsman/raftsman/internal/vfs"

// The active segment takes room on the disk ahead of what is written to it, in large pieces: then a flush finds blocks that are
// there already and need not look for one for each page. Its length says what is written, as before, so that nobody who reads the
// file notices. What is left over is given back when the segment is complete.
const (
	// roomBytesMin and roomBytesMax bound a piece, which is a quarter of the segment: partitions with little in them take nothing.
	roomBytesMin = 1 << 20
	roomBytesMax = 4 << 20
	// roomFreeMin is what must be free on the disk. With less, room is left for who has something to write.
	roomFreeMin = 1 << 30
)

// takeRoom makes room for n bytes at a position, and for more behind them. It is a matter of speed alone: where it fails, the write
// that follows finds out.
func (s *segment) takeRoom(f vfs.File, position, n int64) {
	piece := min(position/4, roomBytesMax)
	if piece < roomBytesMin || position+n <= s.room {
		return
	}
	s.room = position + n + piece
	if _, free, err := s.fs.Free(s.folder); err == nil && free >= roomFreeMin {
		f.TakeRoom(position, n+piece)
	}
}

// leaveRoom gives back what takeRoom took and was not needed.
func (s *segment) leaveRoom() error {
	size := s.size.Load()
	if s.room <= size {
		return nil
	}
	s.room = 0
	f, err := s.acquire()
	if err != nil {
		return err
	}
	defer f.release()
	return f.Truncate(size)
}
