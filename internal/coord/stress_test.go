package coord

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
)

// TestManyClientsAtOnce lets clients commit, join, leave and read while appends are held, refused and lost, and leadership
// changes; what was acknowledged must be in the log. Each client goes on until it has been acknowledged often enough, through
// as many refusals as that takes. Its point is the race detector; chance is the scheduler's.
func TestManyClientsAtOnce(t *testing.T) {
	w := newWorld(t, func(w *world) { w.opts.LoadGrace = time.Millisecond })
	acked := make([]kafka.Offset, 16)
	var clients, trouble sync.WaitGroup
	stop := make(chan struct{})
	trouble.Go(func() {
		random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
		tick := time.NewTicker(200 * time.Microsecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				w.logs.set(func() { w.logs.refuse, w.logs.lost = nil, nil })
				w.logs.release(nil)
				return
			case <-tick.C:
			}
			switch random.IntN(40) {
			case 0:
				w.logs.set(func() { w.logs.refuse = kafka.NotEnoughReplicas })
			case 1:
				w.logs.set(func() { w.logs.lost = kafka.KafkaStorageError })
			case 2:
				w.logs.set(func() { w.logs.epoch++ })
				w.publishMove()
			case 3:
				w.logs.hold()
			default:
				w.logs.set(func() { w.logs.refuse, w.logs.lost = nil, nil })
				w.logs.release(nil)
			}
		}
	})
	for i := range acked {
		clients.Go(func() {
			name := fmt.Sprint("g", i)
			stored := 0
			for n := kafka.Offset(1); stored < 200; n++ {
				if w.commit(name, n) == kafka.None {
					acked[i] = n
					stored++
				} else {
					time.Sleep(time.Millisecond) // clients wait before they ask again
				}
				switch n % 5 {
				case 0:
					do[*group.FetchReply](w, name, &group.Fetch{})
				case 1:
					join := joinOf("")
					join.SessionTimeoutMs, join.RebalanceTimeoutMs = 1000, 1000
					joined := do[*group.JoinReply](w, "shared", join)
					do[*group.LeaveReply](w, "shared", &group.Leave{Members: []group.Leaving{{MemberID: joined.MemberID}}})
				case 2:
					do[*group.HeartbeatReply](w, "shared", &group.Heartbeat{MemberID: "nobody"})
				}
			}
		})
	}
	clients.Wait()
	close(stop)
	trouble.Wait()
	w.publishMove()
	w.restart()
	w.opts.LoadGrace = time.Minute
	w.restart()
	for i, n := range acked {
		if got := w.committed(fmt.Sprint("g", i)); got < n {
			t.Errorf("group g%d was told that offset %d is stored; after a restart it is %d", i, n, got)
		}
	}
	w.close()
}

// BenchmarkCommits is one commit of one partition, by as many groups as there are goroutines, on a log in memory.
func BenchmarkCommits(b *testing.B) {
	w := newWorld(b)
	var mu sync.Mutex
	next := 0
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		mu.Lock()
		next++
		name := fmt.Sprint("g", next)
		mu.Unlock()
		ch := make(chan group.Reply, 1)
		for n := kafka.Offset(0); pb.Next(); n++ {
			w.c.Do(name, commitOf(n), func(r group.Reply) { ch <- r })
			if r := (<-ch).(*group.CommitReply); r.Code != kafka.None {
				b.Error(r.Code)
			}
		}
	})
	b.ReportMetric(float64(b.N)/float64(max(w.logs.count(), 1)), "commits/batch")
	w.close()
}

// BenchmarkHeartbeats is one heartbeat of one of many members.
func BenchmarkHeartbeats(b *testing.B) {
	w := newWorld(b)
	id := w.member("g")
	b.ReportAllocs()
	for b.Loop() {
		w.c.Do("g", &group.Heartbeat{MemberID: id, Generation: 1}, func(r group.Reply) {
			if r.(*group.HeartbeatReply).Code != kafka.None {
				b.Error(r)
			}
		})
	}
	w.close()
}

// BenchmarkLoad is reading one committed offset when a partition is loaded, in batches of 100.
func BenchmarkLoad(b *testing.B) {
	w := newWorld(b)
	for i := range 1000 {
		c := commitOf(make([]kafka.Offset, 100)...)
		if r := do[*group.CommitReply](w, "g", c); r.Code != kafka.None {
			b.Fatal(r.Code, i)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += 100_000 {
		w.restart()
		w.committed("g")
	}
	w.close()
}

// BenchmarkTransactions is a transaction over six partitions, by as many producers as there are goroutines, on a log in memory, until
// the next can begin.
func BenchmarkTransactions(b *testing.B) {
	w := newTxnWorld(b)
	w.publish(addTopic(b, w.image.Load(), "six", topicID(6), 6))
	var partitions []kafka.TopicPartition
	for p := range int32(6) {
		partitions = append(partitions, at("six", p))
	}
	var next atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		p := w.client(fmt.Sprint("p", next.Add(1)))
		for pb.Next() {
			for code := kafka.ConcurrentTransactions; code != kafka.None; {
				if code = p.add(partitions...); code != kafka.None && code != kafka.ConcurrentTransactions {
					b.Error(code)
					return
				}
				if code != kafka.None {
					time.Sleep(100 * time.Microsecond) // the markers of the last one
				}
			}
			if code := p.end(true); code != kafka.None {
				b.Error(code)
				return
			}
		}
	})
	w.close()
}
