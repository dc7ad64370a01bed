package vfs

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
	"unsafe"

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

func TestReadAheadBringsBytesIntoMemory(t *testing.T) {
	const size = 4 << 20
	file, err := OS().Open(filepath.Join(t.TempDir(), "file"), os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(make([]byte, size), 0); err != nil {
		t.Fatal(err)
	}
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	fd, _ := file.Fd()
	mapped, err := syscall.Mmap(int(fd), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Munmap(mapped) }()
	inMemory := func() (pages int) {
		t.Helper()
		each := make([]byte, size/os.Getpagesize())
		_, _, errno := syscall.Syscall(syscall.SYS_MINCORE, uintptr(unsafe.Pointer(&mapped[0])), size, uintptr(unsafe.Pointer(&each[0])))
		if errno != 0 {
			t.Fatal(errno)
		}
		for _, page := range each {
			pages += int(page & 1)
		}
		return pages
	}
	all := size / os.Getpagesize()
	if err := unix.Fadvise(int(fd), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	if got := inMemory(); got == all { // a file system in memory
		t.Logf("%d of %d pages stay in memory here, whatever is asked", got, all)
	}
	ReadAhead(file, size/2, size/2)
	for began := time.Now(); inMemory() < all/2; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("%d of %d pages are in memory, half of them were asked for", inMemory(), all)
		}
	}
	if !isCached(int(fd), size-1) {
		t.Log("this system does not tell what it has in memory")
	}
}
