package brokertest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// TestOddClients lets clients behave as none should, one kind after the other and then all at once. The broker serves others all
// the time, and afterwards it is as it was: no goroutine and no memory stays behind.
func TestOddClients(t *testing.T) {
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64() >> 1
	}
	t.Logf("to repeat: go test ./brokertest -run TestOddClients -chaos-seed %d", seed)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	before := usage()
	w := newWorld(t, vfs.NewMemory(), "/data", ctx, seed)
	w.props["raftsman.frame.timeout.ms"] = "2000" // as long as those who wait for it like, as short as others can bear
	w.props["group.initial.rebalance.delay.ms"] = "0"
	w.start()
	odd := &oddClients{world: w, topic: w.createTopic("odd", 2)}
	odd.fill()
	kinds := []struct {
		name string
		run  func(k *worker)
	}{
		{"half frames", odd.halfFrames},
		{"deaf", odd.deaf},
		{"many connections", odd.manyConnections},
		{"pipelining", odd.pipelining},
		{"lost sessions", odd.lostSessions},
		{"lost members", odd.lostMembers},
		{"sequence wrap", odd.sequenceWrap},
		{"two with one id", odd.twins},
		{"deleted topics", odd.deletedTopics},
	}
	run := func(name string, f func(k *worker)) {
		k := w.newWorker(name, ctx)
		f(k)
		k.hangUp()
	}
	for _, kind := range kinds { // once, so that pools and caches are filled
		began := time.Now()
		run(kind.name, kind.run)
		t.Logf("%s: %v", kind.name, time.Since(began).Round(time.Millisecond))
	}
	idle := w.calm(usage(), 0)
	rounds := 1
	if soaking() {
		rounds = 50
	}
	for round := range rounds {
		var all sync.WaitGroup
		for _, kind := range kinds {
			all.Go(func() { run(fmt.Sprint(kind.name, round), kind.run) })
		}
		all.Wait()
	}
	w.calm(idle, 16<<20)
	w.stop()
	w.calm(before, math.MaxInt64)
}

// used is what the process holds.
type used struct {
	goroutines int
	heap       int64
}

func usage() used {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return used{runtime.NumGoroutine(), int64(m.HeapAlloc)}
}

// calm waits until the process holds no more than it did, but for some memory, and returns what it holds.
func (w *world) calm(want used, slack int64) used {
	w.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.Now().Add(patience)
	for range tick.C {
		now := usage()
		if now.goroutines <= want.goroutines && (slack == 0 || slack == math.MaxInt64 || now.heap <= want.heap+slack) {
			return now
		}
		if time.Now().After(late) {
			var stacks bytes.Buffer
			_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
			w.fault("%d goroutines and %d bytes stay, there were %d and %d:\n%s", now.goroutines, now.heap, want.goroutines, want.heap, stacks.Bytes())
			return now
		}
	}
	return used{}
}

// oddClients has a topic with something in it.
type oddClients struct {
	*world
	topic *topic
}

// fill makes the topic worth reading: about 8 MB.
func (o *oddClients) fill() {
	k := o.newWorker("fill", o.ctx)
	defer k.hangUp()
	for range 16 {
		builder := record.Builder{}
		builder.Add(nil, make([]byte, 500_000), nil, time.Now().UnixMilli())
		o.mustProduce(k, -1, 0, builder.Build())
	}
}

func produceRequest(t *topic, index int32, acks int16, b record.Batch) *kmsg.ProduceRequest {
	p := pen{worker: &worker{r: rand.New(rand.NewPCG(0, 0))}, acks: acks}
	req := p.request(&batch{topic: t, index: index, bytes: b})
	req.Version = 9
	return req
}

func (o *oddClients) mustProduce(k *worker, acks int16, index int32, b record.Batch) int64 {
	code, offset, ok := k.outcome(k.send(produceRequest(o.topic, index, acks, b)))
	if !ok || code != 0 {
		k.fault("%s: produce: %v", k.name, kerr.ErrorForCode(code))
	}
	return offset
}

