package faultfs

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/raftsman/raftsman/internal/vfs"
)

func create(t *testing.T, d *Disk, name string) vfs.File {
	t.Helper()
	f, err := d.Open(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func write(t *testing.T, f vfs.File, b []byte, at int64) {
	t.Helper()
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// outcomes tells what a file can look like after a power cut, over many seeds.
func outcomes(t *testing.T, name string, program func(d *Disk)) map[string]int {
	t.Helper()
	seen := make(map[string]int)
	for seed := range uint64(300) {
		d := NewDisk(seed)
		program(d)
		d.Restart()
		content, err := vfs.ReadFile(d, name)
		if vfs.IsNotExist(err) {
			seen["missing"]++
			continue
		}
		must(t, err)
		var s strings.Builder // a letter per half page, as all bytes of one are the same here
		for i := 0; i < len(content); i += PageBytes / 2 {
			if content[i] == 0 {
				s.WriteByte('0')
			} else {
				s.WriteByte(content[i])
			}
		}
		seen[s.String()]++
	}
	return seen
}

func page(b byte) []byte { return bytes.Repeat([]byte{b}, PageBytes) }

func TestSyncedBytesAndNamesSurvive(t *testing.T) {
	for how, sync := range map[string]func(*Disk, vfs.File) error{
		"file and directory": func(d *Disk, f vfs.File) error { return errors.Join(f.Sync(), d.SyncDir("/")) },
		"everything":         func(d *Disk, _ vfs.File) error { return d.SyncFS("/") },
	} {
		seen := outcomes(t, "/f", func(d *Disk) {
			f := create(t, d, "/f")
			write(t, f, page('a'), 0)
			must(t, sync(d, f))
		})
		if len(seen) != 1 || seen["aa"] == 0 {
			t.Errorf("%s: %v", how, seen)
		}
	}
}

func TestUnsyncedPagesAreLostInAnyOrder(t *testing.T) {
	seen := outcomes(t, "/f", func(d *Disk) {
		f := create(t, d, "/f")
		write(t, f, page('a'), 0)
		must(t, f.Sync(), d.SyncDir("/"))
		write(t, f, page('b'), 0)
		write(t, f, page('c'), PageBytes)
		write(t, f, page('d'), 2*PageBytes)
	})
	for _, want := range []string{"aa", "bbccdd", "aaccdd", "aa00dd", "bb00dd", "bbcc00", "aa0000"} {
		if seen[want] == 0 {
			t.Errorf("never seen: %s in %v", want, seen)
		}
	}
	for got := range seen {
		if got == "missing" || strings.HasPrefix(got, "0") {
			t.Errorf("synced bytes were lost: %s", got)
		}
	}
}

func TestUnsyncedNamesAreLost(t *testing.T) {
	seen := outcomes(t, "/f", func(d *Disk) {
		f := create(t, d, "/f")
		write(t, f, page('a'), 0)
		must(t, f.Sync())
	})
	if seen["missing"] == 0 || seen["aa"] == 0 {
		t.Errorf("a file without SyncDir: %v", seen)
	}
	seen = outcomes(t, "/f", func(d *Disk) {
		must(t, vfs.Replace(d, "/f", page('a')))
		f := create(t, d, "/f.new")
		write(t, f, page('b'), 0)
		must(t, f.Sync(), d.Rename("/f.new", "/f"))
	})
	if len(seen) != 2 || seen["aa"] == 0 || seen["bb"] == 0 {
		t.Errorf("a rename without SyncDir: %v", seen)
	}
	seen = outcomes(t, "/f", func(d *Disk) {
		must(t, vfs.Replace(d, "/f", page('a')), d.Remove("/f"))
	})
	if len(seen) != 2 || seen["aa"] == 0 || seen["missing"] == 0 {
		t.Errorf("a removal without SyncDir: %v", seen)
	}
}

func TestReplaceIsOldOrNew(t *testing.T) {
	for cut := range 12 {
		seen := outcomes(t, "/f", func(d *Disk) {
			must(t, vfs.Replace(d, "/f", page('a')))
			d.CutAt(cut)
			err := vfs.Replace(d, "/f", page('b'))
			if off := d.Off(); off != errors.Is(err, ErrPowerCut) || !off && err != nil {
				t.Fatalf("cut at %d: %v, power off %v", cut, err, off)
			}
		})
		for got := range seen {
			if got != "aa" && got != "bb" {
				t.Errorf("cut at operation %d: %v", cut, seen)
			}
		}
	}
}

// TestWriteFileUsesTheBlocksThatAreThere: it cuts a file only to what it is to hold, and is done with one write.
func TestWriteFileUsesTheBlocksThatAreThere(t *testing.T) {
	in := Inject(vfs.NewMemory())
	truncated := int64(0)
	for _, content := range []string{"", "first", "a longer one", "short", "", "again"} {
		if err := vfs.WriteFile(in, "f", []byte(content)); err != nil {
			t.Fatal(err)
		}
		got, err := vfs.ReadFile(in, "f")
		if err != nil || string(got) != content {
			t.Errorf("it holds %q (%v), want %q", got, err, content)
		}
		if content == "short" || content == "" && in.Count(OpWrite) > 0 {
			truncated++
		}
		if n := int64(in.Count(OpTruncate)); n != truncated {
			t.Errorf("%q: cut %d times, want %d", content, n, truncated)
		}
	}
}

// TestWriteFileThatFailsLeavesNothingOld: half an index in front of the end of another one would pass for one.
func TestWriteFileThatFailsLeavesNothingOld(t *testing.T) {
	in := Inject(vfs.NewMemory())
	must(t, vfs.WriteFile(in, "f", []byte("the one before")))
	in.Add(Rule{Op: OpWrite, Err: syscall.ENOSPC, Written: 3})
	if err := vfs.WriteFile(in, "f", []byte("the new one")); !vfs.IsFull(err) {
		t.Errorf("the error is %v, want that the disk is full", err)
	}
	if got, err := vfs.ReadFile(in, "f"); err != nil || len(got) > 0 {
		t.Errorf("it holds %q (%v), want nothing", got, err)
	}
	must(t, vfs.WriteFile(in, "f", []byte("the one before")))
	in.Add(Rule{Op: OpWrite, Err: syscall.ENOSPC, Written: 3})
	if err := vfs.WriteEnd(in, "f", []byte("end"), 4); !vfs.IsFull(err) {
		t.Errorf("the error is %v, want that the disk is full", err)
	}
	if got, err := vfs.ReadFile(in, "f"); err != nil || string(got) != "the " {
		t.Errorf("it holds %q (%v), want what lies before the position", got, err)
	}
	must(t, vfs.WriteEnd(in, "f", []byte("end"), 4))
	if got, err := vfs.ReadFile(in, "f"); err != nil || string(got) != "the end" {
		t.Errorf("it holds %q (%v)", got, err)
	}
}

func TestFilesFromBeforeTheCutAreDead(t *testing.T) {
	d := NewDisk(1)
	f := create(t, d, "/f")
	lock, err := d.Lock("/lock")
	must(t, err)
	d.CutAt(0)
	if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, ErrPowerCut) {
		t.Fatalf("write at the cut: %v", err)
	}
	if _, err := d.Open("/f", os.O_RDONLY); !errors.Is(err, ErrPowerCut) {
		t.Errorf("open while the power is off: %v", err)
	}
	d.Restart()
	if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, ErrPowerCut) {
		t.Errorf("read of a file from before: %v", err)
	}
	again, err := d.Lock("/lock")
	must(t, err, lock.Close(), again.Close())
}

func TestSameSeedSameLoss(t *testing.T) {
	run := func() []byte {
		d := NewDisk(77)
		for i := range 20 {
			f := create(t, d, "/f"+string(rune('a'+i)))
			write(t, f, bytes.Repeat([]byte{byte(i + 1)}, 9000), 0)
		}
		must(t, d.SyncDir("/"))
		d.Restart()
		var all []byte
		for i := range 20 {
			content, err := vfs.ReadFile(d, "/f"+string(rune('a'+i)))
			must(t, err)
			all = append(all, content...)
		}
		return all
	}
	if !bytes.Equal(run(), run()) {
		t.Error("two runs with one seed lost different pages")
	}
}

func TestSkippedSyncDoesNothing(t *testing.T) {
	var site string
	seen := outcomes(t, "/f", func(d *Disk) {
		d.SkipSync(site)
		f := create(t, d, "/f")
		write(t, f, page('a'), 0)
		must(t, f.Sync())
		if site == "" {
			sites := d.Sites()
			if len(sites) != 1 || !strings.HasPrefix(sites[0], "faultfs/disk_test.go:") {
				t.Fatalf("call sites %v", sites)
			}
			site = sites[0]
		}
		must(t, d.SyncDir("/"))
	})
	if seen["aa"] == 300 || seen["00"]+seen[""] == 0 {
		t.Errorf("without the sync of the file: %v", seen)
	}
}

func TestInjector(t *testing.T) {
	i := Inject(vfs.NewMemory())
	boom := errors.New("boom")
	f, err := i.Open("/dir.log", os.O_RDWR|os.O_CREATE)
	must(t, err)
	i.Add(Rule{Op: OpWrite, Name: ".log", After: 1, Times: 2, Err: boom, Written: 2})
	i.Add(Rule{Op: OpRead, Flip: 1})
	waited := 0
	i.Add(Rule{Op: OpSync | OpSyncDir, Times: -1, Before: func(string) { waited++ }})
	for n, want := range []error{nil, boom, boom, nil} {
		if _, err := f.WriteAt([]byte("abcd"), int64(4*n)); !errors.Is(err, want) {
			t.Errorf("write %d: %v, want %v", n, err, want)
		}
	}
	got := make([]byte, 16)
	if _, err := f.ReadAt(got, 0); err != nil || string(got) != "\x60bcdab\x00\x00ab\x00\x00abcd" {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := f.ReadAt(got, 0); err != nil || got[0] != 'a' {
		t.Errorf("read again %q, %v", got, err)
	}
	must(t, f.Sync(), i.SyncDir("/"), i.SyncFS("/"))
	if waited != 2 || i.Count(OpAnySync) != 3 || i.Count(OpWrite) != 4 {
		t.Errorf("waited %d times, %d syncs, %d writes", waited, i.Count(OpAnySync), i.Count(OpWrite))
	}
}
