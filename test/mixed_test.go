package test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	mixedEvents, mixedTable = "events", "table"
	mixedPartitions         = 3
	mixedKeys               = 500
	mixedLives              = 4
	mixedRate               = 1000 // records a second of each producer
)

// mixedLoad is what clients see of a broker that does everything at once.
type mixedLoad struct {
	t    testing.TB
	addr string

	mu     sync.Mutex // guards the rest
	acked  [mixedPartitions]int64
	seen   [mixedPartitions]int64 // by the reader that follows
	reread int64                  // records that were read again from the begin
	table  map[string]string      // the value of each key that was acknowledged last
	wrote  int64                  // records in it
	took   []time.Duration        // until they were acknowledged
	faults []string
}

// TestMixedLoadStaysFlat has producers, readers that follow and readers that catch up, a group, compaction and retention at once,
// through stops and kills. Every record comes once and in order, and in each life goroutines, files and memory stay what they were
// once it was warm. With RAFTSMAN_SOAK=1 it takes ten minutes.
func TestMixedLoadStaysFlat(t *testing.T) {
	t.Parallel()
	life := 9 * time.Second
	if soak() {
		life = 150 * time.Second
	}
	dir, port := t.TempDir(), freePort(t)
	metrics := fmt.Sprint("127.0.0.1:", freePort(t))
	start := func() *process {
		args := []string{"raftsman.http.listener=" + metrics, "log.retention.check.interval.ms=500", "log.cleaner.backoff.ms=200"}
		for i := range args {
			args[i] = "--override=" + args[i]
		}
		return startBrokerAt(t, dir, port, args...)
	}
	p := start()
	l := &mixedLoad{t: t, addr: p.addr, table: make(map[string]string)}
	l.create()
	ctx, stop := context.WithCancel(t.Context())
	var producers, readers sync.WaitGroup
	reading, stopReading := context.WithCancel(t.Context())
	defer stopReading()
	producers.Go(func() { l.produceEvents(ctx) })
	producers.Go(func() { l.produceTable(ctx) })
	readers.Go(func() { l.follow(reading) })
	readers.Go(func() { l.catchUp(reading) })
	readers.Go(func() { l.commit(reading) })
	var ends []vitals
	for n := range mixedLives {
		ends = append(ends, l.live(metrics, n, life))
		if n == mixedLives-1 {
			break
		}
		if n%2 == 0 {
			p.terminate()
		} else {
			p.kill()
		}
		p = start()
	}
	if first, last := ends[0], ends[mixedLives-1]; last.exceeds(first) {
		t.Errorf("the last life ended with %v, the first one with %v", last, first)
	}
	stop()
	producers.Wait()
	l.check()
	stopReading()
	readers.Wait()
	for _, f := range l.faults {
		t.Error(f)
	}
}

// vitals are what must not grow.
type vitals struct{ goroutines, files, megabytes float64 }

func (v vitals) String() string {
	return fmt.Sprintf("%.0f goroutines, %.0f files, %.1f MB", v.goroutines, v.files, v.megabytes)
}

// exceeds tells whether there is more than what was there before and what comes and goes with segments and collections of garbage,
// and with clients that take a while to come back.
func (v vitals) exceeds(before vitals) bool {
	return v.goroutines > before.goroutines+40 || v.files > before.files+40 || v.megabytes > 1.4*before.megabytes+8
}

// watch returns the medians over a time.
func watch(t testing.TB, metrics string, length time.Duration) vitals {
	var goroutines, files, megabytes []float64
	for until := time.Now().Add(length); len(files) == 0 || time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		values := scrape(t, metrics)
		goroutines, files = append(goroutines, values["go_goroutines"]), append(files, values["process_open_fds"])
		megabytes = append(megabytes, values["process_resident_memory_bytes"]/1e6)
	}
	median := func(all []float64) float64 {
		slices.Sort(all)
		return all[len(all)/2]
	}
	v := vitals{median(goroutines), median(files), median(megabytes)}
	if v.goroutines == 0 || v.files == 0 || v.megabytes == 0 {
		t.Fatalf("the metrics tell of %v", v)
	}
	return v
}

