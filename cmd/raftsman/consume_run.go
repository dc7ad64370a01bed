package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	idleAfter     = 2 * time.Second // then a person is told that nothing comes
	stallPatience = 5 * time.Second // with an end to reach, and nothing comes any more
	leavePatience = 5 * time.Second // for the last commit
	polledRecords = 10_000
)

// consumeRun reads, prints and counts.
type consumeRun struct {
	app   *app
	o     consumeOptions
	out   *bufio.Writer
	show  *progress
	line  []byte
	start time.Time

	mu      sync.Mutex // guards what follows: group callbacks and the progress line come from other goroutines
	plan    spans
	pending map[topicPartition]bool // partitions whose bound is not reached yet
	joined  bool                    // a group assigned partitions, maybe none
	records int64
	bytes   int64
	idle    time.Time // since when nothing came
}

type topicPartition struct {
	topic     string
	partition int32
}

func newConsumeRun(a *app, o consumeOptions, plan spans) *consumeRun {
	r := &consumeRun{app: a, o: o, out: bufio.NewWriterSize(a.out, 64<<10), plan: plan, pending: map[topicPartition]bool{}, start: time.Now(), idle: time.Now()}
	if o.group == "" {
		for topic, partitions := range plan {
			for partition, x := range partitions {
				if !x.empty() {
					r.pending[topicPartition{topic, partition}] = true
				}
			}
		}
	}
	return r
}

// bounded tells whether reading ends by itself.
func (r *consumeRun) bounded() bool { return r.o.toEnd || !r.o.until.IsZero() }

// finished tells whether every partition has been read up to its bound.
func (r *consumeRun) finished() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bounded() && len(r.pending) == 0 && (r.o.group == "" || r.joined)
}

// groupOptions follow what the group assigns: a partition is pending until its bound.
func (r *consumeRun) groupOptions() []kgo.Opt {
	forget := func(partitions map[string][]int32) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for topic, ps := range partitions {
			for _, p := range ps {
				delete(r.pending, topicPartition{topic, p})
			}
		}
	}
	return []kgo.Opt{
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) { r.assigned(assigned) }),
		kgo.AdjustFetchOffsetsFn(func(_ context.Context, fetched map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			for topic, partitions := range fetched {
				for p, offset := range partitions {
					if at := offset.EpochOffset().Offset; at >= 0 && at >= r.plan[topic][p].bound {
						delete(r.pending, topicPartition{topic, p})
					}
				}
			}
			return fetched, nil
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, cl *kgo.Client, revoked map[string][]int32) {
			if err := cl.CommitMarkedOffsets(ctx); err != nil && ctx.Err() == nil {
				r.app.note("the commit before giving partitions up failed: %v", err)
			}
			forget(revoked)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { forget(lost) }),
	}
}

// assigned takes partitions from the group. Nothing could come before: it counts as idle from now on.
func (r *consumeRun) assigned(partitions map[string][]int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.joined, r.idle = true, time.Now()
	for topic, ps := range partitions {
		for _, p := range ps {
			if !r.plan[topic][p].empty() {
				r.pending[topicPartition{topic, p}] = true
			}
		}
	}
}

// loop reads until there is a reason to stop. An interrupt is one, and no error.
func (r *consumeRun) loop(ctx context.Context, cl *kgo.Client) error {
	for !r.finished() && r.more() {
		polling, cancel := context.WithTimeout(ctx, time.Second)
		fetches := cl.PollRecords(polling, polledRecords)
		cancel()
		if err := r.take(ctx, cl, fetches); err != nil || ctx.Err() != nil {
			return err
		}
		cl.AllowRebalance()
		if r.stalled() {
			return nil
		}
	}
	return nil
}

// more tells whether -n leaves anything to read.
func (r *consumeRun) more() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.o.count < 0 || r.records < r.o.count
}

