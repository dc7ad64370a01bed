package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
)

// limit sets quotas: pairs of a key and a value.
func (l *link) limit(entity []kmsg.AlterClientQuotasRequestEntryEntity, ops ...kmsg.AlterClientQuotasRequestEntryOp) {
	l.Helper()
	for _, row := range l.Ask(raw.AlterClientQuotas(1, raw.QuotaChange(entity, ops...))).(*kmsg.AlterClientQuotasResponse).Entries {
		if row.ErrorCode != 0 {
			l.Fatalf("set quota: %v", kafka.Error(row.ErrorCode))
		}
	}
}

// sendAs is send as a client of another id.
func (l *link) sendAs(clientID string, req kmsg.Request) {
	l.Helper()
	l.Last++
	l.SendBytes(kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, req, l.Last))
}

// short are windows in which a client has its burst behind it soon: two samples of a second.
func short() []brokertest.Option {
	return []brokertest.Option{brokertest.Property("quota.window.num", "2"), brokertest.Property("controller.quota.window.num", "2")}
}

// A client over its quota is answered at once, and what it sends next is read when its time is over. Another client is not held up.
func TestAnswersOverAQuotaComeAtOnceAndTheNextRequestWaits(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, short()...)
	l, other := connect(t, b.Addr()), connect(t, b.Addr())
	l.Create("t", 1)
	l.limit(raw.QuotaOf("client-id=raw"), raw.SetQuota("producer_byte_rate", 100_000))
	large := raw.Values(strings.Repeat("x", 250_000))
	began := time.Now()
	resp := l.Ask(raw.Produce(9, -1, raw.ProduceRow{Topic: "t", Records: large})).(*kmsg.ProduceResponse)
	// 250 KB over one second, as the window has one full sample: 1.5 s above the quota.
	if wait := resp.ThrottleMillis; wait < 1490 || wait > 1510 {
		t.Fatalf("told to wait %d ms, want 1500 and some", wait)
	}
	answered := time.Since(began)
	wait := time.Duration(resp.ThrottleMillis) * time.Millisecond
	if answered > wait {
		t.Errorf("the answer took %v: it comes at once", answered)
	}
	other.sendAs("another", raw.At(0, kmsg.NewPtrApiVersionsRequest()))
	if _, _, err := other.Receive(); err != nil || time.Since(began) > wait {
		t.Errorf("another client waited %v, %v", time.Since(began), err)
	}
	if l.Ask(raw.At(0, kmsg.NewPtrApiVersionsRequest())); time.Since(began) < wait {
		t.Errorf("the next request was read after %v, want %v", time.Since(began), wait)
	}
}

// A Produce without an answer makes its client wait as well.
func TestAProducerWithoutAnswersWaits(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, short()...)
	l := connect(t, b.Addr())
	l.Create("t", 1)
	l.limit(raw.QuotaOf("user"), raw.SetQuota("producer_byte_rate", 100_000))
	began := time.Now()
	l.Send(raw.Produce(9, 0, raw.ProduceRow{Topic: "t", Records: raw.Values(strings.Repeat("x", 250_000))}))
	if l.Ask(raw.At(0, kmsg.NewPtrApiVersionsRequest())); time.Since(began) < 1500*time.Millisecond {
		t.Errorf("the next request was read after %v, want 1.5 s", time.Since(began))
	}
}

// Answers of a throttled session are empty and keep it, and its epochs go on.
func TestRule73ThrottledSession(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, short()...)
	l := connect(t, b.Addr())
	l.Create("t", 1)
	const records = 20
	for i := range records {
		l.produce(9, "t", raw.Values(strings.Repeat(fmt.Sprint(i%10), 700)))
	}
	open := raw.Fetch(12, raw.FetchRow{Topic: "t"})
	open.SessionEpoch = 0
	open.Topics[0].Partitions[0].PartitionMaxBytes = 1
	session := l.Ask(open).(*kmsg.FetchResponse).SessionID
	l.limit(raw.QuotaOf("client-id=raw"), raw.SetQuota("consumer_byte_rate", 4000))
	throttled, epoch := 0, int32(1)
	for offset := int64(0); offset < records; epoch++ {
		next := raw.Fetch(12, raw.FetchRow{Topic: "t", Offset: offset})
		next.Topics[0].Partitions[0].PartitionMaxBytes = 1
		next.SessionID, next.SessionEpoch = session, epoch
		resp := l.Ask(next).(*kmsg.FetchResponse)
		if resp.ErrorCode != 0 || resp.SessionID != session {
			t.Fatalf("epoch %d: %v, session %d, want %d", epoch, kafka.Error(resp.ErrorCode), resp.SessionID, session)
		}
		got := rowsOf(resp)["t-0"]
		if resp.ThrottleMillis > 0 {
			if throttled++; got > 0 || len(resp.Topics) > 0 {
				t.Fatalf("epoch %d: %d bytes in a throttled answer", epoch, got)
			}
			continue
		}
		if got == 0 {
			t.Fatalf("epoch %d: nothing at offset %d, and no time to wait", epoch, offset)
		}
		offset++
	}
	if throttled == 0 {
		t.Error("no answer was throttled")
	}
}

