// Package faultfs has the file systems of bad days: a [Disk] whose power is cut, and an [Injector] that lets any file system
// fail, wait, tear writes and flip bits.
package faultfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/raftsman/raftsman/internal/vfs"
)

// ErrPowerCut is returned by every operation after the power was cut, until Restart, and by files from before for ever.
var ErrPowerCut = errors.New("power cut")

// PageBytes is how much of a file survives or is lost together.
const PageBytes = 4096

// sectorBytes is what a page can be torn into.
const sectorBytes = 512

// Disk is a file system in memory that keeps two truths: what programs see, and what is on the platter. When the power is cut,
// of everything that was not synced any part may have reached the platter, in any order: pages of files, lengths of files (what
// is missing between is zeros), created, renamed and removed names. What was synced is there. Chance comes from the seed.
//
// Operations that change or sync something are counted, so that a test can cut the power at each of them.
type Disk struct {
	mu      sync.Mutex // guards everything, also all inodes
	rand    *rand.Rand
	root    *inode
	pending []change // changes of names that are not on the platter, oldest first
	files   map[*inode]struct{}
	locks   map[string]*diskLock
	ops     int
	cutAt   int
	off     bool
	life    int // counts restarts
	skip    string
	sites   map[string]int
}

// inode is a directory (names is not nil) or a file.
type inode struct {
	names, stableNames map[string]*inode

	live, stable []byte
	dirty        map[int]struct{} // pages of live that may differ from stable
}

// change is what one operation did to names: all of it reaches the platter, or nothing.
type change []assignment

type assignment struct {
	dir  *inode
	name string
	to   *inode // nil: removed
}

// NewDisk returns an empty disk.
func NewDisk(seed uint64) *Disk {
	return &Disk{
		rand: rand.New(rand.NewPCG(seed, 0)), root: newDirectory(), files: make(map[*inode]struct{}),
		locks: make(map[string]*diskLock), cutAt: -1, sites: make(map[string]int),
	}
}

func newDirectory() *inode {
	return &inode{names: make(map[string]*inode), stableNames: make(map[string]*inode)}
}

// CutAt cuts the power at the n-th operation from now on that changes or syncs something, 0 being the next one. That operation
// may have happened or not.
func (d *Disk) CutAt(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cutAt = d.ops + n
}

// Ops is how many operations changed or synced something so far.
func (d *Disk) Ops() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ops
}

// Off tells whether the power is cut.
func (d *Disk) Off() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.off
}

// SkipSync turns the calls of Sync, SyncDir and SyncFS at one place of the program into nothing, as if the line were not there.
// Places are named as Sites names them.
func (d *Disk) SkipSync(site string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.skip = site
}

// Sites are the places of the program that called Sync, SyncDir or SyncFS so far: package/file.go:line.
func (d *Disk) Sites() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	sites := make([]string, 0, len(d.sites))
	for site := range d.sites {
		sites = append(sites, site)
	}
	slices.Sort(sites)
	return sites
}

// callSite finds the first caller outside this package.
func callSite() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		frame, more := frames.Next()
		if !strings.Contains(frame.Function, "/vfs/faultfs.") || strings.HasSuffix(frame.File, "_test.go") {
			return fmt.Sprintf("%s/%s:%d", filepath.Base(filepath.Dir(frame.File)), filepath.Base(frame.File), frame.Line)
		}
		if !more {
			return "unknown"
		}
	}
}

// step counts an operation and runs it, unless the power is off or is cut now.
func (d *Disk) step(op func() error) error {
	if d.off {
		return ErrPowerCut
	}
	n := d.ops
	d.ops++
	if n != d.cutAt {
		return op()
	}
	if d.rand.IntN(2) == 0 {
		_ = op() // it happened, but nobody was told
	}
	d.off = true
	return ErrPowerCut
}

// sync is step for an operation that makes something durable.
func (d *Disk) sync(op func() error) error {
	site := callSite()
	d.sites[site]++
	if site == d.skip {
		return d.step(func() error { return nil })
	}
	return d.step(op)
}

// Restart gives the power back after a cut, or takes it away for a moment. What was not synced is lost in part.
func (d *Disk) Restart() {
	d.mu.Lock()
	defer d.mu.Unlock()
	// How likely something unsynced survives: nothing and everything are the most telling.
	survive := []float64{0, 0.1, 0.5, 0.5, 0.9, 1}[d.rand.IntN(6)]
	for _, c := range d.pending {
		if d.rand.Float64() < survive {
			c.apply(func(dir *inode) map[string]*inode { return dir.stableNames })
		}
	}
	d.pending = nil
	for _, f := range d.sortedFiles() {
		f.lose(d.rand, survive)
	}
	clear(d.files)
	d.root.settle()
	d.off, d.cutAt = false, -1
	d.life++
	clear(d.locks)
}

