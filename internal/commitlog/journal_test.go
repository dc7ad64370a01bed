package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

const journalTestLogs = 5

func journalTopic(i int) (kafka.TopicPartition, kafka.TopicID) {
	return kafka.TopicPartition{Topic: fmt.Sprint("topic", i), Partition: int32(i)}, kafka.TopicID{0: byte(i + 1), 6: 0x40, 8: 0x80}
}

// openJournaled opens a directory with several logs, each of which has been flushed, and a small journal.
func openJournaled(t testing.TB, fs vfs.FS, size int64) (*Dir, []*Log) {
	t.Helper()
	d := openDir(t, fs)
	d.SetJournal(size, 0)
	logs := make([]*Log, journalTestLogs)
	for i := range logs {
		tp, id := journalTopic(i)
		l, err := d.Open(tp, id, DefaultConfig(), testStart)
		if vfs.IsNotExist(err) {
			l, err = d.Create(tp, id, DefaultConfig(), testStart)
		}
		if err != nil {
			t.Fatal(err)
		}
		logs[i] = l
	}
	if err := d.SyncRecovered(); err != nil {
		t.Fatal(err)
	}
	for _, l := range logs {
		if l.EndOffset() == 0 {
			fill(t, l, 1, 0)
			flush(t, l)
		}
	}
	return d, logs
}

func flushSmall(t testing.TB, d *Dir, logs []*Log) (others []*Log) {
	t.Helper()
	if err := d.FlushSmall(logs); err != nil {
		t.Fatal(err)
	}
	return unflushed(logs)
}

func unflushed(logs []*Log) []*Log {
	return slices.DeleteFunc(slices.Clone(logs), func(l *Log) bool { return l.FlushedOffset() == l.EndOffset() })
}

func TestManyLogsAreFlushedWithOneSync(t *testing.T) {
	fs := faultfs.Inject(vfs.NewMemory())
	format(t, fs)
	d, logs := openJournaled(t, fs, 64<<10)
	fill(t, logs[0], 1, 0)
	flushSmall(t, d, logs[:1]) // makes the journal
	for _, l := range logs {
		fill(t, l, 2, 0)
	}
	appendBatch(t, logs[4], batch(1000, 1), 0) // too much for the journal
	before := fs.Count(faultfs.OpAnySync)
	if others := flushSmall(t, d, logs); !slices.Equal(others, logs[4:]) {
		t.Errorf("left to Flush: %d logs, want the last one", len(others))
	}
	if n := fs.Count(faultfs.OpAnySync) - before; n != 1 {
		t.Errorf("%d calls of Sync, want 1", n)
	}
	flush(t, logs[4])
	if err := d.WriteCheckpoints(); err != nil {
		t.Fatal(err)
	}
	for _, l := range logs {
		if got := kafka.Offset(l.settled.Load()); got != l.EndOffset() {
			t.Errorf("%s is in its segments up to %d of %d after a checkpoint", l.Partition(), got, l.EndOffset())
		}
	}
}

// TestJournalOfManyLogsSurvivesPowerCuts appends to logs and flushes some of them, in the one way or the other, until the power is
// cut.
func TestJournalOfManyLogsSurvivesPowerCuts(t *testing.T) {
	replayed := 0
	for seed := range seeds(crashSeeds(150)) {
		r, disk := rand.New(rand.NewPCG(seed, 3)), faultfs.NewDisk(seed)
		format(t, disk)
		var acked [journalTestLogs][]byte
		for range 4 {
			d, logs := openJournaled(t, disk, 9000)
			for _, note := range d.Notes() {
				if bytes.Contains([]byte(note), []byte("from the journal")) {
					replayed++
				}
			}
			for i, l := range logs {
				got := bytesOf(t, l)
				if !bytes.HasPrefix(got, acked[i]) {
					t.Fatalf("seed %d (CRASH_SEED=%[1]d CRASH_SEEDS=1): %s has %d bytes which do not begin with the %d that were acknowledged", seed, l.Partition(), len(got), len(acked[i]))
				}
				acked[i] = got
			}
			disk.CutAt(r.IntN(150))
			for runJournalStep(t, r, d, logs, &acked) {
			}
			disk.Restart()
		}
	}
	if replayed == 0 {
		t.Error("nothing was ever taken from the journal")
	}
}

