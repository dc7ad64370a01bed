// Package compress reads and writes the four codecs of Kafka's record batches, as Kafka's own clients write them: gzip,
// snappy in xerial's framing or as one raw block, lz4 frames, and zstd. Readers stream, stop at a limit, and are pooled; none
// of them starts a goroutine.
package compress

import (
	"errors"
	"fmt"
)

// Codec is the number of a codec in the lowest three bits of a batch's attributes.
type Codec int8

// The codecs that Kafka has.
const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

// WindowMax is the largest window that a zstd frame may declare: Java's zstd at level 22 asks for just this.
const WindowMax = 128 << 20

var names = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// Known tells whether Kafka has the codec: the attribute bits could also say 5, 6 or 7.
func (c Codec) Known() bool { return c >= None && c <= Zstd }

// String returns the name in Kafka's configuration.
func (c Codec) String() string {
	if !c.Known() {
		return fmt.Sprintf("unknown(%d)", int8(c))
	}
	return names[c]
}

// Parse reads the name of a codec as compression.type has it; "uncompressed" is None too. "producer" is no codec.
func Parse(name string) (Codec, bool) {
	if name == "uncompressed" {
		return None, true
	}
	for i, known := range names {
		if name == known {
			return Codec(i), true
		}
	}
	return None, false
}

// Spec says how to compress: a codec and its level. Level 0 is the codec's default, and so is what a codec does not know.
type Spec struct {
	Codec Codec
	Level int
}

// ErrCorrupt is what every reader's error wraps when the compressed bytes are not what the codec writes.
var ErrCorrupt = errors.New("corrupt compressed data")

// LimitError is returned when a payload holds more than the caller allows.
type LimitError struct {
	Limit int64 // bytes that the caller allowed
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("more than %d bytes when decompressed", e.Limit)
}
