package api

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/quota"
	"github.com/raftsman/raftsman/internal/replica"
	"github.com/raftsman/raftsman/internal/session"
	"github.com/raftsman/raftsman/internal/wire"
)

const (
	// fetchByID is the first version of Fetch that names topics by id.
	fetchByID = 13
	// fetchEndpointsFrom is the first version that tells who leads a partition instead.
	fetchEndpointsFrom = 16
	// fetchFromFollowers is the first version whose consumers may read from followers (KIP-392).
	fetchFromFollowers = 11
)

// FetchSessions are the fetch sessions of all connections, and what limits a fetch.
type FetchSessions struct {
	bytesMax int32 // fetch.max.bytes

	mu    sync.Mutex // guards cache; held for memory only
	cache *session.Cache
}

// NewFetchSessions returns room for as many sessions as the broker is configured for.
func NewFetchSessions(broker *config.Broker) *FetchSessions {
	slots := broker.Int("max.incremental.fetch.session.cache.slots")
	return &FetchSessions{
		bytesMax: int32(broker.Int("fetch.max.bytes")),
		cache:    session.NewCache(slots, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))),
	}
}

// Sessions returns how many sessions there are, and how many had to make place for others.
func (s *FetchSessions) Sessions() (open int, evicted int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cache.Len(), s.cache.Evicted()
}

// fetchCall is one Fetch on its way. It is used again when the answer was sent.
type fetchCall struct {
	a     *API
	call  call
	req   wire.FetchRequest
	ask   replica.FetchRequest
	named []session.Partition // what the request names
	parts []session.Partition // what it reads: with a session, everything that the session names
	own   session.Fetch

	answers []session.Answer
	resp    wire.FetchResponse
	rows    []wire.FetchedPartition // back the Partitions of all topics in resp
	records []wire.Part             // back their Records
	chunks  []commitlog.Chunk       // held until the answer was sent

	done func([]replica.FetchResult)
	sent func()
}

var fetchCalls sync.Pool

// newFetchCall returns one that was used before, or makes one: its callbacks are bound once.
func newFetchCall() *fetchCall {
	if f, ok := fetchCalls.Get().(*fetchCall); ok {
		return f
	}
	f := new(fetchCall)
	f.done, f.sent = f.finish, f.release
	return f
}

// fetch reads records (key 1). A fetch session turns the request into the list of all that its consumer reads; the answer is
// given when there is enough, or an error, or when the wait is over.
func (a *API) fetch(c call) {
	f := newFetchCall()
	f.a, f.call = a, c
	if err := f.req.Decode(c.Version, c.Body, &c.Peer.Names); err != nil {
		f.release()
		c.close()
		return
	}
	if err := f.begin(); err != nil {
		code, _ := kafka.Answer(err)
		f.resp.Err, f.resp.ThrottleMs = code, c.throttle(0)
		f.answer()
		return
	}
	f.prepare()
	a.Replicas.Read(&f.ask, f.done)
}

// begin finds out from the session what the request reads.
func (f *fetchCall) begin() error {
	byID := f.call.Version >= fetchByID
	var forget []session.Key
	for i := range f.req.Topics {
		t := &f.req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			f.named = append(f.named, session.Partition{
				Key:                session.Key{Topic: t.Name, ID: t.ID, Partition: p.Index},
				CurrentLeaderEpoch: p.CurrentLeaderEpoch, FetchOffset: p.FetchOffset, LastFetchedEpoch: p.LastFetchedEpoch,
				LogStart: p.LogStartOffset, MaxBytes: p.MaxBytes,
			})
		}
	}
	for i := range f.req.Forgotten {
		t := &f.req.Forgotten[i]
		for _, index := range t.Partitions {
			forget = append(forget, session.Key{Topic: t.Name, ID: t.ID, Partition: index})
		}
	}
	sessions := f.a.Fetches
	sessions.mu.Lock()
	defer sessions.mu.Unlock()
	var err error
	f.own, f.parts, err = sessions.cache.Begin(session.Request{
		ID: session.ID(f.req.SessionID), Epoch: f.req.SessionEpoch, ByID: byID, Follower: f.req.ReplicaID >= 0,
		Partitions: f.named, Forget: forget,
	}, time.Now().UnixMilli(), f.parts[:0])
	return err
}

