package kraft

import (
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// History is what the metadata log says about the quorum, by the offset at which it says so: voters count from when they are
// appended, and not any more when the log is truncated before them (KIP-853). The zero value knows nothing.
type History struct {
	changes []change // by offset
}

type change struct {
	at         kafka.Offset // of the record; -1 for what was there before the log's first record
	membership Membership   // never changed: it is shared
}

// Restore makes a snapshot's membership the only one. Call it when a snapshot was read, before what follows it in the log.
func (h *History) Restore(id SnapshotID, m Membership) {
	h.changes = []change{{id.End - 1, m}}
}

// Add takes the control records of a batch that follows all that was added.
func (h *History) Add(b Batch) {
	for i, c := range b.Controls {
		m := h.Last()
		switch c := c.(type) {
		case VersionChange:
			m.Version = c.Level
		case VotersChange:
			m.Voters = c.Voters
		default:
			continue
		}
		h.changes = append(h.changes, change{b.Base + kafka.Offset(i), m})
	}
}

// Last is the newest membership, committed or not.
func (h *History) Last() Membership {
	if len(h.changes) == 0 {
		return Membership{}
	}
	return h.changes[len(h.changes)-1].membership
}

// Before is the membership as of all records below an offset: what a snapshot with that end says.
func (h *History) Before(end kafka.Offset) Membership {
	for i := len(h.changes) - 1; i >= 0; i-- {
		if h.changes[i].at < end {
			return h.changes[i].membership
		}
	}
	return Membership{}
}

// lastAt is the offset of the newest change, -1 when the log says nothing.
func (h *History) lastAt() kafka.Offset {
	if len(h.changes) == 0 {
		return -1
	}
	return h.changes[len(h.changes)-1].at
}

// before are the voters before the last change of who votes, if that may be undone: if it is not below what is known to be committed.
// There is one such change at a time; what came behind it wrote the same voters with other endpoints.
func (h *History) before(committed kafka.Offset) []Voter {
	sameReplica := func(a, b Voter) bool { return a.key() == b.key() }
	for i := len(h.changes) - 1; i > 0 && h.changes[i].at >= committed; i-- {
		before := h.changes[i-1].membership.Voters
		if !slices.EqualFunc(before, h.changes[i].membership.Voters, sameReplica) {
			return before
		}
	}
	return nil
}

// truncate forgets what a log that ends at an offset does not say.
func (h *History) truncate(end kafka.Offset) {
	n := len(h.changes)
	for n > 0 && h.changes[n-1].at >= end {
		n--
	}
	h.changes = h.changes[:n:n]
}

// trim forgets what no snapshot from an offset on can be asked for.
func (h *History) trim(start kafka.Offset) {
	n := 0
	for n+1 < len(h.changes) && h.changes[n+1].at < start {
		n++
	}
	h.changes = h.changes[n:]
}