// sortedFiles walks names, so that the same seed loses the same pages.
func (d *Disk) sortedFiles() []*inode {
	var found []*inode
	seen := make(map[*inode]bool)
	var walk func(n *inode)
	walk = func(n *inode) {
		for _, name := range slices.Sorted(keys(n.stableNames)) {
			child := n.stableNames[name]
			if child.names != nil {
				walk(child)
			} else if !seen[child] {
				seen[child] = true
				found = append(found, child)
			}
		}
	}
	walk(d.root)
	return found
}

func keys(m map[string]*inode) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (c change) apply(names func(*inode) map[string]*inode) {
	for _, a := range c {
		if a.to == nil {
			delete(names(a.dir), a.name)
		} else {
			names(a.dir)[a.name] = a.to
		}
	}
}

func (c change) touches(dir *inode) bool {
	return slices.ContainsFunc(c, func(a assignment) bool { return a.dir == dir })
}

// lose makes live what is left of the file after a power cut.
func (n *inode) lose(r *rand.Rand, survive float64) {
	if len(n.dirty) == 0 && len(n.live) == len(n.stable) {
		return
	}
	size := len(n.stable)
	switch {
	case r.Float64() < survive:
		size = len(n.live)
	case r.IntN(4) == 0:
		low, high := min(len(n.live), len(n.stable)), max(len(n.live), len(n.stable))
		size = low + r.IntN(high-low+1)
	}
	left := make([]byte, size)
	copy(left, n.stable)
	for at := 0; at < size; at += PageBytes {
		_, dirty := n.dirty[at/PageBytes]
		switch {
		case !dirty:
		case r.Float64() < survive:
			copyRange(left, n.live, at, PageBytes)
		case r.IntN(4) == 0:
			for sector := at; sector < at+PageBytes; sector += sectorBytes {
				if r.IntN(2) == 0 {
					copyRange(left, n.live, sector, sectorBytes)
				}
			}
		}
	}
	n.live = left
	n.harden()
}

// copyRange copies n bytes at a position, as far as both slices have them; where src ends there are zeros.
func copyRange(dst, src []byte, at, n int) {
	if at >= len(dst) {
		return
	}
	dst = dst[at:min(at+n, len(dst))]
	clear(dst)
	if at < len(src) {
		copy(dst, src[at:])
	}
}

// harden puts all of live on the platter.
func (n *inode) harden() {
	n.stable = slices.Clone(n.live)
	n.dirty = nil
}

// settle makes what is on the platter what programs see, in all directories below.
func (n *inode) settle() {
	n.names = make(map[string]*inode, len(n.stableNames))
	for name, child := range n.stableNames {
		n.names[name] = child
		if child.names != nil {
			child.settle()
		}
	}
}

func parts(name string) []string {
	return strings.FieldsFunc(filepath.ToSlash(filepath.Clean(name)), func(r rune) bool { return r == '/' })
}

func (d *Disk) lookup(path []string) *inode {
	n := d.root
	for _, part := range path {
		if n == nil || n.names == nil {
			return nil
		}
		n = n.names[part]
	}
	return n
}

// parent returns the directory that holds or will hold a name.
func (d *Disk) parent(op, name string) (*inode, string, error) {
	path := parts(name)
	if len(path) == 0 {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	dir := d.lookup(path[:len(path)-1])
	if dir == nil || dir.names == nil {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return dir, path[len(path)-1], nil
}

func (d *Disk) rename(c change) error {
	c.apply(func(dir *inode) map[string]*inode { return dir.names })
	d.pending = append(d.pending, c)
	return nil
}

// Open opens a file.
func (d *Disk) Open(name string, flag int) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return nil, ErrPowerCut
	}
	dir, base, err := d.parent("open", name)
	if err != nil {
		return nil, err
	}
	n := dir.names[base]
	switch {
	case n == nil && flag&os.O_CREATE == 0:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	case n == nil:
		n = &inode{}
		err = d.step(func() error { return d.rename(change{{dir, base, n}}) })
	case n.names != nil:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	case flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrExist}
	case flag&os.O_TRUNC != 0 && len(n.live) > 0:
		err = d.step(func() error { n.resize(0); return nil })
	}
	if err != nil {
		return nil, err
	}
	return &diskFile{disk: d, node: n, life: d.life}, nil
}

