package commitlog

import (
	"encoding/binary"
	"fmt"
	"sort"
	"sync"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
)

// IndexEntry is an entry of an .index file: the batch that ends with Offset begins at Position of the segment.
type IndexEntry struct {
	Offset   kafka.Offset
	Position int64
}

// TimeEntry is an entry of a .timeindex file: up to the batch that ends with Offset, TimestampMs is the largest timestamp, and
// that batch has it.
type TimeEntry struct {
	TimestampMs int64
	Offset      kafka.Offset
}

const (
	indexEntryBytes = 8  // int32 offset relative to the segment's base, int32 position
	timeEntryBytes  = 12 // int64 timestamp, int32 relative offset
)

// index is the offset and the time index of a segment, in memory. Of a segment that is written to, the newest entries are
// only here: the files are brought up to date when the segment is rolled or closed, as recovery makes them anew anyway.
type index struct {
	mu      sync.Mutex // guards all below; held for memory only, but for load
	offsets []IndexEntry
	times   []TimeEntry
	written struct{ offsets, times int } // how many entries the files hold
	loaded  bool
	pinned  bool // it stays in memory: the files are about to be another segment's
}

// ParseIndex reads an .index file of a segment with that base offset. Zeros at the end are room that Kafka leaves in the index
// of the segment it writes to. An error tells at which byte entries stop to make sense.
func ParseIndex(content []byte, base kafka.Offset) ([]IndexEntry, error) {
	entries := make([]IndexEntry, 0, len(content)/indexEntryBytes)
	for at := 0; at+indexEntryBytes <= len(content); at += indexEntryBytes {
		relative, position := binary.BigEndian.Uint32(content[at:]), binary.BigEndian.Uint32(content[at+4:])
		e := IndexEntry{base + kafka.Offset(relative), int64(position)}
		if n := len(entries); n > 0 && (e.Offset <= entries[n-1].Offset || e.Position <= entries[n-1].Position) {
			if allZero(content[at:]) {
				return entries, nil
			}
			return entries, &CorruptError{At: int64(at), Reason: fmt.Sprintf("entry %v does not follow %v", e, entries[n-1])}
		}
		if n := len(entries); n == 0 && relative == 0 && position == 0 && allZero(content[at:]) && len(content) > at+indexEntryBytes {
			return entries, nil
		}
		if relative > 1<<31-1 || position > 1<<31-1 {
			return entries, &CorruptError{At: int64(at), Reason: fmt.Sprintf("negative entry %v", e)}
		}
		entries = append(entries, e)
	}
	if rest := len(content) % indexEntryBytes; rest != 0 && !allZero(content[len(content)-rest:]) {
		return entries, &CorruptError{At: int64(len(content) - rest), Reason: "part of an entry"}
	}
	return entries, nil
}

// ParseTimeIndex is as ParseIndex, for a .timeindex file.
func ParseTimeIndex(content []byte, base kafka.Offset) ([]TimeEntry, error) {
	entries := make([]TimeEntry, 0, len(content)/timeEntryBytes)
	for at := 0; at+timeEntryBytes <= len(content); at += timeEntryBytes {
		ms, relative := int64(binary.BigEndian.Uint64(content[at:])), binary.BigEndian.Uint32(content[at+8:])
		e := TimeEntry{ms, base + kafka.Offset(relative)}
		n := len(entries)
		if ms == 0 && relative == 0 && allZero(content[at:]) && (n > 0 || len(content) > at+timeEntryBytes) {
			return entries, nil
		}
		if n > 0 && (ms < entries[n-1].TimestampMs || e.Offset < entries[n-1].Offset) {
			return entries, &CorruptError{At: int64(at), Reason: fmt.Sprintf("entry %v does not follow %v", e, entries[n-1])}
		}
		if relative > 1<<31-1 {
			return entries, &CorruptError{At: int64(at), Reason: fmt.Sprintf("negative entry %v", e)}
		}
		entries = append(entries, e)
	}
	if rest := len(content) % timeEntryBytes; rest != 0 && !allZero(content[len(content)-rest:]) {
		return entries, &CorruptError{At: int64(len(content) - rest), Reason: "part of an entry"}
	}
	return entries, nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// add notes that the batch that ends with last begins at position. An entry that would not grow the index is left out.
func (x *index) add(last kafka.Offset, position int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n := len(x.offsets); n == 0 || last > x.offsets[n-1].Offset {
		x.offsets = append(x.offsets, IndexEntry{last, position})
	}
}

// addTime notes the largest timestamp so far, unless the index has it.
func (x *index) addTime(ms int64, last kafka.Offset) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if ms < 0 {
		return
	}
	if n := len(x.times); n == 0 || ms > x.times[n-1].TimestampMs && last >= x.times[n-1].Offset {
		x.times = append(x.times, TimeEntry{ms, last})
	}
}

