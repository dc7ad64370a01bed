package commitlog

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/record/compress"
	"github.com/raftsman/raftsman/internal/vfs"
)

// The model test compacts random logs and compares what is left with a model that walks through all that was ever written. More
// seeds: COMPACT_SEEDS=1000 go test -run TestCompactionEqualsTheModel ./internal/commitlog

// modelBatch is a batch that is still in the log.
type modelBatch struct {
	base, last kafka.Offset
	pid        kafka.ProducerID
	epoch      kafka.ProducerEpoch
	txn        int // number of its transaction, 0 without one
	control    bool
	horizonMs  int64 // -1: none
	records    []modelRecord
}

type modelRecord struct {
	offset     kafka.Offset
	ms         int64
	key, value []byte // nil: none
	header     string
}

// compactModel is a log and what is in it.
type compactModel struct {
	t       *testing.T
	rand    *rand.Rand
	fs      vfs.FS
	log     *Log
	now     time.Time
	batches []*modelBatch
	aborted map[int]bool // by transaction; decided ones only
	openTxn map[kafka.ProducerID]int
	next    map[kafka.ProducerID]kafka.Sequence
	txns    int
	cleaned kafka.Offset
	counter int
}

func newCompactModel(t *testing.T, seed uint64) *compactModel {
	r := rand.New(rand.NewPCG(seed, 3))
	c := smallConfig()
	c.SegmentBytes, c.Compact, c.Delete = 600+r.IntN(4000), true, false
	c.IndexIntervalBytes = 50 + r.IntN(400)
	c.DeleteRetentionMs = int64(r.IntN(3)) * 5_000
	c.FileDeleteDelayMs = int64(r.IntN(2)) * 1000
	m := &compactModel{
		t: t, rand: r, fs: vfs.NewMemory(), now: testStart, aborted: map[int]bool{}, openTxn: map[kafka.ProducerID]int{},
		next: map[kafka.ProducerID]kafka.Sequence{},
	}
	m.log = newLog(t, m.fs, c)
	return m
}

// add appends a batch of a few records, of nobody, of an idempotent producer or of a transaction.
func (m *compactModel) add() {
	b := record.Builder{Compression: compress.Spec{Codec: compress.Codec(m.rand.IntN(5))}}
	batch := &modelBatch{base: m.log.EndOffset(), pid: kafka.NoProducer, epoch: -1, horizonMs: -1}
	n := 1 + m.rand.IntN(5)
	if kind := m.rand.IntN(4); kind > 0 {
		batch.pid, batch.epoch = kafka.ProducerID(m.rand.IntN(4)), 0
		b.Producer = &record.Producer{ID: batch.pid, BaseSequence: m.next[batch.pid]}
		m.next[batch.pid] = record.AddSequence(m.next[batch.pid], int32(n))
		if m.openTxn[batch.pid] == 0 && kind == 3 {
			m.txns++
			m.openTxn[batch.pid] = m.txns
		}
		batch.txn = m.openTxn[batch.pid]
		b.Transactional = batch.txn > 0
	}
	if m.rand.IntN(8) == 0 {
		b.LogAppendTimeMs = m.now.UnixMilli()
	}
	for i := range n {
		m.counter++
		r := modelRecord{offset: batch.base + kafka.Offset(i), ms: m.now.UnixMilli() + int64(m.rand.IntN(2000)-1000), header: "h" + strconv.Itoa(m.counter)}
		if m.rand.IntN(30) > 0 {
			r.key = fmt.Appendf(nil, "key %d", m.rand.IntN(25))
		}
		if m.rand.IntN(4) > 0 || r.key == nil {
			r.value = append(fmt.Appendf(nil, "value %d ", m.counter), bytes.Repeat([]byte{'x'}, m.rand.IntN(80))...)
		}
		b.Add(r.key, r.value, []record.Header{{Key: r.header}}, r.ms)
		if b.LogAppendTimeMs > 0 {
			r.ms = b.LogAppendTimeMs
		}
		batch.records = append(batch.records, r)
	}
	batch.last = batch.base + kafka.Offset(n-1)
	m.append(b.Build(), batch)
}

func (m *compactModel) append(b record.Batch, batch *modelBatch) {
	if _, err := m.log.Append(b, 0, m.now); err != nil {
		m.t.Fatalf("append: %v", err)
	}
	if done, ok := m.log.Producers().Apply(b, m.now); ok {
		m.log.NoteCompleted(done)
	}
	m.batches = append(m.batches, batch)
}

// end decides the transaction of a producer.
func (m *compactModel) end() {
	pids := slices.Sorted(maps.Keys(m.openTxn))
	if len(pids) == 0 {
		return
	}
	pid := pids[m.rand.IntN(len(pids))]
	txn, commit := m.openTxn[pid], m.rand.IntN(2) == 0
	delete(m.openTxn, pid)
	m.aborted[txn] = !commit
	ms := m.now.UnixMilli()
	at := m.log.EndOffset()
	m.append(record.EndTransaction(pid, 0, record.Marker{Commit: commit}, ms), &modelBatch{
		base: at, last: at, pid: pid, txn: txn, control: true, horizonMs: -1, records: []modelRecord{{offset: at, ms: ms}},
	})
}

