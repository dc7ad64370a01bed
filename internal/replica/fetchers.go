package replica

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/peer"
)

// Peers are the other brokers, as followers reach them. An error is that of a call that was not answered, or a kafka.Error.
type Peers interface {
	// Fetch asks a broker that leads partitions. A broker has num.replica.fetchers lines, from 0 on; each takes one fetch at a time. When ctx is
	// cancelled the line is free at once.
	Fetch(ctx context.Context, from kafka.NodeID, line int, req *peer.FetchRequest) (*peer.FetchResponse, error)
	// ListOffset asks the leader of a partition, in an epoch, where its log begins (Earliest) or ends (Latest), whatever is committed.
	ListOffset(ctx context.Context, from kafka.NodeID, tp kafka.TopicPartition, epoch kafka.Epoch, timestampMs int64) (kafka.Offset, error)
}

// fetchers keep the followers of this node going: one fetcher for each line to each broker that leads some of its partitions.
type fetchers struct {
	m        *Manager
	peers    Peers // nil: nobody is followed
	settings fetchSettings
	ctx      context.Context
	cancel   context.CancelFunc

	mu     sync.Mutex // guards the rest; taken after Apply's lock, and before a fetcher's
	lines  map[fetcherKey]*fetcher
	by     map[*slot]*followed
	closed bool
}

// fetchSettings are those of replica.fetch.*, which are the node's own and don't change.
type fetchSettings struct {
	lines          int // num.replica.fetchers
	waitMaxMs      int32
	bytesMin       int32
	bytesMax       int32 // of an answer
	partitionBytes int32 // of one partition in it
	backoffMaxMs   int64
}

type fetcherKey struct {
	node kafka.NodeID
	line int
}

func (fs *fetchers) start(m *Manager, peers Peers) {
	fs.m, fs.peers = m, peers
	fs.settings = readFetchSettings(m.broker)
	fs.ctx, fs.cancel = context.WithCancel(context.Background())
	fs.lines, fs.by = map[fetcherKey]*fetcher{}, map[*slot]*followed{}
}

func readFetchSettings(b *config.Broker) fetchSettings {
	return fetchSettings{
		lines: max(b.Int("num.replica.fetchers"), 1), waitMaxMs: int32(b.Int("replica.fetch.wait.max.ms")),
		bytesMin: int32(b.Int("replica.fetch.min.bytes")), bytesMax: int32(b.Int("replica.fetch.response.max.bytes")),
		partitionBytes: int32(b.Int("replica.fetch.max.bytes")), backoffMaxMs: b.Int64("replica.fetch.backoff.ms"),
	}
}

// close ends all fetchers. It may be called again.
func (fs *fetchers) close() {
	fs.cancel()
	fs.mu.Lock()
	fs.closed = true
	all := fs.lines
	fs.lines = nil
	fs.mu.Unlock()
	for _, f := range all {
		<-f.done
	}
}

// follow takes over what the metadata says of a partition that this node has: it is fetched from whoever leads it, in this epoch, or by nobody.
func (fs *fetchers) follow(s *slot, key partKey, has *meta.Partition) {
	if fs.peers == nil {
		return
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	was := fs.by[s]
	node := has.Leader
	if node == fs.m.node {
		node = kafka.NoNode
	}
	switch {
	case fs.closed:
	case was != nil && was.fetcher.node == node:
		was.fetcher.changed(was)
	default:
		fs.leaveLocked(s)
		if node == kafka.NoNode {
			return
		}
		f := fs.fetcher(fetcherKey{node, lineOf(key, fs.settings.lines)})
		x := &followed{fetcher: f, slot: s, key: key}
		fs.by[s] = x
		f.add(x)
	}
}

// leave ends the fetches of a partition.
func (fs *fetchers) leave(s *slot) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.leaveLocked(s)
}

func (fs *fetchers) leaveLocked(s *slot) {
	if x := fs.by[s]; x != nil {
		delete(fs.by, s)
		x.fetcher.remove(x)
	}
}

// fetcher returns the one of a line, which is begun if there is none. The caller holds mu.
func (fs *fetchers) fetcher(key fetcherKey) *fetcher {
	f := fs.lines[key]
	if f == nil {
		f = newFetcher(fs, key)
		fs.lines[key] = f
		go f.run()
	}
	return f
}

// lineOf spreads partitions over the lines to a broker.
func lineOf(key partKey, lines int) int {
	n := binary.BigEndian.Uint32(key.topic[:]) + uint32(key.index)
	return int(n % uint32(lines))
}