// live lets the load go on for one life of the broker, and returns what it had at the end.
func (l *mixedLoad) live(metrics string, n int, length time.Duration) vitals {
	l.mu.Lock()
	l.took = nil
	l.mu.Unlock()
	time.Sleep(length / 3) // until it is warm
	l.mu.Lock()
	l.took = nil // what waited for the start is of the clients
	l.mu.Unlock()
	warm := watch(l.t, metrics, length/6)
	time.Sleep(length / 3)
	end := watch(l.t, metrics, length/6)
	l.mu.Lock()
	took := slices.Sorted(slices.Values(l.took))
	l.mu.Unlock()
	if len(took) == 0 {
		l.t.Fatalf("life %d: nothing was acknowledged", n)
	}
	at := func(q float64) time.Duration { return took[int(q*float64(len(took)-1))].Round(10 * time.Microsecond) }
	l.t.Logf("life %d: warm %v; end %v; acknowledged after %v (p50), %v (p99), %v (most)", n, warm, end, at(0.5), at(0.99), at(1))
	if end.exceeds(warm) {
		l.t.Errorf("life %d: it had %v once it was warm, and %v in the end", n, warm, end)
	}
	return end
}

func (l *mixedLoad) create() {
	adm := kadm.NewClient(crashClient(l.t, l.addr))
	for topic, configs := range map[string]map[string]*string{
		mixedEvents: {"segment.bytes": new("1048576"), "retention.bytes": new("4194304"), "file.delete.delay.ms": new("500")},
		mixedTable: {
			"cleanup.policy": new("compact"), "segment.ms": new("1000"), "min.cleanable.dirty.ratio": new("0.01"), "file.delete.delay.ms": new("500"),
		},
	} {
		if _, err := adm.CreateTopic(l.t.Context(), mixedPartitions, 1, configs, topic); err != nil {
			l.t.Fatal(err)
		}
	}
}

func (l *mixedLoad) fault(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.faults) < 20 {
		l.faults = append(l.faults, fmt.Sprintf(format, args...))
	}
}

// steadily calls send so many times a second until ctx ends.
func steadily(ctx context.Context, rate int, send func(n int, due time.Time)) {
	began := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		due := began.Add(time.Duration(n) * time.Second / time.Duration(rate))
		time.Sleep(time.Until(due))
		send(n, due)
	}
}

// produceEvents numbers the records of each partition: the one at offset n is n.
func (l *mixedLoad) produceEvents(ctx context.Context) {
	cl := crashClient(l.t, l.addr, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression()))
	filler := strings.Repeat("x", 1000)
	steadily(ctx, mixedRate, func(n int, due time.Time) {
		partition, number := int32(n%mixedPartitions), int64(n/mixedPartitions)
		r := &kgo.Record{Topic: mixedEvents, Partition: partition, Value: []byte(strconv.FormatInt(number, 10) + " " + filler)}
		cl.Produce(context.Background(), r, func(r *kgo.Record, err error) {
			if err != nil || r.Offset != number {
				l.fault("record %d of partition %d: offset %d, %v", number, partition, r.Offset, err)
				return
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.acked[partition], l.took = number+1, append(l.took, time.Since(due))
		})
	})
	if err := cl.Flush(l.t.Context()); err != nil {
		l.fault("flush of the producer of events: %v", err)
	}
}

func (l *mixedLoad) produceTable(ctx context.Context) {
	cl := crashClient(l.t, l.addr, kgo.DefaultProduceTopic(mixedTable), kgo.ProducerLinger(time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression()))
	steadily(ctx, mixedRate, func(n int, due time.Time) {
		key, value := strconv.Itoa(n*7919%mixedKeys), strconv.Itoa(n)
		cl.Produce(context.Background(), kgo.KeyStringRecord(key, value), func(_ *kgo.Record, err error) {
			if err != nil {
				l.fault("key %s: %v", key, err)
				return
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.table[key], l.wrote, l.took = value, l.wrote+1, append(l.took, time.Since(due))
		})
	})
	if err := cl.Flush(l.t.Context()); err != nil {
		l.fault("flush of the producer of the table: %v", err)
	}
}

// poll hands on records until ctx ends or enough tells so. What a restart cuts off is no fault.
func (l *mixedLoad) poll(ctx context.Context, who string, cl *kgo.Client, enough func() bool, each func(*kgo.Record)) {
	for !enough() {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		for _, f := range fetches.Errors() {
			var code *kerr.Error
			var lost *kgo.ErrDataLoss
			if errors.As(f.Err, &code) || errors.As(f.Err, &lost) {
				l.fault("%s: partition %d: %v", who, f.Partition, f.Err)
				return
			}
		}
		fetches.EachRecord(each)
	}
}

func never() bool { return false }

func (l *mixedLoad) isNumbered(who string, r *kgo.Record) {
	number, _, _ := strings.Cut(string(r.Value), " ")
	if number != strconv.FormatInt(r.Offset, 10) {
		l.fault("%s: partition %d has record %s at offset %d", who, r.Partition, number, r.Offset)
	}
}

// follow reads all events, each once.
func (l *mixedLoad) follow(ctx context.Context) {
	cl := crashClient(l.t, l.addr, kgo.ConsumeTopics(mixedEvents), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond))
	var next [mixedPartitions]int64
	l.poll(ctx, "follower", cl, never, func(r *kgo.Record) {
		l.isNumbered("follower", r)
		if r.Offset != next[r.Partition] {
			l.fault("follower: partition %d: offset %d where %d is next", r.Partition, r.Offset, next[r.Partition])
		}
		next[r.Partition] = r.Offset + 1
		l.mu.Lock()
		defer l.mu.Unlock()
		l.seen[r.Partition] = next[r.Partition]
	})
}