// A quota holds for a client that waits as it is told and for one that does not listen, and neither is disconnected.
func TestRule94Quotas(t *testing.T) {
	t.Parallel()
	const rate = 1_000_000
	b := brokertest.Start(t, short()...)
	l := connect(t, b.Addr())
	l.Create("t", 1)
	for _, id := range []string{"polite", "deaf"} {
		l.limit(raw.QuotaOf("client-id="+id), raw.SetQuota("producer_byte_rate", rate))
	}
	l.limit(raw.QuotaOf("client-id"), raw.SetQuota("producer_byte_rate", 1)) // the quota of the name goes before
	// Bursts come and go with the samples, as in Kafka: the mean holds, but for one burst, the amount of a second.
	const long = 8 * time.Second
	for name, flood := range map[string]func(t *testing.T, sent func(bytes int, wait time.Duration)){"polite": polite(b), "deaf": deaf(b)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			counted, told := 0, time.Duration(0)
			flood(t, func(bytes int, wait time.Duration) {
				if time.Since(began) > long {
					panic(enough{})
				}
				counted += bytes
				told += wait
			})
			if most := 1.1*rate*long.Seconds() + rate; float64(counted) > most {
				t.Errorf("%d bytes in %v, want at most a tenth above the quota and a burst, %.0f", counted, long, most)
			}
			// What a client has to wait is what its bytes cost, however little the machine lets it send.
			if most := time.Duration(1.1*float64(counted)/rate*1e9) + time.Second; told > most {
				t.Errorf("told to wait %v for %d bytes, want at most %v", told, counted, most)
			}
			if told == 0 {
				t.Errorf("never told to wait, with %d bytes in %v", counted, long)
			}
		})
	}
}

// enough ends a flood.
type enough struct{}

func untilEnough() {
	if reason := recover(); reason != nil && reason != any(enough{}) {
		panic(reason)
	}
}

// waits adds up how long a client is told to wait.
type waits struct{ ns atomic.Int64 }

func (w *waits) OnBrokerThrottle(_ kgo.BrokerMetadata, interval time.Duration, _ bool) {
	w.ns.Add(int64(interval))
}

func polite(b *brokertest.Broker) func(*testing.T, func(int, time.Duration)) {
	return func(t *testing.T, sent func(int, time.Duration)) {
		var told waits
		client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.ClientID("polite"), kgo.DefaultProduceTopic("t"),
			kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()), kgo.WithHooks(&told))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		defer untilEnough()
		value := []byte(strings.Repeat("x", 10_000))
		for {
			if err := client.ProduceSync(context.Background(), &kgo.Record{Value: value}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			sent(len(value)+150, time.Duration(told.ns.Swap(0)))
		}
	}
}

func deaf(b *brokertest.Broker) func(*testing.T, func(int, time.Duration)) {
	return func(t *testing.T, sent func(int, time.Duration)) {
		l := connect(t, b.Addr())
		asked := raw.Produce(9, 1, raw.ProduceRow{Topic: "t", Records: raw.Values(strings.Repeat("x", 10_000))})
		request := kmsg.NewRequestFormatter(kmsg.FormatterClientID("deaf")).AppendRequest(nil, asked, 1)
		go func() {
			for {
				if _, err := l.Net.Write(request); err != nil {
					return // the test has ended
				}
			}
		}()
		defer untilEnough()
		for {
			_, body, err := l.Receive()
			if err != nil {
				t.Fatalf("disconnected: %v", err)
			}
			resp, err := raw.Decode(asked, body)
			if err != nil {
				t.Fatal(err)
			}
			sent(len(request)-4, time.Duration(resp.(*kmsg.ProduceResponse).ThrottleMillis)*time.Millisecond)
		}
	}
}

