package record

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record/compress"
)

func TestSplitCutsWholeBatchesOff(t *testing.T) {
	first, second := build(goodMs), build(goodMs, codec(compress.LZ4))
	both := slices.Concat(first, second)
	b, rest, err := Split(both)
	if err != nil || !bytes.Equal(b, first) || !bytes.Equal(rest, second) {
		t.Fatalf("%d bytes, %d left, %v", len(b), len(rest), err)
	}
	if _, rest, err = Split(rest); err != nil || len(rest) != 0 {
		t.Fatalf("%d left, %v", len(rest), err)
	}
	for n := range first {
		if _, _, err := Split(first[:n]); !errors.Is(err, ErrShort) {
			t.Fatalf("%d of %d bytes: %v, want %v", n, len(first), err, ErrShort)
		}
	}
}

func TestSplitRefusesTheImpossible(t *testing.T) {
	for name, change := range map[string]func(Batch){
		"length -1":                  put32(posLength, -1),
		"length 0":                   put32(posLength, 0),
		"length less than a header":  put32(posLength, HeaderBytes-prefixBytes-1),
		"magic 1":                    func(b Batch) { b[posMagic] = 1 },
		"magic 3":                    func(b Batch) { b[posMagic] = 3 },
		"zeros, as a torn tail has":  func(b Batch) { clear(b) },
		"ones, as a bad sector has":  func(b Batch) { copy(b, bytes.Repeat([]byte{0xff}, len(b))) },
		"text, as a wrong file has":  func(b Batch) { copy(b, strings.Repeat("offset,key,value\n", 20)) },
		"length 0, magic right":      put32(posLength, 0),
		"least length of all, -2^31": put32(posLength, math.MinInt32),
	} {
		b := build(goodMs)
		change(b)
		_, _, err := Split(b)
		if _, ok := errors.AsType[*Malformed](err); !ok && !(strings.HasPrefix(name, "text") && errors.Is(err, ErrShort)) {
			t.Errorf("%s: %v, want a *Malformed", name, err)
		}
	}
}

