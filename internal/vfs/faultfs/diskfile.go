package faultfs

import (
	"io"
	"io/fs"
)

// diskFile is an open file of a Disk.
type diskFile struct {
	disk *Disk
	node *inode
	life int
}

// begin locks the disk and tells whether the file is from before a power cut.
func (f *diskFile) begin() error {
	f.disk.mu.Lock()
	if f.disk.off || f.life != f.disk.life {
		f.disk.mu.Unlock()
		return ErrPowerCut
	}
	return nil
}

func (f *diskFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.begin(); err != nil {
		return 0, err
	}
	defer f.disk.mu.Unlock()
	if off < 0 {
		return 0, fs.ErrInvalid
	}
	if off >= int64(len(f.node.live)) {
		return 0, io.EOF
	}
	n := copy(b, f.node.live[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *diskFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.begin(); err != nil {
		return 0, err
	}
	defer f.disk.mu.Unlock()
	err := f.disk.step(func() error {
		n := f.node
		if end := int(off) + len(b); end > len(n.live) {
			n.resize(end)
		}
		copy(n.live[off:], b)
		n.touch(int(off), int(off)+len(b))
		f.disk.files[n] = struct{}{}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

func (f *diskFile) Truncate(size int64) error {
	if err := f.begin(); err != nil {
		return err
	}
	defer f.disk.mu.Unlock()
	return f.disk.step(func() error {
		f.node.resize(int(size))
		f.disk.files[f.node] = struct{}{}
		return nil
	})
}

func (f *diskFile) Sync() error {
	if err := f.begin(); err != nil {
		return err
	}
	defer f.disk.mu.Unlock()
	return f.disk.sync(func() error {
		f.node.harden()
		delete(f.disk.files, f.node)
		return nil
	})
}

func (f *diskFile) Size() (int64, error) {
	if err := f.begin(); err != nil {
		return 0, err
	}
	defer f.disk.mu.Unlock()
	return int64(len(f.node.live)), nil
}

func (f *diskFile) Close() error { return nil }

// TakeRoom does nothing: on a disk, too, it changes nothing that a reader or a crash could show.
func (f *diskFile) TakeRoom(_, _ int64) {}

func (f *diskFile) Fd() (uintptr, bool) { return 0, false }

// resize cuts the file or adds zeros.
func (n *inode) resize(size int) {
	old := len(n.live)
	if size <= old {
		n.live = n.live[:size:size]
		n.touch(size, old)
		return
	}
	n.live = append(n.live, make([]byte, size-old)...)
	n.touch(old, size)
}

// touch notes that bytes [from, to) differ from the platter.
func (n *inode) touch(from, to int) {
	if from >= to {
		return
	}
	if n.dirty == nil {
		n.dirty = make(map[int]struct{})
	}
	for page := from / PageBytes; page <= (to-1)/PageBytes; page++ {
		n.dirty[page] = struct{}{}
	}
}