func (k *worker) dial() net.Conn {
	l := k.alive(k.ctx)
	conn, err := net.DialTimeout("tcp", l.addr, patience)
	if err != nil {
		k.Fatalf("seed %d: %s: %v", k.seed, k.name, err)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// halfFrames writes the beginnings of requests and closes, or waits until the broker has had enough.
func (o *oddClients) halfFrames(k *worker) {
	whole := frame(produceRequest(o.topic, 1, -1, k.plainBatch(20)), 1)
	var patient []net.Conn
	for i := range 200 {
		conn := k.dial()
		cut := 1 + k.r.IntN(len(whole)-1)
		_, _ = conn.Write(whole[:cut])
		if i%20 == 0 {
			patient = append(patient, conn)
			continue
		}
		conn.Close()
	}
	for _, conn := range patient {
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			k.fault("%s: the broker waits for the rest of a frame for ever", k.name)
		}
		conn.Close()
	}
}

func (k *worker) plainBatch(records int) record.Batch {
	var builder record.Builder
	for range records {
		builder.Add(nil, fmt.Append(nil, k.r.Uint64()), nil, time.Now().UnixMilli())
	}
	return builder.Build()
}

// deaf asks for much and does not read the answers: for ever, or for a while, after which all of them come.
func (o *oddClients) deaf(k *worker) {
	var all sync.WaitGroup
	for i := range 20 {
		conn := k.dial()
		fetch := kmsg.NewPtrFetchRequest()
		fetch.Version, fetch.MaxBytes, fetch.MinBytes = 12, 50<<20, 1
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic = o.topic.name
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.PartitionMaxBytes, rp.CurrentLeaderEpoch = 50<<20, -1
		rt.Partitions = append(rt.Partitions, rp)
		fetch.Topics = append(fetch.Topics, rt)
		all.Go(func() {
			defer conn.Close()
			const requests = 10
			for n := range int32(requests) {
				if _, err := conn.Write(frame(fetch, n)); err != nil {
					k.fault("%s: request %d: %v", k.name, n, err)
				}
			}
			if i%10 != 0 {
				return
			}
			over := time.NewTimer(300 * time.Millisecond)
			defer over.Stop()
			<-over.C
			for n := range int32(requests) {
				if id, body, err := readAnswer(conn); err != nil || id != n || len(body) < 8_000_000 {
					k.fault("%s: answer %d has correlation id %d and %d bytes (%v)", k.name, n, id, len(body), err)
				}
			}
		})
	}
	all.Wait()
}

// manyConnections opens a lot of them at once. All are answered.
func (o *oddClients) manyConnections(k *worker) {
	count := 1500
	var conns []net.Conn
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = 3
	hello := frame(req, 7)
	for range count {
		conn := k.dial()
		conns = append(conns, conn)
		_, _ = conn.Write(hello)
	}
	for _, i := range k.r.Perm(count) {
		if id, _, err := readAnswer(conns[i]); err != nil || id != 7 {
			k.fault("%s: ApiVersions on connection %d of %d: id %d, %v", k.name, i, count, id, err)
			return
		}
	}
}

// pipelining sends many requests of all kinds without waiting for an answer. They come in order.
func (o *oddClients) pipelining(k *worker) {
	link := k.connected()
	var sent []*asked
	for i := range 400 {
		var req kmsg.Request
		switch i % 5 {
		case 0:
			req = kmsg.NewPtrMetadataRequest()
		case 1, 2:
			req = produceRequest(o.topic, 1, int16(k.r.IntN(3)-1), k.plainBatch(3))
		case 3:
			h := kmsg.NewPtrHeartbeatRequest()
			h.Group = "nobody's"
			req = h
		case 4:
			f := kmsg.NewPtrFindCoordinatorRequest()
			f.CoordinatorKey = "anybody's"
			req = f
		}
		sent = append(sent, link.send(req))
	}
	for _, a := range sent {
		if p, ok := a.req.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
			continue
		}
		if _, ok := k.wait(a); !ok {
			return
		}
	}
}

// lostSessions begins more fetch sessions than there is room for, and goes. Another client still reads.
func (o *oddClients) lostSessions(k *worker) {
	for i := range 1100 {
		if i%100 == 0 {
			k.hangUp()
		}
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MaxBytes, req.SessionEpoch = 13, 1, 0
		rt := kmsg.NewFetchRequestTopic()
		rt.TopicID = o.topic.id
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.PartitionMaxBytes, rp.CurrentLeaderEpoch, rp.Partition = 1, -1, 1
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		resp, ok := k.ask(req)
		if !ok {
			return
		}
		if r := resp.(*kmsg.FetchResponse); r.ErrorCode != 0 || len(r.Topics) != 1 || r.Topics[0].Partitions[0].ErrorCode != 0 {
			k.fault("%s: fetch %d: %+v", k.name, i, r)
			return
		}
	}
}

// lostMembers lets members ask to join and go before they are answered. A last one gets the group.
func (o *oddClients) lostMembers(k *worker) {
	group := fmt.Sprint("lost", k.r.Uint64())
	for range 30 {
		link := k.connected()
		for range 3 {
			m := &member{worker: k, group: group, session: 500 * time.Millisecond}
			req := m.joinRequest()
			req.Version = 3 // an id is given at once
			req.RebalanceTimeoutMillis = 500
			link.send(req)
		}
		k.hangUp()
	}
	late := time.Now().Add(patience)
	for m := (&member{worker: k, group: group, topics: []*topic{o.topic}, session: 10 * time.Second}); len(m.owned) < 2; {
		if time.Now().After(late) {
			k.fault("%s: members that went before they had joined keep another one out", k.name)
			return
		}
		if m.join() && len(m.owned) == 2 {
			m.leave()
		}
		k.pause(20 * time.Millisecond)
	}
}

