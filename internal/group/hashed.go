package group

import (
	"encoding/binary"
	"slices"
	"unicode/utf16"
)

// hashed is bytes to be hashed, as Java's hash4j lines them up.
type hashed []byte

func (h *hashed) uint32(v uint32) { *h = binary.LittleEndian.AppendUint32(*h, v) }
func (h *hashed) uint64(v uint64) { *h = binary.LittleEndian.AppendUint64(*h, v) }

// string adds the units of UTF-16, then how many there are.
func (h *hashed) string(s string) {
	units := utf16.Encode([]rune(s))
	for _, u := range units {
		*h = binary.LittleEndian.AppendUint16(*h, u)
	}
	h.uint32(uint32(len(units)))
}

func reversed(b []byte) []byte {
	r := slices.Clone(b)
	slices.Reverse(r)
	return r
}