// runJournalStep returns false when the power is cut.
func runJournalStep(t *testing.T, r *rand.Rand, d *Dir, logs []*Log, acked *[journalTestLogs][]byte) bool {
	i := r.IntN(len(logs))
	var err error
	flushed := logs[i : i+1]
	switch r.IntN(8) {
	case 0:
		_, err = logs[i].Flush()
	case 1:
		err = d.WriteCheckpoints()
		flushed = nil
	case 2, 3:
		flushed = logs[:1+i]
		err = d.FlushSmall(flushed)
		others := unflushed(flushed)
		flushed = slices.DeleteFunc(slices.Clone(flushed), func(l *Log) bool { return slices.Contains(others, l) })
	default:
		_, err = logs[i].Append(batch(1+r.IntN(9), testStart.UnixMilli()), 0, testStart)
		flushed = nil
	}
	if errors.Is(err, faultfs.ErrPowerCut) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range flushed {
		acked[slices.Index(logs, l)] = bytesOf(t, l)
	}
	return true
}

// bytesOf returns all batches of a log; of one whose disk is off what it had.
func bytesOf(t testing.TB, l *Log) []byte {
	t.Helper()
	var all []byte
	for b, err := range l.Batches(l.StartOffset()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

// TestLogThatWasWrittenByAnotherBrokerWins: after a power cut another broker, that knows nothing of the journal, has appended.
func TestLogThatWasWrittenByAnotherBrokerWins(t *testing.T) {
	for name, theirs := range map[string]record.Batch{"as long": batch(3, 1), "shorter": batch(1, 1), "led, and not written": nil} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMemory()
			format(t, fs)
			d, logs := openJournaled(t, fs, 64<<10)
			l := logs[0]
			durable := bytesOf(t, l)
			for range 3 {
				fill(t, l, 1, 0)
				flushSmall(t, d, logs)
			}
			journal, err := vfs.ReadFile(fs, d.journalName())
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(l.Truncate(3), d.Close(false, 0)); err != nil { // what the power cut took
				t.Fatal(err)
			}
			d, logs = openJournaled(t, fs, 64<<10)
			logs[0].AssignEpoch(1, logs[0].EndOffset())
			if theirs != nil {
				appendBatch(t, logs[0], theirs, 1)
				flush(t, logs[0])
			} else if err := d.WriteCheckpoints(); err != nil {
				t.Fatal(err)
			}
			want := bytesOf(t, logs[0])
			if err := errors.Join(d.Close(false, 0), vfs.WriteFile(fs, d.journalName(), journal)); err != nil {
				t.Fatal(err)
			}
			_, logs = openJournaled(t, fs, 64<<10)
			if got := bytesOf(t, logs[0]); !bytes.Equal(got, want) || !bytes.HasPrefix(got, durable) {
				t.Errorf("the log has %d bytes, want the %d that the other broker left", len(got), len(want))
			}
		})
	}
}

func TestFailedSyncOfTheJournalFailsTheDirectory(t *testing.T) {
	fs := faultfs.Inject(vfs.NewMemory())
	format(t, fs)
	d, logs := openJournaled(t, fs, 64<<10)
	flushSmall(t, d, logs)
	fill(t, logs[0], 1, 0)
	fs.Add(faultfs.Rule{Op: faultfs.OpSync, Err: errIO})
	wantError(t, d.FlushSmall(logs), ErrDiskFailed)
	fs.Reset()
	wantError(t, d.FlushSmall(logs), ErrDiskFailed)
	if got, end := logs[0].FlushedOffset(), logs[0].EndOffset(); got == end {
		t.Errorf("flushed to %d although the flush failed", got)
	}
}

