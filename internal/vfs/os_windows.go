package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// openFile lets a file be renamed and removed while it is open, as a log's readers need it.
func openFile(name string, flag int) (*os.File, error) {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	access := uint32(windows.GENERIC_READ)
	if flag&(os.O_RDWR|os.O_WRONLY) != 0 {
		access |= windows.GENERIC_WRITE
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	h, err := windows.CreateFile(path, access, share, nil, creation(flag), windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(h), name), nil
}

func creation(flag int) uint32 {
	switch {
	case flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL:
		return windows.CREATE_NEW
	case flag&(os.O_CREATE|os.O_TRUNC) == os.O_CREATE|os.O_TRUNC:
		return windows.CREATE_ALWAYS
	case flag&os.O_CREATE != 0:
		return windows.OPEN_ALWAYS
	case flag&os.O_TRUNC != 0:
		return windows.TRUNCATE_EXISTING
	default:
		return windows.OPEN_EXISTING
	}
}

// lockFile locks the whole range of the file, as Java does.
func lockFile(f *os.File) error {
	const all = ^uint32(0) >> 1
	flags := uint32(windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY)
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, ^uint32(0), all, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLocked
	}
	if err != nil {
		return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return nil
}

func syncFile(f *os.File) error { return f.Sync() }

// syncDir does nothing: Windows flushes names with the file system's own journal and cannot flush a directory.
func syncDir(string) error { return nil }

func syncFS(dir string) error { return syncTree(dir) }

func freeSpace(dir string) (total, usable int64, err error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, 0, err
	}
	var avail, size, free uint64
	if err := windows.GetDiskFreeSpaceEx(path, &avail, &size, &free); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(size), int64(avail), nil
}

// OpenFilesMax is how many files the process may have open: Windows has no such limit.
func OpenFilesMax() int { return 1 << 20 }

// takeRoom does nothing here.
func takeRoom(_ *os.File, _, _ int64) {}
