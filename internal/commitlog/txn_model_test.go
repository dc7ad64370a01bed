package commitlog

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

var txnSeed = flag.Uint64("txnseed", 0, "the one seed that TestTransactionsAreThoseOfTheModel plays")

// TestTransactionsAreThoseOfTheModel plays random transactions of several producers, truncations, retention, stops of all kinds
// and lost or damaged files, and compares last stable offset and aborted transactions with what a plain list of the batches says.
func TestTransactionsAreThoseOfTheModel(t *testing.T) {
	if *txnSeed != 0 {
		playTxns(t, *txnSeed)
		return
	}
	seeds := crashSeeds(60)
	if testing.Short() {
		seeds = 10
	}
	first := uint64(time.Now().UnixNano())
	for seed := first; seed < first+uint64(seeds) && !t.Failed(); seed++ {
		if playTxns(t, seed); t.Failed() {
			t.Logf("to repeat it: go test -run TestTransactionsAreThoseOfTheModel ./internal/commitlog -txnseed %d", seed)
		}
	}
}

// txnModel is the log under test beside a list of what was written to it.
type txnModel struct {
	*testing.T
	rand    *rand.Rand
	disk    *faultfs.Disk
	log     *Log
	batches []record.Batch
	next    map[kafka.ProducerID]kafka.Sequence
	high    kafka.Offset
	// Where the history begins that the log can know of, as snapshots were lost after retention had taken what was before.
	trimmed bool // indexes may tell of what was before it
	told    []string
}

func playTxns(t *testing.T, seed uint64) {
	m := &txnModel{T: t, rand: rand.New(rand.NewPCG(seed, 3)), disk: faultfs.NewDisk(seed), next: map[kafka.ProducerID]kafka.Sequence{}}
	c := smallConfig()
	c.SegmentBytes, c.FileDeleteDelayMs = 600+m.rand.IntN(2500), 0
	c.RetentionBytes = int64(2000 + m.rand.IntN(10000))
	m.log = newLog(t, m.disk, c)
	m.append(idempotent(0, 0, 1, testStart.UnixMilli()))
	m.next[0]++
	flush(t, m.log) // or a power cut takes the whole log
	defer func() {
		if t.Failed() {
			t.Logf("seed %d: %s", seed, strings.Join(m.told, ", "))
		}
	}()
	for range 250 {
		m.step()
		if !m.disk.Off() {
			m.check()
		}
		if t.Failed() {
			return
		}
	}
}

// failed lets a power cut pass, which the next step ends.
func (m *txnModel) failed(err error) bool {
	if err != nil && !m.disk.Off() {
		m.Fatal(err)
	}
	return err != nil
}

func (m *txnModel) flush() {
	m.note("flush at %d", m.log.EndOffset())
	_, err := m.log.Flush()
	m.failed(err)
}

func (m *txnModel) note(format string, args ...any) {
	m.told = append(m.told, fmt.Sprintf(format, args...))
}

func (m *txnModel) step() {
	if m.disk.Off() {
		m.disk.Restart()
		m.note("power cut")
		m.open()
		return
	}
	if m.rand.IntN(40) == 0 {
		m.disk.CutAt(m.rand.IntN(30))
	}
	id := kafka.ProducerID(m.rand.IntN(5))
	switch n := m.rand.IntN(100); {
	case n < 45:
		transactional := id > 0
		b := record.Builder{Producer: &record.Producer{ID: id, BaseSequence: m.next[id]}, Transactional: transactional}
		count := 1 + m.rand.IntN(4)
		for range count {
			b.Add(nil, make([]byte, m.rand.IntN(100)), nil, testStart.UnixMilli())
		}
		m.next[id] += kafka.Sequence(count)
		m.append(b.Build())
	case n < 70:
		m.append(record.EndTransaction(max(id, 1), 0, record.Marker{Commit: m.rand.IntN(2) == 0, CoordinatorEpoch: 1}, testStart.UnixMilli()))
	case n < 80:
		m.flush()
	case n < 84:
		m.truncate()
	case n < 88:
		m.retain()
	default:
		m.stop()
	}
}

