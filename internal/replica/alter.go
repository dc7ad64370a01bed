package replica

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/partition"
)

// alterer asks the controller for the changes of in-sync sets that the leaders on this node want: one request at a time, with all that
// has come up meanwhile.
type alterer struct {
	m   *Manager
	ask func(context.Context, meta.AlterPartition) (meta.AlterPartitionResult, error)

	mu  sync.Mutex // guards due
	due []*replica

	wake   chan struct{} // holds one token while due may not be empty
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
}

const (
	// alterWithin is how long one request may take.
	alterWithin = 5 * time.Second
	// alterAgainMaxMs is how long what failed waits at most before it is asked for again.
	alterAgainMaxMs = 1000
)

func (a *alterer) start(m *Manager, ask func(context.Context, meta.AlterPartition) (meta.AlterPartitionResult, error)) {
	a.m, a.ask, a.wake, a.done = m, ask, make(chan struct{}, 1), make(chan struct{})
	a.ctx, a.cancel = context.WithCancel(context.Background())
	if ask == nil {
		close(a.done)
		return
	}
	go a.run()
}

// close ends it. It may be called again.
func (a *alterer) close() {
	a.cancel()
	<-a.done
}

// add has a partition's wish asked for.
func (a *alterer) add(p *replica) {
	if a.ask == nil || !p.altering.CompareAndSwap(false, true) {
		return
	}
	a.mu.Lock()
	a.due = append(a.due, p)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *alterer) run() {
	defer close(a.done)
	failures := 0
	for {
		select {
		case <-a.ctx.Done():
			return
		case <-a.wake:
		}
		a.mu.Lock()
		due := a.due
		a.due = nil
		a.mu.Unlock()
		again := a.askFor(due)
		if len(again) == 0 {
			failures = 0
			continue
		}
		wait := time.Duration(partition.Backoff(failures, alterAgainMaxMs)) * time.Millisecond
		failures++
		pause(wait, a.ctx.Done())
		for _, w := range again {
			w.p.event(func(core *partition.Leader, _ int64) []partition.Release {
				core.AskAgain(w.wanted.Number)
				return nil
			})
		}
	}
}

// wish is what one partition's leader wants.
type wish struct {
	p      *replica
	wanted partition.Alteration
}

// askFor asks for what partitions want, and returns what is to be asked for once more.
func (a *alterer) askFor(due []*replica) (again []wish) {
	wishes := make([]wish, 0, len(due))
	for _, p := range due {
		p.altering.Store(false) // what comes up from here on is asked for next
		p.mu.Lock()
		if p.core != nil && p.serves() == nil {
			if wanted, ok := p.core.Due(); ok {
				wishes = append(wishes, wish{p, wanted})
			}
		}
		p.mu.Unlock()
	}
	if len(wishes) == 0 {
		return nil
	}
	slices.SortFunc(wishes, func(a, b wish) int { return a.p.tp.Compare(b.p.tp) })
	ctx, cancel := context.WithTimeout(a.ctx, alterWithin)
	defer cancel()
	result, err := a.ask(ctx, a.request(wishes))
	answers := answersTo(wishes, result, err)
	for i, w := range wishes {
		w.p.event(func(core *partition.Leader, nowMs int64) []partition.Release {
			released, once := core.Answered(w.wanted.Number, answers[i], nowMs, nil)
			if once {
				again = append(again, w)
			}
			return released
		})
		if err == nil && answers[i].Err == kafka.None {
			a.m.log.Debug("the in-sync set of a partition has changed", "partition", w.p.tp.String(), "isr", answers[i].ISR)
		}
	}
	return again
}

func (a *alterer) request(wishes []wish) meta.AlterPartition {
	self := kafka.BrokerEpoch(a.m.brokerEpoch.Load())
	req := meta.AlterPartition{Broker: a.m.node, Epoch: self}
	for _, w := range wishes {
		n := len(req.Topics)
		if n == 0 || req.Topics[n-1].ID != w.p.id {
			req.Topics = append(req.Topics, meta.AlterPartitionTopic{ID: w.p.id})
			n++
		}
		row := meta.PartitionAlteration{
			Index: w.p.tp.Partition, LeaderEpoch: w.wanted.Epoch, PartitionEpoch: w.wanted.PartitionEpoch, RecoveryState: meta.Recovered,
		}
		for _, member := range w.wanted.ISR {
			epoch := member.Epoch
			if member.ID == a.m.node {
				epoch = self
			}
			row.ISR = append(row.ISR, meta.ISRMember{Broker: member.ID, Epoch: epoch})
		}
		req.Topics[n-1].Partitions = append(req.Topics[n-1].Partitions, row)
	}
	return req
}

// answersTo finds the answer to each wish. Without one nobody knows whether it was granted.
func answersTo(wishes []wish, result meta.AlterPartitionResult, err error) []partition.Altered {
	answers := make([]partition.Altered, len(wishes))
	failed, _ := kafka.Answer(err)
	if err == nil {
		failed = kafka.UnknownServerError
	}
	if failed == kafka.OperationNotAttempted || failed == kafka.InvalidRequest {
		failed = kafka.UnknownServerError // it is of the request, and may pass
	}
	rows := make(map[partKey]*meta.AlteredPartition, len(wishes))
	for _, t := range result.Topics {
		for j := range t.Partitions {
			rows[partKey{t.ID, t.Partitions[j].Index}] = &t.Partitions[j]
		}
	}
	for i, w := range wishes {
		answers[i].Err = failed
		if row := rows[w.p.key()]; err == nil && row != nil {
			answers[i] = partition.Altered{Err: row.Err, Epoch: row.LeaderEpoch, PartitionEpoch: row.PartitionEpoch, ISR: row.ISR}
		}
	}
	return answers
}
