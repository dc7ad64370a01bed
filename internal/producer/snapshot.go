package producer

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// The .snapshot file, Kafka's version 1: the version, a CRC of what follows it, and an array of entries.
const (
	snapshotVersion    = 1
	snapshotCRCAt      = 2
	snapshotEntriesAt  = 6
	snapshotHeadBytes  = 10
	snapshotEntryBytes = 46
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode returns the state as the contents of a .snapshot file. Kafka has one entry per producer, with its last batch; here a
// producer may have an entry for each batch of its window, the newest last. Kafka keeps the last entry of an id, and so reads
// the same as from its own file.
func (s *State) Encode() []byte {
	entries := 0
	sorted := s.byID()
	for _, e := range sorted {
		entries += max(len(e.batches), 1)
	}
	out := make([]byte, 0, snapshotHeadBytes+entries*snapshotEntryBytes)
	out = binary.BigEndian.AppendUint16(out, snapshotVersion)
	out = binary.BigEndian.AppendUint32(out, 0) // the CRC, below
	out = binary.BigEndian.AppendUint32(out, uint32(entries))
	for _, e := range sorted {
		last, ok := e.last()
		if !ok {
			last = batchMeta{lastSequence: noSequence, lastOffset: kafka.NoOffset}
		}
		for _, m := range e.batches[:max(len(e.batches)-1, 0)] {
			out = e.appendEntry(out, m, m.timestampMs, kafka.NoOffset)
		}
		out = e.appendEntry(out, last, e.lastMs, e.txnStart)
	}
	binary.BigEndian.PutUint32(out[snapshotCRCAt:], crc32.Checksum(out[snapshotEntriesAt:], castagnoli))
	return out
}

func (e *entry) appendEntry(out []byte, m batchMeta, timestampMs int64, txnStart kafka.Offset) []byte {
	out = binary.BigEndian.AppendUint64(out, uint64(e.id))
	out = binary.BigEndian.AppendUint16(out, uint16(e.epoch))
	out = binary.BigEndian.AppendUint32(out, uint32(m.lastSequence))
	out = binary.BigEndian.AppendUint64(out, uint64(m.lastOffset))
	out = binary.BigEndian.AppendUint32(out, uint32(m.delta))
	out = binary.BigEndian.AppendUint64(out, uint64(timestampMs))
	out = binary.BigEndian.AppendUint32(out, uint32(e.coordinatorEpoch))
	return binary.BigEndian.AppendUint64(out, uint64(txnStart))
}

// SnapshotError tells why the contents of a .snapshot file cannot be used; the state is then rebuilt from the log.
type SnapshotError struct {
	Reason string
}

func (e *SnapshotError) Error() string { return "producer snapshot: " + e.Reason }

func refuseSnapshot(format string, args ...any) error {
	return &SnapshotError{Reason: fmt.Sprintf(format, args...)}
}

// Decode reads the contents of a .snapshot file, Kafka's or ours. The error is a *SnapshotError. The state has no cap until
// SetMax. Finished transactions are not in the file, so the caller must know that their markers are replicated, as they are
// below the high watermark.
func Decode(b []byte) (*State, error) {
	if len(b) < snapshotHeadBytes {
		return nil, refuseSnapshot("%d bytes", len(b))
	}
	if version := binary.BigEndian.Uint16(b); version != snapshotVersion {
		return nil, refuseSnapshot("version %d", version)
	}
	stored, computed := binary.BigEndian.Uint32(b[snapshotCRCAt:]), crc32.Checksum(b[snapshotEntriesAt:], castagnoli)
	if stored != computed {
		return nil, refuseSnapshot("crc is %08x, the bytes have %08x", stored, computed)
	}
	count := int64(int32(binary.BigEndian.Uint32(b[snapshotEntriesAt:])))
	b = b[snapshotHeadBytes:]
	if count < 0 || count*snapshotEntryBytes != int64(len(b)) {
		return nil, refuseSnapshot("%d entries in %d bytes", count, len(b))
	}
	s := New(0)
	for ; len(b) > 0; b = b[snapshotEntryBytes:] {
		if err := s.decodeEntry(b[:snapshotEntryBytes]); err != nil {
			return nil, err
		}
	}
	s.relink()
	return s, nil
}

func (s *State) decodeEntry(b []byte) error {
	id := kafka.ProducerID(binary.BigEndian.Uint64(b))
	epoch := kafka.ProducerEpoch(binary.BigEndian.Uint16(b[8:]))
	m := batchMeta{
		lastSequence: kafka.Sequence(binary.BigEndian.Uint32(b[10:])),
		lastOffset:   kafka.Offset(binary.BigEndian.Uint64(b[14:])),
		delta:        int32(binary.BigEndian.Uint32(b[22:])),
		timestampMs:  int64(binary.BigEndian.Uint64(b[26:])),
	}
	if id < 0 {
		return refuseSnapshot("producer id %d", id)
	}
	if m.lastOffset >= 0 && (m.delta < 0 || kafka.Offset(m.delta) > m.lastOffset) {
		return refuseSnapshot("producer %d: a batch of %d offsets ends at offset %d", id, int64(m.delta)+1, m.lastOffset)
	}
	e := s.find(id)
	if e == nil {
		e = newEntry(id)
		s.insert(e)
	}
	e.setEpoch(epoch)
	e.lastMs = m.timestampMs
	e.coordinatorEpoch = int32(binary.BigEndian.Uint32(b[34:]))
	e.txnStart = max(kafka.Offset(binary.BigEndian.Uint64(b[38:])), kafka.NoOffset)
	if m.lastOffset >= 0 {
		e.remember(m)
	}
	return nil
}

// relink orders the lists as if the state had grown batch by batch.
func (s *State) relink() {
	entries := s.byID()
	s.idle, s.open = list{}, list{}
	for _, e := range entries {
		if e.txnStart < 0 {
			s.idle.pushBack(e)
		}
	}
	slices.SortStableFunc(entries, func(a, b *entry) int { return cmp.Compare(a.txnStart, b.txnStart) })
	for _, e := range entries {
		if e.txnStart >= 0 {
			s.open.pushBack(e)
		}
	}
}