func (m *txnModel) append(b record.Batch) {
	_, err := m.log.Append(b, 0, testStart)
	m.batches = append(m.batches, bytes.Clone(b)) // also after a power cut it may be there
	m.note("%d: %d %s", b.BaseOffset(), b.ProducerID(), kindOf(b))
	if m.failed(err) {
		return
	}
	if done, ok := m.log.Producers().Apply(b, testStart); ok {
		m.log.NoteCompleted(done)
	}
}

func kindOf(b record.Batch) string {
	switch marker, ok, _ := b.Marker(); {
	case b.IsControl() && ok && marker.Commit:
		return "commit"
	case b.IsControl():
		return "abort"
	}
	return "data"
}

func (m *txnModel) truncate() {
	start, end := m.log.StartOffset(), m.log.EndOffset()
	to := end - kafka.Offset(m.rand.Int64N(min(int64(end-start), 30)+1))
	err := m.log.Truncate(to)
	m.note("truncate to %d: %d", to, m.log.EndOffset())
	if m.failed(err) {
		return
	}
	m.cut()
}

// cut forgets what the log has lost at its end.
func (m *txnModel) cut() {
	for n := len(m.batches); n > 0 && m.batches[n-1].BaseOffset() >= m.log.EndOffset(); n-- {
		m.batches = m.batches[:n-1]
	}
	m.high = m.log.EndOffset()
}

func (m *txnModel) retain() {
	m.flush()
	if m.rand.IntN(2) == 0 {
		if err := m.log.SetStart(m.log.StartOffset() + kafka.Offset(m.rand.Int64N(int64(m.log.EndOffset()-m.log.StartOffset())+1))); err != nil {
			m.Fatal(err)
		}
	}
	if _, err := m.log.Retain(testStart, m.log.EndOffset()); m.failed(err) {
		return
	}
	if m.failed(m.log.Dir().Sweep(testStart)) {
		return
	}
	m.note("retain: %d to %d", m.log.StartOffset(), m.log.EndOffset())
}

// stop ends the log in order, by a kill or a power cut, and loses some of its files.
func (m *txnModel) stop() {
	clean, power := m.rand.IntN(2) == 0, m.rand.IntN(3) == 0
	if clean {
		end := (*Log).Close
		if m.log.EndOffset()%2 == 0 {
			end = (*Log).CloseBriefly
		}
		if m.failed(end(m.log)) {
			return
		}
		power = false
	}
	if power {
		m.disk.Restart()
	} else if m.failed(m.log.Dir().Close(clean, 5)) {
		return
	}
	m.note("stop clean %v power %v", clean, power)
	if m.rand.IntN(2) == 0 {
		m.disk.CutAt(-1)
		m.lose()
	}
	m.open()
}

func (m *txnModel) open() {
	d, err := OpenDir(m.disk, testDir, testRandom(1))
	if m.failed(err) {
		return
	}
	l, err := d.Open(testTopic, testID, m.log.Config(), testStart)
	if m.failed(err) || m.failed(d.SyncRecovered()) {
		return
	}
	m.log = l
	m.note("opened %d to %d", l.StartOffset(), l.EndOffset())
	m.cut()
}

// lose removes or damages some of the files that can be made anew.
func (m *txnModel) lose() {
	folder := filepath.Join(testDir, testTopic.String())
	entries, err := m.disk.ReadDir(folder)
	if err != nil {
		m.Fatal(err)
	}
	percent := []int{20, 100}[m.rand.IntN(2)]
	for _, e := range entries {
		isSnapshot := strings.HasSuffix(e.Name, snapshotSuffix)
		if !isSnapshot && !strings.HasSuffix(e.Name, txnIndexSuffix) || m.rand.IntN(100) >= percent {
			continue
		}
		name := filepath.Join(folder, e.Name)
		content, err := vfs.ReadFile(m.disk, name)
		if err != nil {
			m.Fatal(err)
		}
		if len(content) < 2 || m.rand.IntN(2) == 0 {
			err = m.disk.Remove(name)
		} else {
			if isSnapshot {
				content[m.rand.IntN(len(content))] ^= 1 << m.rand.IntN(8)
			} else {
				content = content[:len(content)-1-m.rand.IntN(min(len(content), txnEntryBytes)-1)]
				if len(content)%txnEntryBytes == 0 { // of what was cut before: nobody can tell a file that lacks whole entries
					content = content[:max(len(content)-1, 0)]
				}
			}
			err = vfs.WriteFile(m.disk, name, content)
		}
		if err != nil {
			m.Fatal(err)
		}
		m.note("lost %s", e.Name)
		if base := m.log.Segments()[0].Base; isSnapshot && base > 0 {
			m.trimmed = true
		}
	}
}

