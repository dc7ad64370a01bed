package replica

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
)

// TestAcknowledgedRecordsSurviveTheLossOfReplicas has idempotent producers write to partitions of three replicas while nodes lose their power, stop
// in order, come back, are cut off, hear of metadata late, and leaders move. Every record that was acknowledged, or that a consumer has
// seen, is there in the end, in order and once, and the same on all replicas.
func TestAcknowledgedRecordsSurviveTheLossOfReplicas(t *testing.T) {
	eachSeed(t, (*crashSeeds+9)/10, func(t *testing.T, seed uint64) {
		if seed%4 == 0 {
			surviveLosses(t, seed, true)
			return
		}
		synctest.Test(t, func(t *testing.T) { surviveLosses(t, seed, false) })
	})
}

const lossPartitions = 3

// written is what the producer and the consumers of one partition know.
type written struct {
	mu    sync.Mutex // guards the rest
	acked int        // records, from 0 on
	seen  int
}

func (w *written) ackedBy() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acked
}

// surviveLosses runs in a bubble of time; or with flushes that take their time, or nothing would ever be on its way to the disk: then in real
// time, as who waits for a lock while another one flushes would hold up the bubble's.
func surviveLosses(t *testing.T, seed uint64, slowly bool) {
	random := rand.New(rand.NewPCG(seed, 11))
	settings := []string{"num.replica.fetchers=" + strconv.Itoa(1+random.IntN(2))}
	if random.IntN(3) == 0 {
		settings = append(settings, "replica.fetch.max.bytes=400", "replica.fetch.response.max.bytes=900") // answers are cut short
	}
	c := newCluster(t, seed, 3, settings...)
	defer c.close()
	for _, id := range three {
		if slow := time.Duration(random.IntN(20)) * time.Millisecond; slowly {
			c.nodes[id].fs.set(func(string) error { time.Sleep(slow); return nil })
		}
	}
	c.topic("t", lossPartitions, three, "min.insync.replicas="+strconv.Itoa(1+random.IntN(2)), "segment.bytes=1048576")
	var ledgers [lossPartitions]written
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range ledgers {
		clients.Go(func() { c.produceAlong(int32(i), &ledgers[i], stop) })
		clients.Go(func() { c.consumeAlong(int32(i), &ledgers[i], stop, 1) })
		clients.Go(func() { c.consumeAlong(int32(i), &ledgers[i], stop, 3) })
	}
	for range 12 {
		time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
		if slowly && random.IntN(2) == 0 {
			c.blackout()
			continue
		}
		c.trouble(random)
	}
	c.heal()
	for _, id := range three {
		c.release(id)
		if c.manager(id) == nil {
			c.nodes[id].start()
		}
	}
	for i := range ledgers {
		before := ledgers[i].ackedBy()
		c.waitFor(fmt.Sprintf("partition %d is written after the last loss", i), func() bool { return ledgers[i].ackedBy() > before || t.Failed() })
	}
	close(stop)
	clients.Wait()
	for i := range int32(lossPartitions) {
		c.waitInSync("t", i, three...)
		c.waitSame("t", i)
		c.checkWritten(i, &ledgers[i])
	}
	if t.Failed() {
		t.Logf("seed %d\n%s", seed, c.log)
	}
}

// trouble does one thing to the cluster.
func (c *cluster) trouble(random *rand.Rand) {
	id := three[random.IntN(3)]
	other := three[random.IntN(3)]
	switch random.IntN(9) {
	case 0, 1:
		if c.manager(id) != nil {
			c.stop(id, true)
		}
	case 2:
		if c.manager(id) != nil {
			c.stop(id, false)
		}
	case 3, 4:
		for _, id := range three {
			if c.manager(id) == nil {
				c.nodes[id].start()
			}
		}
	case 5:
		c.cut(id, other)
		if random.IntN(2) == 0 {
			c.cut(other, id)
		}
	case 6:
		c.heal()
		c.release(id)
	case 7:
		if c.manager(id) != nil && random.IntN(2) == 0 {
			c.hold(id)
		}
		c.moveLeaders(random)
	case 8:
		c.blackout()
	}
}

