package parity

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
	"github.com/raftsman/raftsman/internal/record/compress"
)

var (
	randomSeed  = flag.Uint64("random-seed", 0, "seed of the random requests; 0 takes one from the clock")
	randomCount = flag.Int("random-count", 3000, "how many random requests are made")
)

// TestRandomRequests asks for anything, in any version, with values that mean something and values that do not. Every request
// must be answered, in a form that can be read, or end the connection; with -kafka, its answers must be the same.
func TestRandomRequests(t *testing.T) {
	seed := *randomSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("again: go test ./parity -run TestRandomRequests -random-seed %d -random-count %d -kafka=%v", seed, *randomCount, *kafkaNow)
	worlds := []*world{newWorld(t, startRaftsman(t))}
	if *kafkaNow {
		worlds = append(worlds, newWorld(t, startKafka(t)))
		worlds[1].patience(silence)
	}
	for _, w := range worlds {
		furnish(w)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	failed := 0
	for i := range *randomCount {
		key, dice := randomKey(rng), rng.Uint64()
		versions := raw.VersionsOf(key)
		version := versions[rng.IntN(len(versions))]
		var answers []answer
		for _, w := range worlds {
			s := step{name: fmt.Sprint("request ", i), key: key, v: version, make: func(w *world) kmsg.Request {
				g := &guess{rand.New(rand.NewPCG(dice, 2)), w, key, version, i}
				return g.request()
			}}
			answers = append(answers, w.run(&s))
		}
		if slices.Equal(answers[0], silent) {
			t.Errorf("request %d: no answer to %s", i, worlds[0].show(key, version, dice, i))
		}
		if len(worlds) == 1 || slices.Equal(answers[1], silent) || stumbled(answers[1]) {
			continue
		}
		if _, diff := explain(&step{name: "random", key: key}, answers[0], answers[1]); len(diff) > 0 {
			t.Errorf("request %d, %s:\n\t%s", i, worlds[0].show(key, version, dice, i), strings.Join(diff[:min(8, len(diff))], "\n\t"))
			if failed++; failed == 20 {
				t.Fatal("and so on")
			}
		}
	}
}

// stumbled tells whether Kafka's answer is that something went wrong inside it.
func stumbled(a answer) bool {
	return slices.ContainsFunc(a, func(f field) bool { return f.value == kafka.UnknownServerError.Error() })
}

func randomKey(rng *rand.Rand) kmsg.Key {
	for {
		k := raw.Keys[rng.IntN(len(raw.Keys))]
		switch k.Key {
		case kmsg.ApiVersions, kmsg.AddRaftVoter, kmsg.RemoveRaftVoter: // the last two wait for a voter that is not there; they have cases
			continue
		}
		if k.Comes == "" {
			return k.Key
		}
	}
}

// furnish makes what the requests find.
func furnish(w *world) {
	l := w.links[0]
	warmUp(l)
	// A marker is of today and the records are of 2020: it would begin a segment, and until Kafka has removed one whose records are deleted it
	// finds no offset by time in the next.
	const never = "9223372036854775807"
	w.ids["r"] = l.Create("r", 3, "retention.ms", "-1", "segment.ms", never)
	w.ids["compact"] = l.Create("compact", 1, "cleanup.policy", "compact", "segment.ms", never)
	raw.Until(l, raw.ListOffsets(1, raw.ListRow{Topic: "r", Timestamp: -1}, raw.ListRow{Topic: "r", Partition: 1, Timestamp: -1}, raw.ListRow{Topic: "r", Partition: 2, Timestamp: -1}, raw.ListRow{Topic: "compact", Timestamp: -1}), "leaders", func(r *kmsg.ListOffsetsResponse) bool {
		for _, topic := range r.Topics {
			for _, p := range topic.Partitions {
				if p.ErrorCode != 0 {
					return false
				}
			}
		}
		return true
	})
	l.Ask(raw.Produce(9, -1, to("r", 0, raw.Values("a", "b"))))
	l.Ask(raw.Commit(8, "g1", "", -1, raw.CommitRow{Topic: "r", Offset: 1}))
	patient := raw.Join(3, "g2", "", "range")
	patient.SessionTimeoutMillis, patient.RebalanceTimeoutMillis = 1_800_000, 1_800_000 // so that nothing expires meanwhile
	joined := l.Ask(patient).(*kmsg.JoinGroupResponse)
	l.Ask(raw.Sync(3, "g2", joined.MemberID, joined.Generation, joined.MemberID))
}

func (w *world) show(key kmsg.Key, version int16, dice uint64, i int) string {
	g := &guess{rand.New(rand.NewPCG(dice, 2)), w, key, version, i}
	text, err := json.Marshal(g.request())
	if err != nil {
		w.Fatal(err)
	}
	return fmt.Sprintf("%s v%d %.3000s", key.Name(), version, strings.ReplaceAll(string(text), `,"UnknownTags":{}`, ""))
}

// guess makes one request. The same dice make the same one for every broker, but for the ids that each has chosen.
type guess struct {
	*rand.Rand
	w       *world
	key     kmsg.Key
	version int16
	number  int
}

func pick[T any](g *guess, from ...T) T { return from[g.IntN(len(from))] }

func (g *guess) request() kmsg.Request {
	req := kmsg.RequestForKey(int16(g.key))
	req.SetVersion(g.version)
	reflect.ValueOf(req).MethodByName("Default").Call(nil)
	g.structure(reflect.ValueOf(req).Elem())
	switch req := req.(type) {
	case *kmsg.CreateTopicsRequest:
		req.TimeoutMillis, req.ValidateOnly = 20_000, true // what Kafka publishes late would be seen in the next answers
	case *kmsg.CreatePartitionsRequest:
		req.TimeoutMillis, req.ValidateOnly = 20_000, true
	case *kmsg.AlterConfigsRequest:
		req.ValidateOnly = true
	case *kmsg.IncrementalAlterConfigsRequest:
		req.ValidateOnly = true
		for i := range req.Resources {
			r := &req.Resources[i]
			if slices.ContainsFunc(r.Configs, isUnknown) { // with others, Kafka says what is wrong with the one that its hash table has first
				r.Configs = r.Configs[:1]
			}
		}
	case *kmsg.AlterClientQuotasRequest:
		req.ValidateOnly = true
	case *kmsg.DeleteTopicsRequest:
		req.TimeoutMillis = 20_000
		req.TopicNames = slices.DeleteFunc(req.TopicNames, func(n string) bool { return n == "r" || n == "compact" })
		req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.DeleteTopicsRequestTopic) bool {
			return t.TopicID != raw.StrangeID || t.Topic != nil && (*t.Topic == "r" || *t.Topic == "compact")
		})
	case *kmsg.MetadataRequest:
		req.AllowAutoTopicCreation = false
		if g.version < 4 { // which creates what may be created
			req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.MetadataRequestTopic) bool {
				return t.Topic == nil || *t.Topic == "nope" || *t.Topic == raw.LongName
			})
		}
	case *kmsg.ProduceRequest:
		seen := map[string]bool{}
		for i := range req.Topics {
			t := &req.Topics[i]
			t.Partitions = slices.DeleteFunc(t.Partitions, func(p kmsg.ProduceRequestTopicPartition) bool {
				return g.repeated(seen, t.Topic, t.TopicID, p.Partition)
			})
		}
		req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.ProduceRequestTopic) bool { return len(t.Partitions) == 0 })
	case *kmsg.DeleteRecordsRequest:
		seen := map[string]bool{}
		for i := range req.Topics {
			t := &req.Topics[i]
			t.Partitions = slices.DeleteFunc(t.Partitions, func(p kmsg.DeleteRecordsRequestTopicPartition) bool {
				return g.repeated(seen, t.Topic, [16]byte{}, p.Partition)
			})
		}
		req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.DeleteRecordsRequestTopic) bool { return len(t.Partitions) == 0 })
	case *kmsg.FetchRequest:
		seen := map[string]bool{}
		for i := range req.Topics {
			t := &req.Topics[i]
			t.Partitions = slices.DeleteFunc(t.Partitions, func(p kmsg.FetchRequestTopicPartition) bool {
				return g.repeated(seen, t.Topic, t.TopicID, p.Partition)
			})
		}
		req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.FetchRequestTopic) bool { return len(t.Partitions) == 0 })
		if len(req.Topics) == 0 {
			req.SessionEpoch = -1 // Kafka opens sessions of nothing
		}
	case *kmsg.JoinGroupRequest:
		if req.Group != "" {
			req.Group = fmt.Sprint("join", g.number)
		}
		req.ProtocolType = "consumer" // a client that is refused for its protocols leaves a group behind in Kafka
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}, {Name: "sticky", Metadata: raw.Subscription("r")}}
		req.RebalanceTimeoutMillis = 1_800_000
	case *kmsg.SyncGroupRequest:
		req.MemberID = pick(g, "", "stranger")
	case *kmsg.GetTelemetrySubscriptionsRequest: // no topic's id, which each broker chooses: the answer is made from it
		req.ClientInstanceID = pick(g, [16]byte{}, raw.StrangeID)
	case *kmsg.UnregisterBrokerRequest:
		if req.BrokerID == 1 { // after which nobody leads
			req.BrokerID = 2
		}
	case *kmsg.UpdateFeaturesRequest:
		req.ValidateOnly = true
		if g.version == 0 { // which cannot only ask
			req.FeatureUpdates = nil
		}
	}
	return req
}

