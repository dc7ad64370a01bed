package test

import (
	"bytes"
	"crypto/sha256"
	enc "encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// expectCalm measures the broker's memory now and when the function that it returns is called: in between it may have grown by
// so many bytes at most, and afterwards the broker serves.
func (p *process) expectCalm(limit int64) func() {
	p.t.Helper()
	before := p.memory("VmRSS")
	p.resetPeak()
	return func() {
		p.t.Helper()
		peak, after := p.memory("VmHWM"), p.memory("VmRSS")
		p.t.Logf("resident: %.1f MB before, at most %.1f, %.1f after", mb(before), mb(peak), mb(after))
		if peak-before > limit {
			p.t.Errorf("memory grew by %.1f MB, want at most %.1f", mb(peak-before), mb(limit))
		}
		p.checkAlive()
	}
}

// calmBytes is how much memory may come and go while a broker is attacked.
const calmBytes = 32 << 20

func mb(bytes int64) float64 { return float64(bytes) / 1e6 }

// framed puts a length in front.
func framed(b []byte) []byte { return append(enc.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }

// header begins a request by hand, without a client id.
func header(key, version int16, body ...byte) []byte {
	b := enc.BigEndian.AppendUint16(nil, uint16(key))
	b = enc.BigEndian.AppendUint16(b, uint16(version))
	b = append(b, 0, 0, 0, 7, 0xff, 0xff)
	if req := kmsg.RequestForKey(key); req != nil {
		if req.SetVersion(version); req.IsFlexible() {
			b = append(b, 0)
		}
	}
	return append(b, body...)
}

// elements is an array that claims n elements and holds some.
func elements(n uint32, element string, count int) []byte {
	return append(enc.BigEndian.AppendUint32(nil, n), strings.Repeat(element, count)...)
}

// hostileFrames are answered by closing the connection.
func hostileFrames() map[string][]byte {
	const produce, fetch, metadata, joinGroup, heartbeat, million = 0, 1, 3, 11, 12, 1_000_000
	return map[string][]byte{
		"HTTP":                            []byte("POST /topics/orders HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"),
		"TLS":                             []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
		"length of 0":                     {0, 0, 0, 0},
		"length of -1":                    {0xff, 0xff, 0xff, 0xff},
		"length of -2 GB":                 {0x80, 0, 0, 0},
		"length of 2 GB":                  {0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 9},
		"a byte more than the limit":      enc.BigEndian.AppendUint32(nil, 100<<20+1),
		"header cut off":                  framed([]byte{0, 3, 0, 1, 0}),
		"client id beyond the frame":      framed([]byte{0, 3, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, 'a'}),
		"body cut off":                    framed(header(metadata, 1, 0, 0, 0, 1, 0, 9, 'a')),
		"no body":                         framed(header(produce, 9)),
		"key 999":                         framed(header(999, 0)),
		"key -1":                          framed(header(-1, 0)),
		"an old inter-broker key":         framed(header(4, 0)),
		"version 99":                      framed(header(metadata, 99)),
		"version -1":                      framed(header(metadata, -1)),
		"a version no longer served":      framed(header(produce, 2, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 0)),
		"array of 2 billion in 40 bytes":  framed(header(metadata, 1, elements(1<<31-1, "\x00\x01", 10)...)),
		"array of 4 billion, compact":     framed(header(metadata, 9, 0xff, 0xff, 0xff, 0xff, 0x0f)),
		"string of 2 billion, compact":    framed(header(metadata, 9, 2, 0xff, 0xff, 0xff, 0xff, 0x07, 'a')),
		"4 billion tags":                  framed(header(heartbeat, 4, 2, 'g', 0, 0, 0, 1, 2, 'm', 0, 0xff, 0xff, 0xff, 0xff, 0x0f)),
		"tag of 4 GB":                     framed(header(heartbeat, 4, 2, 'g', 0, 0, 0, 1, 2, 'm', 0, 1, 99, 0xff, 0xff, 0xff, 0xff, 0x0f)),
		"varint without an end":           framed(header(metadata, 9, bytes.Repeat([]byte{0xff}, 20)...)),
		"records of 2 GB in 100 bytes":    framed(header(produce, 3, append([]byte("\xff\xff\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00\x7f\xff\xff\xff"), make([]byte, 60)...)...)),
		"2 million topics, half of them":  framed(header(metadata, 1, elements(2*million, "\x00\x01x", million)...)),
		"a million protocols, half":       framed(header(joinGroup, 0, append(make([]byte, 10), elements(million, "\x00\x00\x00\x00\x00\x00", million/2)...)...)),
		"a million partitions, half":      framed(header(fetch, 4, append(append(make([]byte, 17), "\x00\x00\x00\x01\x00\x01t"...), elements(million, strings.Repeat("\x00", 16), million/2)...)...)),
		"a million produced topics, half": framed(header(produce, 3, append([]byte("\xff\xff\x00\x01\x00\x00\x00\x00"), elements(million, "\x00\x00\x00\x00\x00\x00", million/2)...)...)),
	}
}

// expectClose sends bytes and waits for the end of the connection, which must come without an answer.
func expectClose(t testing.TB, addr, name string, sent []byte) {
	t.Helper()
	c := dialRaw(t, addr)
	if _, err := c.Write(sent); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Logf("%s: %v", name, err) // closed before all was taken
	}
	if err := c.SetReadDeadline(time.Now().Add(atLast)); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("%s: the connection is still open", name)
	}
	if len(got) > 0 {
		t.Errorf("%s: answered with %d bytes: %.60q", name, len(got), got)
	}
	_ = c.Close()
}