// prepare makes the replicas' request.
func (f *fetchCall) prepare() {
	bytesMax := min(f.req.MaxBytes, f.a.Fetches.bytesMax)
	if !f.follower() {
		bytesMax = f.a.Quotas.fetchMax(f.call.who(), bytesMax)
	}
	f.ask = replica.FetchRequest{
		ReplicaID: f.req.ReplicaID, ReplicaEpoch: f.req.ReplicaEpoch,
		FromFollower: !f.follower() && f.call.Version >= fetchFromFollowers, Rack: f.req.Rack, MaxWaitMs: f.req.MaxWaitMs, MinBytes: min(f.req.MinBytes, bytesMax), MaxBytes: bytesMax,
		Committed: f.req.IsolationLevel == 1, Partitions: f.ask.Partitions[:0],
	}
	for i := range f.parts {
		p := &f.parts[i]
		f.ask.Partitions = append(f.ask.Partitions, replica.FetchPartition{
			Topic: p.Topic, TopicID: p.ID, Partition: p.Key.Partition, CurrentLeaderEpoch: p.CurrentLeaderEpoch,
			LastFetchedEpoch: p.LastFetchedEpoch, Offset: p.FetchOffset, LogStart: p.LogStart, MaxBytes: p.MaxBytes,
		})
	}
}

// finish is called with the replicas' results, on any goroutine.
func (f *fetchCall) finish(results []replica.FetchResult) {
	for i := range results {
		r := &results[i]
		f.answers = append(f.answers, session.Answer{
			Error: r.Err, HighWatermark: r.HighWatermark, LogStart: r.LogStart, Bytes: r.Chunk.Len, Diverging: r.Diverges,
			Preferred: r.Preferred != kafka.NoNode,
		})
		f.chunks = append(f.chunks, r.Chunk)
		f.rows = append(f.rows, f.row(f.parts[i].Key.Partition, r))
	}
	if f.resp.ThrottleMs = f.throttle(); f.resp.ThrottleMs > 0 {
		f.postpone()
		return
	}
	if err := f.end(); err != nil {
		code, _ := kafka.Answer(err)
		f.resp.Err, f.resp.Topics = code, f.resp.Topics[:0]
	} else {
		for i := range results {
			if r := &results[i]; r.Chunk.Len > 0 && !f.follower() {
				r.Traffic.BytesOut.Add(int64(r.Chunk.Len))
			}
		}
	}
	f.answer()
}

// follower tells whether a replica asks, which has no quota.
func (f *fetchCall) follower() bool { return f.req.ReplicaID >= 0 }

// throttle returns how long the client is to wait for what it would get. It does not get it then, and so has not used it.
func (f *fetchCall) throttle() (waitMs int32) {
	if f.follower() {
		return 0
	}
	if f.a.Quotas.limits(quota.FetchBytes) == nil {
		return f.call.throttle(0)
	}
	bytes, who := float64(f.bytes()), f.call.who()
	waitMs = f.call.throttle(f.a.Quotas.record(quota.FetchBytes, who, bytes))
	if waitMs > 0 {
		f.a.Quotas.add(quota.FetchBytes, who, -bytes)
	}
	return waitMs
}

// What of an answer is neither records nor names: once, and for each partition.
const (
	fetchHeadBytes = 20
	fetchRowBytes  = 44
)

// bytes is the size of the answer, to some bytes: which partitions without records will be in it is the session's to say.
func (f *fetchCall) bytes() int {
	n := fetchHeadBytes
	for i := range f.rows {
		n += fetchRowBytes + f.records[i].Len()
	}
	return n
}

// postpone answers with nothing at all.
func (f *fetchCall) postpone() {
	sessions := f.a.Fetches
	sessions.mu.Lock()
	id, err := sessions.cache.Postpone(&f.own)
	sessions.mu.Unlock()
	f.resp.SessionID = int32(id)
	f.resp.Err, _ = kafka.Answer(err)
	for i := range f.chunks { // not to be read ahead of
		f.chunks[i].Release()
	}
	clear(f.chunks)
	f.chunks = f.chunks[:0]
	f.answer()
}

