package brokertest_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/raftsman/raftsman/broker"
	"github.com/raftsman/raftsman/internal/commitlog/verify"
	"github.com/raftsman/raftsman/internal/vfs"
)

// TestFlippedBits flips one bit after the other in any file of a directory, and starts a broker on it. It runs 100, or 1,000 if
// RAFTSMAN_SOAK is set, or as many as FLIPS says.
//
// `raftsman log verify` names the file and, at or before the bit, the byte. No record that was flushed is cut off or changed, what is
// read is what was written or is refused, and a partition that is refused is named in the log. All other partitions serve. A node
// whose metadata is damaged does not start, and says why.
func TestFlippedBits(t *testing.T) {
	flips := 100
	if soaking() {
		flips = 1000
	}
	if n, err := strconv.Atoi(os.Getenv("FLIPS")); err == nil {
		flips = n
	}
	seed := uint64(rand.Uint32())
	if n, err := strconv.ParseUint(os.Getenv("FLIPS_SEED"), 10, 64); err == nil {
		seed = n
	}
	clean, killed := damagedDirs(t)
	dir := filepath.Join(t.TempDir(), "data")
	var counted flipCounts
	for i := range flips {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		from := clean
		if i%2 == 1 {
			from = killed
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		copyDir(t, from, dir)
		f := flipped{T: t, dir: dir, from: from, clean: from == clean}
		f.choose(r)
		f.run(&counted)
		if t.Failed() {
			t.Fatalf("flip %d: bit %d of %s (clean stop: %v)\nrepeat: FLIPS_SEED=%d FLIPS=%d go test -run '^%s$' ./brokertest", i, f.bit, f.name, f.clean, seed, i+1, t.Name())
		}
	}
	t.Logf("%d flips, seed %d: %+v", flips, seed, counted)
}

// flipCounts tell what came of the flips.
type flipCounts struct {
	Named, Meaningless, Torn int // by verify
	Served, Refused          int // the partition
	NotStarted               int
}

// flipped is one flip of a bit.
type flipped struct {
	*testing.T
	dir, from string
	clean     bool
	name      string // below dir
	bit       int
}

// choose flips a bit, but none in records that a killed broker wrote behind the recovery point: from these nobody can tell a bit
// that the disk has flipped from a write that a power cut has torn.
func (f *flipped) choose(r *rand.Rand) {
	var names []string
	err := filepath.WalkDir(f.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "raftsman.journal" {
			return err
		}
		info, err := e.Info()
		open := !f.clean && filepath.Ext(path) == ".log" && f.isOpen(path)
		if err == nil && info.Size() > 0 && !open {
			names = append(names, strings.TrimPrefix(path, f.dir+"/"))
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	f.name = names[r.IntN(len(names))]
	content, err := os.ReadFile(filepath.Join(f.dir, f.name))
	if err != nil {
		f.Fatal(err)
	}
	f.bit = r.IntN(8 * len(content))
	content[f.bit/8] ^= 1 << (f.bit % 8)
	if err := os.WriteFile(filepath.Join(f.dir, f.name), content, 0o644); err != nil {
		f.Fatal(err)
	}
}

// isOpen tells whether a segment reaches behind its recovery point.
func (f *flipped) isOpen(log string) bool {
	if folder := filepath.Base(filepath.Dir(log)); folder != "hurt-0" {
		return folder == "__cluster_metadata-0"
	}
	logs, err := filepath.Glob(filepath.Join(filepath.Dir(log), "*.log"))
	if err != nil {
		f.Fatal(err)
	}
	i := slices.Index(logs, log)
	return i+1 == len(logs) || filepath.Base(logs[i+1]) > fmt.Sprintf("%020d.log", hurtFlushed)
}

func (f *flipped) folder() string { return strings.TrimSuffix(filepath.Dir(f.name), "/") }

func (f *flipped) run(counted *flipCounts) {
	f.verify(counted)
	log := &logged{}
	node, err := broker.Start(f.Context(), broker.Config{
		Properties: map[string]string{
			"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": f.dir, "auto.create.topics.enable": "false",
			"raftsman.log.scrub.bytes.per.second": "1000000000", "raftsman.log.scrub.interval.ms": "1",
		},
		Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		counted.NotStarted++
		if !f.isMetadata() || !strings.Contains(err.Error(), f.dir) {
			f.Errorf("it does not start: %v", err)
		}
		return
	}
	b := &damageBroker{TB: f, node: node, log: log}
	f.awaitScrub(b)
	f.hurt(b, counted)
	for partition := range int32(3) {
		folder := fmt.Sprintf("well-%d", partition)
		n, err := b.read("well", partition, wellRecords)
		switch {
		case err == nil || isRefusal(err) && f.folder() == folder:
		case isRefusal(err) && f.isCheckpoint():
			b.waitFor(func() bool { return b.told(folder) })
		default:
			f.Errorf("%s: %d records, %v", folder, n, err)
		}
	}
	b.stop()
	f.unchanged()
	if f.Failed() {
		f.Logf("the broker's log:\n%s", log)
	}
}

// isMetadata tells whether the bit is in what the node can't do without, or after a kill in how far the metadata log was flushed.
func (f *flipped) isMetadata() bool {
	return !f.clean && f.name == "recovery-point-offset-checkpoint" || f.folder() == "__cluster_metadata-0" || slices.Contains([]string{"meta.properties", "bootstrap.checkpoint"}, f.name)
}

// isCheckpoint tells whether the bit is in a file that tells of every partition, of each on a line of its own.
func (f *flipped) isCheckpoint() bool { return strings.HasSuffix(f.name, "-offset-checkpoint") }

func isRefusal(err error) bool { return errors.Is(err, kerr.KafkaStorageError) }

// awaitScrub waits until the scrub has found the bit where it must. Before, a client finds a record's CRC wrong, or is told a wrong
// offset, which no CRC covers.
func (f *flipped) awaitScrub(b *damageBroker) {
	isTopic := strings.HasPrefix(f.name, "hurt-") || strings.HasPrefix(f.name, "well-")
	if isTopic && strings.HasSuffix(f.name, ".log") && f.isFound() {
		b.waitFor(func() bool { return b.told(f.folder()) })
	}
}

// hurt reads the partition in which the bit is most often.
func (f *flipped) hurt(b *damageBroker, counted *flipCounts) {
	n, err := b.read("hurt", 0, hurtRecords)
	switch {
	case err == nil:
		counted.Served++
	case f.folder() == "hurt-0" && isRefusal(err):
		counted.Refused++
		b.waitFor(func() bool { return b.told("hurt-0") }) // who finds the damage refuses first, and then tells
		if log := b.log.String(); strings.Count(log, "a partition is damaged") != 1 || !strings.Contains(log, "hurt-0") || !strings.Contains(log, "remedy=") {
			f.Error("the log does not say once that the partition is damaged")
		}
	case f.isCheckpoint() && isRefusal(err):
		counted.Refused++ // the log is not what the number says
		b.waitFor(func() bool { return strings.Contains(b.log.String(), "-offset-checkpoint") })
	default:
		f.Errorf("hurt-0: %d records, then %v", n, err)
	}
}

// isFound tells whether the scrub must find the bit in a .log: it can't always if it is in a leader epoch.
func (f *flipped) isFound() bool {
	content, err := os.ReadFile(filepath.Join(f.from, f.name))
	if err != nil {
		f.Fatal(err)
	}
	at := 0
	for i := 1; batchAt(content, i) <= f.bit/8; i++ {
		at = batchAt(content, i)
	}
	const epochAt, epochEnd = 12, 16
	return f.bit/8-at < epochAt || f.bit/8-at >= epochEnd
}

// verify runs what `raftsman log verify` does.
func (f *flipped) verify(counted *flipCounts) {
	c := &verify.Checker{FS: vfs.OS()}
	if err := c.Dir(f.dir); err != nil {
		f.Errorf("verify: %v", err)
		return
	}
	named := slices.ContainsFunc(c.Damages, func(d verify.Damage) bool {
		return d.File == filepath.Join(f.dir, f.name) && d.At <= int64(f.bit/8) && d.Reason != "" && d.Remedy != ""
	})
	switch {
	case named:
		counted.Named++
	case !f.clean && len(c.Damages) == 0 && filepath.Ext(f.name) != ".log":
		counted.Torn++ // what recovery judges, or makes anew
	case f.meansNothing():
		counted.Meaningless++
	default:
		f.Errorf("verify names %+v", c.Damages)
	}
}

// meansNothing lists what no other byte of the directory is at odds with: ids and names, numbers that only say how far something
// got, and offsets of index entries that make a search begin earlier.
func (f *flipped) meansNothing() bool {
	switch filepath.Ext(f.name) {
	case ".index":
		return f.bit/8%8 < 4
	case ".timeindex":
		return f.bit/8%12 >= 8
	case ".log", ".snapshot", ".txnindex":
		return false
	}
	return true
}

// unchanged compares the .log files with what they were: nothing below the recovery point is missing or other than it was, but for
// the bit.
func (f *flipped) unchanged() {
	logs, err := filepath.Glob(filepath.Join(f.from, "*-0", "*.log"))
	if err != nil {
		f.Fatal(err)
	}
	for _, before := range logs {
		name := strings.TrimPrefix(before, f.from+"/")
		if strings.HasPrefix(name, "__") {
			continue
		}
		was, err := os.ReadFile(before)
		if err != nil {
			f.Fatal(err)
		}
		is, err := os.ReadFile(filepath.Join(f.dir, name))
		if name == f.name {
			was[f.bit/8] ^= 1 << (f.bit % 8)
		}
		switch torn := !f.clean && name == f.name; {
		case err == nil && bytes.HasPrefix(is, was) || torn:
		case err != nil:
			f.Errorf("%v", err)
		default:
			f.Errorf("%s: %d bytes were flushed, and %d are there or others", name, len(was), len(is))
		}
	}
}
