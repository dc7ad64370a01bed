//go:build unix

package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

func openFile(name string, flag int) (*os.File, error) { return os.OpenFile(name, flag, 0o644) }

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
