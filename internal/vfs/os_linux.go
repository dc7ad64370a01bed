package vfs

import (
	"errors"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lockFile takes an open-file-description lock: it conflicts with the classic fcntl locks of Java and, unlike those, with
// another open of this process, and is not lost when some other descriptor of the file is closed.
func lockFile(f *os.File) error {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return ErrLocked
	}
	if err != nil {
		return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return nil
}

// syncFile is fdatasync: it leaves out the times of the file, not its length.
func syncFile(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return wrapSync(err, f.Name())
		}
	}
}

func syncFS(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return wrapSync(unix.Syncfs(int(f.Fd())), dir)
}

func takeRoom(f *os.File, off, n int64) {
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, off, n)
}

func wrapSync(err error, name string) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: "sync", Path: name, Err: err}
}

// readCold first takes what the page cache has: only if it has not all of it are the pages let go after they were read. The system
// must not read ahead, which asking the cache makes it do as well: the next piece would pass for one that was there.
func (f osFile) readCold(p []byte, at int64) (int, error) {
	fd := int(f.File.Fd())
	_ = unix.Fadvise(fd, 0, 0, unix.FADV_RANDOM)
	if n, err := unix.Preadv2(fd, [][]byte{p}, at, unix.RWF_NOWAIT); err == nil && n == len(p) {
		return n, nil
	}
	n, err := f.ReadAt(p, at)
	_ = unix.Fadvise(fd, at, int64(n), unix.FADV_DONTNEED) // advice: without it the cache has some more for a while
	return n, err
}

// readAhead asks first whether the last page is there: to have the system look through a megabyte that it has costs 18 us, this 0.6.
func (f osFile) readAhead(at, n int64) {
	fd := int(f.File.Fd())
	if !isCached(fd, at+n-1) {
		_ = unix.Fadvise(fd, at, n, unix.FADV_WILLNEED)
	}
}

// isCached tells whether the page that holds a byte is known to be in the page cache: never before Linux 6.5.
func isCached(fd int, at int64) bool {
	const sysCachestat = 451
	span := struct{ off, n uint64 }{uint64(at), 1}
	var stat struct{ cached, dirty, writeback, evicted, recentlyEvicted uint64 }
	_, _, errno := unix.Syscall6(sysCachestat, uintptr(fd), uintptr(unsafe.Pointer(&span)), uintptr(unsafe.Pointer(&stat)), 0, 0, 0)
	return errno == 0 && stat.cached > 0
}
