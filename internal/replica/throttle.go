package replica

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// throttle keeps what is copied from, or to, the replicas that a topic names to a rate, while they are not in sync: so that those that move, or
// come back, leave room to the others (KIP-73).
type throttle struct {
	rate atomic.Int64 // bytes a second; math.MaxInt64: any

	mu   sync.Mutex // guards pace; held for memory only
	pace pace
}

func (t *throttle) init() {
	t.rate.Store(math.MaxInt64)
	t.pace = pace{rate: &t.rate, last: time.Now()}
}

// wait returns how long nothing may be copied; 0: something may.
func (t *throttle) wait() time.Duration {
	if t.rate.Load() == math.MaxInt64 {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pace.wait()
}

// spend counts what was copied.
func (t *throttle) spend(bytes int) {
	if bytes == 0 || t.rate.Load() == math.MaxInt64 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pace.spend(bytes)
}

// throttledReplicas are those of a topic on this node that a throttle holds for.
type throttledReplicas struct {
	all     bool
	numbers []int32 // of partitions
}

// parseThrottled reads *.replication.throttled.replicas: "*", or partition:broker,…
func parseThrottled(list string, node string) (t throttledReplicas) {
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "*" {
			return throttledReplicas{all: true}
		}
		partition, broker, _ := strings.Cut(entry, ":")
		if n, err := strconv.ParseInt(partition, 10, 32); err == nil && strings.TrimSpace(broker) == node {
			t.numbers = append(t.numbers, int32(n))
		}
	}
	return t
}

func (t *throttledReplicas) has(partition int32) bool {
	return t.all || slices.Contains(t.numbers, partition)
}

// throttledAsLeader returns how long a follower that is not in sync is given nothing.
func (p *replica) throttledAsLeader(req *FetchRequest) (wait time.Duration, counts bool) {
	if !req.isReplica() || !p.settings.Load().leaderThrottled.has(p.tp.Partition) {
		return 0, false
	}
	if wait = p.m.asLeader.wait(); wait > 0 && p.inSync(req) {
		wait = 0
	}
	return wait, true
}

func (p *replica) inSync(req *FetchRequest) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core != nil && slices.Contains(p.core.ISR(), req.ReplicaID)
}
