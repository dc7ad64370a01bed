package record

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record/compress"
)

// codeOf is what the client is told.
func codeOf(err error) (kafka.Error, []int32) {
	if err == nil {
		return kafka.None, nil
	}
	if invalid, ok := errors.AsType[*Invalid](err); ok {
		var bad []int32
		for _, r := range invalid.Records {
			bad = append(bad, r.Index)
		}
		return invalid.Code, bad
	}
	code, _ := kafka.Answer(err)
	return code, nil
}

func TestAdmitAnswersAsKafkaDoes(t *testing.T) {
	for _, h := range hostiles() {
		t.Run(h.kind()+"/"+h.name, func(t *testing.T) {
			admitted, err := Admit(h.blob(testNowMs), kindRules(h.kind()))
			if got, bad := codeOf(err); got != h.want || !slices.Equal(bad, h.bad) {
				t.Fatalf("got %v (%v), records %v; want %v, %v", got, err, bad, h.want, h.bad)
			}
			if err == nil {
				checkSound(t, admitted)
			}
		})
	}
}

// checkSound holds what was admitted against its own records.
func checkSound(t *testing.T, a Admitted) {
	t.Helper()
	if err := a.Batch.Check(); err != nil {
		t.Fatal(err)
	}
	n, maxMs := int32(0), int64(noTimestamp)
	for r, err := range a.Batch.Records(DecompressedMaxDefault) {
		if err != nil {
			t.Fatalf("record %d: %v", n, err)
		}
		if r.Offset != kafka.Offset(n) {
			t.Fatalf("record %d has offset %d", n, r.Offset)
		}
		n++
		maxMs = max(maxMs, r.TimestampMs)
	}
	if n != a.Count || n != a.Batch.Count() {
		t.Errorf("%d records, %d admitted, the header says %d", n, a.Count, a.Batch.Count())
	}
	if maxMs != a.MaxTimestampMs || maxMs != a.Batch.MaxTimestampMs() {
		t.Errorf("the records' largest timestamp is %d, admitted %d, the header says %d", maxMs, a.MaxTimestampMs, a.Batch.MaxTimestampMs())
	}
	if stamped := a.LogAppendTimeMs >= 0; stamped != a.Batch.LogAppendTime() {
		t.Errorf("append time %d, the attributes say %v", a.LogAppendTimeMs, a.Batch.LogAppendTime())
	}
}

// TestRule38BatchSizeLimit: the limit is on the batch as it was sent, compressed.
func TestRule38BatchSizeLimit(t *testing.T) {
	rules := kindRules("plain")
	plainBatch := builtOf(compress.None, 1, 1100)
	rules.MaxBytes = 1000
	if _, err := Admit(plainBatch, rules); !errors.Is(err, kafka.MessageTooLarge) {
		t.Errorf("%d bytes where %d are taken: %v, want %v", len(plainBatch), rules.MaxBytes, err, kafka.MessageTooLarge)
	}
	packed := builtOf(compress.Gzip, 1, 1100)
	if _, err := Admit(packed, rules); err != nil {
		t.Errorf("%d bytes that unpack to more: %v", len(packed), err)
	}
	exact := builtOf(compress.None, 1, 900)
	rules.MaxBytes = len(exact)
	if _, err := Admit(exact, rules); err != nil {
		t.Errorf("exactly the limit: %v", err)
	}
	rules.MaxBytes--
	if _, err := Admit(exact, rules); !errors.Is(err, kafka.MessageTooLarge) {
		t.Errorf("one byte over the limit: %v", err)
	}
}

// builtOf is a batch of n records whose values have the size.
func builtOf(c compress.Codec, n, size int) Batch {
	b := Builder{Compression: compress.Spec{Codec: c}}
	for i := range n {
		b.Add([]byte(fmt.Sprintf("key-%06d", i)), bytes.Repeat([]byte{byte('a' + i%26)}, size), nil, goodMs+int64(i))
	}
	return b.Build()
}

