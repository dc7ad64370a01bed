// Package vfs is the seam at the disk: all that the log and the metadata store do to files goes through [FS]. There are
// three kinds: [OS], [Memory] for tests that want a broker in no time, and package faultfs, which forgets what was not
// synced and fails on demand.
package vfs

import (
	"errors"
	"io"
	"io/fs"
	"runtime"
	"syscall"
)

// ErrLocked is returned by [FS.Lock] while another process, or another open lock of this process, holds the lock.
var ErrLocked = errors.New("locked by another process")

// Entry is what a directory holds under one name.
type Entry struct {
	Name string
	Dir  bool
	Size int64
}

// FS is a file system. Names are paths as the operating system has them. What is missing is reported as an error for which
// errors.Is(err, fs.ErrNotExist). All methods are safe for concurrent use.
//
// Nothing is promised to survive a power cut but what [File.Sync] (bytes and length of one file), [FS.SyncDir] (which names a
// directory holds) and [FS.SyncFS] (everything) returned nil for. After one of them failed, nothing is known about what
// was to be synced, and calling it again tells nothing new.
type FS interface {
	// Open opens a file with flags of package os: O_RDONLY, O_RDWR, O_CREATE, O_EXCL, O_TRUNC.
	Open(name string, flag int) (File, error)
	// Remove removes a file or an empty directory; RemoveAll whatever there is, also nothing.
	Remove(name string) error
	RemoveAll(name string) error
	// Rename replaces a file under the new name, atomically.
	Rename(from, to string) error
	MkdirAll(name string) error
	// ReadDir lists a directory in the order of names. Entry.Size is not filled in.
	ReadDir(name string) ([]Entry, error)
	Stat(name string) (Entry, error)
	// SyncDir makes creates, renames and removes in one directory durable.
	SyncDir(name string) error
	// SyncFS makes everything durable that was written to the file system that holds dir.
	SyncFS(dir string) error
	// Lock takes a write lock on a file, which it creates if needed, until the Closer is closed or the process ends.
	// Kafka (Java's FileChannel.tryLock) respects it and is respected. ErrLocked tells that someone else holds it.
	Lock(name string) (io.Closer, error)
	// Free tells the size of the file system that holds dir and what is left of it for us.
	Free(dir string) (total, usable int64, err error)
}

// File is an open file. Reads and writes name their position; they are safe for concurrent use.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	// Sync makes the bytes and the length of the file durable, not its name.
	Sync() error
	Size() (int64, error)
	// TakeRoom asks the file system for room for n bytes at a position, which may lie behind the file's end; the length stays. It
	// is a hint. Truncate, also to the length that the file has, gives back what lies behind.
	TakeRoom(off, n int64)
	// Fd is the descriptor for sendfile, and false where the file has none.
	Fd() (uintptr, bool)
}

// IsNotExist tells that err is about a name that does not exist.
func IsNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// IsFull tells that err is about something that has run out, a disk, a quota or the process's file descriptors: what was there is
// as it was, and the operation can succeed later.
func IsFull(err error) bool {
	const windowsDiskFull = syscall.Errno(112)
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) ||
		runtime.GOOS == "windows" && errors.Is(err, windowsDiskFull)
}

// IsOutOfFiles tells that err is about the process's, or the system's, file descriptors: nothing was opened. Of a Sync, SyncDir or
// SyncFS it says that nothing was tried, and so that the next one may be trusted.
func IsOutOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
