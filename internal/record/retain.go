package record

import (
	"encoding/binary"

	"github.com/raftsman/raftsman/internal/record/compress"
)

// Retention says what compaction leaves of a batch.
type Retention struct {
	// Keep is asked about each record in turn; nil keeps none. The record is valid during the call.
	Keep func(r Record) bool
	// KeepEmpty lets a batch that loses its last record stay as a header: its last sequence, or its last offset, still matters.
	KeepEmpty bool
	// HorizonMs becomes the delete horizon (KIP-534) of a batch that has none, if it keeps a tombstone or IsDone is set.
	HorizonMs int64
	// IsDone marks a control batch whose transaction has no records any more.
	IsDone bool
}

// Retain returns what stays of the batch: b itself, where that is all of it; nil, where nothing is left; otherwise a new batch of
// the same offsets, producer and codec. The error tells that the records do not make sense or unpack to more than the limit.
func (b Batch) Retain(r Retention, maxDecompressed int64) (kept Batch, records int, err error) {
	c := retaining{from: b, horizonMs: noTimestamp}
	if err := c.choose(r, maxDecompressed); err != nil {
		return nil, 0, err
	}
	if c.count == 0 {
		if r.KeepEmpty {
			return b.emptied(), 0, nil
		}
		return nil, 0, nil
	}
	stamp := (c.tombstone || r.IsDone) && !b.HasDeleteHorizon()
	switch {
	case c.count == len(c.stays) && !stamp:
		return b, c.count, nil
	case stamp:
		c.horizonMs = r.HorizonMs
	case b.HasDeleteHorizon():
		c.horizonMs = b.BaseTimestampMs()
	}
	kept, err = c.rebuild(maxDecompressed)
	return kept, c.count, err
}

// retaining is a batch on its way through Retain.
type retaining struct {
	from      Batch
	stays     []bool // by record
	count     int    // of those that stay
	tombstone bool   // one that stays has no value
	firstMs   int64  // of those that stay
	maxMs     int64
	horizonMs int64 // -1: none

	out    []byte // header and, uncompressed, the records
	writer *compress.Writer
	raw    []byte // records that the encoder did not get yet
}

// choose decides about every record.
func (c *retaining) choose(r Retention, maxDecompressed int64) error {
	c.maxMs = noTimestamp
	for rec, err := range c.from.Bare(maxDecompressed) {
		if err != nil {
			return err
		}
		stays := r.Keep != nil && r.Keep(rec)
		c.stays = append(c.stays, stays)
		if !stays {
			continue
		}
		if c.count == 0 {
			c.firstMs = rec.TimestampMs
		}
		c.count++
		c.tombstone = c.tombstone || rec.Value == nil
		c.maxMs = max(c.maxMs, rec.TimestampMs)
	}
	return nil
}

// rebuild writes the records that stay. Their bytes after the deltas are the old ones.
func (c *retaining) rebuild(maxDecompressed int64) (Batch, error) {
	b := c.from
	baseMs := c.firstMs
	if c.horizonMs >= 0 {
		baseMs = c.horizonMs
	}
	c.out = make([]byte, HeaderBytes, len(b)+maxOverhead)
	if codec := b.Codec(); codec != compress.None {
		c.writer = compress.NewWriter(compress.Spec{Codec: codec}, c.out)
	}
	var s scanner
	if err := s.open(b, maxDecompressed); err != nil {
		return nil, err
	}
	defer s.close()
	for _, stays := range c.stays {
		body, err := s.body()
		if err != nil {
			return nil, err
		}
		if !stays {
			continue
		}
		f, err := parse(body)
		if err != nil {
			return nil, err
		}
		ms := b.BaseTimestampMs() + f.timestampDelta
		if b.LogAppendTime() {
			ms = b.MaxTimestampMs()
		}
		if err := c.add(body[0], ms-baseMs, f.offsetDelta, body[f.afterDeltas:]); err != nil {
			return nil, err
		}
	}
	return c.finish(baseMs)
}

func (c *retaining) add(attributes byte, timestampDelta int64, offsetDelta int32, rest []byte) error {
	dst := c.out
	if c.writer != nil {
		dst = c.raw
	}
	dst = appendVarint(dst, int64(1+varintBytes(timestampDelta)+varintBytes(int64(offsetDelta))+len(rest)))
	dst = append(dst, attributes)
	dst = appendVarint(dst, timestampDelta)
	dst = appendVarint(dst, int64(offsetDelta))
	dst = append(dst, rest...)
	if c.writer == nil {
		c.out = dst
		return nil
	}
	c.raw = dst
	if len(c.raw) < builderFlush {
		return nil
	}
	return c.flush()
}

func (c *retaining) flush() error {
	_, err := c.writer.Write(c.raw)
	c.raw = c.raw[:0]
	return err
}

// finish puts the header before the records: the old one, but for what changed.
func (c *retaining) finish(baseMs int64) (Batch, error) {
	if c.writer != nil {
		if err := c.flush(); err != nil {
			return nil, err
		}
		out, err := c.writer.Close()
		if err != nil {
			return nil, err
		}
		c.out = out
	}
	h := Batch(c.out)
	copy(h, c.from[:HeaderBytes])
	attributes := h.Attributes() &^ bitDeleteHorizon
	if c.horizonMs >= 0 {
		attributes |= bitDeleteHorizon
	}
	if !h.LogAppendTime() {
		binary.BigEndian.PutUint64(h[posMaxTimestamp:], uint64(c.maxMs))
	}
	h.setCompacted(attributes, baseMs, c.count)
	return h, nil
}

// emptied is the batch without its records.
func (b Batch) emptied() Batch {
	h := make(Batch, HeaderBytes)
	copy(h, b)
	h.setCompacted(h.Attributes()&^(bitDeleteHorizon|codecMask), noTimestamp, 0)
	return h
}

func (b Batch) setCompacted(attributes int16, baseMs int64, count int) {
	binary.BigEndian.PutUint32(b[posLength:], uint32(len(b)-prefixBytes))
	binary.BigEndian.PutUint16(b[posAttributes:], uint16(attributes))
	binary.BigEndian.PutUint64(b[posBaseTimestamp:], uint64(baseMs))
	binary.BigEndian.PutUint32(b[posCount:], uint32(count))
	b.stampCRC()
}

// DeleteHorizonMs is when compaction may drop the tombstones of the batch, or its marker; ok is false for a batch that was not
// cleaned since it has one.
func (b Batch) DeleteHorizonMs() (ms int64, ok bool) {
	return b.BaseTimestampMs(), b.HasDeleteHorizon()
}

// RecordsMaxTimestampMs is the largest timestamp of the records that are in the batch, -1 without any: what the header of a
// batch that compaction has emptied says belongs to records that are gone.
func (b Batch) RecordsMaxTimestampMs() int64 {
	if b.Count() == 0 {
		return noTimestamp
	}
	return b.MaxTimestampMs()
}