func TestFullDiskMakesDoWithoutAJournal(t *testing.T) {
	fs := faultfs.Inject(vfs.NewMemory())
	format(t, fs)
	d, logs := openJournaled(t, fs, 64<<10)
	for _, l := range logs {
		fill(t, l, 1, 0)
	}
	fs.Add(faultfs.Rule{Op: faultfs.OpWrite, After: 3, Err: fmt.Errorf("injected: %w", syscall.ENOSPC)}) // some of it was made
	if others := flushSmall(t, d, logs); len(others) != len(logs) {
		t.Errorf("%d logs are left to Flush, want all", len(others))
	}
	if _, err := fs.Stat(d.journalName()); !vfs.IsNotExist(err) {
		t.Errorf("what there was room for of the journal is still there, and takes room: %v", err)
	}
	fs.Reset()
	fill(t, logs[0], 1, 0)
	flushSmall(t, d, logs)
	flush(t, logs[0])
}

// TestSyncRecoveredLeavesAJournalThatIsInUse: of a directory that was closed in order no journal was found, and the one that is there has
// what was acknowledged since.
func TestSyncRecoveredLeavesAJournalThatIsInUse(t *testing.T) {
	disk := faultfs.NewDisk(1)
	format(t, disk)
	d, logs := openJournaled(t, disk, 64<<10)
	for _, l := range logs {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(true, 0); err != nil {
		t.Fatal(err)
	}
	d = openDir(t, disk)
	d.SetJournal(64<<10, 0)
	for i := range logs {
		tp, id := journalTopic(i)
		l, err := d.Open(tp, id, DefaultConfig(), testStart)
		if err != nil {
			t.Fatal(err)
		}
		logs[i] = l
	}
	fill(t, logs[0], 1, 0)
	flushSmall(t, d, logs)
	fill(t, logs[1], 1, 0) // so that there is something to be made durable
	if err := d.SyncRecovered(); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Stat(d.journalName()); err != nil {
		t.Fatalf("the journal in use is gone: %v", err)
	}
	fill(t, logs[0], 1, 0)
	if left := flushSmall(t, d, logs[:1]); len(left) != 0 {
		t.Error("the journal does not serve any more")
	}
}

// compactedAndJournaled is a log of a compacted topic that has one batch, which is flushed, in a directory that makes a journal at once.
func compactedAndJournaled(t *testing.T) (vfs.FS, *Dir, *Log) {
	t.Helper()
	fs := vfs.NewMemory()
	format(t, fs)
	d := openDir(t, fs)
	d.SetJournal(64<<10, 0)
	if err := d.SyncRecovered(); err != nil {
		t.Fatal(err)
	}
	c := smallConfig()
	c.Compact = true
	l, err := d.Create(testTopic, testID, c, testStart)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, l, 1, 0)
	flush(t, l)
	return fs, d, l
}

// TestGapThatTheJournalFillsIsNoCompaction: in a compacted log offsets may be missing between segments. But those that the journal
// has were lost with the power.
func TestGapThatTheJournalFillsIsNoCompaction(t *testing.T) {
	fs, d, l := compactedAndJournaled(t)
	kept, c := l.Size(), l.Config()
	fill(t, l, 1, 0)
	flushSmall(t, d, []*Log{l})
	acked := bytesOf(t, l)
	for len(l.Segments()) == 1 {
		fill(t, l, 1, 0)
	}
	name := l.active().name(logSuffix)
	first := (*l.segments.Load())[0].name(logSuffix)
	if err := d.Close(false, 0); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Open(first, os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(kept), f.Close()); err != nil {
		t.Fatal(err)
	}
	l, err = openDir(t, fs).Open(testTopic, testID, c, testStart)
	if err != nil {
		t.Fatal(err)
	}
	if got := bytesOf(t, l); !bytes.Equal(got, acked) {
		t.Errorf("%d bytes came back, want the %d that were acknowledged", len(got), len(acked))
	}
	if _, err := fs.Stat(name); !vfs.IsNotExist(err) {
		t.Errorf("%s, behind the gap, is still there: %v", name, err)
	}
}

