package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Memory is a file system in memory, for a broker that a test starts and throws away. It is fast and never loses anything
// while the process lives; Sync does nothing.
type Memory struct {
	mu    sync.RWMutex // guards nodes, children and locks
	nodes map[string]*node
	locks map[string]*memoryLock
}

// node is a directory (children is not nil) or a file.
type node struct {
	children map[string]struct{}

	mu     sync.RWMutex // guards the bytes
	blocks [][]byte     // all but the last have blockBytes bytes
	size   int64
}

const blockBytes = 64 << 10

// NewMemory returns an empty file system. Its root directories exist.
func NewMemory() *Memory {
	return &Memory{nodes: make(map[string]*node), locks: make(map[string]*memoryLock)}
}

// Open opens a file.
func (m *Memory) Open(name string, flag int) (File, error) {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.lookup(name)
	switch {
	case n == nil && flag&os.O_CREATE == 0:
		return nil, pathError("open", name, fs.ErrNotExist)
	case n == nil:
		parent := m.lookup(filepath.Dir(name))
		if parent == nil || parent.children == nil {
			return nil, pathError("open", name, fs.ErrNotExist)
		}
		n = &node{}
		m.nodes[name] = n
		parent.children[filepath.Base(name)] = struct{}{}
	case n.children != nil:
		return nil, pathError("open", name, errIsDir)
	case flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL:
		return nil, pathError("open", name, fs.ErrExist)
	}
	f := &memoryFile{node: n, name: name, writable: flag&(os.O_RDWR|os.O_WRONLY) != 0}
	if flag&os.O_TRUNC != 0 {
		n.mu.Lock()
		n.truncate(0)
		n.mu.Unlock()
	}
	return f, nil
}

var (
	errIsDir    = errors.New("is a directory")
	errNotDir   = errors.New("not a directory")
	errNotEmpty = errors.New("directory not empty")
)

func pathError(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// lookup makes root directories as they are asked for.
func (m *Memory) lookup(name string) *node {
	if n := m.nodes[name]; n != nil {
		return n
	}
	if filepath.Dir(name) != name {
		return nil
	}
	n := &node{children: make(map[string]struct{})}
	m.nodes[name] = n
	return n
}

// Remove removes a file or an empty directory.
func (m *Memory) Remove(name string) error {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.nodes[name]
	switch {
	case n == nil:
		return pathError("remove", name, fs.ErrNotExist)
	case len(n.children) > 0:
		return pathError("remove", name, errNotEmpty)
	}
	m.unlink(name)
	return nil
}

func (m *Memory) unlink(name string) {
	delete(m.nodes, name)
	if parent := m.nodes[filepath.Dir(name)]; parent != nil {
		delete(parent.children, filepath.Base(name))
	}
}

// RemoveAll removes what name is, with all below it.
func (m *Memory) RemoveAll(name string) error {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.walk(name, func(below string) { delete(m.nodes, below) })
	m.unlink(name)
	return nil
}

// walk calls each with name and every name below it, the deepest first.
func (m *Memory) walk(name string, each func(string)) {
	n := m.nodes[name]
	if n == nil {
		return
	}
	for child := range n.children {
		m.walk(filepath.Join(name, child), each)
	}
	each(name)
}

// Rename moves a file or a directory.
func (m *Memory) Rename(from, to string) error {
	from, to = filepath.Clean(from), filepath.Clean(to)
	m.mu.Lock()
	defer m.mu.Unlock()
	n, parent := m.nodes[from], m.lookup(filepath.Dir(to))
	if n == nil || parent == nil {
		return pathError("rename", from, fs.ErrNotExist)
	}
	if parent.children == nil {
		return pathError("rename", to, errNotDir)
	}
	if from == to {
		return nil
	}
	if over := m.nodes[to]; over != nil && (len(over.children) > 0 || (over.children != nil) != (n.children != nil)) {
		return pathError("rename", to, errNotEmpty)
	}
	moved := make(map[string]*node)
	m.walk(from, func(name string) {
		moved[to+strings.TrimPrefix(name, from)] = m.nodes[name]
		delete(m.nodes, name)
	})
	for name, n := range moved {
		m.nodes[name] = n
	}
	delete(m.nodes[filepath.Dir(from)].children, filepath.Base(from))
	parent.children[filepath.Base(to)] = struct{}{}
	return nil
}

// MkdirAll makes a directory and those above it.
func (m *Memory) MkdirAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.mkdirAll(filepath.Clean(name))
	return err
}