// Clients that know of it are refused, others are told to wait; validation alone is charged too, as in Kafka.
func TestMutationsOverAQuotaAreRefused(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, short()...)
	l := connect(t, b.Addr())
	l.Create("grow", 1)
	l.limit(raw.QuotaOf("user=ANONYMOUS"), raw.SetQuota("controller_mutation_rate", 1))
	create := func(version int16, name string, partitions int32) (kafka.Error, int32) {
		req := raw.At(version, kmsg.NewPtrCreateTopicsRequest())
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
		req.Topics = append(req.Topics, topic)
		resp := l.Ask(req).(*kmsg.CreateTopicsResponse)
		return kafka.Error(resp.Topics[0].ErrorCode), resp.ThrottleMillis
	}
	// The bucket holds two; the first may overdraw it by any number.
	if code, wait := create(7, "a", 4); code != kafka.None || wait != 0 {
		t.Fatalf("first: %v, wait %d ms", code, wait)
	}
	if code, wait := create(7, "b", 1); code != kafka.ThrottlingQuotaExceeded || wait == 0 || wait > 2000 {
		t.Errorf("second: %v, wait %d ms, want %v and up to 2 s", code, wait, kafka.ThrottlingQuotaExceeded)
	}
	// The connection was muted until then, so the debt is paid.
	if code, wait := create(5, "c", 3); code != kafka.None || wait < 1000 {
		t.Errorf("an old client: %v, wait %d ms, want it made and some seconds", code, wait)
	}
	growth := raw.At(3, kmsg.NewPtrCreatePartitionsRequest())
	growth.ValidateOnly = true
	more := kmsg.NewCreatePartitionsRequestTopic()
	more.Topic, more.Count = "grow", 100
	growth.Topics = append(growth.Topics, more)
	if resp := l.Ask(growth).(*kmsg.CreatePartitionsResponse); resp.Topics[0].ErrorCode != 0 {
		t.Errorf("after the wait: %v", kafka.Error(resp.Topics[0].ErrorCode))
	}
	gone := raw.At(6, kmsg.NewPtrDeleteTopicsRequest())
	for _, name := range []string{"a", "grow"} {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = &name
		gone.Topics = append(gone.Topics, topic)
	}
	resp := l.Ask(gone).(*kmsg.DeleteTopicsResponse)
	for _, row := range resp.Topics {
		if kafka.Error(row.ErrorCode) != kafka.ThrottlingQuotaExceeded {
			t.Errorf("delete %s after a validation that overdrew the bucket: %v", *row.Topic, kafka.Error(row.ErrorCode))
		}
	}
	if resp.ThrottleMillis == 0 {
		t.Error("refused without a time to wait")
	}
	got := connect(t, b.Addr()).TopicsOf(12, "a", "grow", "c") // the connection so far is not read for long
	if len(got[0].Partitions) != 4 || len(got[1].Partitions) != 1 || len(got[2].Partitions) != 3 {
		t.Errorf("topics afterwards: %+v", got)
	}
}

// A request takes time, whatever it asks for; a client with next to none to use waits after each.
func TestRequestsTakeTime(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t, short()...)
	l := connect(t, b.Addr())
	l.limit(raw.QuotaOf("user"), raw.SetQuota("request_percentage", 1e-9))
	began := time.Now()
	for _, req := range []kmsg.Request{raw.At(12, kmsg.NewPtrMetadataRequest()), raw.At(1, kmsg.NewPtrDescribeClusterRequest())} {
		wait := int32(0)
		switch resp := l.Ask(req).(type) {
		case *kmsg.MetadataResponse:
			wait = resp.ThrottleMillis
		case *kmsg.DescribeClusterResponse:
			wait = resp.ThrottleMillis
		}
		if wait != 1000 {
			t.Errorf("%s: wait %d ms, want a sample, 1000", kmsg.NameForKey(req.Key()), wait)
		}
	}
	l.limit(raw.QuotaOf("user"), raw.RemoveQuota("request_percentage"))
	if since := time.Since(began); since < 2*time.Second {
		t.Errorf("two throttled requests took %v, want 2 s", since)
	}
	l.Ask(raw.At(12, kmsg.NewPtrMetadataRequest()))
	if resp := l.Ask(raw.At(12, kmsg.NewPtrMetadataRequest())).(*kmsg.MetadataResponse); resp.ThrottleMillis != 0 {
		t.Errorf("wait %d ms without a quota", resp.ThrottleMillis)
	}
}

