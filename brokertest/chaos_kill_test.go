package brokertest_test

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/raftsman/raftsman/internal/vfs"
)

// errKilled is what a broker gets from its files after it was killed.
var errKilled = errors.New("killed")

// mortal is a file system as one process has it: after kill nothing that the process still tries is done, and its locks are
// free. What it had written is there, as after kill -9.
type mortal struct {
	vfs.FS
	mu    sync.RWMutex // held to read by operations, so that none is under way when kill returns
	dead  bool
	locks []io.Closer
	left  atomic.Int64 // how many operations it lives on, if it is to die at one; counts down from there
	died  atomic.Bool  // it has died at one
}

// killAt kills the process at the n-th operation from now on.
func (m *mortal) killAt(n int) { m.left.Store(int64(n) + 1) }

func (m *mortal) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
	for _, lock := range m.locks {
		_ = lock.Close()
	}
}

func (m *mortal) do(op func() error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.dead || m.left.Load() > 0 && m.left.Add(-1) <= 0 {
		m.left.Store(1) // and stays dead
		m.died.Store(true)
		return errKilled
	}
	return op()
}

func (m *mortal) Open(name string, flag int) (f vfs.File, err error) {
	err = m.do(func() error {
		f, err = m.FS.Open(name, flag)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &mortalFile{File: f, fs: m}, nil
}

func (m *mortal) Remove(name string) error {
	return m.do(func() error { return m.FS.Remove(name) })
}

func (m *mortal) RemoveAll(name string) error {
	return m.do(func() error { return m.FS.RemoveAll(name) })
}

func (m *mortal) Rename(from, to string) error {
	return m.do(func() error { return m.FS.Rename(from, to) })
}

func (m *mortal) MkdirAll(name string) error {
	return m.do(func() error { return m.FS.MkdirAll(name) })
}

func (m *mortal) SyncDir(name string) error {
	return m.do(func() error { return m.FS.SyncDir(name) })
}

func (m *mortal) SyncFS(dir string) error {
	return m.do(func() error { return m.FS.SyncFS(dir) })
}

func (m *mortal) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return nil, errKilled
	}
	lock, err := m.FS.Lock(name)
	if err == nil {
		m.locks = append(m.locks, lock)
	}
	return lock, err
}

// mortalFile is an open file of the process.
type mortalFile struct {
	vfs.File
	fs *mortal
}

func (f *mortalFile) ReadAt(b []byte, at int64) (n int, err error) {
	err = f.fs.do(func() error {
		n, err = f.File.ReadAt(b, at)
		return err
	})
	return n, err
}

func (f *mortalFile) WriteAt(b []byte, at int64) (n int, err error) {
	err = f.fs.do(func() error {
		n, err = f.File.WriteAt(b, at)
		return err
	})
	return n, err
}

func (f *mortalFile) Truncate(size int64) error {
	return f.fs.do(func() error { return f.File.Truncate(size) })
}

func (f *mortalFile) Sync() error { return f.fs.do(f.File.Sync) }