// TestGapThatAnotherBrokersCleanerLeftStays: what the journal of before still has of a gap was compacted by a broker that has led
// since, and what that one wrote behind the gap stays.
func TestGapThatAnotherBrokersCleanerLeftStays(t *testing.T) {
	fs, d, l := compactedAndJournaled(t)
	kept, c := l.Size(), l.Config()
	for len(l.Segments()) == 1 {
		fill(t, l, 1, 0)
		flushSmall(t, d, []*Log{l})
	}
	first := (*l.segments.Load())[0].name(logSuffix)
	journal, err := vfs.ReadFile(fs, d.journalName())
	if err != nil {
		t.Fatal(err)
	}
	led := l.EndOffset()
	appendBatch(t, l, batch(2, 1), 1)
	end := l.EndOffset()
	if err := d.Close(false, 0); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Open(first, os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(f.Truncate(kept), f.Close(), vfs.WriteFile(fs, d.journalName(), journal),
		vfs.WriteFile(fs, l.epochsFile(), formatEpochs([]EpochStart{{0, 0}, {1, led}})))
	if err != nil {
		t.Fatal(err)
	}
	l, err = openDir(t, fs).Open(testTopic, testID, c, testStart)
	if err != nil {
		t.Fatal(err)
	}
	batches := contents(t, l, 1<<20)
	if last := batches[len(batches)-1]; l.EndOffset() != end || last.LeaderEpoch() != 1 || batches[1].LeaderEpoch() == 0 && batches[1].BaseOffset() == 1 {
		t.Errorf("the log ends at %d with a batch of epoch %d at %d, the other broker left its end at %d, of epoch 1",
			l.EndOffset(), last.LeaderEpoch(), last.BaseOffset(), end)
	}
}

// TestAppendThatIsUnderWayWhileTheJournalForgets: a round takes the bytes of an append before the log's end says so, the journal
// is settled or leaves the log, and only then the append ends. Its record must be durable somewhere when the next round says so.
func TestAppendThatIsUnderWayWhileTheJournalForgets(t *testing.T) {
	for name, forget := range map[string]func(d *Dir, l *Log) error{
		"settled": func(d *Dir, _ *Log) error { return d.SettleJournal() },
		"cut":     func(_ *Dir, l *Log) error { return l.settleFor(l.EndOffset()) },
	} {
		t.Run(name, func(t *testing.T) {
			disk := faultfs.NewDisk(1)
			format(t, disk)
			d, logs := openJournaled(t, disk, 64<<10)
			l := logs[0]
			b := batch(3, 1)
			b.SetBaseOffset(l.EndOffset())
			s := l.active()
			position := s.size.Load()
			file, err := s.acquire()
			if err == nil {
				err = file.write(b, position)
				defer file.release()
			}
			if err != nil {
				t.Fatal(err)
			}
			s.size.Store(position + int64(len(b)))
			flushSmall(t, d, logs)
			if err := forget(d, l); err != nil {
				t.Fatal(err)
			}
			l.end.Store(int64(b.NextOffset()))
			if others := flushSmall(t, d, logs); len(others) > 0 {
				flush(t, l)
			}
			acked := bytesOf(t, l)
			disk.CutAt(0)
			_ = vfs.WriteFile(disk, testDir+"/x", nil)
			disk.Restart()
			_, logs = openJournaled(t, disk, 64<<10)
			if got := bytesOf(t, logs[0]); !bytes.Equal(got, acked) {
				t.Errorf("%d bytes came back, want the %d that were acknowledged", len(got), len(acked))
			}
		})
	}
}

// journalOf makes a journal that holds three batches of each log, and takes them out of the segments as a power cut would.
func journalOf(t testing.TB, fs vfs.FS) (acked [][]byte) {
	t.Helper()
	d, logs := openJournaled(t, fs, 64<<10)
	var sizes []int64
	for _, l := range logs {
		sizes = append(sizes, l.Size())
	}
	for range 3 {
		for _, l := range logs {
			fill(t, l, 1, 0)
		}
		if others := flushSmall(t, d, logs); len(others) > 0 {
			t.Fatalf("%d logs are left to Flush", len(others))
		}
	}
	if err := d.Close(false, 0); err != nil {
		t.Fatal(err)
	}
	for i, l := range logs {
		acked = append(acked, bytesOf(t, l))
		f, err := fs.Open(l.active().name(logSuffix), os.O_RDWR)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Truncate(sizes[i]), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return acked
}

// openSome opens the logs of the journal tests and returns the error of each.
func openSome(t testing.TB, fs vfs.FS) (d *Dir, logs []*Log, failed []error) {
	t.Helper()
	d = openDir(t, fs)
	d.SetJournal(64<<10, 0)
	for i := range journalTestLogs {
		tp, id := journalTopic(i)
		l, err := d.Open(tp, id, DefaultConfig(), testStart)
		logs, failed = append(logs, l), append(failed, err)
	}
	if err := d.SyncRecovered(); err != nil {
		t.Fatal(err)
	}
	return d, logs, failed
}

// TestJournalWaitsForALogThatDoesNotOpen: whatever keeps a partition from being opened, at some starts, its records are there when
// it opens; the others are served meanwhile, and their journals do not get in between.
func TestJournalWaitsForALogThatDoesNotOpen(t *testing.T) {
	for name, rule := range map[string]faultfs.Rule{
		"full":       {Op: faultfs.OpWrite, Err: syscall.ENOSPC},
		"unreadable": {Op: faultfs.OpRead, Err: errIO},
	} {
		t.Run(name, func(t *testing.T) {
			fs := faultfs.Inject(vfs.NewMemory())
			format(t, fs)
			acked := journalOf(t, fs)
			tp, _ := journalTopic(1)
			rule.Name = tp.String() + "/0000"
			for start := range 3 {
				fs.Add(rule)
				d, logs, failed := openSome(t, fs)
				fs.Reset()
				for i := range logs {
					if (failed[i] != nil) != (i == 1) {
						t.Fatalf("start %d: log %d: %v", start, i, failed[i])
					}
				}
				fill(t, logs[0], 1, 0)
				flushSmall(t, d, logs[:1])
				acked[0] = bytesOf(t, logs[0])
				if err := d.Close(false, 0); err != nil {
					t.Fatal(err)
				}
			}
			d, logs, failed := openSome(t, fs)
			if err := errors.Join(failed...); err != nil {
				t.Fatal(err)
			}
			for i, l := range logs {
				if got := bytesOf(t, l); !bytes.Equal(got, acked[i]) {
					t.Errorf("log %d has %d bytes, want the %d that were acknowledged", i, len(got), len(acked[i]))
				}
			}
			if _, err := fs.Stat(d.keptName()); !vfs.IsNotExist(err) {
				t.Errorf("%s is still there: %v", d.keptName(), err)
			}
		})
	}
}

// TestJournalThatIsNone: whatever stands at the journal's name does not keep a directory from being opened, and takes no memory.
func TestJournalThatIsNone(t *testing.T) {
	for name, content := range map[string][]byte{
		"empty": {}, "short": make([]byte, 47), "zeros": make([]byte, 4096), "noise": bytes.Repeat([]byte{0xa5}, 4096),
		"entry of 4 GiB": bytes.Repeat([]byte{0xff}, 100),
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMemory()
			format(t, fs)
			d, logs := openJournaled(t, fs, 64<<10)
			want := bytesOf(t, logs[0])
			if err := errors.Join(d.Close(false, 0), vfs.WriteFile(fs, d.journalName(), content)); err != nil {
				t.Fatal(err)
			}
			d, logs = openJournaled(t, fs, 64<<10)
			if got := bytesOf(t, logs[0]); !bytes.Equal(got, want) {
				t.Errorf("the log has %d bytes, want %d", len(got), len(want))
			}
			if _, err := fs.Stat(d.journalName()); !vfs.IsNotExist(err) {
				t.Errorf("%s is still there: %v", d.journalName(), err)
			}
		})
	}
	t.Run("huge", func(t *testing.T) {
		dir := t.TempDir()
		name := dir + "/" + JournalFile
		if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Truncate(name, 1<<40)); err != nil {
			t.Fatal(err)
		}
		b, err := vfs.ReadStart(vfs.OS(), name, journalReadBytes)
		if err != nil || len(b) != journalReadBytes {
			t.Errorf("read %d bytes, %v, want %d", len(b), err, journalReadBytes)
		}
	})
}