// Connections that come too fast are closed after a while without having been served, others go on.
func TestConnectionsOverAQuotaAreClosed(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t)
	l := connect(t, b.Addr())
	l.limit(raw.QuotaOf("ip=127.0.0.1"), raw.SetQuota("connection_creation_rate", 1))
	served, closed := 0, 0
	for range 13 { // ten at once are within the quota
		c, err := net.Dial("tcp", b.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		k := &link{raw.On(t, c)}
		k.Send(raw.At(0, kmsg.NewPtrApiVersionsRequest()))
		switch _, _, err := k.Receive(); {
		case err == nil:
			served++
		case errors.Is(err, io.EOF) || strings.Contains(err.Error(), "reset"):
			closed++
		default:
			t.Fatal(err)
		}
	}
	// Each that is closed takes a second, and makes none of the others wait.
	if served < 10 || served > 12 || closed == 0 {
		t.Errorf("%d connections served, %d closed, want 10 and 3, or one or two more and less as time passes", served, closed)
	}
	l.Ask(raw.At(0, kmsg.NewPtrApiVersionsRequest()))
	l.limit(raw.QuotaOf("ip=127.0.0.1"), raw.RemoveQuota("connection_creation_rate"))
	connect(t, b.Addr()).Ask(raw.At(0, kmsg.NewPtrApiVersionsRequest()))
}

// Connections that come faster than the broker or their listener may take them are served later, until the rate is raised.
func TestConnectionsComeInAtTheirRate(t *testing.T) {
	t.Parallel()
	const key = "max.connection.creation.rate"
	for _, name := range []string{key, "listener.name.plaintext." + key} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := brokertest.Start(t, append(short(), brokertest.Property(name, "2"))...)
			come := func(connections int) time.Duration {
				began := time.Now()
				for range connections {
					connect(t, b.Addr()).Ask(raw.At(0, kmsg.NewPtrApiVersionsRequest()))
				}
				return time.Since(began)
			}
			if took := come(5); took < 1500*time.Millisecond { // two are within the burst
				t.Errorf("5 connections took %v, want 1.5 s or more", took)
			}
			l := connect(t, b.Addr())
			for _, row := range l.Ask(raw.IncrementalAlterConfigs(1, false, raw.Assignments{Kind: config.KindBroker, Name: "1", Sets: []string{name + "=100000"}})).(*kmsg.IncrementalAlterConfigsResponse).Resources {
				if row.ErrorCode != 0 {
					t.Fatalf("raise the rate: %v", kafka.Error(row.ErrorCode))
				}
			}
			come(1) // which may have waited already
			if took := come(100); took > 40*time.Second {
				t.Errorf("100 connections took %v after the rate was raised", took)
			}
		})
	}
}

// Quotas are in the metadata log: they outlast the process.
func TestQuotasOutlastARestart(t *testing.T) {
	dir := t.TempDir()
	b := brokertest.Start(t, brokertest.Dir(dir))
	l := connect(t, b.Addr())
	l.limit(raw.QuotaOf("user=u", "client-id"), raw.SetQuota("producer_byte_rate", 1000), raw.SetQuota("request_percentage", 12.5))
	l.limit(raw.QuotaOf("ip"), raw.SetQuota("connection_creation_rate", 1_000_000))
	l.limit(raw.QuotaOf("user=gone"), raw.SetQuota("producer_byte_rate", 1000))
	l.limit(raw.QuotaOf("user=gone"), raw.RemoveQuota("producer_byte_rate"))
	b.Close()
	l = connect(t, brokertest.Start(t, brokertest.Dir(dir)).Addr())
	var got []string
	for _, e := range l.Ask(raw.DescribeClientQuotas(1, false)).(*kmsg.DescribeClientQuotasResponse).Entries {
		line := ""
		for _, part := range e.Entity {
			line += part.Type + " "
			if part.Name != nil {
				line += *part.Name + " "
			}
		}
		for _, v := range e.Values {
			line += fmt.Sprintf("%s=%v ", v.Key, v.Value)
		}
		got = append(got, strings.TrimSpace(line))
	}
	want := "ip connection_creation_rate=1e+06; user u client-id producer_byte_rate=1000 request_percentage=12.5"
	if strings.Join(got, "; ") != want {
		t.Errorf("after a restart: %s, want %s", strings.Join(got, "; "), want)
	}
}
