package record

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record/compress"
)

// ControlType is what a control record says, in its key.
type ControlType int16

// The control records of Kafka 4.4.
const (
	ControlAbort          ControlType = 0
	ControlCommit         ControlType = 1
	ControlLeaderChange   ControlType = 2
	ControlSnapshotHeader ControlType = 3
	ControlSnapshotFooter ControlType = 4
	ControlKRaftVersion   ControlType = 5
	ControlVoters         ControlType = 6
)

var controlNames = [...]string{
	"ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS",
}

// String returns Kafka's name of the type.
func (t ControlType) String() string {
	if t < 0 || int(t) >= len(controlNames) {
		return "UNKNOWN(" + strconv.Itoa(int(t)) + ")"
	}
	return controlNames[t]
}

// ControlKey is the key of a control record: a version, 0, and the type.
func ControlKey(t ControlType) []byte {
	return binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(t))
}

// ParseControlKey reads a control record's key. Newer versions may append fields, so longer keys are taken.
func ParseControlKey(key []byte) (ControlType, bool) {
	if len(key) < 4 || int16(binary.BigEndian.Uint16(key)) < 0 {
		return 0, false
	}
	return ControlType(binary.BigEndian.Uint16(key[2:])), true
}

// Marker ends a transaction in a partition.
type Marker struct {
	Commit           bool // false: abort
	CoordinatorEpoch int32
}

// EndTransaction builds the control batch that ends the producer's transaction.
func EndTransaction(id kafka.ProducerID, epoch kafka.ProducerEpoch, m Marker, timestampMs int64) Batch {
	b := Builder{Producer: &Producer{ID: id, Epoch: epoch, BaseSequence: -1}, Transactional: true, Control: true}
	kind := ControlAbort
	if m.Commit {
		kind = ControlCommit
	}
	b.Add(ControlKey(kind), binary.BigEndian.AppendUint32([]byte{0, 0}, uint32(m.CoordinatorEpoch)), nil, timestampMs)
	return b.Build()
}

// controlMax bounds a control batch when it is read: those that this package reads are a few bytes, and Kafka never compresses
// them.
const controlMax = 1 << 20

// Control returns the first control record's type and value, which aliases an uncompressed batch. ok is false for batches that are not
// control batches, or that compaction has emptied.
func (b Batch) Control() (t ControlType, value []byte, ok bool, err error) {
	if !b.IsControl() {
		return 0, nil, false, nil
	}
	for r, err := range b.Records(controlMax) {
		if err != nil {
			return 0, nil, false, err
		}
		t, known := ParseControlKey(r.Key)
		if !known {
			return 0, nil, false, malformed("a control record's key of %d bytes", len(r.Key))
		}
		if b.Codec() != compress.None {
			return t, bytes.Clone(r.Value), true, nil
		}
		return t, r.Value, true, nil
	}
	return 0, nil, false, nil
}

// Marker returns the end-of-transaction marker that the batch is. ok is false for every other batch.
func (b Batch) Marker() (m Marker, ok bool, err error) {
	t, value, ok, err := b.Control()
	if err != nil || !ok || t != ControlAbort && t != ControlCommit {
		return Marker{}, false, err
	}
	if len(value) < 6 {
		return Marker{}, false, malformed("an end-of-transaction marker of %d bytes", len(value))
	}
	return Marker{Commit: t == ControlCommit, CoordinatorEpoch: int32(binary.BigEndian.Uint32(value[2:]))}, true, nil
}
