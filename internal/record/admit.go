package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record/compress"
)

// Rules say which produced batches a topic takes, and how they are stored.
type Rules struct {
	NowMs    int64 // the broker's clock
	MaxBytes int   // max.message.bytes: of the batch as sent, and again after it was compressed anew
	// MaxRecordBytes is max.decompressed.message.bytes: of one record in a compressed batch. 0 allows any.
	MaxRecordBytes int
	Compacted      bool // cleanup.policy has compact: every record needs a key
	LogAppendTime  bool // message.timestamp.type
	// TransactionalRequest tells that the request names a transactional id that the client may use.
	TransactionalRequest bool
	// BeforeMaxMs and AfterMaxMs are message.timestamp.before.max.ms and .after.max.ms; they bind only CreateTime.
	BeforeMaxMs, AfterMaxMs int64
	// DecompressedMax is raftsman.batch.decompressed.bytes.max; 0 means DecompressedMaxDefault.
	DecompressedMax int64
	// Compression is compression.type with its level, and nil for "producer": as sent.
	Compression *compress.Spec
}

// DecompressedMaxDefault is the most that one batch may hold when it is decompressed.
const DecompressedMaxDefault = 256 << 20

// Admitted is a batch that may be stored: the log only stamps its base offset and leader epoch.
type Admitted struct {
	Batch           Batch // the admitted bytes themselves, stamped in place, or new ones where they had to be written anew
	Count           int32
	MaxTimestampMs  int64
	LogAppendTimeMs int64 // -1 for CreateTime
}

// Invalid tells which records make a whole batch refused.
type Invalid struct {
	Code    kafka.Error
	Message string
	Records []InvalidRecord // in order; no more than the first thousand
}

// InvalidRecord is one record that was refused.
type InvalidRecord struct {
	Index   int32 // in the batch
	Message string
}

// invalidMax bounds how many bad records of a batch are listed: a client logs them at most.
const invalidMax = 1000

func (e *Invalid) Error() string { return e.Code.Error() + ": " + e.Message }

// Unwrap makes errors.Is(err, kafka.InvalidRecord) true for an Invalid with that code.
func (e *Invalid) Unwrap() error { return e.Code }

// Admit decides about one partition's bytes of a Produce as Kafka's broker does. They must be one batch; every record in it is
// looked at, once, without allocating for it, and nothing is believed that was not counted. The bytes are stamped in place:
// append time, the true largest timestamp. Only where the topic demands another codec, or the records' offsets are not 0, 1, 2…,
// is the batch written anew. The error is a kafka.Error, a *kafka.Refusal or an *Invalid.
func Admit(b []byte, r Rules) (Admitted, error) {
	batch, err := only(b)
	if err != nil {
		return Admitted{}, err
	}
	if err := batch.admitHeader(&r); err != nil {
		return Admitted{}, err
	}
	w := walk{batch: batch, rules: r, maxMs: noTimestamp}
	w.oldestMs, w.newestMs = r.window()
	if err := w.run(); err != nil {
		return Admitted{}, err
	}
	a := Admitted{Batch: batch, Count: batch.Count(), MaxTimestampMs: w.maxMs, LogAppendTimeMs: noTimestamp}
	if r.LogAppendTime {
		a.MaxTimestampMs, a.LogAppendTimeMs = r.NowMs, r.NowMs
	}
	target := compress.Spec{Codec: batch.Codec()}
	if r.Compression != nil && r.Compression.Codec != target.Codec {
		target = *r.Compression
	} else if !w.disordered {
		batch.SetMaxTimestamp(a.MaxTimestampMs, r.LogAppendTime)
		return a, nil
	}
	a.Batch, err = batch.rewrite(target, &r)
	return a, err
}

