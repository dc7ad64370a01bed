package commitlog

import (
	"encoding/binary"
	"hash/crc32"
	"iter"

	"github.com/raftsman/raftsman/internal/kafka"
)

// An entry is a CRC-32C over what follows, begun with the CRC of the entry before; the number of bytes behind the header; the lap;
// topic id and partition; what it is; the offset at which the log was durable before; and the batches.
const (
	journalPosLength    = 4
	journalPosLap       = 8
	journalPosTopic     = 16
	journalPosPartition = 32
	journalPosKind      = 36
	journalPosFrom      = 40
	journalHeaderBytes  = 48

	journalBatches = 1 // batches of the log
	journalCut     = 2 // entries before are not the log's any more: it was truncated
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendJournalHeader(b []byte, lap uint64, of journaled, kind uint32, from kafka.Offset) []byte {
	b = append(b, make([]byte, journalPosLap)...)
	b = binary.BigEndian.AppendUint64(b, lap)
	b = append(b, of.topic[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(of.partition))
	b = binary.BigEndian.AppendUint32(b, kind)
	return binary.BigEndian.AppendUint64(b, uint64(from))
}

// sealJournalEntry completes an entry and returns its CRC.
func sealJournalEntry(e []byte, chain uint32) uint32 {
	binary.BigEndian.PutUint32(e[journalPosLength:], uint32(len(e)-journalHeaderBytes))
	crc := crc32.Update(chain, castagnoli, e[journalPosLength:])
	binary.BigEndian.PutUint32(e, crc)
	return crc
}

// JournalEntry is what an entry of a journal says.
type JournalEntry struct {
	At        int64 // in the file
	Lap       uint64
	TopicID   kafka.TopicID
	Partition int32
	Cut       bool         // entries before are not the log's any more
	Durable   kafka.Offset // up to where the log was durable before
	Batches   []byte       // whole ones; nil if Cut
}

// JournalEntries reads the entries of the lap that begins at the front of a journal. Batches lie in b.
func JournalEntries(b []byte) iter.Seq[JournalEntry] {
	return func(yield func(JournalEntry) bool) {
		var lap uint64
		chain, at := uint32(0), int64(0)
		for left := b; len(left) >= journalHeaderBytes; left = b[at:] {
			size := int64(binary.BigEndian.Uint32(left[journalPosLength:])) + journalHeaderBytes
			if size > int64(len(left)) || crc32.Update(chain, castagnoli, left[journalPosLength:size]) != binary.BigEndian.Uint32(left) {
				return
			}
			e := JournalEntry{
				At: at, Lap: binary.BigEndian.Uint64(left[journalPosLap:]), TopicID: kafka.TopicID(left[journalPosTopic:journalPosPartition]),
				Partition: int32(binary.BigEndian.Uint32(left[journalPosPartition:])), Durable: kafka.Offset(binary.BigEndian.Uint64(left[journalPosFrom:])),
			}
			if at == 0 {
				lap = e.Lap
			} else if lap != e.Lap {
				return
			}
			switch binary.BigEndian.Uint32(left[journalPosKind:]) {
			case journalBatches:
				e.Batches = left[journalHeaderBytes:size:size]
			case journalCut:
				e.Cut = true
			}
			if !yield(e) {
				return
			}
			chain = binary.BigEndian.Uint32(left)
			at += size
		}
	}
}
