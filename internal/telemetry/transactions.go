package telemetry

import (
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/txn"
)

// transactions is what the coordinators have told about them.
type transactions struct {
	known        bool // false while some transactional ids are being loaded
	open, ending int64
	oldest       float64 // seconds
}

// look asks the coordinators for all transactional ids.
func (t *transactions) look(from *Sources) {
	deadline := time.NewTimer(groupsWait)
	defer deadline.Stop()
	told := make(chan transactions, 1)
	from.Coord.ListTransactions(func(all []txn.Listed, code kafka.Error) { told <- count(all, code, time.Now()) })
	select {
	case *t = <-told:
	case <-deadline.C:
	}
}

func count(all []txn.Listed, code kafka.Error, now time.Time) transactions {
	t := transactions{known: code == kafka.None}
	for _, l := range all {
		switch l.State {
		case txn.Ongoing:
			t.open++
		case txn.PrepareCommit, txn.PrepareAbort:
			t.ending++
		default:
			continue
		}
		t.oldest = max(t.oldest, float64(now.UnixMilli()-l.StartMs)/1000)
	}
	return t
}

// openTransactions emits a number of them, once all are known.
func openTransactions(of func(*transactions) float64) func(*scene, emit) {
	return func(s *scene, e emit) {
		if s.txns.known {
			e.value(of(&s.txns))
		}
	}
}