// TestTruncationsOfOtherLogsLeaveTheJournalAlone: only what is in the journal has to be ended there, or it would grow without end.
func TestTruncationsOfOtherLogsLeaveTheJournalAlone(t *testing.T) {
	fs := vfs.NewMemory()
	format(t, fs)
	d, logs := openJournaled(t, fs, 64<<10)
	fill(t, logs[0], 1, 0)
	flushSmall(t, d, logs[:1])
	for range 3 {
		at := d.journal.at
		fill(t, logs[1], 1, 0)
		flush(t, logs[1])
		if err := logs[1].Truncate(3); err != nil {
			t.Fatal(err)
		}
		if d.journal.at != at {
			t.Errorf("the journal grew from %d to %d", at, d.journal.at)
		}
	}
	before := d.journal.at
	for range 3 {
		if err := logs[0].Truncate(3); err != nil {
			t.Fatal(err)
		}
		if err := logs[0].settleFor(logs[0].EndOffset()); err != nil {
			t.Fatal(err)
		}
	}
	if grown := d.journal.at - before; grown != journalHeaderBytes {
		t.Errorf("the journal grew by %d bytes for a log that was in it once, want %d", grown, journalHeaderBytes)
	}
}

// TestTruncationAfterAFullDisk: what a write left in the journal that found no room may be read after a power cut, so a truncation
// must end it although no round took it.
func TestTruncationAfterAFullDisk(t *testing.T) {
	fs := faultfs.Inject(vfs.NewMemory())
	format(t, fs)
	d, logs := openJournaled(t, fs, 64<<10)
	fill(t, logs[0], 1, 0)
	flushSmall(t, d, logs[:1])
	l := logs[1]
	want := bytesOf(t, l)
	end := l.EndOffset()
	fill(t, l, 1, 0)
	fs.Add(faultfs.Rule{Op: faultfs.OpWrite, Name: JournalFile, Err: syscall.ENOSPC, Written: 1 << 10})
	if others := flushSmall(t, d, []*Log{l}); len(others) != 1 {
		t.Fatal("a round on a full disk took the log")
	}
	fs.Reset()
	if err := errors.Join(l.Truncate(end), d.Close(false, 0)); err != nil {
		t.Fatal(err)
	}
	_, logs = openJournaled(t, fs, 64<<10)
	if got := bytesOf(t, logs[1]); !bytes.Equal(got, want) {
		t.Errorf("the log has %d bytes after a truncation and a power cut, want %d", len(got), len(want))
	}
}

