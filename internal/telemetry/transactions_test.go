package telemetry

import (
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/txn"
)

func TestTransactionsAreCountedByWhatTheyWaitFor(t *testing.T) {
	now := time.UnixMilli(100_000)
	all := []txn.Listed{
		{State: txn.Empty, StartMs: -1},
		{State: txn.CompleteCommit, StartMs: 1_000}, // keeps its begin
		{State: txn.Ongoing, StartMs: 90_000},
		{State: txn.Ongoing, StartMs: 99_000},
		{State: txn.PrepareAbort, StartMs: 60_000},
		{State: txn.PrepareCommit, StartMs: 95_000},
	}
	if got, want := count(all, kafka.None, now), (transactions{known: true, open: 2, ending: 2, oldest: 40}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := count(nil, kafka.CoordinatorLoadInProgress, now); got.known {
		t.Errorf("while ids are loaded: %+v", got)
	}
}