// TestRule40NullKeyOnCompactedTopic: the answer names the records, and the whole batch is refused.
func TestRule40NullKeyOnCompactedTopic(t *testing.T) {
	for _, c := range []compress.Codec{compress.None, compress.Gzip, compress.Snappy, compress.LZ4, compress.Zstd} {
		_, err := Admit(mixedKeys(c)(testNowMs), kindRules("compacted"))
		code, bad := codeOf(err)
		if code != kafka.InvalidRecord || !slices.Equal(bad, []int32{1, 3}) {
			t.Errorf("%s: %v naming %v, want %v naming 1 and 3", c, code, bad, kafka.InvalidRecord)
		}
		if _, err := Admit(mixedKeys(c)(testNowMs), kindRules("plain")); err != nil {
			t.Errorf("%s on a topic that is not compacted: %v", c, err)
		}
	}
}

// TestRule41CRC: every byte from the attributes on is covered, and none before.
func TestRule41CRC(t *testing.T) {
	good := build(testNowMs)
	for at := posCRC; at < len(good); at++ {
		b := slices.Clone(good)
		b[at] ^= 0x10
		_, err := Admit(b, kindRules("plain"))
		if code, _ := codeOf(err); code != kafka.CorruptMessage && code != kafka.TransactionalIdAuthorizationFailed {
			t.Errorf("byte %d flipped: %v, want %v", at, err, kafka.CorruptMessage)
		}
	}
	for at := posLeaderEpoch; at < posMagic; at++ {
		b := slices.Clone(good)
		b[at] ^= 0x10
		if _, err := Admit(b, kindRules("plain")); err != nil {
			t.Errorf("leader epoch byte %d flipped: %v, want none: it is the broker's to set", at, err)
		}
	}
}

// TestRule42BatchShape: one forged field at a time.
func TestRule42BatchShape(t *testing.T) {
	runNamed(t, "two batches", "last offset delta too large", "count 0", "control bit", "negative sequence", "base offset 5",
		"magic 0", "magic 1", "magic 3", "transactional bit without a transactional id",
		"transactional control batch without a transactional id")
}

// TestRule43MalformedInnerData: nothing is stored that was not read.
func TestRule43MalformedInnerData(t *testing.T) {
	runNamed(t, "batch length -1", "batch length 13", "batch length 48", "batch length one too short", "batch length one too long",
		"one record less than the count, none", "one record more than the count, zstd", "a byte after the last record, lz4",
		"header count of a thousand million, gzip", "value length of 2 GB, snappy")
}

func runNamed(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		i := slices.IndexFunc(hostiles(), func(h hostile) bool { return h.name == name })
		if i < 0 {
			t.Fatalf("no case %q", name)
		}
		h := hostiles()[i]
		if _, err := Admit(h.blob(testNowMs), kindRules(h.kind())); !errors.Is(err, h.want) {
			t.Errorf("%s: %v, want %v", name, err, h.want)
		}
	}
}

// TestRule44LogAppendTimeInAnswer: the broker's time where the topic has it, else -1.
func TestRule44LogAppendTimeInAnswer(t *testing.T) {
	for _, c := range []compress.Codec{compress.None, compress.Zstd} {
		a, err := Admit(build(testNowMs, codec(c)), kindRules("append-time"))
		if err != nil || a.LogAppendTimeMs != testNowMs {
			t.Errorf("%s, append time: %d, %v; want %d", c, a.LogAppendTimeMs, err, int64(testNowMs))
		}
		a, err = Admit(build(testNowMs, codec(c)), kindRules("plain"))
		if err != nil || a.LogAppendTimeMs != -1 {
			t.Errorf("%s, create time: %d, %v; want -1", c, a.LogAppendTimeMs, err)
		}
	}
}