// TestTruncationBeforeANewLap: a lap that has begun and holds nothing yet leaves the one before readable.
func TestTruncationBeforeANewLap(t *testing.T) {
	fs := vfs.NewMemory()
	format(t, fs)
	d, logs := openJournaled(t, fs, 64<<10)
	l := logs[0]
	want := bytesOf(t, l)
	end := l.EndOffset()
	fill(t, l, 1, 0)
	flushSmall(t, d, logs)
	if err := errors.Join(d.SettleJournal(), l.Truncate(end), d.Close(false, 0)); err != nil {
		t.Fatal(err)
	}
	_, logs = openJournaled(t, fs, 64<<10)
	if got := bytesOf(t, logs[0]); !bytes.Equal(got, want) {
		t.Errorf("the log has %d bytes after a truncation and a power cut, want %d", len(got), len(want))
	}
}

// TestKeptJournalEndsWithAStopInOrder: another broker has opened the partition meanwhile, and closed it in order.
func TestKeptJournalEndsWithAStopInOrder(t *testing.T) {
	fs := vfs.NewMemory()
	format(t, fs)
	d, _ := openJournaled(t, fs, 64<<10)
	marker := testDir + "/" + CleanShutdownFile
	err := errors.Join(d.Close(false, 0), vfs.WriteFile(fs, d.keptName(), []byte("kept")), vfs.WriteFile(fs, marker, []byte(`{"version":0,"brokerEpoch":1}`)))
	if err != nil {
		t.Fatal(err)
	}
	d, _ = openJournaled(t, fs, 64<<10)
	if _, err := fs.Stat(d.keptName()); !d.WasClean() || !vfs.IsNotExist(err) {
		t.Errorf("%s is still there: %v", d.keptName(), err)
	}
}
