package quorum

import (
	"context"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// What brokers and controllers tell the active controller. On another node each of these fails with kafka.NotController.

// RegisterBroker registers a broker, which is fenced until its heartbeats say that it is ready. It returns the broker's epoch.
func (n *Node) RegisterBroker(ctx context.Context, cmd meta.Registration) (epoch kafka.BrokerEpoch, err error) {
	err = n.propose(ctx, func(im *meta.Image) (entries []meta.Entry, refused error) {
		entries, epoch, refused = n.live.Register(im, cmd, n.log.EndOffset(), n.nowMs(), n.o.env())
		return entries, refused
	})
	if err == nil {
		n.wake(n.wakeDuties)
	}
	return epoch, err
}

// Heartbeat notes that a broker lives, and what it wants.
func (n *Node) Heartbeat(ctx context.Context, cmd meta.Heartbeat) (result meta.HeartbeatResult, err error) {
	changes := false
	err = n.propose(ctx, func(im *meta.Image) (entries []meta.Entry, refused error) {
		entries, result, refused = n.live.Heartbeat(im, cmd, n.log.EndOffset(), n.nowMs(), n.o.env())
		changes = len(entries) > 0
		return entries, refused
	})
	if err == nil && changes {
		n.wake(n.wakeDuties) // a broker has come into service, or goes
	}
	return result, err
}

// AlterPartition changes the in-sync sets of partitions, as their leader wants.
func (n *Node) AlterPartition(ctx context.Context, cmd meta.AlterPartition) (result meta.AlterPartitionResult, err error) {
	err = n.propose(ctx, func(im *meta.Image) (entries []meta.Entry, refused error) {
		entries, result, refused = meta.DecideAlterPartition(im, cmd, n.o.env())
		return entries, refused
	})
	return result, err
}

// AssignDirs notes in which log directories a broker's replicas are.
func (n *Node) AssignDirs(ctx context.Context, cmd meta.AssignDirs) (result meta.AssignDirsResult, err error) {
	err = n.propose(ctx, func(im *meta.Image) (entries []meta.Entry, refused error) {
		entries, result, refused = meta.DecideAssignDirs(im, cmd, n.o.env())
		return entries, refused
	})
	return result, err
}

// AllocateProducerIDs gives a broker a block of producer ids.
func (n *Node) AllocateProducerIDs(ctx context.Context, broker kafka.NodeID, epoch kafka.BrokerEpoch) (ids ProducerIDs, err error) {
	err = n.propose(ctx, func(im *meta.Image) (entries []meta.Entry, refused error) {
		entries, ids.First, refused = meta.DecideProducerIDs(im, broker, epoch)
		return entries, refused
	})
	ids.Count = meta.ProducerIDBlock
	return ids, err
}

// RegisterController notes where a controller listens and what it supports.
func (n *Node) RegisterController(ctx context.Context, cmd meta.RegisterController) error {
	return n.propose(ctx, func(im *meta.Image) ([]meta.Entry, error) {
		return meta.DecideRegisterController(im, cmd)
	})
}

// BrokerDied tells that a broker's process is gone: its connection was closed, and a new one refused or reset. It is fenced without waiting
// for the end of its session, if that does no harm.
func (n *Node) BrokerDied(ctx context.Context, id kafka.NodeID, epoch kafka.BrokerEpoch) error {
	fenced := false
	err := n.propose(ctx, func(im *meta.Image) ([]meta.Entry, error) {
		if fenced = n.live.Died(im, id, epoch, n.nowMs()); !fenced {
			return nil, nil
		}
		return meta.DecideFence(im, id, n.o.env()), nil
	})
	if err == nil && fenced {
		n.o.Log.Warn("a broker's process is gone: it is fenced", "broker", id)
	}
	return err
}

// duties does what the active controller does by itself, when it is due.
func (n *Node) duties() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var nextBalance, nextElections int64
	inService := 0
	for {
		select {
		case <-n.quit:
			return
		case <-timer.C:
		case <-n.wakeDuties:
		}
		now := n.nowMs()
		if !n.IsActive() {
			timer.Stop()
			nextBalance, nextElections, inService = now+n.o.BalanceMs, now+n.o.UncleanMs, 0
			continue // until it is woken
		}
		failed := n.fenceSilent()
		if now >= nextBalance {
			nextBalance = now + n.o.BalanceMs
			if n.o.Balance {
				n.decideAll("preferred leaders", meta.DecideBalance)
			}
		}
		elections := now >= nextElections
		if elections {
			n.decideAll("elections", meta.DecideElections)
			nextElections = now + n.o.UncleanMs
		}
		before := inService
		if inService = n.countInService(); inService > before || elections {
			n.decideAll("replicas of coordinators' topics", func(im *meta.Image, env meta.Env) ([]meta.Entry, bool) {
				return meta.DecideRaiseFactors(im, n.o.Factors, env), false
			})
		}
		wait := time.Duration(max(n.untilSilent(min(nextBalance, nextElections)), 1)) * time.Millisecond
		if failed != nil {
			wait = againMax
		}
		timer.Reset(wait)
	}
}

func (n *Node) countInService() (count int) {
	for _, b := range n.Image().Brokers() {
		if !b.Fenced {
			count++
		}
	}
	return count
}

// untilSilent returns how many ms are left until the next session may end, or a time that comes before.
func (n *Node) untilSilent(atMs int64) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.nowMs()
	if n.active.Load() {
		if deadline, some := n.live.Deadline(n.tip, now); some {
			atMs = min(atMs, deadline)
		}
	}
	return atMs - now
}

// fenceSilent takes brokers out of service that were not heard of for longer than their session, one after the other.
func (n *Node) fenceSilent() error {
	for {
		silent := kafka.NoNode
		err := n.propose(n.life, func(im *meta.Image) ([]meta.Entry, error) {
			n.live.Touch(n.o.NodeID, n.BrokerEpoch(), n.nowMs()) // this process lives
			id, due := n.live.Expired(im, n.nowMs())
			if !due {
				return nil, nil
			}
			silent = id
			return meta.DecideFence(im, id, n.o.env()), nil
		})
		if err != nil || silent == kafka.NoNode {
			return err
		}
		n.o.Log.Warn("a broker was not heard of for longer than its session: it is fenced", "broker", silent, "ms", n.o.SessionMs)
	}
}

// decideAll makes periodic decisions until there is nothing more to decide.
func (n *Node) decideAll(what string, decide func(*meta.Image, meta.Env) (entries []meta.Entry, more bool)) {
	for more := true; more; {
		more = false
		err := n.propose(n.life, func(im *meta.Image) (entries []meta.Entry, _ error) {
			entries, more = decide(im, n.o.env())
			return entries, nil
		})
		if err != nil {
			n.o.Log.Debug("the active controller could not decide", "what", what, "error", err)
			return
		}
	}
}
