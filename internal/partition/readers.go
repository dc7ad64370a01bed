package partition

import "github.com/raftsman/raftsman/internal/kafka"

// Reader is one partition of a parked fetch. It is linked into the partition's [Readers] while the fetch waits; the owner
// keeps it in the fetch and reuses it.
type Reader struct {
	From      kafka.Offset // the fetch is for records from here on
	Committed bool         // and sees only decided transactions
	Bytes     int64        // how many bytes were readable when it was parked, and grew since
	Most      int64        // more than this the fetch does not take from the partition
	Ref       any          // the owner's fetch

	mark       int64 // the partition's readable bytes, counted since it was opened, when Bytes was last brought up to date
	in         *Readers
	next, prev *Reader
}

// Readers are the fetches that wait for a partition, in the order in which they came.
type Readers struct {
	first, last *Reader
}

// Empty tells whether nobody waits.
func (q *Readers) Empty() bool { return q.first == nil }

// Add links r in; total is the partition's count of readable bytes now.
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

// Grown calls each with every reader for which something new became readable, and by how many bytes, now that the
// readable records end at high, the decided ones at lastStable, and total bytes were counted. each may remove the reader that it was called with.
func (q *Readers) Grown(high, lastStable kafka.Offset, total int64, each func(r *Reader, by int64)) {
	for r := q.first; r != nil; {
		next, bound := r.next, high
		if r.Committed {
			bound = lastStable
		}
		if r.From < bound {
			bytes := max(r.Bytes, min(r.Bytes+total-r.mark, r.Most))
			by := bytes - r.Bytes
			r.Bytes, r.mark = bytes, total
			each(r, by)
		} else {
			r.mark = total
		}
		r = next
	}
}

// All calls each with every reader, which it may remove.
func (q *Readers) All(each func(*Reader)) {
	for r := q.first; r != nil; {
		next := r.next
		each(r)
		r = next
	}
}
