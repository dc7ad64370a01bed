package vfs

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// held names the lock files of this process: classic fcntl locks do not conflict within one.
var held sync.Map

// lockFile takes a classic fcntl lock, as Java does.
func lockFile(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	key := info.Sys().(*syscall.Stat_t)
	id := [2]uint64{uint64(key.Dev), key.Ino}
	if owner, taken := held.LoadOrStore(id, f); taken {
		// Closing the file ends its lock: the holder of a closed file is gone.
		if _, err := owner.(*os.File).Stat(); err == nil {
			return ErrLocked
		}
		held.Store(id, f)
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock)
	if err == nil {
		return nil
	}
	held.Delete(id)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return ErrLocked
	}
	return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
}

// syncFile is F_FULLFSYNC, which is what os.File.Sync does here: fsync alone stops at the drive's cache.
func syncFile(f *os.File) error { return f.Sync() }

func syncFS(dir string) error { return syncTree(dir) }

// takeRoom does nothing here.
func takeRoom(_ *os.File, _, _ int64) {}