// only returns the one batch in b. What it answers to bytes that are none, or more, is what Kafka answers: an incomplete
// batch counts as absent, so one that is longer than the bytes is no batch at all, and a torn one after it is cut off.
func only(b []byte) (Batch, error) {
	first, size, err := peel(b)
	if err != nil {
		return nil, err
	}
	if size == 0 {
		return nil, kafka.Refuse(kafka.InvalidRecord, "%d bytes hold no whole record batch", len(b))
	}
	if first[posMagic] != Magic {
		return nil, kafka.Refuse(kafka.InvalidRecord, "a batch of magic %d: only magic %d is taken", first[posMagic], Magic)
	}
	if size < HeaderBytes {
		return nil, kafka.Refuse(kafka.CorruptMessage, "a batch of %d bytes is shorter than its header", size)
	}
	if _, another, err := peel(b[size:]); err != nil || another > 0 {
		if err == nil {
			err = kafka.Refuse(kafka.InvalidRecord, "more than one batch for a partition")
		}
		return nil, err
	}
	return Batch(first), nil
}

// peel cuts one batch of any magic off b; the size is 0 when b ends before it.
func peel(b []byte) (first []byte, size int, err error) {
	if len(b) < prefixBytes {
		return nil, 0, nil
	}
	length := int32(binary.BigEndian.Uint32(b[posLength:]))
	if length < smallestBatchBytes {
		return nil, 0, kafka.Refuse(kafka.CorruptMessage, "a batch of length %d", length)
	}
	if len(b) <= posMagic {
		return nil, 0, nil
	}
	if magic := int8(b[posMagic]); magic < 0 || magic > Magic {
		return nil, 0, kafka.Refuse(kafka.CorruptMessage, "a batch of magic %d", magic)
	}
	if int64(len(b)) < prefixBytes+int64(length) {
		return nil, 0, nil
	}
	size = prefixBytes + int(length)
	return b[:size:size], size, nil
}

// admitHeader checks what the header says, in Kafka's order.
func (b Batch) admitHeader(r *Rules) error {
	if b.IsTransactional() && !r.TransactionalRequest {
		return kafka.TransactionalIdAuthorizationFailed
	}
	if b.BaseOffset() != 0 {
		return kafka.Refuse(kafka.InvalidRecord, "base offset %d: a producer's is 0", b.BaseOffset())
	}
	if len(b) > r.MaxBytes {
		return kafka.Refuse(kafka.MessageTooLarge, "a batch of %d bytes: the topic takes %d (max.message.bytes)", len(b), r.MaxBytes)
	}
	if err := b.CheckCRC(); err != nil {
		return kafka.Refuse(kafka.CorruptMessage, "%v", err)
	}
	if !b.Codec().Known() {
		return kafka.Refuse(kafka.UnsupportedCompressionType, "codec %d", b.Codec())
	}
	delta, count := b.LastOffsetDelta(), b.Count()
	if delta < 0 || count <= 0 || int64(count) != int64(delta)+1 {
		return kafka.Refuse(kafka.InvalidRecord, "%d records for offsets 0 to %d", count, delta)
	}
	if b.IsControl() {
		return kafka.Refuse(kafka.InvalidRecord, "control batches are the broker's to write")
	}
	if b.ProducerID() >= 0 && b.BaseSequence() < 0 {
		return kafka.Refuse(kafka.InvalidRecord, "sequence %d with producer id %d", b.BaseSequence(), b.ProducerID())
	}
	return nil
}

// walk looks at every record of a batch.
type walk struct {
	batch Batch
	rules Rules
	scan  scanner
	maxMs int64
	// Timestamps between these two need no closer look: judge decides about the others.
	oldestMs, newestMs int64
	disordered         bool // the offset deltas are not 0, 1, 2…
	invalid            *Invalid
}

// skimBytes is the length from which a record that lies in more than one piece is read field by field instead of gathered.
const skimBytes = 64 << 10

