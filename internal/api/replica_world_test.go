package api

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/quorum"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/replica"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/wire"
)

// node is an API on a quorum and replicas in memory, without sockets.
type node struct {
	testing.TB
	api  *API
	dir  *commitlog.Dir
	peer *wire.Peer
}

// anyConfigs accepts every configuration.
type anyConfigs struct{}

func (anyConfigs) Validate(meta.Resource, []string, map[string]string) error { return nil }

func (anyConfigs) ListDefault(meta.ResourceType, string) (string, bool) { return "", false }

func randomBytes(b []byte) { _, _ = rand.Read(b) }

// newNode starts a node in memory that listens on PLAINTEXT at broker.example:9092.
func newNode(t testing.TB) *node {
	t.Helper()
	return newNodeOn(t, vfs.NewMemory(), "/data")
}

func newNodeOn(t testing.TB, fs vfs.FS, path string) *node {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	log := slog.New(slog.DiscardHandler)
	controller := meta.Endpoint{Name: "CONTROLLER", Host: "127.0.0.1", Port: 9093, Security: "PLAINTEXT"}
	properties := commitlog.MetaProperties{ClusterID: "cluster", NodeID: 1, ID: kafka.NewUUID(randomBytes)}
	check(fs.MkdirAll(path))
	check(quorum.Format(fs, path, properties, controller, time.Now()))
	dir, err := commitlog.OpenDir(fs, path, randomBytes)
	check(err)
	broker, err := config.NewBroker(map[string]string{"node.id": "1"})
	check(err)
	q, err := quorum.Open(quorum.Options{
		FS: fs, Dir: dir, NodeID: 1, ClusterID: "cluster", Controller: controller, Configs: anyConfigs{}, Log: log,
	})
	check(err)
	replicas := replica.New(replica.Options{NodeID: 1, Dirs: []*commitlog.Dir{dir}, Broker: broker, Log: log})
	q.Watch(replicas.Apply)
	check(q.Start(t.Context(), meta.Registration{
		Incarnation: kafka.NewUUID(randomBytes), LogDirs: []kafka.UUID{dir.ID()},
		Endpoints: []meta.Endpoint{{Name: "PLAINTEXT", Host: "broker.example", Port: 9092, Security: "PLAINTEXT"}},
	}))
	a := New(log)
	a.NodeID, a.Config, a.Quorum, a.Replicas, a.Fetches = 1, broker, q, replicas, NewFetchSessions(broker)
	t.Cleanup(func() {
		check(q.Close())
		check(replicas.Close(context.Background()))
	})
	return &node{TB: t, api: a, dir: dir, peer: &wire.Peer{Listener: "PLAINTEXT"}}
}

// topic creates a topic with settings and returns its id.
func (n *node) topic(name string, partitions int32, settings ...string) kafka.TopicID {
	n.Helper()
	topic := meta.NewTopic{Name: name, Partitions: partitions, ReplicationFactor: 1}
	for i := 0; i < len(settings); i += 2 {
		topic.Configs = append(topic.Configs, meta.ConfigValue{Name: settings[i], Value: &settings[i+1]})
	}
	results, err := n.api.Quorum.CreateTopics(n.Context(), meta.CreateTopics{Topics: []meta.NewTopic{topic}})
	if err != nil || results[0].Err != nil {
		n.Fatalf("create %s: %v %v", name, err, results)
	}
	return results[0].ID
}

// sent is what went out for a request.
type sent struct {
	body   []byte
	none   bool
	closed bool
}

// send hands a request to the API, as the server does, and returns where its answer comes.
func (n *node) send(req kmsg.Request, clientID string) <-chan sent {
	return n.sendBytes(req.Key(), req.GetVersion(), req.AppendTo(nil), clientID)
}

func (n *node) sendBytes(key, version int16, body []byte, clientID string) <-chan sent {
	n.Helper()
	if !n.api.Serves(key, version) {
		n.Fatalf("%s v%d is not served", wire.KeyName(key), version)
	}
	r := &wire.Request{Key: key, Version: version, ClientID: &clientID, Body: body, Peer: n.peer, Received: time.Now()}
	answered := make(chan sent, 1)
	n.api.Handle(r, func(resp *wire.Response) {
		out := sent{none: resp.None, closed: resp.Close}
		if !resp.None {
			out.body = encoded(n, resp)
		}
		if resp.Release != nil {
			resp.Release()
		}
		answered <- out
	})
	return answered
}

// encoded is the response's body as it goes over the wire.
func encoded(t testing.TB, resp *wire.Response) []byte {
	t.Helper()
	if resp.Body != nil {
		return resp.Body.AppendTo(nil)
	}
	b := append([]byte(nil), resp.Head...)
	for i := range resp.Parts {
		p := &resp.Parts[i]
		if p.File.File == nil {
			b = append(b, p.Bytes...)
			continue
		}
		piece := make([]byte, p.File.Len)
		if _, err := p.File.File.ReadAt(piece, p.File.Pos); err != nil && err != io.EOF {
			t.Errorf("read records: %v", err)
		}
		b = append(b, piece...)
	}
	return b
}

// call sends a request and decodes its answer.
func (n *node) call(req kmsg.Request) kmsg.Response {
	n.Helper()
	return n.decode(req, n.wait(n.send(req, "test")))
}

func (n *node) wait(answered <-chan sent) sent {
	n.Helper()
	select {
	case s := <-answered:
		return s
	case <-time.After(time.Minute):
		n.Fatal("no answer")
		panic("unreachable")
	}
}

func (n *node) decode(req kmsg.Request, s sent) kmsg.Response {
	n.Helper()
	if s.none || s.closed {
		n.Fatalf("%s v%d: no answer, closed %v", wire.KeyName(req.Key()), req.GetVersion(), s.closed)
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if err := resp.ReadFrom(s.body); err != nil {
		n.Fatalf("%s v%d: decode %x: %v", wire.KeyName(req.Key()), req.GetVersion(), s.body, err)
	}
	return resp
}

// batchOf is a batch with the values.
func batchOf(values ...string) []byte {
	var b record.Builder
	for _, v := range values {
		b.Add([]byte("k"), []byte(v), nil, time.Now().UnixMilli())
	}
	return b.Build()
}
