package api

import (
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/txn"
)

// listTransactions lists the transactional ids that this node coordinates (key 66) and that pass all filters: states by their names,
// producer ids, from version 1 on how long the transaction is open, and from version 2 on a regular expression for the whole id.
func (a *API) listTransactions(c call) {
	req := kmsg.NewPtrListTransactionsRequest()
	if !c.decode(req) {
		return
	}
	filter, err := newTransactionFilter(req, time.Now())
	if err != nil {
		resp := kmsg.NewPtrListTransactionsResponse()
		resp.ErrorCode = int16(kafka.InvalidRegularExpression)
		c.answer(resp)
		return
	}
	a.Coord.ListTransactions(func(all []txn.Listed, code kafka.Error) {
		resp := kmsg.NewPtrListTransactionsResponse()
		resp.ErrorCode, resp.UnknownStateFilters = int16(code), filter.unknownStates
		for i := range all {
			if t := &all[i]; filter.takes(t) {
				row := kmsg.NewListTransactionsResponseTransactionState()
				row.TransactionalID, row.ProducerID, row.TransactionState = t.TransactionalID, int64(t.Producer), t.State.String()
				resp.TransactionStates = append(resp.TransactionStates, row)
			}
		}
		c.answer(resp)
	})
}

// transactionFilter is what a ListTransactions asks for. A filter that names nothing lets all pass.
type transactionFilter struct {
	byState       bool
	states        []txn.State
	unknownStates []string
	producers     []int64
	nowMs         int64
	openMs        int64 // below 0: all
	pattern       *regexp.Regexp
}

func newTransactionFilter(req *kmsg.ListTransactionsRequest, now time.Time) (f transactionFilter, err error) {
	f.byState, f.producers, f.nowMs, f.openMs = len(req.StateFilters) > 0, req.ProducerIDFilters, now.UnixMilli(), req.DurationFilterMillis
	for _, name := range req.StateFilters {
		if state, ok := txn.ParseState(name); ok {
			f.states = append(f.states, state)
		} else if !slices.Contains(f.unknownStates, name) {
			f.unknownStates = append(f.unknownStates, name)
		}
	}
	if p := req.TransactionalIDPattern; p != nil && *p != "" {
		f.pattern, err = group.CompileRegex(*p)
	}
	return f, err
}

func (f *transactionFilter) takes(t *txn.Listed) bool {
	switch {
	case f.byState && !slices.Contains(f.states, t.State):
		return false
	case len(f.producers) > 0 && !slices.Contains(f.producers, int64(t.Producer)):
		return false
	case f.openMs >= 0 && f.nowMs-t.StartMs <= f.openMs: // an id that has no transaction began one before all time, as in Kafka
		return false
	}
	return f.pattern == nil || f.pattern.MatchString(t.TransactionalID)
}