// catchUp reads the events that are there from the begin, again and again, while retention takes them away.
func (l *mixedLoad) catchUp(ctx context.Context) {
	for ctx.Err() == nil {
		l.mu.Lock()
		until := l.acked
		l.mu.Unlock()
		cl, err := kgo.NewClient(kgo.SeedBrokers(l.addr), kgo.ConsumeTopics(mixedEvents), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond))
		if err != nil {
			l.fault("%v", err)
			return
		}
		last := [mixedPartitions]int64{-1, -1, -1}
		enough := func() bool {
			for i := range until {
				if last[i]+1 < until[i] {
					return false
				}
			}
			return true
		}
		l.poll(ctx, "reader", cl, enough, func(r *kgo.Record) {
			l.isNumbered("reader", r)
			if was := last[r.Partition]; was >= 0 && r.Offset <= was {
				l.fault("reader: partition %d: offset %d behind %d", r.Partition, r.Offset, was)
			}
			last[r.Partition] = r.Offset
			l.mu.Lock()
			defer l.mu.Unlock()
			l.reread++
		})
		cl.Close()
	}
}

// commit reads in a group that commits by itself.
func (l *mixedLoad) commit(ctx context.Context) {
	cl := crashClient(l.t, l.addr, kgo.ConsumerGroup("mixed"), kgo.ConsumeTopics(mixedTable), kgo.AutoCommitInterval(100*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond))
	l.poll(ctx, "member", cl, never, func(*kgo.Record) {})
}

// check waits until the follower has all, and compares what is left in the compacted topic.
func (l *mixedLoad) check() {
	eventually(l.t, atLast, "the follower has all records", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.seen != l.acked {
			return fmt.Errorf("it has read up to %v, %v was acknowledged", l.seen, l.acked)
		}
		return nil
	})
	starts := must(kadm.NewClient(crashClient(l.t, l.addr)).ListStartOffsets(l.t.Context(), mixedEvents))(l.t)
	starts.Each(func(o kadm.ListedOffset) {
		if o.Err != nil || o.Offset == 0 {
			l.t.Errorf("events begin at %d (%v): retention removed nothing", o.Offset, o.Err)
		}
	})
	eventually(l.t, atLast, "the group has committed all of the table", func() error { return l.committedAll() })
	left, table := int64(0), make(map[string]string)
	cl := crashClient(l.t, l.addr, kgo.ConsumeTopics(mixedTable), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ends := must(kadm.NewClient(cl).ListEndOffsets(l.t.Context(), mixedTable))(l.t)
	missing := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) { missing[o.Partition] = o.Offset })
	l.poll(l.t.Context(), "reader of the table", cl, func() bool { return len(missing) == 0 }, func(r *kgo.Record) {
		left, table[string(r.Key)] = left+1, string(r.Value)
		if r.Offset+1 >= missing[r.Partition] {
			delete(missing, r.Partition)
		}
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, want := range l.table {
		if table[key] != want {
			l.t.Errorf("key %s is %q, want %q", key, table[key], want)
		}
	}
	if left > l.wrote/2 {
		l.t.Errorf("%d of %d records are left of %d keys: hardly compacted", left, l.wrote, mixedKeys)
	}
	if l.reread == 0 {
		l.t.Error("nothing was read again from the begin")
	}
	l.t.Logf("%v records of events, read again %d times; %d records of the table, of which %d are left", l.acked, l.reread, l.wrote, left)
}

// committedAll compares what the group has committed with where the table ends.
func (l *mixedLoad) committedAll() error {
	adm := kadm.NewClient(crashClient(l.t, l.addr))
	ends := must(adm.ListEndOffsets(l.t.Context(), mixedTable))(l.t)
	committed := must(adm.FetchOffsets(l.t.Context(), "mixed"))(l.t)
	for partition := range int32(mixedPartitions) {
		end, _ := ends.Lookup(mixedTable, partition)
		if got, ok := committed.Lookup(mixedTable, partition); !ok || got.At != end.Offset {
			return fmt.Errorf("partition %d: committed %d, the end is %d", partition, got.At, end.Offset)
		}
	}
	return nil
}
