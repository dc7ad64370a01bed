package partition

import "github.com/raftsman/raftsman/internal/kafka"

// Reader is one partition of a parked fetch. It is linked into the partition's [Readers] while the fetch waits; the owner
// keeps it in the fetch and reuses it.
type Reader struct {
	From      kafka.Offset // the fetch is for records from here on
	Committed bool         // and sees only decided transactions
	Replica   bool         // a follower's, which sees what is durable here, committed or not
	Bytes     int64        // how many bytes were readable when it was parked, and grew since
	Most      int64        // more than this the fetch does not take from the partition
	Ref       any          // the owner's fetch

	// For a reader of committed records: the last stable offset when it was parked, and whether it was below the high watermark.
	Stable    kafka.Offset
	Undecided bool

	mark       int64 // the partition's bytes, counted since it was opened, that it could see when Bytes was last brought up to date
	in         *Readers
	next, prev *Reader
}

// Readers are the fetches that wait for a partition, in the order in which they came.
type Readers struct {
	first, last *Reader
}

// Empty tells whether nobody waits.
func (q *Readers) Empty() bool { return q.first == nil }

// Add links r in; total is the partition's count of bytes now that a reader of its kind can see.
func (q *Readers) Add(r *Reader, total int64) {
	r.in, r.mark = q, total
	r.prev, r.next = q.last, nil
	if q.last != nil {
		q.last.next = r
	} else {
		q.first = r
	}
	q.last = r
}

// Remove unlinks r, if it is linked.
func (q *Readers) Remove(r *Reader) {
	if r.in != q {
		return
	}
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		q.first = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		q.last = r.prev
	}
	r.in, r.prev, r.next = nil, nil, nil
}

// enough is more than any reader waits for.
const enough = 1<<31 - 1

// Seen is how far readers see by now.
type Seen struct {
	High         kafka.Offset // where what is committed ends
	LastStable   kafka.Offset // and what is decided
	Bytes        int64        // committed ones, counted since the partition was opened
	Durable      kafka.Offset // where what followers see ends
	DurableBytes int64
}

// Grown calls each with every reader for which something new became readable, and by how many bytes. Of how many bytes a transaction
// that has ended was is not known here: whoever reads behind it is called as if it were enough, to look for himself. each may remove the
// reader that it was called with.
func (q *Readers) Grown(seen Seen, each func(r *Reader, by int64)) {
	for r := q.first; r != nil; {
		next := r.next
		high, total := seen.High, seen.Bytes
		if r.Replica {
			high, total = seen.Durable, seen.DurableBytes
		}
		if by := r.grown(high, seen.LastStable, total); by >= 0 {
			each(r, by)
		}
		r = next
	}
}

// grown returns how much more r can read, or -1 if nothing new.
func (r *Reader) grown(high, lastStable kafka.Offset, total int64) int64 {
	if r.Committed {
		moved := lastStable > r.Stable
		r.Stable = max(r.Stable, lastStable)
		if r.Undecided = r.Undecided || lastStable < high; r.Undecided {
			if moved && r.From < lastStable {
				return enough
			}
			return -1
		}
	}
	before := r.mark
	r.mark = total
	if r.From >= high {
		return -1
	}
	bytes := max(r.Bytes, min(r.Bytes+total-before, r.Most))
	by := bytes - r.Bytes
	r.Bytes = bytes
	return by
}

// All calls each with every reader, which it may remove.
func (q *Readers) All(each func(*Reader)) {
	for r := q.first; r != nil; {
		next := r.next
		each(r)
		r = next
	}
}
