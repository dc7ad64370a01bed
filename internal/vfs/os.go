package vfs

import (
	"io"
	"os"
	"slices"
	"strings"
)

// OS returns the operating system's file system.
func OS() FS { return osFS{} }

type osFS struct{}

// osFile adds what [os.File] lacks or does slower than needed.
type osFile struct{ *os.File }

func (osFS) Open(name string, flag int) (File, error) {
	f, err := openFile(name, flag)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Remove(name string) error     { return os.Remove(name) }
func (osFS) RemoveAll(name string) error  { return os.RemoveAll(name) }
func (osFS) Rename(from, to string) error { return os.Rename(from, to) }
func (osFS) MkdirAll(name string) error   { return os.MkdirAll(name, 0o755) }
func (osFS) SyncDir(name string) error    { return syncDir(name) }
func (osFS) SyncFS(dir string) error      { return syncFS(dir) }

func (osFS) ReadDir(name string) ([]Entry, error) {
	dir, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	found, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(found))
	for _, e := range found {
		entries = append(entries, Entry{Name: e.Name(), Dir: e.IsDir()})
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

func (osFS) Stat(name string) (Entry, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Entry{}, err
	}
	return Entry{Name: info.Name(), Dir: info.IsDir(), Size: info.Size()}, nil
}

func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (osFS) Free(dir string) (total, usable int64, err error) { return freeSpace(dir) }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f osFile) Sync() error { return syncFile(f.File) }

func (f osFile) TakeRoom(off, n int64) { takeRoom(f.File, off, n) }

func (f osFile) Fd() (uintptr, bool) { return f.File.Fd(), true }