func (o *oddClients) identity(k *worker) *record.Producer {
	p := &pen{worker: k, idempotent: true}
	for !p.identify() {
		k.pause(time.Millisecond)
	}
	return &record.Producer{ID: p.id, Epoch: p.epoch}
}

// sequenceWrap writes beyond the last sequence number, which is followed by 0.
func (o *oddClients) sequenceWrap(k *worker) {
	who := o.identity(k)
	build := func(sequence kafka.Sequence, records int) record.Batch {
		b := record.Builder{Producer: &record.Producer{ID: who.ID, Epoch: who.Epoch, BaseSequence: sequence}}
		for range records {
			b.Add(nil, []byte("wrap"), nil, time.Now().UnixMilli())
		}
		return b.Build()
	}
	first := o.mustProduce(k, -1, 1, build(math.MaxInt32-5, 4)) // to MaxInt32-2
	around := o.mustProduce(k, -1, 1, build(math.MaxInt32-1, 4))
	after := o.mustProduce(k, -1, 1, build(2, 1))
	if again := o.mustProduce(k, -1, 1, build(math.MaxInt32-1, 4)); again != around {
		k.fault("%s: a batch around the last sequence number is at %d, and sent again at %d", k.name, around, again)
	}
	if first >= around || around >= after {
		k.fault("%s: offsets %d, %d, %d", k.name, first, around, after)
	}
	code, _, ok := k.outcome(k.send(produceRequest(o.topic, 1, -1, build(5, 1))))
	if ok && code != kerr.OutOfOrderSequenceNumber.Code {
		k.fault("%s: sequence 5 after 2: %v, want OUT_OF_ORDER_SEQUENCE_NUMBER", k.name, kerr.ErrorForCode(code))
	}
}

// twins are two producers with one id and epoch that race each other. Of each sequence number one batch is in the log.
func (o *oddClients) twins(k *worker) {
	who := o.identity(k)
	const rounds = 60
	offsets := make([][]int64, 2)
	var both sync.WaitGroup
	for i := range offsets {
		twin := o.newWorker(fmt.Sprint(k.name, " twin ", i), k.ctx)
		offsets[i] = make([]int64, rounds)
		both.Go(func() {
			defer twin.hangUp()
			for n := range rounds {
				b := record.Builder{Producer: &record.Producer{ID: who.ID, Epoch: who.Epoch, BaseSequence: kafka.Sequence(n)}}
				b.Add([]byte(twin.name), fmt.Append(nil, n), nil, time.Now().UnixMilli())
				code, offset, ok := twin.outcome(twin.send(produceRequest(o.topic, 1, -1, b.Build())))
				switch {
				case !ok:
					return
				case code == 0:
					offsets[i][n] = offset
				case code == kerr.DuplicateSequenceNumber.Code || code == kerr.OutOfOrderSequenceNumber.Code: // the other is more than five ahead
				default:
					twin.fault("%s: sequence %d: %v", twin.name, n, kerr.ErrorForCode(code))
				}
			}
		})
	}
	both.Wait()
	all := map[int64]int{}
	for n := range rounds {
		a, b := offsets[0][n], offsets[1][n]
		if a > 0 && b > 0 && a != b {
			k.fault("%s: sequence %d is at offsets %d and %d", k.name, n, a, b)
		}
		all[max(a, b)]++
	}
	if len(all) != rounds {
		k.fault("%s: %d sequence numbers are at %d offsets", k.name, rounds, len(all))
	}
}

// deletedTopics writes to topics that are no longer there, with all acks that there are and some that there are not.
func (o *oddClients) deletedTopics(k *worker) {
	for _, acks := range []int16{-1, 0, 1, 2, -2} {
		gone := &topic{name: fmt.Sprint("gone", k.r.Uint64())}
		if resp, ok := k.ask(createRequest(7, gone.name, 1)); ok {
			gone.id = resp.(*kmsg.CreateTopicsResponse).Topics[0].TopicID
		}
		gone.partitions.Store(1)
		k.churnDelete(gone)
		for _, version := range []int16{9, 13} {
			req := produceRequest(gone, 0, acks, k.plainBatch(1))
			req.Version = version
			k.refusedAsGone(req)
		}
	}
}

func (k *worker) refusedAsGone(req *kmsg.ProduceRequest) {
	if req.Acks == 0 { // the connection ends
		conn := k.dial()
		defer conn.Close()
		_, _ = conn.Write(frame(req, 1))
		if n, err := io.Copy(io.Discard, conn); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			k.fault("%s: Produce with acks=0 to a topic that is gone: %d bytes came (%v), want the connection closed", k.name, n, err)
		}
		return
	}
	want := []int16{kerr.UnknownTopicOrPartition.Code, kerr.UnknownTopicID.Code}
	if code, _, ok := k.outcome(k.send(req)); ok && !slices.Contains(want, code) {
		k.fault("%s: Produce version %d with acks=%d to a topic that is gone: error %d, want one of %v", k.name, req.Version, req.Acks, code, want)
	}
}
