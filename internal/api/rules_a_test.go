package api_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/broker"
	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/record/compress"
)

// journal is what a broker has logged.
type journal struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// lines returns the lines that hold a word.
func (j *journal) lines(word string) (lines []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for l := range strings.Lines(j.text.String()) {
		if strings.Contains(l, word) {
			lines = append(lines, l)
		}
	}
	return lines
}

// startLogged starts a broker in memory and keeps what it logs from warnings on.
func startLogged(t *testing.T) (address string, log *journal) {
	t.Helper()
	log = &journal{}
	node, err := broker.Start(t.Context(), broker.Config{
		Properties: map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "data"}, Memory: true,
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return node.Addrs()[0].String(), log
}

func apiVersions(version int16) *kmsg.ApiVersionsRequest {
	req := raw.At(version, kmsg.NewPtrApiVersionsRequest())
	req.ClientSoftwareName, req.ClientSoftwareVersion = "my-client", "1.0"
	return req
}

// client connects franz-go, which chooses the newest versions that both sides know.
func client(t *testing.T, b *brokertest.Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Addr())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// A version of ApiVersions that nobody knows is answered in the layout of version 0, with the range to choose from, and the
// client goes on over the same connection.
func TestRule01ApiVersionsUnknownVersion(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	for _, version := range []int16{99, 32767, -1} {
		l.SendBytes(raw.Frame(kmsg.ApiVersions, version, 5, true, "\x0amy-client\x041.0\x00"))
		correlation, body, err := l.Receive()
		const want = "\x00\x23\x00\x00\x00\x01\x00\x12\x00\x00\x00\x05"
		if err != nil || correlation != 5 || string(body) != want {
			t.Fatalf("v%d: %d, %x, %v; want 5, %x", version, correlation, body, err, want)
		}
		if resp := l.Ask(apiVersions(3)).(*kmsg.ApiVersionsResponse); resp.ErrorCode != 0 || len(resp.ApiKeys) < 20 {
			t.Errorf("v3 after v%d: error %d, %d keys", version, resp.ErrorCode, len(resp.ApiKeys))
		}
	}
}

// The connection stays open after the next version that will be, however often.
func TestRule02ApiVersionsNeverCloses(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	for i := range int32(20) {
		l.SendBytes(raw.Frame(kmsg.ApiVersions, 6, i, true, "\x00"))
		correlation, body, err := l.Receive()
		if err != nil || correlation != i || len(body) != 12 || body[7] != 18 || body[11] != 5 {
			t.Fatalf("round %d: %d, %x, %v", i, correlation, body, err)
		}
	}
}

// The header of an ApiVersions answer has no tags in any version; that of every other flexible answer has.
func TestRule03ResponseHeaders(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	for version := range int16(6) {
		l.Send(apiVersions(version))
		_, body, err := l.Receive()
		if err != nil || binary.BigEndian.Uint16(body) != 0 || body[2] != 0 && version < 3 {
			t.Errorf("ApiVersions v%d: %x, %v; want the error code at once", version, raw.Head(body), err)
		}
		if count := int(body[2]) - 1; version >= 3 && count != len(l.Ask(apiVersions(0)).(*kmsg.ApiVersionsResponse).ApiKeys) {
			t.Errorf("ApiVersions v%d: %d keys after the error code", version, count)
		}
	}
	for _, k := range raw.Keys {
		if k.Comes != "" || k.Key == kmsg.ApiVersions {
			continue
		}
		req := raw.Odd(k.Key, k.Max, raw.Bare)
		if !req.IsFlexible() {
			continue
		}
		l.Send(req)
		_, body, err := l.Receive()
		if err != nil || len(body) == 0 || body[0] != 0 {
			t.Errorf("%s: %x, %v; want a header with an empty list of tags", raw.Describe(req), raw.Head(body), err)
		}
	}
}

func TestRule04ClientSoftwareNames(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	for version := int16(3); version <= 5; version++ {
		for name, want := range map[string]kafka.Error{"my client": kafka.InvalidRequest, "my-client": kafka.None, "": kafka.InvalidRequest, "a_b": kafka.InvalidRequest} {
			req := apiVersions(version)
			req.ClientSoftwareName = name
			code(t, name, l.Ask(req).(*kmsg.ApiVersionsResponse).ErrorCode, want)
		}
	}
}

// Produce is advertised from 0, for old clients' sake, and refused below 3; and what a client compresses is stored so.
func TestRule05ProduceFromZero(t *testing.T) {
	b := brokertest.Start(t)
	l := connect(t, b.Addr())
	row := l.Ask(apiVersions(0)).(*kmsg.ApiVersionsResponse).ApiKeys[0]
	if row.ApiKey != 0 || row.MinVersion != 0 || row.MaxVersion != 13 {
		t.Errorf("Produce is advertised as %+v", row)
	}
	l.Create("snappy", 1)
	cl := client(t, b, kgo.ProducerBatchCompression(kgo.SnappyCompression()), kgo.DefaultProduceTopic("snappy"))
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord(strings.Repeat("compress me ", 100))).FirstErr(); err != nil {
		t.Fatal(err)
	}
	stored := l.Ask(raw.Fetch(12, raw.FetchRow{Topic: "snappy"})).(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches
	batch, _, err := record.Split(stored)
	if err != nil || batch.Codec() != compress.Snappy {
		t.Errorf("stored as %v, %v; want snappy", batch.Codec(), err)
	}
	for version := range int16(3) {
		old := connect(t, b.Addr())
		old.SendBytes(raw.Frame(kmsg.Produce, version, 1, false, "\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00"))
		if n := old.Ended(); n != 0 {
			t.Errorf("Produce v%d: %d bytes before the end", version, n)
		}
	}
}

// A version that is gone ends the connection, without an answer, and the operator is told who it was.
func TestRule06UnsupportedVersionsClose(t *testing.T) {
	address, log := startLogged(t)
	l := connect(t, address)
	l.SendBytes(raw.Frame(kmsg.Produce, 0, 1, false, "\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00"))
	if n := l.Ended(); n != 0 {
		t.Errorf("%d bytes before the end", n)
	}
	lines := log.lines("not served")
	if len(lines) != 1 {
		t.Fatalf("logged %q, want one line", lines)
	}
	for _, word := range []string{"Produce", "version=0", "raw", l.Net.LocalAddr().String()} {
		if !strings.Contains(lines[0], word) {
			t.Errorf("the log does not say %s: %s", word, lines[0])
		}
	}
}

// A client that takes the newest version of everything finds ids wherever it needs them.
func TestRule07NewestVersionsFitTogether(t *testing.T) {
	b := brokertest.Start(t)
	l := connect(t, b.Addr())
	max := map[kmsg.Key]int16{}
	for _, row := range l.Ask(apiVersions(0)).(*kmsg.ApiVersionsResponse).ApiKeys {
		max[kmsg.Key(row.ApiKey)] = row.MaxVersion
	}
	for key, ids := range map[kmsg.Key]int16{kmsg.Produce: 13, kmsg.Fetch: 13, kmsg.OffsetCommit: 10, kmsg.OffsetFetch: 10} {
		if max[key] >= ids && max[kmsg.Metadata] < 10 {
			t.Errorf("%s v%d needs ids, Metadata v%d has none", key.Name(), max[key], max[kmsg.Metadata])
		}
	}
	l.Create("newest", 3)
	cl := client(t, b, kgo.DefaultProduceTopic("newest"), kgo.ConsumeTopics("newest"), kgo.ConsumerGroup("newest"))
	for i := range 30 {
		cl.Produce(t.Context(), kgo.StringRecord(strings.Repeat("v", i)), nil)
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for seen := 0; seen < 30; {
		fetches := cl.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		seen += fetches.NumRecords()
	}
	if err := cl.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// What is finalised is also supported, has an epoch, and is only what is really served: no share groups, no streams groups.
func TestRule08Features(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	for version := int16(3); version <= 5; version++ {
		resp := l.Ask(apiVersions(version)).(*kmsg.ApiVersionsResponse)
		if resp.FinalizedFeaturesEpoch < 0 || len(resp.FinalizedFeatures) == 0 {
			t.Errorf("v%d: %d finalised features at epoch %d", version, len(resp.FinalizedFeatures), resp.FinalizedFeaturesEpoch)
		}
		supported := map[string]kmsg.ApiVersionsResponseSupportedFeature{}
		for _, f := range resp.SupportedFeatures {
			supported[f.Name] = f
		}
		for _, f := range resp.FinalizedFeatures {
			s, known := supported[f.Name]
			if version >= 4 && !known || known && (f.MaxVersionLevel > s.MaxVersion || f.MinVersionLevel < s.MinVersion) {
				t.Errorf("v%d: finalised %+v, supported %+v", version, f, s)
			}
			if !slices.Contains(raw.ServedFeatures, f.Name) {
				t.Errorf("v%d: %s is finalised, and what it promises is not served", version, f.Name)
			}
		}
	}
}

// A fetch that waits holds back the answer to what was asked after it, and nothing is mixed up in a long pipeline.
func TestRule09ResponseOrder(t *testing.T) {
	b := brokertest.Start(t)
	l := connect(t, b.Addr())
	l.Create("empty", 1)
	wait := raw.Fetch(12, raw.FetchRow{Topic: "empty"})
	wait.MaxWaitMillis = 2000
	began := time.Now()
	l.Send(wait)
	fetched := l.Last
	names := raw.Metadata(12, []string{"empty"})
	l.Send(names)
	l.Answer(wait, fetched)
	waited := time.Since(began)
	l.Answer(names, fetched+1)
	if waited < 1900*time.Millisecond {
		t.Errorf("the fetch was answered after %v, want 2 s", waited)
	}
	var reqs []kmsg.Request
	first := l.Last + 1
	for i := range 50 {
		var req kmsg.Request = raw.Metadata(int16(i%14), []string{"empty"})
		switch i % 5 {
		case 1:
			req = raw.Produce(9, -1, raw.ProduceRow{Topic: "empty", Records: raw.Values("x")})
		case 2:
			req = raw.Fetch(int16(4+i%9), raw.FetchRow{Topic: "empty"})
		case 3:
			req = raw.ListOffsets(7, raw.ListRow{Topic: "empty", Timestamp: -1})
		}
		reqs = append(reqs, req)
		l.Send(req)
	}
	for i, req := range reqs {
		l.Answer(req, first+int32(i))
	}
}

// A Produce with acks=0 has no answer, and one that fails ends the connection.
func TestRule10AcksZero(t *testing.T) {
	b := brokertest.Start(t)
	l := connect(t, b.Addr())
	l.Create("t", 1)
	for version := int16(3); version <= 12; version++ {
		l.Send(raw.Produce(version, 0, raw.ProduceRow{Topic: "t", Records: raw.Values("x")}))
	}
	l.TopicsOf(12, "t") // which is the one answer
	raw.Until(l.Conn, raw.ListOffsets(7, raw.ListRow{Topic: "t", Timestamp: -1}), "the tenth record", func(r *kmsg.ListOffsetsResponse) bool { return r.Topics[0].Partitions[0].Offset == 10 })
	l.Send(raw.Produce(9, 0, raw.ProduceRow{Topic: "nope", Records: raw.Values("x")}))
	if n := l.Ended(); n != 0 {
		t.Errorf("acks=0 that fails: %d bytes before the end", n)
	}
}

// What is no Kafka is closed at once, with one line that names it, and takes no memory.
func TestRule11OtherProtocols(t *testing.T) {
	address, log := startLogged(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if resp, err := http.Get("http://" + address + "/"); err == nil {
		t.Errorf("HTTP was answered: %v", resp.Status)
		resp.Body.Close()
	}
	if conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}); err == nil {
		t.Error("TLS was answered")
		conn.Close()
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
		t.Errorf("%d bytes were allocated", used)
	}
	for _, word := range []string{"HTTP", "TLS"} {
		if lines := log.lines(word); len(lines) != 1 {
			t.Errorf("%s: logged %q, want one line", word, lines)
		}
	}
	for range 50 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		l := raw.On(t, conn)
		l.SendBytes([]byte("GET / HTTP/1.1\r\n\r\n"))
		conn.Close()
	}
	if lines := log.lines("HTTP"); len(lines) > 5 {
		t.Errorf("%d lines for 51 of the same, want at most 5", len(lines))
	}
}

// Lengths inside a frame that promise more than the frame holds end the connection before anything is allocated for them.
func TestRule12HostileLengths(t *testing.T) {
	b := brokertest.Start(t)
	for name, f := range map[string][]byte{
		"2^31-1 topics":                    raw.Frame(kmsg.Metadata, 1, 1, false, "\x7f\xff\xff\xff"+strings.Repeat("ab", 10)),
		"2^32-1 topics, compact":           raw.Frame(kmsg.Metadata, 12, 1, true, "\xff\xff\xff\xff\x0f"),
		"a length of ten bytes":            raw.Frame(kmsg.Metadata, 12, 1, true, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
		"a name of 32767 bytes":            raw.Frame(kmsg.Metadata, 1, 1, false, "\x00\x00\x00\x01\x7f\xffabc"),
		"records of 2 GB":                  raw.Frame(kmsg.Produce, 3, 1, false, "\xff\xff\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00\x7f\xff\xff\xff"),
		"2^31-1 partitions to fetch":       raw.Frame(kmsg.Fetch, 4, 1, false, strings.Repeat("\x00", 17)+"\x00\x00\x00\x01\x00\x01t\x7f\xff\xff\xff"),
		"a member's metadata of 2 GB":      raw.Frame(kmsg.JoinGroup, 0, 1, false, "\x00\x01g\x00\x00\x27\x10\x00\x00\x00\x01c\x00\x00\x00\x01\x00\x01r\x7f\xff\xff\xff"),
		"2^31-1 tags":                      raw.Frame(kmsg.Metadata, 12, 1, true, "\x00\x00\x00\xff\xff\xff\xff\x07"),
		"a client id of 32767 bytes":       {0, 0, 0, 12, 0, 3, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, 'a', 'b'},
		"a header that is cut":             {0, 0, 0, 6, 0, 3, 0, 1, 0, 0},
		"a frame of nothing":               {0, 0, 0, 0},
		"a negative frame":                 {0xff, 0xff, 0xff, 0xff},
		"a frame above the limit":          binary.BigEndian.AppendUint32(nil, 100<<20+1),
		"an unknown key with a large body": raw.Frame(500, 0, 1, false, strings.Repeat("x", 1<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			l := connect(t, b.Addr())
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			l.SendBytes(f)
			if n := l.Ended(); n != 0 {
				t.Errorf("%d bytes before the end", n)
			}
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > uint64(4*len(f))+1<<20 {
				t.Errorf("%d bytes made %d of allocations", len(f), used)
			}
		})
	}
	connect(t, b.Addr()).TopicsOf(12) // it goes on
}

// A client is asked for metrics by subscriptions alone: where there are none it is told of none, never of some that it may not have.
func TestRule13NoMetricsAreAskedForWithoutSubscription(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	for version := range int16(6) {
		keys := 0
		for _, row := range l.Ask(apiVersions(version)).(*kmsg.ApiVersionsResponse).ApiKeys {
			if row.ApiKey == 71 || row.ApiKey == 72 {
				keys++
			}
		}
		if keys != 2 {
			t.Errorf("v%d: %d of the two keys are advertised", version, keys)
		}
	}
	got := l.Ask(kmsg.NewPtrGetTelemetrySubscriptionsRequest()).(*kmsg.GetTelemetrySubscriptionsResponse)
	if got.ErrorCode != 0 || len(got.RequestedMetrics) != 0 || got.PushIntervalMillis != 300_000 || kafka.UUID(got.ClientInstanceID).IsZero() {
		t.Errorf("%+v, want an id and no metrics", got)
	}
}