// TestRule45LogAppendTimeInBatch: the attribute, the timestamp and the CRC are redone, and every record has that time.
func TestRule45LogAppendTimeInBatch(t *testing.T) {
	for _, c := range []compress.Codec{compress.None, compress.Gzip, compress.Snappy, compress.LZ4, compress.Zstd} {
		a, err := Admit(build(2, codec(c)), kindRules("append-time"))
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		if !a.Batch.LogAppendTime() || a.Batch.MaxTimestampMs() != testNowMs {
			t.Errorf("%s: attributes %04x, max timestamp %d", c, a.Batch.Attributes(), a.Batch.MaxTimestampMs())
		}
		if err := a.Batch.CheckCRC(); err != nil {
			t.Errorf("%s: %v", c, err)
		}
		for r, err := range a.Batch.Records(1 << 20) {
			if err != nil || r.TimestampMs != testNowMs {
				t.Errorf("%s: a record of %d, %v", c, r.TimestampMs, err)
			}
		}
	}
}

// TestRule52NegativeSequence is an invalid record, not a gap.
func TestRule52NegativeSequence(t *testing.T) {
	_, err := Admit(build(testNowMs, producedBy(1, 0, -5)), kindRules("plain"))
	if !errors.Is(err, kafka.InvalidRecord) {
		t.Errorf("sequence -5: %v, want %v", err, kafka.InvalidRecord)
	}
}

func TestAdmitKeepsTheBytesOfAnHonestBatch(t *testing.T) {
	for _, c := range []compress.Codec{compress.None, compress.Gzip, compress.Snappy, compress.LZ4, compress.Zstd} {
		sent := builtOf(c, 50, 100)
		before := slices.Clone(sent)
		a, err := Admit(sent, kindRules("plain"))
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		if &a.Batch[0] != &sent[0] || !bytes.Equal(sent, before) {
			t.Errorf("%s: the batch was not kept as it was sent", c)
		}
	}
}

func TestAdmitRewritesInTheTopicsCodec(t *testing.T) {
	codecs := []compress.Codec{compress.None, compress.Gzip, compress.Snappy, compress.LZ4, compress.Zstd}
	for _, from := range codecs {
		for _, to := range codecs {
			t.Run(fmt.Sprintf("%s to %s", from, to), func(t *testing.T) {
				sent := builtOf(from, 2000, 100)
				want := collect(t, sent)
				rules := kindRules("plain")
				rules.Compression = &compress.Spec{Codec: to}
				a, err := Admit(sent, rules)
				if err != nil {
					t.Fatal(err)
				}
				if a.Batch.Codec() != to {
					t.Errorf("stored in %s", a.Batch.Codec())
				}
				checkSound(t, a)
				if got := collect(t, a.Batch); got != want {
					t.Errorf("the records changed")
				}
			})
		}
	}
}

// collect prints the records.
func collect(t *testing.T, b Batch) string {
	t.Helper()
	var out bytes.Buffer
	for r, err := range b.Records(DecompressedMaxDefault) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%d %d %q %q", r.Offset, r.TimestampMs, r.Key, r.Value)
		for _, h := range r.Headers {
			fmt.Fprintf(&out, " %q=%q", h.Key, h.Value)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func TestAdmitKeepsTheProducerWhenItRewrites(t *testing.T) {
	rules := kindRules("gzip")
	rules.TransactionalRequest = true
	sent := build(testNowMs, producedBy(7, 3, math.MaxInt32), func(b *Builder) { b.Transactional = true })
	a, err := Admit(sent, rules)
	if err != nil {
		t.Fatal(err)
	}
	b := a.Batch
	if b.ProducerID() != 7 || b.ProducerEpoch() != 3 || b.BaseSequence() != math.MaxInt32 || b.LastSequence() != 1 || !b.IsTransactional() {
		t.Errorf("producer %d epoch %d sequences %d to %d, transactional %v", b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(),
			b.LastSequence(), b.IsTransactional())
	}
}

func TestAdmitListsNoMoreThanAThousandBadRecords(t *testing.T) {
	var b Builder
	for range 5000 {
		b.Add(nil, []byte("v"), nil, goodMs)
	}
	_, err := Admit(b.Build(), kindRules("compacted"))
	if code, bad := codeOf(err); code != kafka.InvalidRecord || len(bad) != invalidMax {
		t.Errorf("%v with %d records listed, want %v with %d", code, len(bad), kafka.InvalidRecord, invalidMax)
	}
}