// guard is a topic that nobody attacks; what is stored of it must stay as it is.
type guard struct {
	p     *process
	files map[string]string
}

const guardTopic = "guarded"

func newGuard(t testing.TB, p *process) *guard {
	t.Helper()
	createTopic(t, p.addr, guardTopic, 2)
	cl := crashClient(t, p.addr, kgo.DefaultProduceTopic(guardTopic))
	for n := range 100 {
		if err := cl.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint("guarded ", n))).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return &guard{p: p, files: treeOf(t, p.dir)}
}

// check compares all that is stored, but what may have been created under the names given.
func (g *guard) check(t testing.TB, created ...string) {
	t.Helper()
	for name, was := range g.files {
		if is := treeOf(t, g.p.dir)[name]; is != was && strings.HasPrefix(name, guardTopic) {
			t.Errorf("%s was %s, is %s", name, was, is)
		}
	}
	count := 0
	for _, values := range readTopic(t, g.p.addr, guardTopic) {
		count += len(values)
	}
	if count != 100 {
		t.Errorf("%d guarded records, want 100", count)
	}
	topics := must(kadm.NewClient(crashClient(t, g.p.addr)).ListTopics(t.Context()))(t)
	if want := 1 + len(created); len(topics) != want {
		t.Errorf("topics %q, want %d", topics.Names(), want)
	}
}

