// Package condition is how a partition and a log directory are doing, as the broker knows it and Kafka's protocol has no field for:
// what compaction has cleaned, why a partition is not compacted any more, what of it is damaged, and how much room a directory
// keeps. It is sent in a tagged field of DescribeLogDirs, to those who ask for it with a tagged field of the request; both ends
// write and read it here. docs/format/condition.md shows the bytes.
package condition

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Tag is the number of the tagged field: of the request, of each partition's row and of each directory's row of the answer. It is
// far above those that Kafka gives out, one after the other from 0.
const Tag = 10_000

// Version is the newest layout that this package knows. A later one only adds at the end: who knows less passes that over.
const Version = 0

// TextBytesMax is the longest text that is sent; a longer one is cut.
const TextBytesMax = 1024

// bytesMax is more than any condition that is sent takes.
const bytesMax = 8 << 10

// Partition is the condition of one partition on one broker. The zero value has nothing to tell.
type Partition struct {
	Compaction  *Compaction // nil: its topic is not compacted, or how far is not known
	Uncleanable string      // why it is not compacted any more; "" if it is
	Damage      *Damage     // nil: none is known
}

// IsZero tells whether there is nothing to tell.
func (p *Partition) IsZero() bool {
	return p.Compaction == nil && p.Uncleanable == "" && p.Damage == nil
}

// Compaction is how far a log is compacted.
type Compaction struct {
	Cleaned    kafka.Offset // up to here; kafka.NoOffset: never
	CleanBytes int64        // in front of what is dirty
	DirtyBytes int64        // that compaction would clean now; what was written last is not among them
	OverdueMs  int64        // by how much the oldest dirty segment is beyond max.compaction.lag.ms
	CleanedMs  int64        // when it was cleaned last, since the broker started; -1: not since then
}

// Ratio is the dirty part of what would be cleaned, as min.cleanable.dirty.ratio counts it.
func (c *Compaction) Ratio() float64 {
	if c.CleanBytes+c.DirtyBytes <= 0 {
		return 0
	}
	return float64(c.DirtyBytes) / float64(c.CleanBytes+c.DirtyBytes)
}

// Damage is why a partition answers KAFKA_STORAGE_ERROR.
type Damage struct {
	File   string
	At     int64 // byte in the file
	Reason string
	Remedy string
}

// Directory is the condition of a log directory's file system.
type Directory struct {
	ReserveBytes    int64 // what is to stay free
	RefusedBatches  int64 // since the broker started, for want of room
	RefusesProduces bool  // only the reserve is left
	RefusesCommits  bool  // and most of that is used
}

// ErrMalformed is in the error about bytes that are no condition.
var ErrMalformed = errors.New("malformed condition")

// Asks is the content of the request's tagged field.
func Asks() []byte { return []byte{Version} }

// Asked tells whether the content of a request's tagged field asks for conditions of a version that this package writes.
func Asked(content []byte) bool { return len(content) == 1 && int8(content[0]) >= Version }

// What of a partition's condition is there.
const (
	hasCompaction = 1 << iota
	isUncleanable
	isDamaged
	known = hasCompaction | isUncleanable | isDamaged
)

// Append appends the condition's bytes to dst.
func (p *Partition) Append(dst []byte) []byte {
	has := byte(0)
	if p.Compaction != nil {
		has |= hasCompaction
	}
	if p.Uncleanable != "" {
		has |= isUncleanable
	}
	if p.Damage != nil {
		has |= isDamaged
	}
	dst = append(dst, Version, has)
	if c := p.Compaction; c != nil {
		dst = appendInts(dst, int64(c.Cleaned), c.CleanBytes, c.DirtyBytes, c.OverdueMs, c.CleanedMs)
	}
	if p.Uncleanable != "" {
		dst = appendText(dst, p.Uncleanable)
	}
	if d := p.Damage; d != nil {
		dst = appendText(appendInts(appendText(dst, d.File), d.At), d.Reason)
		dst = appendText(dst, d.Remedy)
	}
	return dst
}

// ReadPartition reads what Partition.Append wrote.
func ReadPartition(src []byte) (Partition, error) {
	r := newReader(src)
	var p Partition
	has := r.byte()
	if has&hasCompaction != 0 {
		p.Compaction = &Compaction{
			Cleaned: kafka.Offset(r.int64()), CleanBytes: r.int64(), DirtyBytes: r.int64(), OverdueMs: r.int64(), CleanedMs: r.int64(),
		}
	}
	if has&isUncleanable != 0 {
		if p.Uncleanable = r.text(); p.Uncleanable == "" {
			r.bad = true
		}
	}
	if has&isDamaged != 0 {
		p.Damage = &Damage{File: r.text(), At: r.int64(), Reason: r.text(), Remedy: r.text()}
	}
	if has&^known != 0 && r.version == Version {
		r.bad = true
	}
	if err := r.end("partition"); err != nil {
		return Partition{}, err
	}
	return p, nil
}

const (
	refusesProduces = 1 << iota
	refusesCommits
)

// Append appends the condition's bytes to dst.
func (d *Directory) Append(dst []byte) []byte {
	refuses := byte(0)
	if d.RefusesProduces {
		refuses |= refusesProduces
	}
	if d.RefusesCommits {
		refuses |= refusesCommits
	}
	return appendInts(append(dst, Version, refuses), d.ReserveBytes, d.RefusedBatches)
}

// ReadDirectory reads what Directory.Append wrote.
func ReadDirectory(src []byte) (Directory, error) {
	r := newReader(src)
	refuses := r.byte()
	d := Directory{
		RefusesProduces: refuses&refusesProduces != 0, RefusesCommits: refuses&refusesCommits != 0,
		ReserveBytes: r.int64(), RefusedBatches: r.int64(),
	}
	if refuses&^(refusesProduces|refusesCommits) != 0 && r.version == Version {
		r.bad = true
	}
	if err := r.end("directory"); err != nil {
		return Directory{}, err
	}
	return d, nil
}

func appendInts(dst []byte, values ...int64) []byte {
	for _, v := range values {
		dst = binary.BigEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}

// appendText appends a length of two bytes and the text, cut between two characters if it is too long.
func appendText(dst []byte, text string) []byte {
	if len(text) > TextBytesMax {
		n := TextBytesMax
		for n > TextBytesMax-utf8.UTFMax && !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n]
	}
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(text))), text...)
}

// reader takes values off the front of src. Once something was missing, bad is set and every value is zero.
type reader struct {
	src     []byte
	version int8
	bad     bool
}

func newReader(src []byte) *reader {
	r := &reader{src: src, bad: len(src) > bytesMax}
	if r.version = int8(r.byte()); r.version < 0 {
		r.bad = true
	}
	return r
}

func (r *reader) span(n int) []byte {
	if r.bad || n > len(r.src) {
		r.bad = true
		return make([]byte, min(n, 8))
	}
	b := r.src[:n]
	r.src = r.src[n:]
	return b
}

func (r *reader) byte() byte   { return r.span(1)[0] }
func (r *reader) int64() int64 { return int64(binary.BigEndian.Uint64(r.span(8))) }

func (r *reader) text() string {
	n := int(binary.BigEndian.Uint16(r.span(2)))
	if n > TextBytesMax {
		r.bad = true
	}
	if b := r.span(n); !r.bad {
		return string(b)
	}
	return ""
}

// end refuses what was too short, and what is too long for its version.
func (r *reader) end(of string) error {
	if r.bad || len(r.src) > 0 && r.version == Version {
		return fmt.Errorf("%w of a %s, version %d", ErrMalformed, of, r.version)
	}
	return nil
}
