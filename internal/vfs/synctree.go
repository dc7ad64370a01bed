//go:build !linux

package vfs

import (
	"io/fs"
	"os"
	"path/filepath"
)

// syncTree syncs every file and directory below dir, where the system has no syncfs.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			if IsNotExist(err) {
				return nil
			}
			return err
		}
		if e.IsDir() {
			return syncDir(name)
		}
		f, err := openFile(name, os.O_RDWR)
		if err != nil {
			if IsNotExist(err) {
				return nil
			}
			return err
		}
		defer f.Close()
		return syncFile(f)
	})
}