func isUnknown(c kmsg.IncrementalAlterConfigsRequestResourceConfig) bool {
	return c.Op < kmsg.IncrementalAlterConfigOpSet || c.Op > kmsg.IncrementalAlterConfigOpSubtract
}

// repeated tells whether a partition was named before. Of one that is named twice, Kafka keeps one row and drops the other unsaid.
func (g *guess) repeated(seen map[string]bool, topic string, id [16]byte, partition int32) bool {
	at := fmt.Sprint(topic, partition)
	if g.version >= 13 {
		at = fmt.Sprint(id, partition)
	}
	before := seen[at]
	seen[at] = true
	return before
}

func (g *guess) structure(v reflect.Value) {
	for i := range v.NumField() {
		field, name := v.Field(i), v.Type().Field(i).Name
		switch name {
		case "UnknownTags", "Version":
		case "ClusterID", "ReplicaDirectoryID", "HighWatermark": // kmsg writes these tags in versions that do not have them
		default:
			g.value(field, name)
		}
	}
}

func (g *guess) value(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(g.IntN(2) == 0)
	case reflect.String:
		v.SetString(g.text(name))
	case reflect.Pointer:
		if g.IntN(3) == 0 {
			return // as it is by default
		}
		v.Set(reflect.New(v.Type().Elem()))
		if def := v.MethodByName("Default"); def.IsValid() {
			def.Call(nil)
		}
		g.value(v.Elem(), name)
	case reflect.Struct:
		g.structure(v)
	case reflect.Array:
		id := pick(g, g.w.ids["r"], g.w.ids["r"], g.w.ids["compact"], raw.StrangeID, [16]byte{})
		reflect.Copy(v, reflect.ValueOf(id))
	case reflect.Slice:
		g.slice(v, name)
	case reflect.Float64: // of a quota: none that anybody would have to wait for
		v.SetFloat(pick(g, 1<<30, 1<<30, 1<<30+0.5, 0, -1))
	default:
		v.SetInt(g.number64(name, v))
	}
}