func (w *walk) run() error {
	limit := w.rules.DecompressedMax
	if limit == 0 {
		limit = DecompressedMaxDefault
	}
	if err := w.scan.open(w.batch, limit); err != nil {
		return w.refuse(err)
	}
	defer w.scan.close()
	bodyMax := int32(math.MaxInt32)
	if w.rules.MaxRecordBytes > 0 && w.scan.src != nil {
		bodyMax = int32(min(w.rules.MaxRecordBytes, math.MaxInt32))
	}
	base := w.batch.BaseTimestampMs()
	suspect := w.batch.LogAppendTime()
	for i := range w.batch.Count() {
		delta, offset, hasKey, n := quick(w.scan.buf)
		if n > 0 && n <= int(bodyMax) {
			w.scan.buf = w.scan.buf[n:]
		} else {
			f, err := w.next(bodyMax)
			if err != nil {
				return w.refuse(err)
			}
			delta, offset, hasKey = f.timestampDelta, f.offsetDelta, f.key != nil
		}
		ms := base + delta
		w.maxMs = max(w.maxMs, ms)
		if offset != i {
			w.disordered = true
		}
		if !hasKey && w.rules.Compacted || suspect || ms < w.oldestMs || ms > w.newestMs {
			w.judge(i, ms, hasKey)
		}
	}
	if !w.scan.end() {
		return w.refuse(errRecordsMore)
	}
	if !errors.Is(w.scan.failed, io.EOF) {
		return w.refuse(w.scan.failed)
	}
	if w.invalid != nil {
		return w.invalid
	}
	return nil
}

// window returns timestamps between which every record is surely young and old enough; the bounds themselves and beyond are
// for judge, whose arithmetic is Kafka's.
func (r *Rules) window() (oldestMs, newestMs int64) {
	if r.LogAppendTime {
		return math.MinInt64, math.MaxInt64
	}
	oldestMs = 0
	if r.BeforeMaxMs < r.NowMs {
		oldestMs = r.NowMs - max(r.BeforeMaxMs, 0) + 1
	}
	return oldestMs, r.NowMs
}

// next reads one record.
func (w *walk) next(bodyMax int32) (fields, error) {
	s := &w.scan
	length, _, ok := s.varint()
	if !ok {
		return fields{}, s.err()
	}
	if length < 0 {
		return fields{}, errRecord
	}
	if length > bodyMax {
		return fields{}, malformed("a record of %d bytes when decompressed: the topic takes %d (max.decompressed.message.bytes)",
			length, bodyMax)
	}
	if int(length) > len(s.buf) && length > skimBytes && s.src != nil {
		return s.skim(int(length))
	}
	body, ok := s.take(int(length))
	if !ok {
		return fields{}, s.err()
	}
	return parse(body)
}

// judge applies the rules to one record.
func (w *walk) judge(i int32, ms int64, hasKey bool) {
	r := &w.rules
	if r.Compacted && !hasKey {
		w.reject(kafka.InvalidRecord, i, "a compacted topic takes no record without a key")
		return
	}
	if claimed := w.batch.MaxTimestampMs(); w.batch.LogAppendTime() && (r.LogAppendTime || claimed == noTimestamp) {
		w.reject(kafka.InvalidTimestamp, i, "a producer must not say that the broker set the time")
		return
	} else if w.batch.LogAppendTime() && !r.allow(claimed) {
		ms = claimed // Kafka looks at this one alone; the record's own, which stays when the claim goes, must be right as well
	}
	if !r.LogAppendTime && !r.allow(ms) {
		w.reject(kafka.InvalidTimestamp, i, fmt.Sprintf("timestamp %d is not within %d and %d", ms, r.NowMs-r.BeforeMaxMs,
			r.NowMs+r.AfterMaxMs))
	}
}

// allow tells whether a producer may give a record this time. The arithmetic wraps as Kafka's does.
func (r *Rules) allow(ms int64) bool {
	age := r.NowMs - ms
	return ms == noTimestamp || age <= r.BeforeMaxMs && -age <= r.AfterMaxMs
}

func (w *walk) reject(code kafka.Error, i int32, message string) {
	if w.invalid == nil {
		w.invalid = &Invalid{Code: code, Message: "records were refused, and so the whole batch"}
	}
	if code == kafka.InvalidTimestamp {
		w.invalid.Code = code
	}
	if len(w.invalid.Records) < invalidMax {
		w.invalid.Records = append(w.invalid.Records, InvalidRecord{Index: i, Message: message})
	}
}