// take prints what a poll brought, then marks it to be committed.
func (r *consumeRun) take(ctx context.Context, cl *kgo.Client, fetches kgo.Fetches) error {
	var problem error
	fetches.EachError(func(topic string, partition int32, err error) {
		if r.ends(ctx, topic, partition, err) && problem == nil {
			problem = refused(fmt.Sprintf("read %s partition %d", topic, partition), err, "")
		}
	})
	if problem != nil {
		return problem
	}
	var err error
	var read []*kgo.Record // the last of each partition
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if err != nil {
			return
		}
		var last *kgo.Record
		for _, record := range p.Records {
			var done bool
			if done, err = r.print(record); err != nil || done {
				break
			}
			last = record
		}
		if last != nil {
			read = append(read, last)
		}
	})
	if flushErr := r.out.Flush(); err == nil {
		err = flushErr
	}
	if err == nil && r.o.group != "" {
		cl.MarkCommitRecords(read...) // only now: it may be committed at any time
	}
	return err
}

// ends tells whether an error ends the command: a poll that ran out of time does not, data lost by the cluster is told and
// read over.
func (r *consumeRun) ends(ctx context.Context, topic string, partition int32, err error) bool {
	var lost *kgo.ErrDataLoss
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return false
	case errors.As(err, &lost):
		r.show.clear()
		r.app.note("the cluster lost records of %s partition %d: reading goes on at offset %d, was at %d", topic, partition, lost.ResetTo, lost.ConsumedTo)
		return false
	}
	return true
}

// print writes one record. done: the record lies beyond what was asked for.
func (r *consumeRun) print(record *kgo.Record) (done bool, err error) {
	shown, done := r.count(record)
	if !shown {
		return done, nil
	}
	r.show.clear()
	r.line = r.o.write(r.line[:0], record)
	_, err = r.out.Write(r.line)
	return false, err
}

// count takes a record into account, and tells whether it is shown and whether its partition is read to its bound.
func (r *consumeRun) count(record *kgo.Record) (shown, done bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tp := topicPartition{record.Topic, record.Partition}
	bound := int64(noBound)
	if x, ok := r.plan[tp.topic][tp.partition]; ok {
		bound = x.bound
	}
	if record.Offset+1 >= bound {
		delete(r.pending, tp)
	}
	if record.Offset >= bound || r.o.count >= 0 && r.records >= r.o.count {
		return false, true
	}
	r.idle = time.Now()
	if record.Attrs.IsControl() {
		return false, false
	}
	r.records++
	r.bytes += int64(len(record.Key) + len(record.Value))
	return true, false
}

// stalled tells whether the bounds can't be reached: the offsets before them hold nothing any more.
func (r *consumeRun) stalled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.bounded() || time.Since(r.idle) < stallPatience || r.o.group != "" && !r.joined {
		return false
	}
	if len(r.pending) > 0 {
		r.app.note("nothing more came for %s, though %s not at the end: stopped", formatSpan(stallPatience), arePartitions(len(r.pending)))
	}
	return true
}

func arePartitions(n int) string {
	if n == 1 {
		return "1 partition is"
	}
	return fmt.Sprintf("%d partitions are", n)
}

// leave commits what was printed. It has its own time, as an interrupt has ended the command's.
func (r *consumeRun) leave(ctx context.Context, cl *kgo.Client) error {
	if r.o.group == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leavePatience)
	defer cancel()
	if err := cl.CommitMarkedOffsets(ctx); err != nil {
		return refused("commit of group "+r.o.group, err, "")
	}
	return nil
}

// status is the line below the records: what was read, or that nothing comes.
func (r *consumeRun) status(elapsed time.Duration) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	idle := time.Since(r.idle) >= idleAfter
	switch {
	case r.o.group != "" && !r.joined:
		return fmt.Sprintf("joining group %s …", r.o.group)
	case idle && r.o.group != "" && r.records == 0:
		return fmt.Sprintf("nothing new for group %s in %s; Ctrl-C stops", r.o.group, strings.Join(r.o.topics, ", "))
	case idle:
		return fmt.Sprintf("waiting at the end of %s; Ctrl-C stops", strings.Join(r.o.topics, ", "))
	case r.app.tty.out:
		return ""
	}
	return rateLine("read", r.records, r.bytes, elapsed)
}

// summary tells a person how much it was, when the records went elsewhere.
func (r *consumeRun) summary() {
	if r.app.tty.err && !r.app.tty.out {
		r.app.note("%s", rateLine("read", r.records, r.bytes, time.Since(r.start)))
	}
}
