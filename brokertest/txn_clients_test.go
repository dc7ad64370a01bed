package brokertest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/vfs"
)

// TestTransactionsOfClientsThatDie lets clients die in every state of a transaction: after each of their requests was answered, and
// with EndTxn on its way. What was not ended is aborted when its time is over, nothing stays open, and a client that was taken for
// dead cannot go on. The coordinator is restarted meanwhile under half of them.
func TestTransactionsOfClientsThatDie(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := newWorld(t, vfs.NewMemory(), "/data", ctx, rand.Uint64())
	w.props["transaction.state.log.num.partitions"] = "2"
	w.props["transaction.abort.timed.out.transaction.cleanup.interval.ms"] = "50"
	w.start()
	w.createTopic(txnSource, txnSourceSize)
	var dead []*deadClient
	for _, restarted := range []bool{false, true} {
		var clients sync.WaitGroup
		for _, f := range flows {
			for step := range deathSteps {
				if f.add == 0 && (step == diesAdded || step == diesWithOffsetsAdded) {
					continue // it has no such request
				}
				id := fmt.Sprintf("%s-%d-%v", f.name, step, restarted)
				w.createTopic(id, txnPartitions)
				d := &deadClient{txnProducer: w.newTxnProducer(f, id, id, func() bool { return false }), step: step}
				dead = append(dead, d)
				clients.Go(d.live)
			}
		}
		clients.Wait()
		if restarted {
			w.kill()
			w.start()
		}
	}
	for _, d := range dead {
		d.check()
		d.hangUp()
	}
	w.stop()
}

// The steps after which a client dies.
const (
	diesAdded = iota
	diesWithRecords
	diesWithOffsetsAdded
	diesWithOffsets
	diesCommitting
	diesAborting
	deathSteps
)

type deadClient struct {
	*txnProducer
	step int
}

// live goes through the steps of a transaction up to one, and is silent then.
func (d *deadClient) live() {
	defer d.hangUp()
	steps := []func() bool{
		d.add, d.produce, d.addOffsets, d.offsets,
		func() bool { d.send(d.txn.End(d.flow.end, true)); return true },
		func() bool { d.send(d.txn.End(d.flow.end, false)); return true },
	}
	d.timeoutMs = 2000 // far more than the steps take, also on a busy machine
	if !d.begin() {
		return
	}
	for i, step := range steps[:d.step+1] {
		if i == diesCommitting && d.step != diesCommitting {
			continue
		}
		if !step() {
			return
		}
	}
}

// check waits until the transaction is over.
func (d *deadClient) check() {
	state := d.until("the transaction's time is over", func(state string) bool { return state == "Empty" || strings.HasPrefix(state, "Complete") })
	committed := d.fate()
	if committed != (state == "CompleteCommit") || committed && d.step != diesCommitting {
		d.fault("%s: its state is %s; committed: %v", d.id, state, committed)
	}
	if d.step >= diesCommitting && (state == "CompleteCommit" || d.step == diesAborting) {
		return // it has ended as it was to, and its client may go on
	}
	resp, ok := d.ask(d.txn.End(4, true))
	if !ok {
		d.fault("%s: EndTxn after the end of its time is not answered", d.id)
		return
	}
	if code := resp.(*kmsg.EndTxnResponse).ErrorCode; code != kerr.ProducerFenced.Code {
		d.fault("%s: EndTxn after the end of its time: %v, want PRODUCER_FENCED", d.id, kerr.ErrorForCode(code))
	}
	produce, ok := d.ask(d.records(0))
	if !ok {
		d.fault("%s: Produce after the end of its time is not answered", d.id)
		return
	}
	code := produce.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
	if !slices.Contains([]int16{kerr.InvalidProducerEpoch.Code, kerr.InvalidTxnState.Code}, code) {
		d.fault("%s: Produce after the end of its time: %v", d.id, kerr.ErrorForCode(code))
	}
	if again := d.fate(); again != committed {
		d.fault("%s: what came late has changed it", d.id)
	}
}