// clean compacts the log, in steps of a random size, and does the same to the model.
func (m *compactModel) clean() {
	stable := m.log.Producers().LastStable(m.log.EndOffset())
	if m.rand.IntN(3) == 0 { // somebody waits for a flush
		stable = min(stable, kafka.Offset(m.rand.Int64N(int64(m.log.EndOffset())+1)))
	}
	found, err := m.log.Cleanable(m.now, stable)
	if err != nil {
		m.t.Fatalf("cleanable: %v", err)
	}
	if found.First != max(m.cleaned, m.log.StartOffset()) {
		m.t.Fatalf("the dirty range is [%d, %d), it was cleaned up to %d", found.First, found.End, m.cleaned)
	}
	if found.DirtyBytes == 0 {
		return
	}
	segments := m.log.Segments()
	o := CompactOptions{MapBytes: 1 << 20, MapLoadFactor: 0.9, BufferBytes: 1 + m.rand.IntN(3000), Producers: m.log.Producers().Lasts()}
	if m.rand.IntN(3) == 0 {
		o.MapBytes = int64(slotBytes * (2 + m.rand.IntN(30)))
	}
	c, err := m.log.Compact(found, o, m.now)
	if err != nil {
		m.t.Fatalf("compact: %v", err)
	}
	for done := false; !done; {
		if _, done, err = c.Step(int64(1 + m.rand.IntN(5000))); err != nil {
			m.t.Fatalf("compact [%d, %d): %v", found.First, found.End, err)
		}
	}
	c.Close()
	m.cleaned = c.Stats().Cleaned
	if m.cleaned <= found.First || m.cleaned > found.End {
		m.t.Fatalf("cleaned up to %d of [%d, %d)", m.cleaned, found.First, found.End)
	}
	end := m.cleaned // the segment that it lies in is cleaned whole
	for _, s := range segments {
		if s.Base < m.cleaned && s.Next > end {
			end = s.Next
		}
	}
	m.cleanModel(found, end, o.Producers)
}

func (m *compactModel) cleanModel(found Cleanable, end kafka.Offset, lasts map[kafka.ProducerID]producer.Last) {
	newest := map[string]kafka.Offset{}
	for _, b := range m.batches {
		for _, r := range b.records {
			if !b.control && !m.aborted[b.txn] && r.key != nil && r.offset >= found.First && r.offset < m.cleaned {
				newest[string(r.key)] = r.offset
			}
		}
	}
	nowMs := m.now.UnixMilli()
	with := map[int]bool{} // transactions that have a batch
	var left []*modelBatch
	for _, b := range m.batches {
		if b.base >= end {
			left = append(left, b)
			continue
		}
		passed := b.horizonMs >= 0 && b.horizonMs <= nowMs
		done := b.control && (len(b.records) == 0 || !with[b.txn])
		with[b.txn] = with[b.txn] || !b.control
		b.records = slices.DeleteFunc(b.records, func(r modelRecord) bool {
			switch latest, ok := newest[string(r.key)]; {
			case b.control:
				return done && passed
			case m.aborted[b.txn]:
				return true
			case r.offset >= m.cleaned:
				return false
			default:
				return r.key == nil || ok && latest > r.offset || r.value == nil && passed
			}
		})
		last, known := lasts[b.pid]
		needed := b.last+1 == found.End || known && last.Offset == b.last ||
			known && last.Offset < 0 && b.control && b.epoch == last.Epoch
		if len(b.records) == 0 {
			b.horizonMs = -1
			if needed {
				left = append(left, b)
			}
			continue
		}
		tombstone := !b.control && slices.ContainsFunc(b.records, func(r modelRecord) bool { return r.value == nil })
		if (tombstone || done) && b.horizonMs < 0 {
			b.horizonMs = nowMs + m.log.Config().DeleteRetentionMs
		}
		left = append(left, b)
	}
	m.batches = left
}

// check compares every batch and record, and what is found by offset and by time.
func (m *compactModel) check() {
	m.t.Helper()
	var got []string
	for _, b := range contents(m.t, m.log, 1+m.rand.IntN(3000)) {
		if b.Count() == 0 && b.HasDeleteHorizon() {
			m.t.Fatalf("an empty batch has a delete horizon")
		}
		horizon := int64(-1)
		if ms, ok := b.DeleteHorizonMs(); ok {
			horizon = ms
		}
		got = append(got, fmt.Sprintf("batch %d-%d producer %d control %v horizon %d", b.BaseOffset(), b.LastOffset(), b.ProducerID(), b.IsControl(), horizon))
		maxMs := int64(-1)
		for r, err := range b.Records(1 << 20) {
			if err != nil {
				m.t.Fatalf("records of the batch at %d: %v", b.BaseOffset(), err)
			}
			header := ""
			if len(r.Headers) > 0 {
				header = r.Headers[0].Key
			}
			if b.IsControl() {
				r.Key, r.Value = nil, nil
			}
			maxMs = max(maxMs, r.TimestampMs)
			got = append(got, fmt.Sprintf("%d at %d: %q %q %v %s", r.Offset, r.TimestampMs, r.Key, r.Value, r.Value == nil, header))
		}
		if b.Count() > 0 && b.MaxTimestampMs() != maxMs {
			m.t.Fatalf("the batch at %d says that its largest timestamp is %d, it is %d", b.BaseOffset(), b.MaxTimestampMs(), maxMs)
		}
	}
	var want []string
	for _, b := range m.batches {
		want = append(want, fmt.Sprintf("batch %d-%d producer %d control %v horizon %d", b.base, b.last, b.pid, b.control, b.horizonMs))
		for _, r := range b.records {
			want = append(want, fmt.Sprintf("%d at %d: %q %q %v %s", r.offset, r.ms, r.key, r.value, r.value == nil, r.header))
		}
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			m.t.Fatalf("line %d of %d and %d:\ngot  %s\nwant %s", i, len(got), len(want), lineAt(got, i), lineAt(want, i))
		}
	}
	checkIndexes(m.t, m.log)
	m.checkReads()
}

