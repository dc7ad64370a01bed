package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/quorum"
	"github.com/raftsman/raftsman/internal/raw"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/wire"
)

// configWorld is an API over a quorum of one on a disk in memory.
type configWorld struct {
	t   *testing.T
	api *API
}

func newConfigWorld(t *testing.T, properties string) *configWorld {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	broker, _, err := config.Parse(properties, nil, nil)
	must(err)
	random := rand.New(rand.NewPCG(1, 2))
	fill := func(b []byte) {
		for i := range b {
			b[i] = byte(random.Uint32())
		}
	}
	fs, now := vfs.NewMemory(), time.UnixMilli(1_700_000_000_000)
	controller := meta.Endpoint{Name: "CONTROLLER", Host: "127.0.0.1", Port: 9093, Security: "PLAINTEXT"}
	must(fs.MkdirAll("/data"))
	must(quorum.Format(fs, "/data", commitlog.MetaProperties{ClusterID: "c", NodeID: 1, ID: kafka.NewUUID(fill)}, controller, now))
	dir, err := commitlog.OpenDir(fs, "/data", fill)
	must(err)
	var node *quorum.Node
	node, err = quorum.Open(quorum.Options{
		FS: fs, Dir: dir, NodeID: 1, ClusterID: "c", Controller: controller,
		Configs: ConfigRules(broker, func() *meta.Image { return node.Image() }),
		Now:     func() time.Time { return now }, Random: fill, Log: slog.New(slog.DiscardHandler), SnapshotMs: -1,
	})
	must(err)
	must(node.Start(context.Background(), meta.Registration{
		Incarnation: kafka.NewUUID(fill), LogDirs: []kafka.UUID{dir.ID()},
		Endpoints: []meta.Endpoint{{Name: "PLAINTEXT", Host: "127.0.0.1", Port: 9092, Security: "PLAINTEXT"}},
	}))
	t.Cleanup(func() {
		must(node.Close())
		must(dir.Close(true, node.BrokerEpoch()))
	})
	a := New(slog.New(slog.DiscardHandler))
	a.NodeID, a.Config, a.Quorum = 1, broker, node
	return &configWorld{t: t, api: a}
}

func (w *configWorld) createTopic(name string, settings ...string) {
	w.t.Helper()
	topic := meta.NewTopic{Name: name, Partitions: 1, ReplicationFactor: 1}
	for i := 0; i < len(settings); i += 2 {
		topic.Configs = append(topic.Configs, meta.ConfigValue{Name: settings[i], Value: &settings[i+1]})
	}
	results, err := w.api.Quorum.CreateTopics(context.Background(), meta.CreateTopics{Topics: []meta.NewTopic{topic}})
	if err != nil || results[0].Err != nil {
		w.t.Fatalf("create topic %s: %v, %v", name, err, results)
	}
}

// ask sends a request through the table, and the answer through its encoding.
func (w *configWorld) ask(req kmsg.Request) kmsg.Response {
	w.t.Helper()
	if !w.api.Serves(req.Key(), req.GetVersion()) {
		w.t.Fatalf("key %d version %d is not served", req.Key(), req.GetVersion())
	}
	var answer *wire.Response
	w.api.Handle(&wire.Request{Key: req.Key(), Version: req.GetVersion(), Body: req.AppendTo(nil), Peer: &wire.Peer{}},
		func(r *wire.Response) { answer = r })
	if answer == nil || answer.Body == nil {
		w.t.Fatalf("no answer to key %d version %d", req.Key(), req.GetVersion())
	}
	resp := req.ResponseKind()
	if err := resp.ReadFrom(answer.Body.AppendTo(nil)); err != nil {
		w.t.Fatal(err)
	}
	return resp
}