func TestCheckFindsWhatNoBrokerWrites(t *testing.T) {
	if err := build(goodMs).Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(Batch){
		"count above the offsets":    put32(posCount, 4),
		"negative count":             put32(posCount, -1),
		"negative last offset delta": put32(posLastOffsetDelta, -1),
		"codec 6":                    put16(posAttributes, 6),
		"negative base offset":       put64(posBaseOffset, -1),
		"base offset at the end":     put64(posBaseOffset, math.MaxInt64-1),
		"another length":             put32(posLength, 60),
		"another magic":              func(b Batch) { b[posMagic] = 1 },
	} {
		b := build(goodMs)
		change(b)
		b.stampCRC()
		if err := b.Check(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	compacted := build(goodMs)
	put32(posLastOffsetDelta, 900)(compacted)
	compacted.stampCRC()
	if err := compacted.Check(); err != nil {
		t.Errorf("fewer records than offsets, as compaction leaves them: %v", err)
	}
	flipped := build(goodMs)
	flipped[len(flipped)-1] ^= 1
	if err := flipped.Check(); err == nil {
		t.Error("a flipped byte: no error")
	}
}

func TestStampsLeaveTheRestAlone(t *testing.T) {
	b := build(goodMs)
	b.SetBaseOffset(1 << 40)
	b.SetLeaderEpoch(12)
	if b.BaseOffset() != 1<<40 || b.LastOffset() != 1<<40+2 || b.NextOffset() != 1<<40+3 || b.LeaderEpoch() != 12 {
		t.Errorf("offsets %d to %d, next %d, epoch %d", b.BaseOffset(), b.LastOffset(), b.NextOffset(), b.LeaderEpoch())
	}
	if err := b.Check(); err != nil {
		t.Errorf("offset and epoch are outside the CRC: %v", err)
	}
	b.SetMaxTimestamp(goodMs+77, true)
	if err := b.Check(); err != nil {
		t.Error(err)
	}
	if b.MaxTimestampMs() != goodMs+77 || !b.LogAppendTime() || b.BaseTimestampMs() != goodMs-1000 {
		t.Errorf("max %d, append time %v, base %d", b.MaxTimestampMs(), b.LogAppendTime(), b.BaseTimestampMs())
	}
}

func TestRule51SequenceWrapsInABatch(t *testing.T) {
	b := build(goodMs, producedBy(1, 0, math.MaxInt32-1))
	if b.LastSequence() != 0 {
		t.Errorf("2147483646 and two more: %d, want 0", b.LastSequence())
	}
	if got := AddSequence(math.MaxInt32, 1); got != 0 {
		t.Errorf("2147483647 and one more: %d, want 0", got)
	}
	if got := build(goodMs).LastSequence(); got != -1 {
		t.Errorf("a batch without a sequence ends at %d, want -1", got)
	}
}

// TestBuilderRoundTrip: null and empty stay apart, in keys, values and header values.
func TestBuilderRoundTrip(t *testing.T) {
	want := []Record{
		{Key: []byte("k"), Value: []byte("v"), TimestampMs: goodMs},
		{Offset: 1, Key: nil, Value: []byte{}, TimestampMs: goodMs - 5},
		{Offset: 2, Key: []byte{}, Value: nil, TimestampMs: goodMs + 1<<33},
		{Offset: 3, Key: []byte("k"), Value: random(200_000), TimestampMs: -1, Headers: []Header{
			{Key: "one", Value: []byte("1")}, {Key: "", Value: []byte{}}, {Key: "null", Value: nil}, {Key: "ünï", Value: random(300)},
		}},
		{Offset: 4, Key: nil, Value: nil, TimestampMs: math.MinInt64},
		{Offset: 5, Key: nil, Value: nil, TimestampMs: math.MaxInt64},
	}
	for _, c := range benchCodecs {
		b := Builder{Compression: compress.Spec{Codec: c}}
		for _, r := range want {
			b.Add(r.Key, r.Value, r.Headers, r.TimestampMs)
		}
		batch := b.Build()
		if err := batch.Check(); err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		if batch.MaxTimestampMs() != math.MaxInt64 || batch.Count() != 6 || batch.Codec() != c || batch.ProducerID() != kafka.NoProducer {
			t.Errorf("%s: max %d, count %d, codec %s, producer %d", c, batch.MaxTimestampMs(), batch.Count(), batch.Codec(), batch.ProducerID())
		}
		i := 0
		for got, err := range batch.Records(1 << 20) {
			if err != nil {
				t.Fatalf("%s, record %d: %v", c, i, err)
			}
			if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want[i]) {
				t.Errorf("%s, record %d:\n%#v\nwant\n%#v", c, i, got, want[i])
			}
			i++
		}
		if i != len(want) {
			t.Errorf("%s: %d records", c, i)
		}
	}
}

// TestBatchesAreWhatFranzGoReads: another implementation parses what the builder makes, byte for byte.
func TestBatchesAreWhatFranzGoReads(t *testing.T) {
	b := build(goodMs, producedBy(4711, 5, 17))
	b.SetBaseOffset(99)
	b.SetLeaderEpoch(3)
	var theirs kmsg.RecordBatch
	if err := theirs.ReadFrom(b); err != nil {
		t.Fatal(err)
	}
	if got := theirs.AppendTo(nil); !bytes.Equal(got, b) {
		t.Errorf("written again it differs:\n%x\n%x", got, []byte(b))
	}
	if theirs.FirstOffset != 99 || theirs.PartitionLeaderEpoch != 3 || theirs.ProducerID != 4711 || theirs.ProducerEpoch != 5 ||
		theirs.FirstSequence != 17 || theirs.NumRecords != 3 || theirs.LastOffsetDelta != 2 || uint32(theirs.CRC) != b.CRC() ||
		theirs.FirstTimestamp != b.BaseTimestampMs() || theirs.MaxTimestamp != b.MaxTimestampMs() {
		t.Errorf("%+v", theirs)
	}
	rest := theirs.Records
	for r, err := range b.Records(0) {
		if err != nil {
			t.Fatal(err)
		}
		length, n := varint32(rest)
		var record kmsg.Record
		if err := record.ReadFrom(rest[:n+int(length)]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n+int(length):]
		if !bytes.Equal(record.Key, r.Key) || !bytes.Equal(record.Value, r.Value) || kafka.Offset(99+record.OffsetDelta) != r.Offset {
			t.Errorf("%+v, ours %+v", record, r)
		}
	}
}

func TestBuilderIsUsedAgain(t *testing.T) {
	for _, c := range benchCodecs {
		b := Builder{Compression: compress.Spec{Codec: c}}
		b.Add(nil, []byte("dropped"), nil, goodMs)
		b.Reset()
		if b.Count() != 0 || b.Len() != HeaderBytes {
			t.Errorf("%s: after Reset %d records, %d bytes", c, b.Count(), b.Len())
		}
		var kept []Batch
		for i := range 3 {
			b.Add(nil, []byte{byte('0' + i)}, nil, goodMs)
			kept = append(kept, b.Build())
		}
		for i, batch := range kept {
			for r, err := range batch.Records(100) {
				if err != nil || string(r.Value) != string(byte('0'+i)) {
					t.Errorf("%s, batch %d: %q, %v", c, i, r.Value, err)
				}
			}
		}
	}
}

func TestRecordsStopsEarlyAndAtTheLimit(t *testing.T) {
	for _, c := range benchCodecs {
		batch := builtOf(c, 100, 1000)
		for range batch.Records(1 << 20) {
			break
		}
		if c == compress.None {
			continue
		}
		var last error
		n := 0
		for _, err := range batch.Records(50_000) {
			last = err
			n++
		}
		if _, ok := errors.AsType[*compress.LimitError](last); !ok || n > 60 {
			t.Errorf("%s: %d steps, the last %v; want a LimitError", c, n, last)
		}
	}
}

func TestMarkers(t *testing.T) {
	for _, c := range []bool{true, false} {
		b := EndTransaction(12, 3, Marker{Commit: c, CoordinatorEpoch: 9}, goodMs)
		if err := b.Check(); err != nil {
			t.Fatal(err)
		}
		m, ok, err := b.Marker()
		if err != nil || !ok || m.Commit != c || m.CoordinatorEpoch != 9 {
			t.Errorf("%+v, %v, %v", m, ok, err)
		}
		if !b.IsControl() || !b.IsTransactional() || b.ProducerID() != 12 || b.ProducerEpoch() != 3 || b.BaseSequence() != -1 {
			t.Errorf("control %v, transactional %v, producer %d/%d/%d", b.IsControl(), b.IsTransactional(), b.ProducerID(), b.ProducerEpoch(), b.BaseSequence())
		}
	}
	if _, ok, err := build(goodMs).Marker(); ok || err != nil {
		t.Errorf("a batch of data is a marker: %v, %v", ok, err)
	}
	var b Builder
	b.Control = true
	b.Add(ControlKey(ControlLeaderChange), []byte("whatever"), nil, goodMs)
	leader := b.Build()
	if kind, value, ok, err := leader.Control(); kind != ControlLeaderChange || string(value) != "whatever" || !ok || err != nil {
		t.Errorf("%v %q %v %v", kind, value, ok, err)
	}
	if _, ok, err := leader.Marker(); ok || err != nil {
		t.Errorf("a leader change is a marker: %v, %v", ok, err)
	}
	b.Add([]byte{0}, nil, nil, goodMs)
	if _, _, _, err := b.Build().Control(); err == nil {
		t.Error("a control record with a key of one byte: no error")
	}
}

func TestOffsetForTimeLooksInsideTheBatch(t *testing.T) {
	for _, c := range benchCodecs {
		b := Builder{Compression: compress.Spec{Codec: c}}
		for _, ms := range []int64{20, 50, 30, 50, 40} {
			b.Add(nil, nil, nil, ms)
		}
		batch := b.Build()
		batch.SetBaseOffset(100)
		for _, want := range []struct {
			ask, ms int64
			offset  kafka.Offset
			ok      bool
		}{{0, 20, 100, true}, {20, 20, 100, true}, {21, 50, 101, true}, {50, 50, 101, true}, {51, -1, -1, false}} {
			offset, ms, ok, err := batch.OffsetForTime(want.ask, 1<<20)
			if err != nil || offset != want.offset || ms != want.ms || ok != want.ok {
				t.Errorf("%s, %d: offset %d at %d, %v, %v; want %+v", c, want.ask, offset, ms, ok, err, want)
			}
		}
		if offset, ms, err := batch.OffsetOfMaxTimestamp(1 << 20); err != nil || offset != 101 || ms != 50 {
			t.Errorf("%s: the latest is %d at %d, %v; want 101 at 50", c, offset, ms, err)
		}
	}
}

// TestBombsAreAdmittedInLittleMemory: what is large but honest passes, what is over the limit stops there, and neither costs
// memory. That a gigabyte stops at the limit is a test of package compress.
func TestBombsAreAdmittedInLittleMemory(t *testing.T) {
	for _, c := range benchCodecs[1:] {
		size := 20 << 20
		if c == compress.Zstd {
			size = 140 << 20
		}
		honest := bombBatch(t, c, size)
		rules := kindRules("plain")
		rules.MaxBytes = 100 << 20
		var err error
		used := allocated(func() { _, err = Admit(honest, rules) })
		if err != nil {
			t.Errorf("%s: %d MiB in %d bytes: %v", c, size>>20, len(honest), err)
		}
		t.Logf("%s: %d MiB in %d bytes: %d allocated", c, size>>20, len(honest), used)
		if used > 12<<20 {
			t.Errorf("%s: %d MiB in %d bytes: %d allocated", c, size>>20, len(honest), used)
		}
		rules.DecompressedMax = 10 << 20
		used = allocated(func() { _, err = Admit(honest, rules) })
		if !errors.Is(err, kafka.InvalidRecord) || used > 12<<20 {
			t.Errorf("%s: %d MiB where 10 are allowed: %v, %d allocated", c, size>>20, err, used)
		}
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// bombBatch is one record whose value is about n zeros. The decoders' own window is kept small, as in honest frames.
func bombBatch(t *testing.T, c compress.Codec, n int) Batch {
	t.Helper()
	b := build(goodMs)[:HeaderBytes:HeaderBytes]
	body := 3 + 1 + varintBytes(int64(n)) + n + 1
	head := appendVarint(nil, int64(body))
	head = append(head, 0, 0, 0, 1)
	head = appendVarint(head, int64(n))
	w := compress.NewWriter(compress.Spec{Codec: c, Level: 1}, b)
	if _, err := w.Write(head); err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for left := n; left > 0; left -= len(zeros) {
		if _, err := w.Write(zeros[:min(left, len(zeros))]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	b, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return seal(b, c, 1)
}

// TestAdmitReadsLongRecordsFieldByField: records longer than the decoder's pieces, with headers across their borders.
func TestAdmitReadsLongRecordsFieldByField(t *testing.T) {
	noise := random(3 << 20)
	for _, c := range benchCodecs {
		for _, n := range []int{60_000, 70_000, 200_000, 1 << 20} {
			b := Builder{Compression: compress.Spec{Codec: c}}
			b.Add(noise[:n], noise[n:2*n], []Header{{"a", noise[:n]}, {"b", nil}, {string(noise[:70_000]), []byte{}}}, goodMs)
			b.Add(nil, noise[:n], []Header{{"a", nil}}, goodMs-1)
			rules := kindRules("plain")
			rules.MaxBytes = 100 << 20
			a, err := Admit(b.Build(), rules)
			if err != nil {
				t.Errorf("%s, %d: %v", c, n, err)
				continue
			}
			checkSound(t, a)
			rules.Compacted = true
			if _, bad := codeOf(func() error { _, err := Admit(a.Batch, rules); return err }()); !slices.Equal(bad, []int32{1}) {
				t.Errorf("%s, %d: on a compacted topic records %v are named, want 1", c, n, bad)
			}
		}
	}
}

func TestAdmitDoesNotAllocateForPlainBatches(t *testing.T) {
	batch := builtOf(compress.None, 16, 1024)
	rules := kindRules("append-time")
	if n := testing.AllocsPerRun(100, func() {
		if _, err := Admit(batch, rules); err != nil {
			t.Fatal(err)
		}
		batch.SetMaxTimestamp(1, false)
	}); n != 0 {
		t.Errorf("%v allocations a batch", n)
	}
}

// FuzzAdmit: whatever is admitted is sound, and whatever is refused is refused with one of the answers.
func FuzzAdmit(f *testing.F) {
	for i, h := range hostiles() {
		f.Add(h.blob(testNowMs), uint8(i))
	}
	f.Fuzz(func(t *testing.T, input []byte, kind uint8) {
		blob := slices.Clone(input) // Admit stamps in place, and the input is not ours
		rules := kindRules(topicKinds[int(kind)%len(topicKinds)].name)
		rules.DecompressedMax = 1 << 20
		rules.TransactionalRequest = kind&0x80 != 0
		if b, _, err := Split(blob); err == nil && kind&0x40 != 0 {
			b.stampCRC() // or nearly nothing gets past it
		}
		a, err := Admit(blob, rules)
		if err == nil {
			checkSound(t, a)
			return
		}
		switch code, _ := codeOf(err); code {
		case kafka.InvalidRecord, kafka.CorruptMessage, kafka.MessageTooLarge, kafka.InvalidTimestamp,
			kafka.TransactionalIdAuthorizationFailed, kafka.UnsupportedCompressionType:
		default:
			t.Fatalf("refused with %v", err)
		}
	})
}

// FuzzBatch: views, checks and the walk over records end without a panic whatever the bytes are, and agree.
func FuzzBatch(f *testing.F) {
	for _, h := range hostiles() {
		f.Add(h.blob(testNowMs))
	}
	f.Fuzz(func(t *testing.T, blob []byte) {
		b, rest, err := Split(blob)
		if err != nil {
			if _, bad := errors.AsType[*Malformed](err); !bad && !errors.Is(err, ErrShort) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		if len(b)+len(rest) != len(blob) {
			t.Fatalf("%d and %d bytes of %d", len(b), len(rest), len(blob))
		}
		_ = b.Check()
		n := int32(0)
		for r, err := range b.Records(1 << 20) {
			if err != nil {
				break
			}
			n++
			if int64(len(r.Key)+len(r.Value)) > max(1<<20, int64(len(b))) {
				t.Fatal("a record beyond the limit")
			}
		}
		if n > max(b.Count(), 0) {
			t.Fatalf("%d records of %d", n, b.Count())
		}
		_, _, _ = b.Marker()
	})
}
