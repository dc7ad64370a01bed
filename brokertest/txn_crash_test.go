package brokertest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// TestTransactionsSurviveCrashesAtEachOperation runs transactions over several partitions and a group's offsets, and cuts the power, or
// kills the broker, at one operation of its files after the other: while records and offsets are written, at the decision, between
// the markers, and before the end is written down. After each start the coordinator ends by itself what was decided, a new
// producer what was not, and then all of a transaction is there or nothing of it, its offsets with its records; what was
// acknowledged holds, and nothing stays open. The transaction whose operations are counted is alone, or others are under way in the
// same partitions. CI takes some of the operations, the soak each, many times.
func TestTransactionsSurviveCrashesAtEachOperation(t *testing.T) {
	seed, rounds, stride := *chaosSeed, 1, 3
	if seed == 0 {
		seed = rand.Uint64() >> 1
	}
	if soaking() {
		rounds, stride = 25, 1
	}
	for _, way := range []string{"power", "kill"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			for round := range rounds {
				sweepAll(t, way == "power", seed+uint64(round), stride)
				if t.Failed() {
					return
				}
			}
		})
	}
}

func sweepAll(t *testing.T, power bool, seed uint64, stride int) {
	t.Helper()
	t.Logf("to repeat: go test ./brokertest -run '%s' -chaos-seed %d", t.Name(), seed)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := newWorld(t, faultfs.NewDisk(seed), "/data,/more", ctx, seed)
	w.props["transaction.state.log.num.partitions"] = "2"
	w.start()
	w.createTopic(txnSource, txnSourceSize)
	r := w.chance("sweep")
	for i, f := range flows {
		for _, commit := range []bool{true, false} {
			topic := fmt.Sprintf("%s-%v", f.name, commit)
			w.createTopic(topic, txnPartitions)
			s := &sweep{world: w, power: power, r: r}
			s.producers = append(s.producers, w.newTxnProducer(f, topic, topic, s.gone))
			if commit == (i == 0) {
				for j, beside := range flows {
					s.producers = append(s.producers, w.newTxnProducer(beside, fmt.Sprintf("%s-beside-%d", topic, j), topic, s.gone))
				}
			}
			s.run(commit, stride)
		}
	}
	w.Logf("%d starts, %d cut short, %d kills, %d power cuts", w.lives, w.stumbles, w.kills, w.cuts)
	w.stop()
}

// sweep lets the broker die at each operation of a transaction.
type sweep struct {
	*world
	power     bool
	r         *rand.Rand
	producers []*txnProducer // all write to one topic; the first one's transaction is the one whose operations are counted
}

func (s *sweep) gone() bool { return s.disk.Off() || s.own.died.Load() }

// run goes through the operations until a transaction ends before the broker dies.
func (s *sweep) run(commit bool, stride int) {
	s.Helper()
	for at := s.r.IntN(stride); s.faults.Load() == 0; at += stride {
		for _, p := range s.producers {
			if !p.begin() {
				s.fault("%s: it cannot be begun", p.name(p.transact))
				return
			}
		}
		s.doom(at)
		over := s.transact(commit)
		s.crash()
		for s.r.IntN(4) == 0 {
			s.stumble(s.r)
		}
		s.start()
		s.check(at)
		if over {
			return
		}
	}
}

// doom lets the broker die at an operation.
func (s *sweep) doom(at int) {
	s.mu.Lock()
	s.current.ending.Store(true)
	s.mu.Unlock()
	if s.power {
		s.disk.CutAt(at)
	} else {
		s.own.killAt(at)
	}
}

// transact lets each producer run one transaction. It tells whether the first one's was complete before the broker died.
func (s *sweep) transact(commit bool) (over bool) {
	var running sync.WaitGroup
	for i, p := range s.producers {
		p.commits = commit
		if i > 0 {
			p.commits = s.r.IntN(2) == 0
		}
		running.Go(func() {
			p.acknowledged = p.add() && p.produce() && p.addOffsets() && p.offsets() && p.end(p.commits)
			if p.acknowledged {
				p.ended()
			}
			if i == 0 {
				over = !s.gone()
			}
		})
	}
	running.Wait()
	return over
}

// crash ends the broker at the latest now.
func (s *sweep) crash() {
	s.Helper()
	if s.power && !s.disk.Off() {
		s.disk.CutAt(0)
		_ = s.disk.MkdirAll(fmt.Sprintf("/cut%d", s.lives))
	}
	l := s.end()
	s.own.kill()
	for _, p := range s.producers {
		p.hangUp()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = l.node.Close(ctx)
	if ctx.Err() != nil {
		s.fault("closing the broker after a crash took %v", patience)
	}
	if s.power {
		s.cuts++
		s.disk.Restart()
	} else {
		s.kills++
	}
}

// check looks at what the crash has made of the transactions.
func (s *sweep) check(at int) {
	s.Helper()
	states := make([]string, len(s.producers))
	for i, p := range s.producers {
		states[i] = p.ended()
		if states[i] != "Ongoing" {
			continue
		}
		if p.acknowledged {
			s.fault("%s, operation %d: the end was acknowledged, and it is open", p.name(p.transact), at)
		}
		p.succeed()
	}
	for i, p := range s.producers {
		committed := p.fate()
		switch {
		case p.acknowledged && committed != p.commits:
			s.fault("%s, operation %d: commit %v was acknowledged; committed: %v", p.name(p.transact), at, p.commits, committed)
		case committed && !p.commits:
			s.fault("%s, operation %d: it was to be aborted and is committed", p.name(p.transact), at)
		case committed != (states[i] == "CompleteCommit"):
			s.fault("%s, operation %d: its state is %s; committed: %v", p.name(p.transact), at, states[i], committed)
		}
		p.hangUp()
	}
}