func (g *guess) slice(v reflect.Value, name string) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		v.SetBytes(g.bytes(name))
		return
	}
	n := pick(g, 0, 1, 1, 1, 2, 3)
	switch {
	case name == "Partitions": // topics with none of them are told of or not, and nobody cares
		n = max(n, 1)
	case g.IntN(8) == 0:
		v.SetZero()
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for i := range n {
		row := v.Index(i)
		if row.Kind() == reflect.Struct {
			if def := row.Addr().MethodByName("Default"); def.IsValid() {
				def.Call(nil)
			}
		}
		g.value(row, strings.TrimSuffix(name, "s"))
	}
}

func (g *guess) bytes(name string) []byte {
	if name != "Records" {
		return pick(g, []byte{}, []byte("x"), raw.Subscription("r"))
	}
	torn := raw.Values("torn")
	return pick(g, []byte(raw.Values("a")), raw.Values("a", "b"), raw.Batch(compress.Gzip, raw.LongAgoMs, raw.LongAgoMs+1), torn[:len(torn)-3], []byte{},
		raw.Forged(raw.Put(57, int32(9))), raw.Forged(raw.Put(21, int16(0x20))), raw.Sequenced(900, 0, 0, 1), raw.Sequenced(900, 0, 1, 1), raw.Batch(compress.Zstd, raw.LongAgoMs))
}