// Remove removes a file or an empty directory.
func (d *Disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return ErrPowerCut
	}
	dir, base, err := d.parent("remove", name)
	if err != nil {
		return err
	}
	n := dir.names[base]
	if n == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	if len(n.names) > 0 {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrExist}
	}
	return d.step(func() error { return d.rename(change{{dir, base, nil}}) })
}

// RemoveAll removes what name is, one file after the other.
func (d *Disk) RemoveAll(name string) error {
	entries, err := d.ReadDir(name)
	if err == nil {
		for _, e := range entries {
			if err := d.RemoveAll(filepath.Join(name, e.Name)); err != nil {
				return err
			}
		}
	}
	if err := d.Remove(name); err != nil && !vfs.IsNotExist(err) {
		return err
	}
	return nil
}

// Rename moves a file or a directory.
func (d *Disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return ErrPowerCut
	}
	oldDir, oldBase, err := d.parent("rename", from)
	if err != nil {
		return err
	}
	newDir, newBase, err := d.parent("rename", to)
	if err != nil {
		return err
	}
	n := oldDir.names[oldBase]
	if n == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	if over := newDir.names[newBase]; over != nil && len(over.names) > 0 {
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
	}
	return d.step(func() error { return d.rename(change{{oldDir, oldBase, nil}, {newDir, newBase, n}}) })
}

// MkdirAll makes a directory and those above it.
func (d *Disk) MkdirAll(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return ErrPowerCut
	}
	dir := d.root
	for _, part := range parts(name) {
		child := dir.names[part]
		if child == nil {
			child = newDirectory()
			in := dir
			if err := d.step(func() error { return d.rename(change{{in, part, child}}) }); err != nil {
				return err
			}
		}
		if child.names == nil {
			return &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrExist}
		}
		dir = child
	}
	return nil
}

// ReadDir lists a directory.
func (d *Disk) ReadDir(name string) ([]vfs.Entry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return nil, ErrPowerCut
	}
	n := d.lookup(parts(name))
	if n == nil || n.names == nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	entries := make([]vfs.Entry, 0, len(n.names))
	for _, child := range slices.Sorted(keys(n.names)) {
		entries = append(entries, vfs.Entry{Name: child, Dir: n.names[child].names != nil})
	}
	return entries, nil
}

// Stat describes a file or directory.
func (d *Disk) Stat(name string) (vfs.Entry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return vfs.Entry{}, ErrPowerCut
	}
	n := d.lookup(parts(name))
	if n == nil {
		return vfs.Entry{}, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return vfs.Entry{Name: filepath.Base(name), Dir: n.names != nil, Size: int64(len(n.live))}, nil
}

// SyncDir puts the names in a directory on the platter.
func (d *Disk) SyncDir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	dir := d.lookup(parts(name))
	if dir == nil || dir.names == nil {
		return &fs.PathError{Op: "sync", Path: name, Err: fs.ErrNotExist}
	}
	return d.sync(func() error {
		d.settlePending(func(c change) bool { return c.touches(dir) })
		return nil
	})
}

// settlePending puts changes of names on the platter.
func (d *Disk) settlePending(which func(change) bool) {
	d.pending = slices.DeleteFunc(d.pending, func(c change) bool {
		if !which(c) {
			return false
		}
		c.apply(func(dir *inode) map[string]*inode { return dir.stableNames })
		return true
	})
}

// SyncFS puts everything on the platter.
func (d *Disk) SyncFS(string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sync(func() error {
		d.settlePending(func(change) bool { return true })
		for f := range d.files {
			f.harden()
		}
		clear(d.files)
		return nil
	})
}

// Free tells that there is always a terabyte.
func (d *Disk) Free(string) (total, usable int64, err error) { return 1 << 40, 1 << 40, nil }

type diskLock struct {
	disk *Disk
	name string
}

// Lock locks a name until it is closed or the power is cut.
func (d *Disk) Lock(name string) (io.Closer, error) {
	if _, err := d.Open(name, os.O_RDWR|os.O_CREATE); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	name = filepath.Clean(name)
	if d.locks[name] != nil {
		return nil, vfs.ErrLocked
	}
	l := &diskLock{d, name}
	d.locks[name] = l
	return l, nil
}

func (l *diskLock) Close() error {
	l.disk.mu.Lock()
	defer l.disk.mu.Unlock()
	if l.disk.locks[l.name] == l {
		delete(l.disk.locks, l.name)
	}
	return nil
}