// modelTxn is a transaction, as one finds it by reading everything.
type modelTxn struct {
	id            kafka.ProducerID
	first, marker kafka.Offset // no marker while it is open
	aborted       bool
}

func (m *txnModel) txns() []modelTxn {
	var all []modelTxn
	open := map[kafka.ProducerID]int{}
	for _, b := range m.batches {
		at, isOpen := open[b.ProducerID()]
		switch kind := kindOf(b); {
		case !b.IsTransactional():
		case kind == "data" && !isOpen:
			open[b.ProducerID()] = len(all)
			all = append(all, modelTxn{id: b.ProducerID(), first: b.BaseOffset(), marker: kafka.NoOffset})
		case kind != "data" && isOpen:
			all[at].marker, all[at].aborted = b.BaseOffset(), kind == "abort"
			delete(open, b.ProducerID())
		}
	}
	return all
}

func (m *txnModel) check() {
	start, end := m.log.StartOffset(), m.log.EndOffset()
	txns := m.txns()
	m.high += kafka.Offset(m.rand.Int64N(int64(end-m.high) + 1))
	if want, got := m.stable(txns), m.log.Producers().LastStable(m.high); got != want && !m.trimmed {
		m.Errorf("high watermark %d: the last stable offset is %d, want %d", m.high, got, want)
	}
	for range 3 {
		from := start + kafka.Offset(m.rand.Int64N(int64(end-start)+1))
		to := from + kafka.Offset(m.rand.Int64N(int64(end-from)+1))
		got, err := m.log.AbortedTxns(from, to)
		if m.failed(err) { // it may have to write an index
			return
		}
		m.checkAborted(txns, got, from, to)
	}
}

func (m *txnModel) stable(txns []modelTxn) kafka.Offset {
	stable := m.high
	for _, txn := range txns {
		if txn.marker < 0 || txn.marker >= m.high {
			stable = min(stable, txn.first)
		}
	}
	return stable
}

// checkAborted wants the list to be the aborted transactions of a range, and a client that goes by it to see what is committed.
func (m *txnModel) checkAborted(txns []modelTxn, got []AbortedTxn, from, to kafka.Offset) {
	var want, is []string
	for _, txn := range txns {
		if txn.aborted && txn.marker >= from && txn.first < to {
			want = append(want, fmt.Sprintf("%020d %d from %d", txn.marker, txn.id, txn.first))
		}
	}
	slices.Sort(want)
	for _, txn := range got {
		is = append(is, fmt.Sprintf("%020d %d from %d", txn.LastOffset, txn.ProducerID, txn.FirstOffset))
		if txn.LastOffset < from || txn.FirstOffset >= to {
			m.Errorf("[%d, %d): the transaction %+v lies elsewhere", from, to, txn)
		}
	}
	if !m.trimmed && from < to && !slices.Equal(want, is) {
		m.Errorf("[%d, %d): aborted are\n%q, want\n%q", from, to, is, want)
	}
	aborting := map[kafka.ProducerID]bool{} // as consumers of committed records do
	for _, b := range m.batches {
		if b.LastOffset() < from || b.BaseOffset() >= to || !b.IsTransactional() {
			continue
		}
		for _, txn := range got {
			if txn.FirstOffset <= b.LastOffset() && txn.LastOffset >= b.LastOffset() {
				aborting[txn.ProducerID] = true
			}
		}
		if b.IsControl() {
			delete(aborting, b.ProducerID())
			continue
		}
		i := slices.IndexFunc(txns, func(txn modelTxn) bool {
			return txn.id == b.ProducerID() && txn.first <= b.BaseOffset() && (txn.marker < 0 || txn.marker > b.BaseOffset())
		})
		if txns[i].marker >= 0 && aborting[b.ProducerID()] != txns[i].aborted {
			m.Errorf("[%d, %d): the batch at %d is of %+v; the list %+v", from, to, b.BaseOffset(), txns[i], got)
		}
	}
}