// treeOf is what a folder holds: for every file its mode and a hash of its content.
func treeOf(t testing.TB, root string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		tree[name] = info.Mode().String()
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			tree[name] += fmt.Sprintf(" %d bytes %x", len(content), sha256.Sum256(content))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestHostileBytesCloseTheConnection sends what is no request, or a dishonest one.
func TestHostileBytesCloseTheConnection(t *testing.T) {
	t.Parallel()
	rounds := 10
	if soak() {
		rounds = 1000
	}
	began := time.Now()
	p := startBroker(t, t.TempDir())
	g := newGuard(t, p)
	for _, client := range [][]string{
		{"curl", "-s", "-m", "60", "http://" + p.addr + "/"},
		{"curl", "-s", "-k", "-m", "60", "https://" + p.addr + "/"},
		{"openssl", "s_client", "-connect", p.addr},
	} {
		command := exec.Command(client[0], client[1:]...)
		if out, err := command.CombinedOutput(); err == nil && !strings.Contains(string(out), "no peer certificate available") {
			t.Errorf("%q ended well: %s", client, out)
		}
	}
	eventually(t, atLast, "the log says what came", func() error {
		for _, want := range []string{"HTTP", "it began a TLS handshake"} {
			if !strings.Contains(p.log.String(), want) {
				return fmt.Errorf("no %q in\n%s", want, p.log.tail(20))
			}
		}
		return nil
	})
	for range 5 + rounds/5 { // the first times take buffers that are kept, and the collector finds its pace
		for name, sent := range hostileFrames() {
			expectClose(t, p.addr, name, sent)
		}
	}
	calm := p.expectCalm(calmBytes)
	for range rounds {
		for name, sent := range hostileFrames() {
			expectClose(t, p.addr, name, sent)
		}
	}
	calm()
	if n, most := strings.Count(p.log.String(), "\n"), 40+int(time.Since(began).Seconds()); n > most { // five lines in ten seconds, and the start
		t.Errorf("%d lines of log about hostile bytes, want %d or less", n, most)
	}
	g.check(t)
	t.Logf("%d kinds of frames, %d rounds", len(hostileFrames()), rounds)
}

// TestUnknownVersionOfApiVersionsIsAnswered: the one request that is answered at any version, so that newer clients can go on.
func TestUnknownVersionOfApiVersionsIsAnswered(t *testing.T) {
	t.Parallel()
	p := startBroker(t, t.TempDir())
	c := dialRaw(t, p.addr)
	req := kmsg.NewPtrApiVersionsRequest()
	if _, err := c.Write(framed(header(req.Key(), 99))); err != nil {
		t.Fatal(err)
	}
	resp, err := receive[*kmsg.ApiVersionsResponse](c, req, atLast)
	if err != nil {
		t.Fatal(err)
	}
	if resp.ErrorCode != kerr.UnsupportedVersion.Code || len(resp.ApiKeys) == 0 {
		t.Errorf("answered code %d with %d keys, want UNSUPPORTED_VERSION and what is served", resp.ErrorCode, len(resp.ApiKeys))
	}
	ask[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest(), atLast) // on the same connection
}

// TestClaimedLengthsTakeNoMemory: hundreds of connections each promise 100 MB and send some bytes of it.
func TestClaimedLengthsTakeNoMemory(t *testing.T) {
	t.Parallel()
	p := startBroker(t, t.TempDir())
	g := newGuard(t, p)
	connections := 300
	if soak() {
		connections = 3000
	}
	calm := p.expectCalm(calmBytes + int64(connections)*(96<<10))
	for range connections {
		c := dialRaw(t, p.addr)
		if _, err := c.Write(append(enc.BigEndian.AppendUint32(nil, 100<<20), header(0, 9)...)); err != nil {
			t.Fatal(err)
		}
	}
	calm()
	g.check(t)
}

// TestImpossibleTopicsGetKafkasCodes creates topics that can't be, and grows one beyond all bounds.
func TestImpossibleTopicsGetKafkasCodes(t *testing.T) {
	t.Parallel()
	addr, check := os.Getenv("RAFTSMAN_TEST_BOOTSTRAP"), func(...string) {}
	if addr == "" {
		p := startBroker(t, t.TempDir())
		addr = p.addr
		g, calm := newGuard(t, p), p.expectCalm(calmBytes)
		check = func(created ...string) { calm(); g.check(t, created...) }
	}
	c := dialRaw(t, addr)
	invalidName, invalidPartitions, invalidReplicas := kerr.InvalidTopicException.Code, kerr.InvalidPartitions.Code, kerr.InvalidReplicationFactor.Code
	for _, row := range []struct {
		topic      string
		partitions int32
		replicas   int16
		code       int16
	}{
		{"", 1, 1, invalidName},
		{".", 1, 1, invalidName},
		{"..", 1, 1, invalidName},
		{strings.Repeat("x", 250), 1, 1, invalidName},
		{strings.Repeat("x", 30_000), 1, 1, invalidName},
		{"../../etc/passwd", 1, 1, invalidName},
		{"a b", 1, 1, invalidName},
		{"a\x00b", 1, 1, invalidName},
		{"grüße", 1, 1, invalidName},
		{"a\nb", 1, 1, invalidName},
		{"parts", 0, 1, invalidPartitions},
		{"parts", -2, 1, invalidPartitions},
		{"parts", -1 << 31, 1, invalidPartitions},
		{"parts", 1<<31 - 1, 1, kerr.PolicyViolation.Code},
		{"parts", 10_001, 1, kerr.PolicyViolation.Code},
		{"replicas", 1, 0, invalidReplicas},
		{"replicas", 1, -2, invalidReplicas},
		{"replicas", 1, 2, invalidReplicas},
		{"replicas", 1, 1<<15 - 1, invalidReplicas},
		{"__cluster_metadata", 1, 1, kerr.InvalidRequest.Code},
	} {
		resp := ask[*kmsg.CreateTopicsResponse](c, createRequest(row.topic, row.partitions, row.replicas), atLast)
		if got := resp.Topics[0].ErrorCode; got != row.code {
			t.Errorf("topic %.40q, %d partitions, %d replicas: answered %v, want %v", row.topic, row.partitions, row.replicas,
				kerr.ErrorForCode(got), kerr.ErrorForCode(row.code))
		}
	}
	topic := fmt.Sprint("impossible-", os.Getpid())
	createTopic(t, addr, topic, 1)
	for count, want := range map[int32]int16{0: invalidPartitions, -1: invalidPartitions, 1: invalidPartitions, 1<<31 - 1: kerr.PolicyViolation.Code} {
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Version, req.TimeoutMillis = 2, 10_000
		grow := kmsg.NewCreatePartitionsRequestTopic()
		grow.Topic, grow.Count = topic, count
		req.Topics = append(req.Topics, grow)
		if got := ask[*kmsg.CreatePartitionsResponse](c, req, atLast).Topics[0].ErrorCode; got != want {
			t.Errorf("growing to %d partitions: answered %v, want %v", count, kerr.ErrorForCode(got), kerr.ErrorForCode(want))
		}
	}
	for _, name := range []string{"", "..", "a b", strings.Repeat("x", 250)} { // made by itself, were it possible
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.AllowAutoTopicCreation = 8, true
		wanted := kmsg.NewMetadataRequestTopic()
		wanted.Topic = &name
		req.Topics = append(req.Topics, wanted)
		if got := ask[*kmsg.MetadataResponse](c, req, atLast).Topics[0].ErrorCode; got != invalidName {
			t.Errorf("metadata of %.40q: answered %v, want %v", name, kerr.ErrorForCode(got), kerr.InvalidTopicException)
		}
	}
	check(topic)
}