// TestRule30RecordedChangesAnswerAsKafka replays the changes that package config has recorded, one after the other.
func TestRule30RecordedChangesAnswerAsKafka(t *testing.T) {
	text, err := os.ReadFile("../config/testdata/changes.json")
	if err != nil {
		t.Fatal(err)
	}
	var changes []struct {
		Kind            config.Kind
		Resource        string
		Legacy          bool
		Existing, After map[string]string
		Ops             []struct {
			Name  string
			Op    int8
			Value *string
		}
		Code    int16
		Message string
	}
	if err := json.Unmarshal(text, &changes); err != nil {
		t.Fatal(err)
	}
	w := newConfigWorld(t, "listeners=PLAINTEXT://127.0.0.1:23092")
	w.createTopic("altered")
	for _, c := range changes {
		start := raw.Assignments{Kind: c.Kind, Name: c.Resource}
		if c.Kind == config.KindBroker && c.Resource == "" {
			start.Sets = []string{"min.insync.replicas=1"}
		}
		for name, value := range c.Existing {
			start.Sets = append(start.Sets, name+"="+value)
		}
		if len(start.Sets) > 0 {
			w.mustAlter(raw.AlterConfigs(2, false, start))
		}
		r := raw.Assignments{Kind: c.Kind, Name: c.Resource}
		req := raw.AlterConfigs(2, false, r)
		if !c.Legacy {
			req = raw.IncrementalAlterConfigs(1, false, r)
		}
		for _, op := range c.Ops {
			switch req := req.(type) {
			case *kmsg.AlterConfigsRequest:
				row := kmsg.AlterConfigsRequestResourceConfig{Name: op.Name, Value: op.Value}
				req.Resources[0].Configs = append(req.Resources[0].Configs, row)
			case *kmsg.IncrementalAlterConfigsRequest:
				row := kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: op.Name, Op: kmsg.IncrementalAlterConfigOp(op.Op), Value: op.Value}
				req.Resources[0].Configs = append(req.Resources[0].Configs, row)
			}
		}
		code, message := alterAnswer(w.ask(req))
		if c.Code == int16(kafka.UnknownServerError) {
			c.Code = int16(kafka.InvalidRequest) // Kafka trips over an operation that does not exist; we know what to say
		}
		if code != c.Code {
			t.Errorf("%d %q %v: got %d (%s), Kafka answers %d (%s)", c.Kind, c.Resource, c.Ops, code, message, c.Code, c.Message)
		}
		if c.After != nil || c.Code == 0 && c.Kind != config.KindLogger {
			if got := w.setOn(c.Kind, c.Resource); !maps.Equal(got, c.After) {
				t.Errorf("%d %q %v: leaves %v, Kafka leaves %v", c.Kind, c.Resource, c.Ops, got, c.After)
			}
		}
		if c.After == nil {
			continue
		}
		start.Sets = nil
		if c.Kind == config.KindBroker && c.Resource == "" {
			start.Sets = []string{"min.insync.replicas=1"}
		}
		w.mustAlter(raw.AlterConfigs(2, false, start))
	}
}

func (w *configWorld) mustAlter(req kmsg.Request) {
	w.t.Helper()
	if code, message := alterAnswer(w.ask(req)); code != 0 {
		w.t.Fatalf("%+v: %d %s", req, code, message)
	}
}

// alterAnswer returns what the first resource was told.
func alterAnswer(resp kmsg.Response) (code int16, message string) {
	var text *string
	switch resp := resp.(type) {
	case *kmsg.AlterConfigsResponse:
		code, text = resp.Resources[0].ErrorCode, resp.Resources[0].ErrorMessage
	case *kmsg.IncrementalAlterConfigsResponse:
		code, text = resp.Resources[0].ErrorCode, resp.Resources[0].ErrorMessage
	}
	if text != nil {
		message = *text
	}
	return code, message
}

// setOn returns what a description says is set on the resource itself.
func (w *configWorld) setOn(kind config.Kind, name string) map[string]string {
	w.t.Helper()
	resp := w.ask(raw.DescribeConfigs(4, raw.Resource{Kind: kind, Name: name})).(*kmsg.DescribeConfigsResponse)
	source := map[config.Kind]config.Source{
		config.KindTopic: config.SourceTopic, config.KindBroker: config.SourceNode, config.KindGroup: config.SourceGroup,
		config.KindClientMetrics: config.SourceClientMetrics,
	}[kind]
	if kind == config.KindBroker && name == "" {
		source = config.SourceCluster
	}
	settings := map[string]string{}
	for _, c := range resp.Resources[0].Configs {
		for _, s := range c.ConfigSynonyms {
			if config.Source(s.Source) != source || s.Name != c.Name {
				continue
			}
			settings[c.Name] = "(hidden)"
			if s.Value != nil {
				settings[c.Name] = *s.Value
			}
		}
	}
	return settings
}
