package verify

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

var started = time.UnixMilli(1_700_000_000_000)

// filled returns a file system with a log directory in /data: two partitions as Kafka wrote them, one of them with transactions,
// and one of our own with several segments and leader epochs.
func filled(t *testing.T) vfs.FS {
	t.Helper()
	fs := vfs.NewMemory()
	const from = "../testdata/kafka"
	err := filepath.WalkDir(from, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join("/data", strings.TrimPrefix(path, from))
		if e.IsDir() {
			return fs.MkdirAll(to)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return vfs.WriteFile(fs, to, content)
	})
	if err != nil {
		t.Fatal(err)
	}
	d, err := commitlog.OpenDir(fs, "/data", func(b []byte) { clear(b) })
	if err != nil {
		t.Fatal(err)
	}
	found, err := d.Partitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, tp := range found {
		id, err := d.TopicID(tp)
		if err != nil {
			t.Fatal(err)
		}
		l, err := d.Open(tp, id, commitlog.DefaultConfig(), started)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write(t, d, "ours")
	write(t, d, metadataTopic)
	if err := d.Close(true, 7); err != nil {
		t.Fatal(err)
	}
	return fs
}

func write(t *testing.T, d *commitlog.Dir, topic string) {
	t.Helper()
	c := commitlog.DefaultConfig()
	c.SegmentBytes, c.IndexIntervalBytes = 3000, 200
	l, err := d.Create(kafka.TopicPartition{Topic: topic}, kafka.TopicID{1, 6: 0x40, 8: 0x80}, c, started)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 80 {
		b := record.Builder{Producer: &record.Producer{ID: 5, BaseSequence: kafka.Sequence(2 * i)}}
		for range 2 {
			b.Add([]byte("key"), []byte(strings.Repeat("v", i)), nil, started.UnixMilli()+int64(i))
		}
		built := b.Build()
		if _, err := l.Append(built, kafka.Epoch(i/30), started); err != nil {
			t.Fatal(err)
		}
		l.Producers().Apply(built, started)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func checked(t *testing.T, fs vfs.FS) *Checker {
	t.Helper()
	c := &Checker{FS: fs}
	if err := c.Dir("/data"); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWhatIsWholeHasNoDamage(t *testing.T) {
	c := checked(t, filled(t))
	if len(c.Damages) > 0 || c.Files < 40 || c.Read.Load() < 10_000 {
		t.Errorf("%d files, %d bytes, damages %+v", c.Files, c.Read.Load(), c.Damages)
	}
}

// TestTimesOfKafkasMetadataLogMayEndEarly: Kafka ends a time index with its segment's last timestamp when it rolls, and when it
// stops, but for the last segment of its metadata log.
func TestTimesOfKafkasMetadataLogMayEndEarly(t *testing.T) {
	for _, test := range []struct {
		topic   string
		segment int // of its folder, from the last
		damages int
	}{{"ours", 0, 1}, {metadataTopic, 0, 0}, {metadataTopic, 1, 1}} {
		fs := filled(t)
		dir := "/data/" + test.topic + "-0/"
		entries, err := fs.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var times []string
		for _, e := range entries {
			if strings.HasSuffix(e.Name, ".timeindex") {
				times = append(times, dir+e.Name)
			}
		}
		slices.Sort(times)
		name := times[len(times)-1-test.segment]
		content, err := vfs.ReadFile(fs, name)
		if err != nil {
			t.Fatal(err)
		}
		if len(content) < 24 {
			t.Fatalf("%s has %d bytes, want two entries", name, len(content))
		}
		put(t, fs, name, content[:len(content)-12])
		if c := checked(t, fs); len(c.Damages) != test.damages || test.damages > 0 && c.Damages[0].File != name {
			t.Errorf("%s without its last entry: %+v, want %d damages", name, c.Damages, test.damages)
		}
	}
}

// TestEachFlippedBitIsNamed flips bits of all files. It runs 200, or as many as VERIFY_FLIPS says.
func TestEachFlippedBitIsNamed(t *testing.T) {
	flips, err := strconv.Atoi(os.Getenv("VERIFY_FLIPS"))
	if err != nil {
		flips = 200
	}
	seed := uint64(rand.Uint32())
	if n, err := strconv.ParseUint(os.Getenv("VERIFY_SEED"), 10, 64); err == nil {
		seed = n
	}
	r := rand.New(rand.NewPCG(seed, 1))
	fs := filled(t)
	names := allFiles(t, fs, "/data")
	passed := 0
	for range flips {
		name := names[r.IntN(len(names))]
		content, err := vfs.ReadFile(fs, name)
		if err != nil {
			t.Fatal(err)
		}
		if len(content) == 0 {
			continue
		}
		bit := r.IntN(8 * len(content))
		damaged := slices.Clone(content)
		damaged[bit/8] ^= 1 << (bit % 8)
		put(t, fs, name, damaged)
		c := checked(t, fs)
		put(t, fs, name, content)
		switch named := isNamed(t, fs, c, name, int64(bit/8)); {
		case named:
		case meansNothing(name, bit/8) && !strings.HasSuffix(name, ".log"):
			passed++
		default:
			t.Errorf("bit %d of %s: found %+v\nrepeat: VERIFY_SEED=%d VERIFY_FLIPS=%d go test -run %s ./internal/commitlog/verify",
				bit, name, c.Damages, seed, flips, t.Name())
		}
	}
	t.Logf("%d of %d flips could not be told", passed, flips)
}

func put(t *testing.T, fs vfs.FS, name string, content []byte) {
	t.Helper()
	if err := vfs.WriteFile(fs, name, content); err != nil {
		t.Fatal(err)
	}
}

func allFiles(t *testing.T, fs vfs.FS, dir string) []string {
	t.Helper()
	entries, err := fs.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		switch name := filepath.Join(dir, e.Name); {
		case e.Dir:
			names = append(names, allFiles(t, fs, name)...)
		case e.Name != commitlog.LockFile:
			names = append(names, name)
		}
	}
	return names
}

// isNamed tells whether damage is told of the file, and at the batch or before the byte.
func isNamed(t *testing.T, fs vfs.FS, c *Checker, name string, at int64) bool {
	t.Helper()
	first := int64(0)
	if strings.HasSuffix(name, ".log") {
		for b, err := range commitlog.FileBatches(fs, name) {
			if err != nil {
				t.Fatal(err)
			}
			if b.At <= at {
				first = b.At
			}
		}
	}
	return slices.ContainsFunc(c.Damages, func(d Damage) bool {
		return d.File == name && d.At >= first && d.At <= at && d.Reason != "" && d.Remedy != ""
	})
}

// meansNothing lists what no other byte of the directory is at odds with, whatever it says: ids and names, numbers that only say
// how far something got, and offsets of index entries that make a search begin earlier.
func meansNothing(name string, at int) bool {
	switch filepath.Ext(name) {
	case ".index":
		return at%8 < 4
	case ".timeindex":
		return at%12 >= 8
	case ".log", ".snapshot", ".txnindex":
		return false
	}
	return true
}

// TestTornEndIsNoDamage: a broker that was killed leaves ends that recovery cuts off, but below the recovery point nothing is torn.
func TestTornEndIsNoDamage(t *testing.T) {
	fs := filled(t)
	if err := fs.Remove("/data/" + commitlog.CleanShutdownFile); err != nil {
		t.Fatal(err)
	}
	entries, err := fs.ReadDir("/data/ours-0")
	if err != nil {
		t.Fatal(err)
	}
	var logs []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name, ".log") {
			logs = append(logs, "/data/ours-0/"+e.Name)
		}
	}
	last := logs[len(logs)-1]
	content, err := vfs.ReadFile(fs, last)
	if err != nil {
		t.Fatal(err)
	}
	put(t, fs, last, append(slices.Clone(content), make([]byte, 100)...))
	if c := checked(t, fs); len(c.Damages) > 0 {
		t.Errorf("zeros at the end: %+v", c.Damages)
	}
	put(t, fs, last, content[:len(content)-1])
	if c := checked(t, fs); len(c.Damages) == 0 || c.Damages[0].File != last {
		t.Errorf("a flushed batch is torn: %+v", c.Damages)
	}
	put(t, fs, last, content)
	if err := fs.Remove(logs[1]); err != nil {
		t.Fatal(err)
	}
	if c := checked(t, fs); len(c.Damages) != 1 || c.Damages[0].File != logs[2] {
		t.Errorf("a segment is missing from the middle: %+v", c.Damages)
	}
}

// TestALostFirstSegmentIsNamed: after a stop in order.
func TestALostFirstSegmentIsNamed(t *testing.T) {
	fs := filled(t)
	entries, err := fs.ReadDir("/data/ours-0")
	if err != nil {
		t.Fatal(err)
	}
	var second string
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name, "00000000000000000000."):
			if err := fs.Remove("/data/ours-0/" + e.Name); err != nil {
				t.Fatal(err)
			}
		case second == "" && strings.HasSuffix(e.Name, ".log"):
			second = "/data/ours-0/" + e.Name
		}
	}
	if c := checked(t, fs); len(c.Damages) != 1 || c.Damages[0].File != second || !strings.HasPrefix(c.Damages[0].Reason, "offsets 0 to ") {
		t.Errorf("found %+v, want what is missing before %s", c.Damages, second)
	}
	if err := fs.Remove("/data/" + commitlog.CleanShutdownFile); err != nil {
		t.Fatal(err)
	}
	if c := checked(t, fs); len(c.Damages) > 0 {
		t.Errorf("after a kill it may have been retention: %+v", c.Damages)
	}
}

