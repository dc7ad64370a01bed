package vfs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// each runs a test on every kind of file system, in an empty directory.
func each(t *testing.T, test func(t *testing.T, fsys vfs.FS, dir string)) {
	t.Run("os", func(t *testing.T) { test(t, vfs.OS(), t.TempDir()) })
	for name, fsys := range map[string]vfs.FS{
		"memory": vfs.NewMemory(), "disk": faultfs.NewDisk(1), "injector": faultfs.Inject(vfs.NewMemory()),
	} {
		t.Run(name, func(t *testing.T) {
			if err := fsys.MkdirAll("/a/dir"); err != nil {
				t.Fatal(err)
			}
			test(t, fsys, "/a/dir")
		})
	}
}

func wantIs(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

func TestFiles(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "f")
		_, err := fsys.Open(name, os.O_RDWR)
		wantIs(t, err, fs.ErrNotExist)
		f, err := fsys.Open(name, os.O_RDWR|os.O_CREATE)
		if err != nil {
			t.Fatal(err)
		}
		big := bytes.Repeat([]byte("0123456789abcdef"), 10_000) // more than one block
		for _, w := range []struct {
			b  []byte
			at int64
		}{{big, 0}, {[]byte("xyz"), 70_000}, {[]byte("end"), 200_000}} {
			if n, err := f.WriteAt(w.b, w.at); n != len(w.b) || err != nil {
				t.Fatalf("WriteAt(%d) = %d, %v", w.at, n, err)
			}
		}
		want := make([]byte, 200_003)
		copy(want, big)
		copy(want[70_000:], "xyz")
		copy(want[200_000:], "end")
		for range 2 {
			if size, err := f.Size(); err != nil || size != int64(len(want)) {
				t.Fatalf("Size() = %d, %v, want %d", size, err, len(want))
			}
			got, err := vfs.ReadFile(fsys, name)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("read back: %v, equal %v", err, bytes.Equal(got, want))
			}
			// cut, and grow again: zeros
			if err := f.Truncate(65_530); err != nil {
				t.Fatal(err)
			}
			if err := f.Truncate(65_540); err != nil {
				t.Fatal(err)
			}
			want = append(want[:65_530:65_530], make([]byte, 10)...)
		}
		if n, err := f.ReadAt(make([]byte, 10), 65_535); n != 5 || err != io.EOF {
			t.Errorf("ReadAt over the end = %d, %v", n, err)
		}
		if n, err := f.ReadAt(make([]byte, 10), 65_540); n != 0 || err != io.EOF {
			t.Errorf("ReadAt at the end = %d, %v", n, err)
		}
		if err := errors.Join(f.Sync(), fsys.SyncDir(dir), fsys.SyncFS(dir)); err != nil {
			t.Error(err)
		}
		_, err = fsys.Open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
		wantIs(t, err, fs.ErrExist)
		if _, err := fsys.Open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC); err != nil {
			t.Error(err)
		}
		if e, err := fsys.Stat(name); err != nil || e.Size != 0 || e.Dir || e.Name != "f" {
			t.Errorf("Stat() = %+v, %v", e, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestNames(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		deep := filepath.Join(dir, "one", "two")
		if err := errors.Join(fsys.MkdirAll(deep), fsys.MkdirAll(deep)); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"b", "a"} {
			if err := vfs.WriteFile(fsys, filepath.Join(deep, name), []byte(name)); err != nil {
				t.Fatal(err)
			}
		}
		list := func(of string) string {
			entries, err := fsys.ReadDir(of)
			if err != nil {
				return err.Error()
			}
			var names []string
			for _, e := range entries {
				if e.Dir {
					e.Name += "/"
				}
				names = append(names, e.Name)
			}
			return strings.Join(names, " ")
		}
		if got := list(deep); got != "a b" {
			t.Errorf("ReadDir: %q", got)
		}
		if err := fsys.Remove(deep); err == nil {
			t.Error("a directory with files was removed")
		}
		f, err := fsys.Open(filepath.Join(deep, "b"), os.O_RDWR)
		if err != nil {
			t.Fatal(err)
		}
		if err := fsys.Rename(filepath.Join(deep, "a"), filepath.Join(deep, "b")); err != nil {
			t.Fatal(err)
		}
		if got, err := vfs.ReadFile(fsys, filepath.Join(deep, "b")); err != nil || string(got) != "a" {
			t.Errorf("renamed over b: %q, %v", got, err)
		}
		got := make([]byte, 1)
		if _, err := f.ReadAt(got, 0); err != nil || got[0] != 'b' {
			t.Errorf("the open file that was replaced: %q, %v", got, err)
		}
		if err := fsys.Rename(filepath.Join(dir, "one"), filepath.Join(dir, "uno")); err != nil {
			t.Fatal(err)
		}
		if got := list(dir) + ": " + list(filepath.Join(dir, "uno", "two")); got != "uno/: b" {
			t.Errorf("after the directory was renamed: %q", got)
		}
		if err := errors.Join(fsys.RemoveAll(filepath.Join(dir, "uno")), fsys.RemoveAll(filepath.Join(dir, "uno"))); err != nil {
			t.Error(err)
		}
		_, err = fsys.Stat(filepath.Join(dir, "uno", "two", "b"))
		wantIs(t, err, fs.ErrNotExist)
		wantIs(t, fsys.Remove(filepath.Join(dir, "uno")), fs.ErrNotExist)
		wantIs(t, fsys.Rename(filepath.Join(dir, "uno"), filepath.Join(dir, "due")), fs.ErrNotExist)
		_, err = fsys.ReadDir(filepath.Join(dir, "uno"))
		wantIs(t, err, fs.ErrNotExist)
		if err := vfs.Replace(fsys, filepath.Join(dir, "r"), []byte("1")); err != nil {
			t.Error(err)
		}
		if err := vfs.Replace(fsys, filepath.Join(dir, "r"), []byte("2")); err != nil {
			t.Error(err)
		}
		if got, err := vfs.ReadFile(fsys, filepath.Join(dir, "r")); err != nil || string(got) != "2" || list(dir) != "r" {
			t.Errorf("replaced: %q, %v, directory %q", got, err, list(dir))
		}
	})
}

func TestLock(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, ".lock")
		for range 2 {
			lock, err := fsys.Lock(name)
			if err != nil {
				t.Fatal(err)
			}
			_, err = fsys.Lock(name)
			wantIs(t, err, vfs.ErrLocked)
			if err := lock.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestFree(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		if total, usable, err := fsys.Free(dir); err != nil || total <= 0 || usable <= 0 || usable > total {
			t.Errorf("Free() = %d, %d, %v", total, usable, err)
		}
	})
}

func TestIsFull(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	if !vfs.IsFull(full) || vfs.IsFull(fs.ErrNotExist) || vfs.IsFull(nil) {
		t.Error("only a full disk is full")
	}
}
