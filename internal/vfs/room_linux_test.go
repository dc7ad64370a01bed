package vfs

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTakeRoomIsGivenBack(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	f, err := OS().Open(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("kept"), 0); err != nil {
		t.Fatal(err)
	}
	onDisk := func() int64 {
		t.Helper()
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		var stat unix.Stat_t
		if err := unix.Stat(name, &stat); err != nil {
			t.Fatal(err)
		}
		if stat.Size != 4 {
			t.Fatalf("the file has %d bytes, 4 were written", stat.Size)
		}
		return stat.Blocks * 512
	}
	f.TakeRoom(4, 1<<20)
	if got := onDisk(); got < 1<<20 {
		t.Fatalf("%d bytes on the disk after room was taken for a megabyte", got)
	}
	if err := f.Truncate(4); err != nil {
		t.Fatal(err)
	}
	if got := onDisk(); got >= 1<<20 {
		t.Errorf("%d bytes are kept on the disk for a file of 4", got)
	}
}
