package wire

import (
	"fmt"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// FetchRequest is a decoded Fetch request, version 4 to 18. Decoding into the same value again reuses its slices. Nothing in it
// aliases the body.
type FetchRequest struct {
	ClusterID      *string
	ReplicaID      kafka.NodeID // NoNode for consumers
	ReplicaEpoch   kafka.BrokerEpoch
	MaxWaitMs      int32
	MinBytes       int32
	MaxBytes       int32
	IsolationLevel int8 // 0 reads uncommitted records too, 1 committed ones only
	SessionID      int32
	SessionEpoch   int32 // -1 without a session
	Topics         []FetchTopic
	Forgotten      []ForgottenTopic
	Rack           string

	partitions []FetchPartition // backs the Partitions of all topics
	forgotten  []int32          // backs the Partitions of all forgotten topics
}

// FetchTopic is named by Name up to version 12 and by ID from 13 on.
type FetchTopic struct {
	Name       string
	ID         kafka.TopicID
	Partitions []FetchPartition
}

// FetchPartition says what to read from one partition. Fields that the version lacks hold the protocol's defaults.
type FetchPartition struct {
	Index              int32
	CurrentLeaderEpoch kafka.Epoch
	FetchOffset        kafka.Offset
	LastFetchedEpoch   kafka.Epoch
	LogStartOffset     kafka.Offset // of a follower
	MaxBytes           int32
	DirectoryID        kafka.UUID   // of a follower
	HighWatermark      kafka.Offset // that a follower knows; math.MaxInt64 when it does not say
}

// ForgottenTopic names partitions that leave a fetch session.
type ForgottenTopic struct {
	Name       string
	ID         kafka.TopicID
	Partitions []int32
}

// Decode reads the body of a Fetch request. Names keep the strings that return in every request.
func (f *FetchRequest) Decode(version int16, body []byte, names *Names) error {
	flexible := Flexible(int16(kmsg.Fetch), version)
	r := reader{src: body}
	f.Reset()
	*f = FetchRequest{
		ClusterID: f.ClusterID, ReplicaID: kafka.NoNode, ReplicaEpoch: -1, SessionEpoch: -1,
		Topics: f.Topics, Forgotten: f.Forgotten, partitions: f.partitions, forgotten: f.forgotten,
	}
	if version <= 14 {
		f.ReplicaID = kafka.NodeID(r.int32())
	}
	f.MaxWaitMs, f.MinBytes, f.MaxBytes, f.IsolationLevel = r.int32(), r.int32(), r.int32(), r.int8()
	if version >= 7 {
		f.SessionID, f.SessionEpoch = r.int32(), r.int32()
	}
	f.readTopics(&r, version, flexible, names)
	if version >= 7 {
		f.readForgotten(&r, version, flexible, names)
	}
	if version >= 11 {
		f.Rack = names.String(r.string(flexible))
	}
	cluster := f.ClusterID
	f.ClusterID = nil
	if flexible {
		f.readTags(&r, version, cluster, names)
	}
	if r.bad {
		f.Reset()
		return fmt.Errorf("%w: Fetch v%d of %d bytes", ErrMalformed, version, len(body))
	}
	f.cut()
	return nil
}

func (f *FetchRequest) readTopics(r *reader, version int16, flexible bool, names *Names) {
	topicBytesMin, partitionBytesMin := 6, 16
	switch {
	case version >= 13:
		topicBytesMin, partitionBytesMin = 18, 33
	case flexible:
		topicBytesMin, partitionBytesMin = 3, 33
	}
	for n := r.count(flexible, topicBytesMin); n > 0 && !r.bad; n-- {
		var t FetchTopic
		t.Name, t.ID = readTopic(r, version, flexible, names)
		first := len(f.partitions)
		for m := r.count(flexible, partitionBytesMin); m > 0 && !r.bad; m-- {
			f.partitions = append(f.partitions, readFetchPartition(r, version, flexible))
		}
		t.Partitions = f.partitions[first:]
		r.tagsIf(flexible)
		f.Topics = append(f.Topics, t)
	}
}

func readTopic(r *reader, version int16, flexible bool, names *Names) (string, kafka.TopicID) {
	if version >= 13 {
		return "", r.uuid()
	}
	return names.String(r.string(flexible)), kafka.TopicID{}
}

func readFetchPartition(r *reader, version int16, flexible bool) FetchPartition {
	p := FetchPartition{
		Index:              r.int32(),
		CurrentLeaderEpoch: kafka.NoEpoch, LastFetchedEpoch: kafka.NoEpoch,
		LogStartOffset: kafka.NoOffset, HighWatermark: math.MaxInt64,
	}
	if version >= 9 {
		p.CurrentLeaderEpoch = kafka.Epoch(r.int32())
	}
	p.FetchOffset = kafka.Offset(r.int64())
	if version >= 12 {
		p.LastFetchedEpoch = kafka.Epoch(r.int32())
	}
	if version >= 5 {
		p.LogStartOffset = kafka.Offset(r.int64())
	}
	p.MaxBytes = r.int32()
	if !flexible {
		return p
	}
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		tag, content := r.tag()
		switch {
		case tag == 0 && version >= 17:
			p.DirectoryID = content.uuid()
		case tag == 1 && version >= 18:
			p.HighWatermark = kafka.Offset(content.int64())
		}
		r.ends(&content)
	}
	return p
}

