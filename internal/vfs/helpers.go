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
func WriteFile(fsys FS, name string, content []byte) error {
	f, err := fsys.Open(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	if err := overwrite(f, content); err != nil {
		f.Close()
		return fmt.Errorf("write %s: %w", name, err)
	}
	return f.Close()
}

func overwrite(f File, content []byte) error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	if size > int64(len(content)) {
		if err := f.Truncate(int64(len(content))); err != nil {
			return err
		}
	}
	if len(content) == 0 {
		return nil
	}
	if _, err = f.WriteAt(content, 0); err != nil {
		_ = f.Truncate(0) // what was there must not go on where the new ends
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