func (g *guess) text(name string) string {
	switch name {
	case "Topic", "TopicName":
		return pick(g, "r", "r", "r", "compact", "nope", "", "bad name", raw.LongName)
	case "Group", "CoordinatorKey":
		return pick(g, "g1", "g2", "nobody", "", "grüppe")
	case "MemberID":
		return pick(g, "", "", "stranger")
	case "ResourceName":
		return pick(g, "r", "compact", "nope", "1", "", "9", "x")
	case "Name", "ConfigName":
		return pick(g, "retention.ms", "cleanup.policy", "segment.bytes", "nonsense", "", "log.retention.ms", "range")
	case "Match":
		return pick(g, "retention.ms", "segment.bytes", "", "nobody")
	case "Type", "EntityType":
		return pick(g, "user", "client-id", "ip", "planet", "")
	case "Key":
		return pick(g, "producer_byte_rate", "request_percentage", "connection_creation_rate", "nonsense", "")
	case "Value":
		return pick(g, "1000", "100000000", "compact", "delete", "x", "", "-1")
	case "TransactionalID", "TransactionID":
		if g.key == kmsg.InitProducerID || g.key == kmsg.Produce { // which change what later requests find
			return ""
		}
		return pick(g, "", "nobody")
	case "ProtocolType":
		return pick(g, "consumer", "connect", "")
	case "StatesFilter":
		return pick(g, "Stable", "empty", "x", "")
	case "TypesFilter":
		return pick(g, "classic", "Consumer", "x", "")
	}
	return pick(g, "", "a", "ü")
}

func (g *guess) number64(name string, v reflect.Value) int64 {
	switch name {
	case "Partition", "Partitions":
		return pick(g, int64(0), 0, 0, 1, 2, 9, -1)
	case "Acks":
		return pick(g, int64(-1), 1)
	case "Offset", "FetchOffset":
		return pick(g, int64(0), 1, 2, 5, 1000, -1, -2, -5)
	case "Timestamp": // but -3: Kafka tells of the latest record also when that was deleted
		return pick(g, int64(-1), -2, -4, -5, -6, -7, 0, raw.LongAgoMs, raw.LongAgoMs+1)
	case "CurrentLeaderEpoch", "LastFetchedEpoch", "LeaderEpoch":
		return pick(g, int64(-1), -1, 0, 1)
	case "Generation":
		return pick(g, int64(-1), -1, 0, 1)
	case "MaxWaitMillis", "SessionID":
		return 0
	case "SessionEpoch":
		return pick(g, int64(-1), -1, 0, 1)
	case "MinBytes":
		return pick(g, int64(0), 1)
	case "MaxBytes", "PartitionMaxBytes":
		return pick(g, int64(1<<20), 1<<20, 1, 0)
	case "ReplicaID":
		return pick(g, int64(-1), -1, -2)
	case "ID", "Epoch": // of ReplicaState: -1, a consumer
		return -1
	case "IsolationLevel":
		return pick(g, int64(0), 1)
	case "NumPartitions", "Count":
		return pick(g, int64(-1), 0, 1, 3, 5, -2)
	case "ReplicationFactor":
		return pick(g, int64(-1), 0, 1, 2)
	case "Replica", "Replicas":
		return pick(g, int64(1), 1, 2, -1)
	case "SessionTimeoutMillis", "RebalanceTimeoutMillis":
		return pick(g, int64(1_800_000), 1_800_000, 1)
	case "CoordinatorType":
		return pick(g, int64(0), 0, 3, -1)
	case "ResourceType":
		if g.key == kmsg.DescribeConfigs { // brokers and loggers are set up differently
			return pick(g, int64(2), 2, 0, 99)
		}
		return pick(g, int64(2), 2, 4, 8, 0, 99)
	case "Op":
		return pick(g, int64(0), 1, 2, 3, 9)
	case "MatchType":
		return pick(g, int64(0), 1, 2, 3, -1)
	case "EndpointType":
		return pick(g, int64(1), 1, 2, 3)
	case "ResponsePartitionLimit":
		return pick(g, int64(2000), 1, 3, 0, -1)
	case "ProducerID", "ProducerEpoch":
		return pick(g, int64(-1), -1, 0, 5)
	case "TransactionTimeoutMillis", "TimeoutMillis":
		return 10_000
	case "RetentionTimeMillis":
		return pick(g, int64(-1), 86_400_000)
	}
	if v.Kind() == reflect.Int8 {
		return pick(g, int64(0), 1)
	}
	return pick(g, int64(-1), 0, 1, 2)
}