// refuse turns what the records made go wrong into an answer.
func (w *walk) refuse(err error) error {
	if bad, ok := errors.AsType[*Malformed](err); ok {
		return kafka.Refuse(kafka.InvalidRecord, "%s", bad.Reason)
	}
	return kafka.Refuse(kafka.InvalidRecord, "%v", err)
}

// skim reads a long record field by field and passes over its bytes. Of key and value it keeps only whether they are null.
func (s *scanner) skim(length int) (fields, error) {
	var f fields
	left := length
	if _, ok := s.byte(); !ok {
		return f, s.err()
	}
	left--
	delta, n, ok := s.varlong()
	if !ok {
		return f, s.shortOr(errRecord)
	}
	left -= n
	f.timestampDelta = delta
	if f.offsetDelta, n, ok = s.varint(); !ok {
		return f, s.shortOr(errRecord)
	}
	left -= n
	hasKey, err := s.skimBytes(&left)
	if err != nil {
		return f, err
	}
	if hasKey {
		f.key = []byte{}
	}
	if _, err := s.skimBytes(&left); err != nil {
		return f, err
	}
	count, n, ok := s.varint()
	left -= n
	if !ok {
		return f, s.shortOr(errRecord)
	}
	if count < 0 || int(count) > left/2 {
		return f, errRecord
	}
	for range count {
		named, err := s.skimBytes(&left)
		if err != nil {
			return f, err
		}
		if !named {
			return f, errRecord
		}
		if _, err := s.skimBytes(&left); err != nil {
			return f, err
		}
	}
	if left != 0 {
		return f, errRecord
	}
	return f, nil
}

// skimBytes passes over a length and its bytes, of which left remain in the record. It tells whether they are not null.
func (s *scanner) skimBytes(left *int) (bool, error) {
	size, n, ok := s.varint()
	if !ok {
		return false, s.shortOr(errRecord)
	}
	*left -= n
	if size < 0 {
		if *left < 0 {
			return false, errRecord
		}
		return false, nil
	}
	if int(size) > *left {
		return false, errRecord
	}
	*left -= int(size)
	if !s.skip(int(size)) {
		return false, s.err()
	}
	return true, nil
}

// shortOr is err, unless the bytes ran out, which is then the reason.
func (s *scanner) shortOr(err error) error {
	if s.failed != nil && len(s.buf) == 0 {
		return s.err()
	}
	return err
}

// rewrite makes the batch anew: in another codec, and with offsets from 0 on. The walk has found it sound.
func (b Batch) rewrite(target compress.Spec, r *Rules) (Batch, error) {
	limit := r.DecompressedMax
	if limit == 0 {
		limit = DecompressedMaxDefault
	}
	build := Builder{Compression: target, Transactional: b.IsTransactional()}
	if b.ProducerID() >= 0 {
		build.Producer = &Producer{ID: b.ProducerID(), Epoch: b.ProducerEpoch(), BaseSequence: b.BaseSequence()}
	}
	if r.LogAppendTime {
		build.LogAppendTimeMs = r.NowMs
	}
	var s scanner
	if err := s.open(b, limit); err != nil {
		return nil, err
	}
	defer s.close()
	base := b.BaseTimestampMs()
	for range b.Count() {
		body, err := s.body()
		if err != nil {
			return nil, err
		}
		f, err := parse(body)
		if err != nil {
			return nil, err
		}
		build.addBody(body[f.afterDeltas:], base+f.timestampDelta)
		if build.written() > r.MaxBytes {
			build.Reset()
			return nil, tooLargeRewritten(target, r)
		}
	}
	rewritten := build.Build()
	if len(rewritten) > r.MaxBytes {
		return nil, tooLargeRewritten(target, r)
	}
	return rewritten, nil
}

func tooLargeRewritten(target compress.Spec, r *Rules) error {
	return kafka.Refuse(kafka.MessageTooLarge, "the batch is larger than the topic takes, %d bytes (max.message.bytes), in codec %s",
		r.MaxBytes, target.Codec)
}