// blackout cuts the power of all nodes at once. Whoever notices last is the last one in sync.
func (c *cluster) blackout() {
	var up []kafka.NodeID
	for _, id := range three {
		if c.manager(id) != nil {
			c.nodes[id].disk.CutAt(0)
			up = append(up, id)
		}
	}
	for _, id := range up {
		c.stop(id, true)
	}
	for _, id := range up {
		c.nodes[id].start()
	}
}

// moveLeaders elects others that are in sync and up.
func (c *cluster) moveLeaders(random *rand.Rand) {
	for i := range int32(lossPartitions) {
		p := c.partition("t", i)
		id := p.ISR[random.IntN(len(p.ISR))]
		if c.manager(id) != nil {
			c.elect("t", i, id)
		}
	}
}

// batchOf is a batch of two records of an idempotent producer, whose values are numbers from n on.
func batchOf(index int32, n int) []byte {
	b := record.Builder{Producer: &record.Producer{ID: kafka.ProducerID(1000 + index), BaseSequence: kafka.Sequence(n)}}
	for i := range 2 {
		b.Add([]byte("k"), []byte(strconv.Itoa(n+i)), nil, time.Now().UnixMilli())
	}
	return b.Build()
}

// produceAlong sends numbers, each batch until it is acknowledged.
func (c *cluster) produceAlong(index int32, w *written, stop <-chan struct{}) {
	for next := 0; ; {
		select {
		case <-stop:
			return
		default:
		}
		r := c.produce("t", index, -1, 700, batchOf(index, next))
		if r.Err == kafka.None {
			next += 2
			w.mu.Lock()
			w.acked = next
			w.mu.Unlock()
			time.Sleep(2 * time.Millisecond)
			continue
		}
		if r.Err == kafka.OutOfOrderSequenceNumber || r.Err == kafka.InvalidProducerEpoch {
			c.Errorf("partition %d, record %d: %v: acknowledged records before it are lost, or it is there twice; seed %d", index, next, r.Err.Name(), c.seed)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// consumeAlong reads on and on, now and then from a follower, and looks whether what it sees is in order. The latest offset that the leader
// tells never goes back.
func (c *cluster) consumeAlong(index int32, w *written, stop <-chan struct{}, salt uint64) {
	random := rand.New(rand.NewPCG(c.seed, salt<<8|uint64(index)))
	from, latest := kafka.Offset(0), kafka.Offset(0)
	for {
		select {
		case <-stop:
			return
		default:
		}
		time.Sleep(time.Duration(random.IntN(30)) * time.Millisecond)
		leader := c.partition("t", index).Leader
		if m := c.manager(leader); m != nil {
			tp := kafka.TopicPartition{Topic: "t", Partition: index}
			epoch := c.partition("t", index).LeaderEpoch
			if found, err := m.ListOffset(tp, OffsetQuery{TimestampMs: Latest, CurrentLeaderEpoch: epoch}); err == nil {
				if found.Offset < latest {
					c.Errorf("partition %d: the latest offset was %d and is %d; seed %d", index, latest, found.Offset, c.seed)
				}
				latest = found.Offset
			}
		}
		id := leader
		if random.IntN(3) == 0 {
			id = three[random.IntN(3)]
		}
		got := c.fetch(id, "t", index, from, int32(random.IntN(200)))
		if got.Err != kafka.None || len(got.bytes) == 0 {
			continue
		}
		values, next := decodeValues(c, got.bytes, from)
		for i, v := range values {
			if v != strconv.Itoa(int(from)+i) {
				c.Errorf("partition %d, offset %d at node %d: record %s; seed %d", index, int(from)+i, id, v, c.seed)
				return
			}
		}
		from = next
		w.mu.Lock()
		w.seen = max(w.seen, int(from))
		w.mu.Unlock()
	}
}

func (c *cluster) checkWritten(index int32, w *written) {
	got := c.values(c.partition("t", index).Leader, "t", index)
	if len(got) < w.acked || len(got) < w.seen {
		c.Errorf("partition %d: %d records, of which %d were acknowledged and %d were seen; seed %d", index, len(got), w.acked, w.seen, c.seed)
	}
	if w.acked == 0 {
		c.Errorf("partition %d: nothing was acknowledged; seed %d", index, c.seed)
	}
	for i, v := range got {
		if v != strconv.Itoa(i) {
			c.Errorf("partition %d, offset %d: record %s; seed %d", index, i, v, c.seed)
			return
		}
	}
}