// row makes the answer of one partition. Its records come last, when all of them have their place.
func (f *fetchCall) row(index int32, r *replica.FetchResult) wire.FetchedPartition {
	code := r.Err
	if code == kafka.UnknownTopicId && f.call.Version < fetchByID { // a topic without a name
		code = kafka.UnknownTopicOrPartition
	}
	row := wire.FailedFetch(index, code)
	row.HighWatermark, row.LastStableOffset, row.LogStartOffset = r.HighWatermark, r.LastStable, r.LogStart
	// Kafka sends an empty list where it found no partition, and null with any other error and where epochs diverge.
	found := r.Err != kafka.UnknownTopicOrPartition && r.Err != kafka.UnknownTopicId
	row.AbortedNull = found && (f.req.IsolationLevel != 1 || r.Err != kafka.None || r.Diverges)
	if r.Diverges {
		row.Diverging = wire.EpochEnd{Known: true, Epoch: r.SharedEpoch, EndOffset: r.SharedEnd}
	}
	if r.Preferred != kafka.NoNode {
		row.ReadReplica = wire.ReadReplica{Preferred: true, ID: r.Preferred}
	}
	for _, aborted := range r.Aborted {
		row.Aborted = append(row.Aborted, wire.AbortedTransaction{ProducerID: aborted.ProducerID, FirstOffset: aborted.FirstOffset})
	}
	part := wire.Part{}
	if r.Chunk.Len > 0 {
		part.File = wire.FileRange{File: r.Chunk.File, Pos: r.Chunk.Pos, Len: r.Chunk.Len}
	}
	f.records = append(f.records, part)
	return row
}

// end tells the session what is answered, and lists those partitions that must be in the answer, by topic.
func (f *fetchCall) end() error {
	kept := 0
	sessions := f.a.Fetches
	sessions.mu.Lock()
	id, err := sessions.cache.End(&f.own, f.parts, f.answers, time.Now().UnixMilli(), func(i int, must bool) {
		if !must {
			return
		}
		f.rows[kept], f.records[kept], f.parts[kept] = f.rows[i], f.records[i], f.parts[i]
		kept++
	})
	sessions.mu.Unlock()
	f.resp.SessionID = int32(id)
	if err != nil {
		return err
	}
	for i := 0; i < kept; {
		first := i
		key := f.parts[i].Key
		for ; i < kept && f.parts[i].ID == key.ID && f.parts[i].Topic == key.Topic; i++ {
			if f.records[i].Len() > 0 {
				f.rows[i].Records = f.records[i : i+1]
			}
			f.tellLeader(key, &f.rows[i])
		}
		f.resp.Topics = append(f.resp.Topics, wire.FetchedTopic{Name: key.Topic, ID: key.ID, Partitions: f.rows[first:i:i]})
	}
	return nil
}

// tellLeader names the leader in a row whose client asked the wrong node or with an old epoch (KIP-951).
func (f *fetchCall) tellLeader(key session.Key, row *wire.FetchedPartition) {
	if f.call.Version < fetchEndpointsFrom || row.Err != kafka.NotLeaderOrFollower && row.Err != kafka.FencedLeaderEpoch {
		return
	}
	row.CurrentLeader, f.resp.Endpoints = f.a.currentLeader(f.call.Peer.Listener, key.Topic, key.ID, row.Index, f.resp.Endpoints)
}

// answer encodes the response and gives it away; what it holds is released when it was sent.
func (f *fetchCall) answer() {
	resp := f.call.Response()
	f.resp.Encode(resp, f.call.Version)
	resp.Release = f.sent
	f.call.reply(resp)
}

// release gives the chunks back and lets go of everything that belongs to the request.
func (f *fetchCall) release() {
	for i := range f.chunks {
		f.chunks[i].ReadAhead()
		f.chunks[i].Release()
	}
	f.a, f.call, f.own = nil, call{}, session.Fetch{}
	f.req.Reset()
	clear(f.ask.Partitions)
	clear(f.named)
	clear(f.parts)
	clear(f.rows)
	clear(f.records)
	clear(f.chunks)
	clear(f.resp.Topics)
	f.ask.Partitions, f.named, f.parts, f.answers = f.ask.Partitions[:0], f.named[:0], f.parts[:0], f.answers[:0]
	f.rows, f.records, f.chunks = f.rows[:0], f.records[:0], f.chunks[:0]
	f.resp = wire.FetchResponse{Topics: f.resp.Topics[:0]}
	fetchCalls.Put(f)
}
