package test

import (
	"context"
	"testing"
	"time"

	"github.com/raftsman/raftsman/test/proxy"
)

// The groups of copy jobs, in the order of their copies.
const (
	javaCopies = iota
	franzCopies
	librdkafkaCopies
	consumerCopies // of the consumer protocol, whose members are Java's client and librdkafka
)

// startCopies starts a static member of each of the first two groups.
func startCopies(t testing.TB, more ...string) *copyWorld {
	t.Helper()
	w := startCopyWorld(t, append([]string{"java", "franz"}, more...)...)
	w.job(javaCopies, "java", "java-1", "GROUP_INSTANCE=java-1")
	w.job(franzCopies, "franz-go", "franz-1", "GROUP_INSTANCE=franz-1")
	return w
}

// startManyCopies adds librdkafka, a group of the consumer protocol, and to each of the others a member that is not static: of franz-go
// one that takes part in transactions as before KIP-890, whatever the cluster can.
func startManyCopies(t testing.TB) *copyWorld {
	t.Helper()
	w := startCopies(t, "librdkafka", "consumer")
	w.job(librdkafkaCopies, "confluent-kafka", "librdkafka-1", "GROUP_INSTANCE=librdkafka-1")
	w.job(javaCopies, "java", "java-2")
	w.job(franzCopies, "franz-go", "franz-2", "OLD_FLOW=1")
	w.job(librdkafkaCopies, "confluent-kafka", "librdkafka-2")
	w.job(consumerCopies, "java", "java-3", "GROUP_PROTOCOL=consumer")
	w.job(consumerCopies, "confluent-kafka", "librdkafka-3", "GROUP_PROTOCOL=consumer")
	return w
}

// during runs work while the input is written, and judges when all is copied.
func (w *copyWorld) during(work func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.produce(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	work()
	cancel()
	<-done
	w.finish()
}

// TestExactlyOnceCopy copies a topic in transactions with Java's client and franz-go, while the broker is killed, the jobs are killed,
// or come back as zombies, and a proxy delays, loses and repeats the requests of their transactions; as transaction.version 2 has
// them, and as before. Every record is in the copy exactly once, in the order of its key, for read_committed readers in five clients
// that follow all the time. With RAFTSMAN_SOAK=1 there are more jobs, of librdkafka too, and ten minutes of each.
func TestExactlyOnceCopy(t *testing.T) {
	if soak() {
		soakCopies(t)
		return
	}
	t.Parallel()
	w := startCopies(t)
	w.during(func() {
		w.work(true, rounds(5))
		w.proxy.Faults(true)
		w.work(false, rounds(2))
		w.proxy.Faults(false)
		w.setTransactionVersion(1)
		w.work(true, rounds(3))
	})
}

func soakCopies(t *testing.T) {
	const each = 10 * time.Minute
	for _, c := range []struct {
		name   string
		level  int16 // of transaction.version
		killed bool  // the broker, every few seconds
		faults bool  // of the proxy
	}{
		{"killed at transaction.version 2", 2, true, false},
		{"killed at transaction.version 1", 1, true, false},
		{"killed at transaction.version 0", 0, true, false},
		{"proxy at transaction.version 2", 2, false, true},
		{"proxy at transaction.version 1", 1, false, true},
		{"proxy and killed at transaction.version 2", 2, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := startManyCopies(t)
			if c.level < 2 {
				w.setTransactionVersion(c.level)
			}
			w.during(func() {
				w.proxy.Faults(c.faults)
				w.work(c.killed, lasting(each))
				w.proxy.Faults(false)
			})
			if c.faults {
				w.checkFaults()
			}
		})
	}
}

// checkFaults checks that every kind of request met every fault.
func (w *copyWorld) checkFaults() {
	w.t.Helper()
	counts := w.proxy.Counts()
	for _, key := range proxy.Kinds() {
		for _, faults := range [][]proxy.Fault{{proxy.Delay}, {proxy.DropRequest}, {proxy.DropAnswer}, {proxy.Duplicate, proxy.Repeat}, {proxy.Late, proxy.DropRequest}} {
			met := 0
			for _, fault := range faults {
				met += counts[proxy.Count{Key: key, Fault: fault}]
			}
			if met == 0 {
				w.t.Errorf("no request of key %d met %v", key, faults)
			}
		}
	}
}