func (f *FetchRequest) readForgotten(r *reader, version int16, flexible bool, names *Names) {
	topicBytesMin := 6
	switch {
	case version >= 13:
		topicBytesMin = 18
	case flexible:
		topicBytesMin = 3
	}
	for n := r.count(flexible, topicBytesMin); n > 0 && !r.bad; n-- {
		var t ForgottenTopic
		t.Name, t.ID = readTopic(r, version, flexible, names)
		first := len(f.forgotten)
		for m := r.count(flexible, 4); m > 0 && !r.bad; m-- {
			f.forgotten = append(f.forgotten, r.int32())
		}
		t.Partitions = f.forgotten[first:]
		r.tagsIf(flexible)
		f.Forgotten = append(f.Forgotten, t)
	}
}

func (f *FetchRequest) readTags(r *reader, version int16, lastCluster *string, names *Names) {
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		tag, content := r.tag()
		switch {
		case tag == 0:
			f.ClusterID = names.pointer(lastCluster, content.nullableString(true))
		case tag == 1 && version >= 15:
			f.ReplicaID, f.ReplicaEpoch = kafka.NodeID(content.int32()), kafka.BrokerEpoch(content.int64())
			content.skipTags()
		}
		r.ends(&content)
	}
}

// cut gives every topic its partitions: growing may have moved them since they were read.
func (f *FetchRequest) cut() {
	rest := f.partitions
	for i := range f.Topics {
		n := len(f.Topics[i].Partitions)
		f.Topics[i].Partitions, rest = rest[:n:n], rest[n:]
	}
	forgotten := f.forgotten
	for i := range f.Forgotten {
		n := len(f.Forgotten[i].Partitions)
		f.Forgotten[i].Partitions, forgotten = forgotten[:n:n], forgotten[n:]
	}
}

// Reset lets go of the topics of the last request. Their slices are used again by the next.
func (f *FetchRequest) Reset() {
	clear(f.Topics)
	clear(f.Forgotten)
	f.Topics, f.Forgotten = f.Topics[:0], f.Forgotten[:0]
	f.partitions, f.forgotten = f.partitions[:0], f.forgotten[:0]
	if max(cap(f.Topics), cap(f.partitions), cap(f.Forgotten), cap(f.forgotten)) > keptMax {
		f.Topics, f.partitions, f.Forgotten, f.forgotten = nil, nil, nil, nil
	}
}