// TestAnAbortThatNoIndexTellsIsNamed: also in a compacted log.
func TestAnAbortThatNoIndexTellsIsNamed(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		fs := filled(t)
		name := ""
		for _, n := range allFiles(t, fs, "/data/txns-0") {
			if content, err := vfs.ReadFile(fs, n); err == nil && filepath.Ext(n) == ".txnindex" && len(content) > 0 {
				name = n
			}
		}
		if compacted {
			put(t, fs, "/data/"+commitlog.CleanerFile, []byte("0\n1\ntxns 0 0\n"))
		}
		put(t, fs, name, nil)
		if c := checked(t, fs); len(c.Damages) != 1 || c.Damages[0].File != name {
			t.Errorf("compacted %v: found %+v, want that %s lacks an entry", compacted, c.Damages, name)
		}
		if err := fs.Remove(name); err != nil {
			t.Fatal(err)
		}
		if c := checked(t, fs); len(c.Damages) != 1 || c.Damages[0].File != name {
			t.Errorf("compacted %v, without the file: found %+v", compacted, c.Damages)
		}
	}
}

// TestBatchesBelowTheLogsStartHaveNoEpochToFit: retention took them, or DeleteRecords, and a stop came before their files went.
func TestBatchesBelowTheLogsStartHaveNoEpochToFit(t *testing.T) {
	for _, clean := range []bool{true, false} {
		fs := filled(t)
		d, err := commitlog.OpenDir(fs, "/data", func(b []byte) { clear(b) })
		if err != nil {
			t.Fatal(err)
		}
		c := commitlog.DefaultConfig()
		l, err := d.Open(kafka.TopicPartition{Topic: "ours"}, kafka.TopicID{1, 6: 0x40, 8: 0x80}, c, started)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.SetStart(125); err != nil { // in the last of three epochs, of which the first begins at 0
			t.Fatal(err)
		}
		if _, err := l.Retain(started, l.EndOffset()); err != nil {
			t.Fatal(err)
		}
		if err := d.WriteCheckpoints(); err != nil {
			t.Fatal(err)
		}
		if clean {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		} else if err := vfs.WriteFile(fs, "/data/"+commitlog.LogStartFile, []byte("0\n0\n")); err != nil { // as Kafka, which writes it later
			t.Fatal(err)
		}
		if err := d.Close(clean, 7); err != nil && clean {
			t.Fatal(err)
		}
		if c := checked(t, fs); len(c.Damages) > 0 {
			t.Errorf("clean %v: %+v", clean, c.Damages)
		}
		if clean { // what lies at the start and behind it still counts
			put(t, fs, "/data/ours-0/"+commitlog.EpochsFile, []byte("0\n1\n3 125\n"))
			if c := checked(t, fs); len(c.Damages) != 1 {
				t.Errorf("a wrong epoch: %+v", c.Damages)
			}
		}
	}
}