// isFull tells whether one more entry in each would exceed the size limit. Kafka keeps one entry of the time index in reserve.
func (x *index) isFull(maxBytes int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.offsets) >= maxBytes/indexEntryBytes || len(x.times) >= maxBytes/timeEntryBytes-1
}

// before returns the last indexed batch that ends at or before the offset, and a zero entry if there is none: scan from the
// segment's begin.
func (x *index) before(offset kafka.Offset) IndexEntry {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := sort.Search(len(x.offsets), func(i int) bool { return x.offsets[i].Offset > offset })
	if n == 0 {
		return IndexEntry{}
	}
	return x.offsets[n-1]
}

// beforePosition returns the last indexed batch that begins at or before the position, as before does.
func (x *index) beforePosition(position int64) IndexEntry {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := sort.Search(len(x.offsets), func(i int) bool { return x.offsets[i].Position > position })
	if n == 0 {
		return IndexEntry{}
	}
	return x.offsets[n-1]
}

// beforeTime returns the last entry below the timestamp: the first record with that timestamp or a larger one lies in a batch
// behind the entry's. It is false if there is none.
func (x *index) beforeTime(ms int64) (TimeEntry, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := sort.Search(len(x.times), func(i int) bool { return x.times[i].TimestampMs >= ms })
	if n == 0 {
		return TimeEntry{}, false
	}
	return x.times[n-1], true
}

func (x *index) lastTime() (TimeEntry, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.times) == 0 {
		return TimeEntry{}, false
	}
	return x.times[len(x.times)-1], true
}

// unload forgets entries that the files hold too. The next lookup loads them again.
func (x *index) unload() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.loaded && !x.pinned && x.written.offsets == len(x.offsets) && x.written.times == len(x.times) {
		x.loaded, x.offsets, x.times = false, nil, nil
	}
}

// forget drops all entries, until they are made anew.
func (x *index) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.loaded, x.offsets, x.times = false, nil, nil
	x.written.offsets, x.written.times = 0, 0
}

// save adds what the files lack. With nothing written yet it makes them new.
func (x *index) save(fs vfs.FS, indexName, timeName string, base kafka.Offset) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.loaded {
		return nil
	}
	from, fromTime := x.written.offsets, x.written.times
	err := vfs.WriteEnd(fs, indexName, encodeIndex(x.offsets[from:], base), int64(from)*indexEntryBytes)
	if err != nil {
		return err
	}
	x.written.offsets = len(x.offsets)
	err = vfs.WriteEnd(fs, timeName, encodeTimeIndex(x.times[fromTime:], base), int64(fromTime)*timeEntryBytes)
	if err != nil {
		return err
	}
	x.written.times = len(x.times)
	return nil
}

func encodeIndex(entries []IndexEntry, base kafka.Offset) []byte {
	b := make([]byte, 0, len(entries)*indexEntryBytes)
	for _, e := range entries {
		b = binary.BigEndian.AppendUint32(b, uint32(e.Offset-base))
		b = binary.BigEndian.AppendUint32(b, uint32(e.Position))
	}
	return b
}

func encodeTimeIndex(entries []TimeEntry, base kafka.Offset) []byte {
	b := make([]byte, 0, len(entries)*timeEntryBytes)
	for _, e := range entries {
		b = binary.BigEndian.AppendUint64(b, uint64(e.TimestampMs))
		b = binary.BigEndian.AppendUint32(b, uint32(e.Offset-base))
	}
	return b
}

// reset forgets everything: the files will be made new.
func (x *index) reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.loaded, x.offsets, x.times = true, nil, nil
	x.written.offsets, x.written.times = 0, 0
}