// FetchResponse is the answer to a Fetch request, version 4 to 18.
type FetchResponse struct {
	ThrottleMs int32
	Err        kafka.Error
	SessionID  int32
	Topics     []FetchedTopic
	Endpoints  []NodeEndpoint // of the leaders named in CurrentLeader; sent from version 16 on
}

// FetchedTopic echoes Name up to version 12 and ID from 13 on.
type FetchedTopic struct {
	Name       string
	ID         kafka.TopicID
	Partitions []FetchedPartition
}

// FetchedPartition is what was read from one partition. FailedFetch fills one for an error.
type FetchedPartition struct {
	Index            int32
	Err              kafka.Error
	HighWatermark    kafka.Offset
	LastStableOffset kafka.Offset
	LogStartOffset   kafka.Offset
	Diverging        EpochEnd   // zero value: not sent
	CurrentLeader    Leader     // zero value: not sent
	Snapshot         SnapshotID // zero value: not sent
	Aborted          []AbortedTransaction
	AbortedNull      bool // Aborted goes out as null, as for isolation level 0, not as an empty list
	ReadReplica      ReadReplica
	Records          []Part // whole batches, in order
}

// FailedFetch returns the result of a partition that was not read, with the protocol's defaults.
func FailedFetch(index int32, code kafka.Error) FetchedPartition {
	return FetchedPartition{
		Index: index, Err: code,
		HighWatermark: kafka.NoOffset, LastStableOffset: kafka.NoOffset, LogStartOffset: kafka.NoOffset,
	}
}

// EpochEnd is the largest epoch that reader and leader share, and its end at the leader.
type EpochEnd struct {
	Known     bool
	Epoch     kafka.Epoch
	EndOffset kafka.Offset
}

// SnapshotID names the snapshot to fetch instead of records that are gone.
type SnapshotID struct {
	Known     bool
	EndOffset kafka.Offset
	Epoch     kafka.Epoch
}

// AbortedTransaction tells a consumer whose records to leave out, and from where on.
type AbortedTransaction struct {
	ProducerID  kafka.ProducerID
	FirstOffset kafka.Offset
}

// ReadReplica sends a consumer to a nearer replica (KIP-392). The zero value is "none".
type ReadReplica struct {
	Preferred bool
	ID        kafka.NodeID
}

// Encode makes resp the answer, in the layout of the version. The records stay where they are: they become parts of the
// response between pieces of its head.
func (f *FetchResponse) Encode(resp *Response, version int16) {
	e := fetchEncoder{resp: resp, buf: slices.Grow(resp.Head[:0], f.headBytesMax()), version: version}
	e.flexible = Flexible(int16(kmsg.Fetch), version)
	e.response(f)
	e.cut()
}

// headBytesMax returns at least how much the encoder appends: it cuts its buffer into parts, so the buffer must not move.
func (f *FetchResponse) headBytesMax() int {
	n := 4 + 2 + 4 + 5 + 1 + 1 + 5 + 5
	for i := range f.Topics {
		t := &f.Topics[i]
		n += 16 + 3 + len(t.Name) + 5 + 1
		for j := range t.Partitions {
			n += 4 + 2 + 8 + 8 + 8 + 5 + 17*len(t.Partitions[j].Aborted) + 4 + 5 + 1 + (2 + 13) + (2 + 9) + (2 + 13)
		}
	}
	for i := range f.Endpoints {
		n += f.Endpoints[i].bytes() + 8
	}
	return n
}

type fetchEncoder struct {
	resp     *Response
	buf      []byte
	start    int // of the piece that is being written
	cuts     int
	version  int16
	flexible bool
}

// cut ends a piece: the first becomes the response's head, later ones parts.
func (e *fetchEncoder) cut() {
	piece := e.buf[e.start:]
	e.start = len(e.buf)
	if e.cuts++; e.cuts == 1 {
		e.resp.Head = piece
	} else if len(piece) > 0 {
		e.resp.Parts = append(e.resp.Parts, Part{Bytes: piece})
	}
}

