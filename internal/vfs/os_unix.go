//go:build unix

package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openFile is os.OpenFile without its offer of each file to the network poller, which costs five system calls and takes none.
func openFile(name string, flag int) (*os.File, error) {
	for {
		fd, err := unix.Open(name, flag|unix.O_CLOEXEC, 0o644)
		if err == nil {
			return os.NewFile(uintptr(fd), name), nil
		}
		if !errors.Is(err, unix.EINTR) {
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

func syncDir(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

func freeSpace(dir string) (total, usable int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	block := int64(s.Bsize) //nolint:unconvert // of another type on other systems
	return int64(s.Blocks) * block, int64(s.Bavail) * block, nil
}

// OpenFilesMax is how many files the process may have open.
func OpenFilesMax() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 256
	}
	return int(min(limit.Cur, 1<<20))
}
