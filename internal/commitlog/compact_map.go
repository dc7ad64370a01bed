package commitlog

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/raftsman/raftsman/internal/kafka"
)

// offsetMap remembers the newest offset of each key, in memory that is fixed when it is made. Keys are told apart by 16 bytes of
// their SHA-256: nobody can make two keys that are taken for one, so that a record would be dropped for another's sake.
type offsetMap struct {
	slots  []slot
	used   int
	max    int          // keys that it takes
	latest kafka.Offset // all below and this one have been put in
}

// slot is empty while next is 0.
type slot struct {
	hash [16]byte
	next kafka.Offset // one above the newest offset
}

const slotBytes = 24

// newOffsetMap returns a map that takes so much memory, or less if that holds keys for all of the offsets. At least one key
// fits in any case.
func newOffsetMap(bytes, offsets int64, loadFactor float64) *offsetMap {
	most := max(bytes/slotBytes, 2)
	slots := most
	if want := float64(offsets)/loadFactor + 2; want < float64(most) {
		slots = int64(want)
	}
	return &offsetMap{
		slots: make([]slot, slots), latest: kafka.NoOffset,
		max: int(min(max(int64(float64(slots)*loadFactor), 1), slots-1)), // one slot stays empty: it ends each search
	}
}

// find returns the slot that has the key, or is free for it.
func (m *offsetMap) find(key []byte) (at *slot, hash [16]byte) {
	sum := sha256.Sum256(key)
	copy(hash[:], sum[:])
	n := uint64(len(m.slots))
	for i := binary.LittleEndian.Uint64(hash[:]) % n; ; i = (i + 1) % n {
		at = &m.slots[i]
		if at.next == 0 || at.hash == hash {
			return at, hash
		}
	}
}

// put notes a record. It is false where the map is full.
func (m *offsetMap) put(key []byte, offset kafka.Offset) bool {
	if m.used == m.max {
		return false
	}
	at, hash := m.find(key)
	if at.next == 0 {
		m.used++
		at.hash = hash
	}
	at.next = offset + 1
	m.latest = offset
	return true
}

// supersedes tells whether a record of the key was put in that is newer than the offset.
func (m *offsetMap) supersedes(key []byte, offset kafka.Offset) bool {
	at, _ := m.find(key)
	return at.next > offset+1
}