func (e *fetchEncoder) response(f *FetchResponse) {
	e.buf = appendInt32(e.buf, f.ThrottleMs)
	if e.version >= 7 {
		e.buf = appendInt16(e.buf, int16(f.Err))
		e.buf = appendInt32(e.buf, f.SessionID)
	}
	e.buf = appendLength(e.buf, len(f.Topics), e.flexible)
	for i := range f.Topics {
		t := &f.Topics[i]
		if e.version >= 13 {
			e.buf = append(e.buf, t.ID[:]...)
		} else {
			e.buf = appendString(e.buf, t.Name, e.flexible)
		}
		e.buf = appendLength(e.buf, len(t.Partitions), e.flexible)
		for j := range t.Partitions {
			e.partition(&t.Partitions[j])
		}
		e.buf = appendNoTags(e.buf, e.flexible)
	}
	if e.version >= 16 {
		e.buf = appendEndpointsTag(e.buf, f.Endpoints)
	} else {
		e.buf = appendNoTags(e.buf, e.flexible)
	}
}

func (e *fetchEncoder) partition(p *FetchedPartition) {
	e.buf = appendInt32(e.buf, p.Index)
	e.buf = appendInt16(e.buf, int16(p.Err))
	e.buf = appendInt64(e.buf, int64(p.HighWatermark))
	e.buf = appendInt64(e.buf, int64(p.LastStableOffset))
	if e.version >= 5 {
		e.buf = appendInt64(e.buf, int64(p.LogStartOffset))
	}
	e.aborted(p)
	if e.version >= 11 {
		replica := kafka.NoNode
		if p.ReadReplica.Preferred {
			replica = p.ReadReplica.ID
		}
		e.buf = appendInt32(e.buf, int32(replica))
	}
	e.records(p.Records)
	if e.flexible {
		e.tags(p)
	}
}

func (e *fetchEncoder) aborted(p *FetchedPartition) {
	if p.AbortedNull {
		e.buf = appendLength(e.buf, -1, e.flexible)
		return
	}
	e.buf = appendLength(e.buf, len(p.Aborted), e.flexible)
	for _, a := range p.Aborted {
		e.buf = appendInt64(e.buf, int64(a.ProducerID))
		e.buf = appendInt64(e.buf, int64(a.FirstOffset))
		e.buf = appendNoTags(e.buf, e.flexible)
	}
}

func (e *fetchEncoder) records(parts []Part) {
	total := 0
	for i := range parts {
		total += parts[i].Len()
	}
	e.buf = appendLength(e.buf, total, e.flexible)
	if total == 0 {
		return
	}
	e.cut()
	for i := range parts {
		if parts[i].Len() > 0 {
			e.resp.Parts = append(e.resp.Parts, parts[i])
		}
	}
}

func (e *fetchEncoder) tags(p *FetchedPartition) {
	at := len(e.buf)
	e.buf = append(e.buf, 0)
	if d := p.Diverging; d.Known {
		e.buf[at]++
		e.buf = append(e.buf, 0, 4+8+1)
		e.buf = appendInt32(e.buf, int32(d.Epoch))
		e.buf = appendInt64(e.buf, int64(d.EndOffset))
		e.buf = append(e.buf, 0)
	}
	if p.CurrentLeader.Known {
		e.buf[at]++
		e.buf = p.CurrentLeader.appendTag(e.buf, 1)
	}
	if s := p.Snapshot; s.Known {
		e.buf[at]++
		e.buf = append(e.buf, 2, 8+4+1)
		e.buf = appendInt64(e.buf, int64(s.EndOffset))
		e.buf = appendInt32(e.buf, int32(s.Epoch))
		e.buf = append(e.buf, 0)
	}
}
