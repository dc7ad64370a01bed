package config

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// record names a running Apache Kafka 4.4 that answers are recorded from, before they are compared. Its server.properties is
// named by -properties.
var (
	record     = flag.String("record", "", "address of an Apache Kafka 4.4 to record afresh")
	recordOf   = flag.String("record-of", "", "record the situations of this name only")
	properties = flag.String("properties", "", "the server.properties of that Kafka")
)

// kafkaClient speaks to the Kafka that is recorded, one request at a time.
type kafkaClient struct {
	t    *testing.T
	conn net.Conn
	next int32
}

func dialKafka(t *testing.T) *kafkaClient {
	t.Helper()
	conn, err := net.Dial("tcp", *record)
	if err != nil {
		t.Fatalf("dial the Kafka to record: %v", err)
	}
	t.Cleanup(func() { conn.Close() })
	return &kafkaClient{t: t, conn: conn}
}

func (c *kafkaClient) ask(req kmsg.Request) kmsg.Response {
	c.t.Helper()
	c.next++
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("record")).AppendRequest(nil, req, c.next)
	if _, err := c.conn.Write(frame); err != nil {
		c.t.Fatalf("write request: %v", err)
	}
	var length [4]byte
	if _, err := io.ReadFull(c.conn, length[:]); err != nil {
		c.t.Fatalf("read the answer to %+v: %v", req, err)
	}
	body := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(c.conn, body); err != nil {
		c.t.Fatalf("read the answer to %+v: %v", req, err)
	}
	body = body[4:]
	if req.IsFlexible() {
		body = body[1:]
	}
	resp := req.ResponseKind()
	if err := resp.ReadFrom(body); err != nil {
		c.t.Fatalf("decode the answer to key %d: %v", req.Key(), err)
	}
	return resp
}

// kind is the type of a resource in requests.
type kind int8

const (
	topicKind         = kind(2)
	brokerKind        = kind(4)
	loggerKind        = kind(8)
	clientMetricsKind = kind(16)
	groupKind         = kind(32)
)

// alter sets keys (text) or deletes them (nil) and returns Kafka's answer.
func (c *kafkaClient) alter(k kind, name string, ops []op, validateOnly bool) (int16, string) {
	c.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version, req.ValidateOnly = 1, validateOnly
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceType(k), name
	for _, o := range ops {
		e := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		e.Name, e.Value, e.Op = o.Name, o.Value, kmsg.IncrementalAlterConfigOp(o.Op)
		r.Configs = append(r.Configs, e)
	}
	req.Resources = append(req.Resources, r)
	resp := c.ask(req).(*kmsg.IncrementalAlterConfigsResponse)
	message := ""
	if m := resp.Resources[0].ErrorMessage; m != nil {
		message = *m
	}
	return resp.Resources[0].ErrorCode, message
}

// replace makes the ops all that is set, by the legacy AlterConfigs.
func (c *kafkaClient) replace(k kind, name string, ops []op) (int16, string) {
	c.t.Helper()
	req := kmsg.NewPtrAlterConfigsRequest()
	req.Version = 2
	r := kmsg.NewAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceType(k), name
	for _, o := range ops {
		e := kmsg.NewAlterConfigsRequestResourceConfig()
		e.Name, e.Value = o.Name, o.Value
		r.Configs = append(r.Configs, e)
	}
	req.Resources = append(req.Resources, r)
	resp := c.ask(req).(*kmsg.AlterConfigsResponse)
	message := ""
	if m := resp.Resources[0].ErrorMessage; m != nil {
		message = *m
	}
	return resp.Resources[0].ErrorCode, message
}

type op struct {
	Name  string
	Op    int8 // 0 set, 1 delete, 2 append, 3 subtract
	Value *string
}

func (c *kafkaClient) set(k kind, name string, settings map[string]string) {
	c.t.Helper()
	if len(settings) == 0 {
		return
	}
	var ops []op
	for _, n := range sortedNames(settings) {
		v := settings[n]
		ops = append(ops, op{Name: n, Value: &v})
	}
	if code, message := c.alter(k, name, ops, false); code != 0 {
		c.t.Fatalf("set %v of %v %q: %d %s", settings, k, name, code, message)
	}
}

func (c *kafkaClient) unset(k kind, name string, settings map[string]string) {
	c.t.Helper()
	if len(settings) == 0 {
		return
	}
	var ops []op
	for _, n := range sortedNames(settings) {
		ops = append(ops, op{Name: n, Op: 1})
	}
	if code, message := c.alter(k, name, ops, false); code != 0 {
		c.t.Fatalf("unset %v of %v %q: %d %s", settings, k, name, code, message)
	}
}

func (c *kafkaClient) describe(k kind, name string) []Entry {
	c.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms, req.IncludeDocumentation = 4, true, false
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceType(k), name
	req.Resources = append(req.Resources, r)
	resp := c.ask(req).(*kmsg.DescribeConfigsResponse)
	if got := resp.Resources[0]; got.ErrorCode != 0 {
		c.t.Fatalf("describe %v %q: %d %v", k, name, got.ErrorCode, got.ErrorMessage)
	}
	var entries []Entry
	for _, e := range resp.Resources[0].Configs {
		entry := Entry{
			Name: e.Name, Value: e.Value, ReadOnly: e.ReadOnly, Source: Source(e.Source),
			Sensitive: e.IsSensitive, Type: Type(e.ConfigType),
		}
		for _, s := range e.ConfigSynonyms {
			entry.Synonyms = append(entry.Synonyms, Synonym{s.Name, s.Value, Source(s.Source)})
		}
		entries = append(entries, entry)
	}
	return entries
}

func (c *kafkaClient) createTopic(name string) {
	c.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 10000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	req.Topics = append(req.Topics, topic)
	if code := c.ask(req).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; code != 0 && code != 36 {
		c.t.Fatalf("create topic %s: %d", name, code)
	}
}

func writeJSON(t *testing.T, name string, v any) {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if *properties != "" { // the folder of the Kafka is nobody's business
		text = bytes.ReplaceAll(text, []byte(filepath.Dir(*properties)), []byte("/var/lib/kafka"))
	}
	if err := os.WriteFile(filepath.Join("testdata", name), append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readJSON(t *testing.T, name string, v any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
