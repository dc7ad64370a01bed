package faultfs

import (
	"io"
	"strings"
	"sync"

	"github.com/raftsman/raftsman/internal/vfs"
)

// Op is a kind of operation; several are or-ed together.
type Op uint

// The kinds of operations. Opening a file that is only read is OpOpen too.
const (
	OpOpen Op = 1 << iota
	OpRead
	OpWrite
	OpTruncate
	OpSync
	OpSyncDir
	OpSyncFS
	OpRename
	OpRemove
	OpMkdir
	OpReadDir
	OpStat
	OpLock

	OpAnySync = OpSync | OpSyncDir | OpSyncFS
	OpChange  = OpOpen | OpWrite | OpTruncate | OpRename | OpRemove | OpMkdir | OpAnySync
	OpAny     = OpChange | OpRead | OpReadDir | OpStat | OpLock
)

// Rule says what happens to operations that match: their kind is in Op and their path contains Name. The first After matching
// ones pass, the next Times are hit; Times of 0 means one, -1 all. A rule is used up when its Times are.
type Rule struct {
	Op    Op
	Name  string
	After int
	Times int

	// Before is called first, without any lock of the Injector: it may wait, to be a slow disk.
	Before func(name string)
	// Err is what the operation returns instead of being done. Of a write, Written bytes are done.
	Err     error
	Written int
	// Flip is a bit that is turned over in what a read returns or a write stores, counted from 1: 0 for none.
	Flip int
}

// Injector is a file system that does what another one does, except where a Rule matches.
type Injector struct {
	vfs.FS
	mu    sync.Mutex // guards rules and count
	rules []*Rule
	count map[Op]int
}

// Inject wraps a file system.
func Inject(fs vfs.FS) *Injector { return &Injector{FS: fs, count: make(map[Op]int)} }

// Add adds a rule. Of several that match, the one added first is used.
func (i *Injector) Add(r Rule) {
	if r.Times == 0 {
		r.Times = 1
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rules = append(i.rules, &r)
}

// Reset takes all rules away.
func (i *Injector) Reset() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rules = nil
}

// Count is how many operations of the kinds there were.
func (i *Injector) Count(ops Op) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	n := 0
	for op, count := range i.count {
		if op&ops != 0 {
			n += count
		}
	}
	return n
}

// hit returns the rule for an operation; the zero Rule changes nothing.
func (i *Injector) hit(op Op, name string) Rule {
	r := i.match(op, name)
	if r.Before != nil {
		r.Before(name)
	}
	return r
}

func (i *Injector) match(op Op, name string) Rule {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.count[op]++
	for _, r := range i.rules {
		switch {
		case r.Op&op == 0 || !strings.Contains(name, r.Name) || r.Times == 0:
		case r.After > 0:
			r.After--
		default:
			if r.Times > 0 {
				r.Times--
			}
			return *r
		}
	}
	return Rule{}
}

// Open opens a file of the wrapped file system.
func (i *Injector) Open(name string, flag int) (vfs.File, error) {
	if r := i.hit(OpOpen, name); r.Err != nil {
		return nil, r.Err
	}
	f, err := i.FS.Open(name, flag)
	if err != nil {
		return nil, err
	}
	return &injectedFile{File: f, injector: i, name: name}, nil
}

// Remove is Remove of the wrapped file system, as are all below.
func (i *Injector) Remove(name string) error {
	return i.do(OpRemove, name, func() error { return i.FS.Remove(name) })
}

// RemoveAll counts as one OpRemove.
func (i *Injector) RemoveAll(name string) error {
	return i.do(OpRemove, name, func() error { return i.FS.RemoveAll(name) })
}

// Rename matches by the old name.
func (i *Injector) Rename(from, to string) error {
	return i.do(OpRename, from, func() error { return i.FS.Rename(from, to) })
}

// MkdirAll is an OpMkdir.
func (i *Injector) MkdirAll(name string) error {
	return i.do(OpMkdir, name, func() error { return i.FS.MkdirAll(name) })
}

// SyncDir is an OpSyncDir.
func (i *Injector) SyncDir(name string) error {
	return i.do(OpSyncDir, name, func() error { return i.FS.SyncDir(name) })
}

// SyncFS is an OpSyncFS.
func (i *Injector) SyncFS(dir string) error {
	return i.do(OpSyncFS, dir, func() error { return i.FS.SyncFS(dir) })
}

// ReadDir is an OpReadDir.
func (i *Injector) ReadDir(name string) (entries []vfs.Entry, err error) {
	err = i.do(OpReadDir, name, func() error {
		entries, err = i.FS.ReadDir(name)
		return err
	})
	return entries, err
}

// Stat is an OpStat.
func (i *Injector) Stat(name string) (e vfs.Entry, err error) {
	err = i.do(OpStat, name, func() error {
		e, err = i.FS.Stat(name)
		return err
	})
	return e, err
}

// Lock is an OpLock.
func (i *Injector) Lock(name string) (c io.Closer, err error) {
	err = i.do(OpLock, name, func() error {
		c, err = i.FS.Lock(name)
		return err
	})
	return c, err
}

func (i *Injector) do(op Op, name string, f func() error) error {
	if r := i.hit(op, name); r.Err != nil {
		return r.Err
	}
	return f()
}

type injectedFile struct {
	vfs.File
	injector *Injector
	name     string
}

func (f *injectedFile) ReadAt(b []byte, off int64) (int, error) {
	r := f.injector.hit(OpRead, f.name)
	if r.Err != nil {
		return 0, r.Err
	}
	n, err := f.File.ReadAt(b, off)
	flipBit(b[:n], r.Flip)
	return n, err
}

func (f *injectedFile) WriteAt(b []byte, off int64) (int, error) {
	r := f.injector.hit(OpWrite, f.name)
	if r.Err != nil {
		n, err := f.File.WriteAt(b[:min(r.Written, len(b))], off)
		if err != nil {
			return n, err
		}
		return n, r.Err
	}
	if r.Flip > 0 {
		b = append([]byte(nil), b...)
		flipBit(b, r.Flip)
	}
	return f.File.WriteAt(b, off)
}

func flipBit(b []byte, bit int) {
	if bit > 0 && len(b) > 0 {
		bit = (bit - 1) % (8 * len(b))
		b[bit/8] ^= 1 << (bit % 8)
	}
}

func (f *injectedFile) Truncate(size int64) error {
	return f.injector.do(OpTruncate, f.name, func() error { return f.File.Truncate(size) })
}

func (f *injectedFile) Sync() error {
	return f.injector.do(OpSync, f.name, f.File.Sync)
}

// Fd hides the descriptor, so that no read goes past the rules.
func (f *injectedFile) Fd() (uintptr, bool) { return 0, false }
