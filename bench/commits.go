package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// commitLoad is a load of OffsetCommit requests. They are encoded before the clock starts and only stamped while it runs, and what
// comes in together is answered together: one processor carries more of them than either broker can take.
type commitLoad struct {
	groups      int // spread over the connections
	connections int
	inFlight    int // on a connection, of groups in turn
	partitions  int // in each request
	requests    int // in a turn
}

func commitFigures(rate, used float64) []figure {
	return []figure{{"throughput", "commits/s", true, rate}, {cpu, "µs/commit", false, used}, {loadCPU, "µs/commit", false, 0}}
}

// commitVersion is the version of the requests: the newest ones name topics by id.
const commitVersion = 8

func commitRow(load commitLoad) func(context.Context, *broker, float64) (map[string]float64, error) {
	return func(ctx context.Context, b *broker, scale float64) (map[string]float64, error) {
		ctx, cancel := ctxFor(ctx)
		defer cancel()
		topic, drop, err := newTopic(ctx, b, int32(max(load.partitions, partitions)), nil)
		if err != nil {
			return nil, err
		}
		defer drop()
		committers := make([]*committer, load.connections)
		for i := range committers {
			c, err := newCommitter(ctx, b, load, i, topic)
			if err != nil {
				return nil, err
			}
			defer c.conn.Close()
			committers[i] = c
		}
		each := max(int(scale*float64(load.requests))/load.connections, load.inFlight)
		own := ownCPU()
		elapsed, used, err := metered(b, func() error {
			failed := make([]error, len(committers))
			var wait sync.WaitGroup
			for i, c := range committers {
				wait.Go(func() { failed[i] = c.run(each) })
			}
			wait.Wait()
			return errors.Join(failed...)
		})
		if err != nil {
			return nil, err
		}
		total := float64(each * load.connections)
		return map[string]float64{
			"throughput": total / elapsed.Seconds(),
			cpu:          float64(used.cpu.Microseconds()) / total,
			loadCPU:      float64((ownCPU() - own).Microseconds()) / total,
		}, nil
	}
}

// committer is one connection and the requests that it sends again and again, with new numbers.
type committer struct {
	conn     net.Conn
	inFlight int
	requests []commitRequest
	answer   []byte // that all requests get, from its correlation id on
	sent     int32
	out, in  []byte
}

// commitRequest is an encoded request, and where in it the offsets are.
type commitRequest struct {
	frame   []byte
	offsets []int
}

func newCommitter(ctx context.Context, b *broker, load commitLoad, number int, topic string) (*committer, error) {
	conn, err := net.Dial("tcp", b.node().addr())
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	c := &committer{conn: conn, inFlight: load.inFlight, in: make([]byte, 0, 64<<10)}
	for g := number; g < load.groups; g += load.connections {
		c.requests = append(c.requests, newCommitRequest("bench-"+strconv.Itoa(g), topic, load.partitions))
	}
	for range c.requests { // also finds the coordinator awake, and all groups known
		if err := c.first(ctx, b); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return c, nil
}

func newCommitRequest(group, topic string, partitions int) commitRequest {
	const mark = 0x5ca1ab1e0ff5e700
	request := kmsg.NewPtrOffsetCommitRequest()
	request.SetVersion(commitVersion)
	request.Group = group
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	for i := range partitions {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = int32(i), mark+int64(i)
		t.Partitions = append(t.Partitions, p)
	}
	request.Topics = append(request.Topics, t)
	r := commitRequest{frame: kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(nil, request, 0)}
	for i := range partitions {
		r.offsets = append(r.offsets, bytes.Index(r.frame, binary.BigEndian.AppendUint64(nil, mark+uint64(i))))
	}
	return r
}

// first sends one request until the group's coordinator is there, and keeps the answer to compare others with.
func (c *committer) first(ctx context.Context, b *broker) error {
	for until := time.Now().Add(30 * time.Second); ; {
		c.out = c.stamp(c.out[:0])
		if _, err := c.conn.Write(c.out); err != nil {
			return err
		}
		head := make([]byte, 4)
		if _, err := io.ReadFull(c.conn, head); err != nil {
			return err
		}
		answer := make([]byte, binary.BigEndian.Uint32(head))
		if _, err := io.ReadFull(c.conn, answer); err != nil {
			return err
		}
		failed := checkCommitted(answer[5:]) // behind the correlation id and no tags
		if failed == nil {
			c.answer = answer[4:]
			return nil
		}
		if !kerr.IsRetriable(failed) || time.Now().After(until) {
			return failed
		}
		if err := findCoordinator(ctx, b); err != nil {
			return err
		}
		c.sent-- // the same group again
	}
}

func checkCommitted(body []byte) error {
	response := kmsg.NewPtrOffsetCommitResponse()
	response.SetVersion(commitVersion)
	if err := response.ReadFrom(body); err != nil {
		return err
	}
	for _, t := range response.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

// findCoordinator makes a fresh broker create the topic that offsets are stored in.
func findCoordinator(ctx context.Context, b *broker) error {
	cl, err := b.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	request := kmsg.NewPtrFindCoordinatorRequest()
	request.CoordinatorKey = "bench-0"
	_, err = request.RequestWith(ctx, cl)
	time.Sleep(100 * time.Millisecond)
	return err
}

// stamp appends the next request to dst.
func (c *committer) stamp(dst []byte) []byte {
	r := &c.requests[int(c.sent)%len(c.requests)]
	c.sent++
	binary.BigEndian.PutUint32(r.frame[8:], uint32(c.sent))
	for _, at := range r.offsets {
		binary.BigEndian.PutUint64(r.frame[at:], uint64(c.sent))
	}
	return append(dst, r.frame...)
}

// run sends so many requests and returns when all are answered.
func (c *committer) run(requests int) error {
	next := c.sent // whose answer is expected is one above
	last := c.sent + int32(requests)
	for room := c.inFlight; next < last; {
		c.out = c.out[:0]
		for ; room > 0 && c.sent < last; room-- {
			c.out = c.stamp(c.out)
		}
		if len(c.out) > 0 {
			if _, err := c.conn.Write(c.out); err != nil {
				return err
			}
		}
		n, err := c.conn.Read(c.in[len(c.in):cap(c.in)])
		if err != nil {
			return err
		}
		c.in = c.in[:len(c.in)+n]
		rest := c.in
		for len(rest) >= 4 && len(rest) >= 4+int(binary.BigEndian.Uint32(rest)) {
			length := int(binary.BigEndian.Uint32(rest))
			next++
			if got := int32(binary.BigEndian.Uint32(rest[4:])); got != next {
				return fmt.Errorf("the answer to request %d came where that to %d was expected", got, next)
			}
			if !bytes.Equal(rest[8:4+length], c.answer) {
				return fmt.Errorf("a commit was refused: %w", checkCommitted(rest[9:4+length]))
			}
			rest = rest[4+length:]
			room++
		}
		c.in = c.in[:copy(c.in, rest)]
	}
	return nil
}
