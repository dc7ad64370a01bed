package commitlog

import (
	"cmp"
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

// cleanedTxns follows the transactions through the batches of a cleaning, in the order of the log: which batches are aborted,
// and which markers end a transaction that has no batch left. All transactions in its range are decided.
type cleanedTxns struct {
	pending   []AbortedTxn // whose first offset was not reached, by that
	aborted   map[kafka.ProducerID]*abortedTxn
	committed map[kafka.ProducerID]bool // with a batch that was seen
	kept      []AbortedTxn              // of the segment that is written: whose marker must stay
}

type abortedTxn struct {
	AbortedTxn
	seen bool // a batch of it
}

func newCleanedTxns() *cleanedTxns {
	return &cleanedTxns{aborted: make(map[kafka.ProducerID]*abortedTxn), committed: make(map[kafka.ProducerID]bool)}
}

// expect adds the aborted transactions of a range that is read next.
func (t *cleanedTxns) expect(aborted []AbortedTxn) {
	t.pending = append(t.pending, aborted...)
	slices.SortFunc(t.pending, func(a, b AbortedTxn) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
}

func (t *cleanedTxns) reach(offset kafka.Offset) {
	n := 0
	for ; n < len(t.pending) && t.pending[n].FirstOffset <= offset; n++ {
		if e := t.pending[n]; t.aborted[e.ProducerID] == nil {
			t.aborted[e.ProducerID] = &abortedTxn{AbortedTxn: e}
		}
	}
	t.pending = t.pending[n:]
}

// batch tells whether a batch, which is no control batch, is aborted.
func (t *cleanedTxns) batch(b record.Batch) bool {
	t.reach(b.LastOffset())
	if !b.IsTransactional() {
		return false
	}
	if txn := t.aborted[b.ProducerID()]; txn != nil {
		txn.seen = true
		return true
	}
	t.committed[b.ProducerID()] = true
	return false
}

// control tells whether nothing is left of the transaction that a control batch ends.
func (t *cleanedTxns) control(b record.Batch) (done bool, err error) {
	t.reach(b.LastOffset())
	if b.Count() == 0 {
		return true, nil
	}
	marker, ok, err := b.Marker()
	if err != nil || !ok {
		return false, err
	}
	id := b.ProducerID()
	if marker.Commit {
		done = !t.committed[id]
		delete(t.committed, id)
		return done, nil
	}
	txn := t.aborted[id]
	delete(t.aborted, id)
	if txn == nil || !txn.seen {
		return true, nil
	}
	t.kept = append(t.kept, txn.AbortedTxn)
	return false, nil
}
