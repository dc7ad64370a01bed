package vfs

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
)

// ReadFile returns the whole content of a file that is known to be small.
func ReadFile(fsys FS, name string) ([]byte, error) { return ReadStart(fsys, name, math.MaxInt64) }

// ReadStart returns the content of a file up to so many bytes.
func ReadStart(fsys FS, name string, most int64) ([]byte, error) {
	f, err := fsys.Open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("size of %s: %w", name, err)
	}
	b := make([]byte, min(size, most))
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b[:n], nil
}

// WriteFile replaces a file's content in place and syncs nothing: after a power cut the file can hold anything, or the old and the new in
// part. Blocks that it has are used again: to free some and take others costs a trim where file systems are mounted with discard.
func WriteFile(fsys FS, name string, content []byte) error { return WriteEnd(fsys, name, content, 0) }

// WriteEnd makes content the end of a file, from a position in it on, as WriteFile does with all of it. Where that fails the file is cut at
// the position: what was there before must not go on behind part of the new.
func WriteEnd(fsys FS, name string, content []byte, at int64) error {
	f, err := fsys.Open(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	if err := overwrite(f, content, at); err != nil {
		f.Close()
		return fmt.Errorf("write %s: %w", name, err)
	}
	return f.Close()
}

func overwrite(f File, content []byte, at int64) error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	if end := at + int64(len(content)); size > end {
		if err := f.Truncate(end); err != nil {
			return err
		}
	}
	if len(content) == 0 {
		return nil
	}
	if _, err = f.WriteAt(content, at); err != nil {
		_ = f.Truncate(at)
	}
	return err
}

// Replace replaces a file's content such that after a power cut it is the old or the new one, and the new one once Replace has
// returned nil. It writes name.tmp, as Kafka does, syncs it, renames it and syncs the directory.
func Replace(fsys FS, name string, content []byte) error {
	tmp := name + ".tmp"
	f, err := fsys.Open(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(content, 0); err != nil {
		f.Close()
		return fmt.Errorf("write %s: %w", tmp, err)
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return fmt.Errorf("sync %s: %w", tmp, err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("close %s: %w", tmp, err)
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return err
	}
	if err := fsys.SyncDir(filepath.Dir(name)); err != nil {
		return fmt.Errorf("sync directory of %s: %w", name, err)
	}
	return nil
}