func (m *Memory) mkdirAll(name string) (*node, error) {
	if n := m.lookup(name); n != nil {
		if n.children == nil {
			return nil, pathError("mkdir", name, errNotDir)
		}
		return n, nil
	}
	parent, err := m.mkdirAll(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	n := &node{children: make(map[string]struct{})}
	m.nodes[name] = n
	parent.children[filepath.Base(name)] = struct{}{}
	return n, nil
}

// ReadDir lists a directory.
func (m *Memory) ReadDir(name string) ([]Entry, error) {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.lookup(name)
	if n == nil {
		return nil, pathError("readdir", name, fs.ErrNotExist)
	}
	if n.children == nil {
		return nil, pathError("readdir", name, errNotDir)
	}
	entries := make([]Entry, 0, len(n.children))
	for child := range n.children {
		entries = append(entries, Entry{Name: child, Dir: m.nodes[filepath.Join(name, child)].children != nil})
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

// Stat describes a file or directory.
func (m *Memory) Stat(name string) (Entry, error) {
	name = filepath.Clean(name)
	m.mu.Lock()
	n := m.lookup(name)
	m.mu.Unlock()
	if n == nil {
		return Entry{}, pathError("stat", name, fs.ErrNotExist)
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	return Entry{Name: filepath.Base(name), Dir: n.children != nil, Size: n.size}, nil
}

// SyncDir does nothing.
func (m *Memory) SyncDir(string) error { return nil }

// SyncFS does nothing.
func (m *Memory) SyncFS(string) error { return nil }

// Free tells that there is always a terabyte.
func (m *Memory) Free(string) (total, usable int64, err error) { return 1 << 40, 1 << 40, nil }

type memoryLock struct {
	fs   *Memory
	name string
}

// Lock locks a name against other Locks of the same Memory.
func (m *Memory) Lock(name string) (io.Closer, error) {
	name = filepath.Clean(name)
	f, err := m.Open(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks[name] != nil {
		return nil, ErrLocked
	}
	l := &memoryLock{fs: m, name: name}
	m.locks[name] = l
	return l, nil
}

func (l *memoryLock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if l.fs.locks[l.name] == l {
		delete(l.fs.locks, l.name)
	}
	return nil
}

type memoryFile struct {
	node     *node
	name     string
	writable bool
}

func (f *memoryFile) ReadAt(b []byte, off int64) (int, error) {
	n := f.node
	n.mu.RLock()
	defer n.mu.RUnlock()
	if off < 0 {
		return 0, pathError("read", f.name, fs.ErrInvalid)
	}
	read := 0
	for read < len(b) && off < n.size {
		block := n.blocks[off/blockBytes]
		c := copy(b[read:], block[off%blockBytes:])
		read, off = read+c, off+int64(c)
	}
	if read < len(b) {
		return read, io.EOF
	}
	return read, nil
}

func (f *memoryFile) WriteAt(b []byte, off int64) (int, error) {
	if !f.writable {
		return 0, pathError("write", f.name, fs.ErrPermission)
	}
	if off < 0 {
		return 0, pathError("write", f.name, fs.ErrInvalid)
	}
	n := f.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if end := off + int64(len(b)); end > n.size {
		n.grow(end)
	}
	for written := 0; written < len(b); {
		c := copy(n.blocks[off/blockBytes][off%blockBytes:], b[written:])
		written, off = written+c, off+int64(c)
	}
	return len(b), nil
}

func (f *memoryFile) Truncate(size int64) error {
	if !f.writable || size < 0 {
		return pathError("truncate", f.name, fs.ErrInvalid)
	}
	f.node.mu.Lock()
	defer f.node.mu.Unlock()
	f.node.truncate(size)
	return nil
}

func (f *memoryFile) Size() (int64, error) {
	f.node.mu.RLock()
	defer f.node.mu.RUnlock()
	return f.node.size, nil
}

func (f *memoryFile) Sync() error         { return nil }
func (f *memoryFile) Close() error        { return nil }
func (f *memoryFile) TakeRoom(_, _ int64) {}
func (f *memoryFile) Fd() (uintptr, bool) { return 0, false }

// truncate needs n.mu.
func (n *node) truncate(size int64) {
	if size >= n.size {
		n.grow(size)
		return
	}
	keep := int((size + blockBytes - 1) / blockBytes)
	clear(n.blocks[keep:])
	n.blocks = n.blocks[:keep]
	if keep > 0 {
		n.blocks[keep-1] = n.blocks[keep-1][:size-int64(keep-1)*blockBytes]
	}
	n.size = size
}

// grow adds zeros up to size.
func (n *node) grow(size int64) {
	for n.size < size {
		last := len(n.blocks) - 1
		if last < 0 || len(n.blocks[last]) == blockBytes {
			n.blocks = append(n.blocks, nil)
			last++
		}
		block := n.blocks[last]
		add := int(min(size-n.size, int64(blockBytes-len(block))))
		old := len(block)
		block = slices.Grow(block, add)[:old+add]
		clear(block[old:])
		n.blocks[last] = block
		n.size += int64(add)
	}
}