func lineAt(lines []string, i int) string {
	if i >= len(lines) {
		return "nothing"
	}
	return lines[i]
}

// checkReads wants each offset to find the batch that holds it, or the next one.
func (m *compactModel) checkReads() {
	m.t.Helper()
	end := m.log.EndOffset()
	i := 0
	for at := m.log.StartOffset(); at < end; at++ {
		for i < len(m.batches) && m.batches[i].last < at {
			i++
		}
		chunk, err := m.log.Read(at, end, 1, true)
		if err != nil {
			m.t.Fatalf("read at %d: %v", at, err)
		}
		if i == len(m.batches) {
			if chunk.Len != 0 || chunk.Next != end {
				m.t.Fatalf("read at %d: %d bytes, then %d, want nothing up to %d", at, chunk.Len, chunk.Next, end)
			}
			continue
		}
		b := make([]byte, chunk.Len)
		if _, err := chunk.File.ReadAt(b, chunk.Pos); err != nil {
			m.t.Fatalf("read chunk: %v", err)
		}
		chunk.Release()
		if got := record.Batch(b).BaseOffset(); got != m.batches[i].base {
			m.t.Fatalf("read at %d finds the batch at %d, want %d", at, got, m.batches[i].base)
		}
	}
}

// restart closes and opens the log, in order or not.
func (m *compactModel) restart(clean bool) {
	flush(m.t, m.log)
	if m.rand.IntN(2) == 0 {
		if err := m.log.Dir().WriteCheckpoints(); err != nil {
			m.t.Fatal(err)
		}
	}
	if clean {
		if err := m.log.Close(); err != nil {
			m.t.Fatalf("close log: %v", err)
		}
	}
	if err := m.log.Dir().Close(clean, 5); err != nil {
		m.t.Fatalf("close directory: %v", err)
	}
	d := openDir(m.t, m.fs)
	l, err := d.Open(testTopic, testID, m.log.Config(), m.now)
	if err != nil {
		m.t.Fatalf("open log: %v", err)
	}
	if err := d.SyncRecovered(); err != nil {
		m.t.Fatal(err)
	}
	m.log = l
	for _, p := range l.Producers().Producers() {
		if open := m.openTxn[p.ID] > 0; open != (p.TxnStartOffset >= 0) {
			m.t.Fatalf("after a restart producer %d has a transaction open since %d, want %v", p.ID, p.TxnStartOffset, open)
		}
		if p.LastSequence >= 0 && record.AddSequence(p.LastSequence, 1) != m.next[p.ID] {
			m.t.Fatalf("after a restart producer %d goes on from sequence %d, want %d", p.ID, p.LastSequence, m.next[p.ID])
		}
	}
}

func (m *compactModel) step() {
	m.now = m.now.Add(time.Duration(m.rand.IntN(1000)) * time.Millisecond)
	switch n := m.rand.IntN(100); {
	case n < 70:
		m.add()
	case n < 82:
		m.end()
	case n < 92:
		m.clean()
		m.check()
	case n < 95:
		if err := m.log.Dir().Sweep(m.now); err != nil {
			m.t.Fatalf("sweep: %v", err)
		}
	case n < 98:
		m.restart(n < 97)
		m.check()
	}
}

func compactSeeds(standard int) (first, count uint64) {
	first, _ = strconv.ParseUint(os.Getenv("COMPACT_SEED"), 10, 64)
	count, err := strconv.ParseUint(os.Getenv("COMPACT_SEEDS"), 10, 64)
	if err != nil {
		count = uint64(standard)
	}
	return first, count
}

func TestCompactionEqualsTheModel(t *testing.T) {
	first, count := compactSeeds(20)
	for seed := first; seed < first+count; seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("repeat: COMPACT_SEED=%d COMPACT_SEEDS=1 go test -run TestCompactionEqualsTheModel ./internal/commitlog", seed)
				}
			})
			m := newCompactModel(t, seed)
			for range 250 {
				m.step()
			}
			m.restart(false)
			m.clean()
			m.check()
		})
	}
}
