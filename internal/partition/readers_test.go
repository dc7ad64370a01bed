package partition

import (
	"slices"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
)

// grown returns which readers were called and by how much.
func grown(q *Readers, high, lastStable kafka.Offset, total int64) map[string]int64 {
	by := map[string]int64{}
	seen := Seen{High: high, LastStable: lastStable, Bytes: total, Durable: high + 5, DurableBytes: total + 1000}
	q.Grown(seen, func(r *Reader, n int64) { by[r.Ref.(string)] += n })
	return by
}

func TestReadersCountWhatBecameReadable(t *testing.T) {
	var q Readers
	a := &Reader{From: 10, Most: 1000, Ref: "a"}
	b := &Reader{From: 20, Most: 50, Bytes: 10, Ref: "b"}
	q.Add(a, 500)
	q.Add(b, 500)
	if got := grown(&q, 10, 10, 600); len(got) != 0 {
		t.Errorf("at 10: %v, want nobody: both read from there on or later", got)
	}
	if got := grown(&q, 15, 15, 700); len(got) != 1 || got["a"] != 100 {
		t.Errorf("at 15: %v, want a by 100", got)
	}
	if got := grown(&q, 25, 25, 760); got["a"] != 60 || got["b"] != 40 {
		t.Errorf("at 25: %v, want a by 60 and b by 40, as it takes 50 at most", got)
	}
	q.Remove(a)
	q.Remove(a)
	if got := grown(&q, 30, 30, 900); len(got) != 1 || got["b"] != 0 {
		t.Errorf("at 30: %v, want b alone, by nothing", got)
	}
	q.Remove(b)
	if !q.Empty() {
		t.Error("not empty after all were removed")
	}
}

func TestFollowerCountsWhatIsDurable(t *testing.T) {
	var q Readers
	q.Add(&Reader{From: 10, Replica: true, Most: 5000, Ref: "follower"}, 1000)
	if got := grown(&q, 5, 5, 300); len(got) != 0 {
		t.Errorf("durable to 10: %v, want nobody", got)
	}
	if got := grown(&q, 6, 5, 400); len(got) != 1 || got["follower"] != 100 {
		t.Errorf("durable to 11, 100 bytes more: %v, want the follower by 100", got)
	}
}

func TestCommittedReaderWaitsForTheLastStableOffset(t *testing.T) {
	var q Readers
	q.Add(&Reader{From: 10, Stable: 10, Committed: true, Most: 1000, Ref: "committed"}, 0)
	q.Add(&Reader{From: 10, Most: 1000, Ref: "all"}, 0)
	for _, high := range []kafka.Offset{20, 30} {
		if got := grown(&q, high, 10, int64(high)); len(got) != 1 || got["all"] == 0 {
			t.Errorf("with a transaction open at 10: %v, want the other reader alone", got)
		}
	}
	if got := grown(&q, 40, 25, 40); got["committed"] < 1000 {
		t.Errorf("when it ended and another is open at 25: %v, want that the reader looks for itself", got)
	}
	if got := grown(&q, 50, 25, 50); len(got) != 1 {
		t.Errorf("with nothing more decided: %v, want the other reader alone", got)
	}
	if got := grown(&q, 60, 60, 60); got["committed"] < 1000 {
		t.Errorf("when all is decided: %v, want that the reader looks for itself", got)
	}
}

func TestCommittedReaderThatCameWhileATransactionWasOpen(t *testing.T) {
	var q Readers
	q.Add(&Reader{From: 10, Stable: 10, Undecided: true, Committed: true, Most: 1000, Ref: "r"}, 500) // the bytes of the transaction were counted
	if got := grown(&q, 21, 21, 578); got["r"] < 1000 {
		t.Errorf("after the marker of 78 bytes: %v, want that the reader looks for itself", got)
	}
}

func TestCommittedReaderCountsBytesWithoutTransactions(t *testing.T) {
	var q Readers
	q.Add(&Reader{From: 10, Stable: 10, Committed: true, Most: 1000, Ref: "r"}, 0)
	if got := grown(&q, 20, 20, 100); got["r"] != 100 {
		t.Errorf("%v, want 100 bytes", got)
	}
}

func TestReadersKeepTheirOrderAndMayLeaveDuringAWalk(t *testing.T) {
	var q Readers
	for _, name := range []string{"a", "b", "c", "d"} {
		q.Add(&Reader{Ref: name}, 0)
	}
	var seen []string
	q.All(func(r *Reader) {
		seen = append(seen, r.Ref.(string))
		if r.Ref == "b" || r.Ref == "d" {
			q.Remove(r)
		}
	})
	q.All(func(r *Reader) { seen = append(seen, r.Ref.(string)) })
	if want := []string{"a", "b", "c", "d", "a", "c"}; !slices.Equal(seen, want) {
		t.Errorf("walked %v, want %v", seen, want)
	}
}
