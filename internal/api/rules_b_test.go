package api_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/broker"
	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
)

// row is one topic of a Metadata answer, or fails.
func (l *link) row(version int16, name string) kmsg.MetadataResponseTopic {
	l.Helper()
	rows := l.TopicsOf(version, name)
	if len(rows) != 1 || rows[0].Topic == nil || *rows[0].Topic != name {
		l.Fatalf("Metadata v%d of %s: %+v", version, name, rows)
	}
	return rows[0]
}

func TestRule14AllTopicsAndNone(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	for _, name := range []string{"a", "b", "c"} {
		l.Create(name, 1)
	}
	count := func(version int16, names []string) int {
		resp := l.Ask(raw.Metadata(version, names)).(*kmsg.MetadataResponse)
		if len(resp.Brokers) != 1 {
			t.Errorf("v%d: %d brokers", version, len(resp.Brokers))
		}
		return len(resp.Topics)
	}
	if n := count(0, []string{}); n != 3 {
		t.Errorf("v0, empty: %d topics, want all 3", n)
	}
	for version := int16(1); version <= 13; version++ {
		if all, none := count(version, nil), count(version, []string{}); all != 3 || none != 0 {
			t.Errorf("v%d: null is %d topics and empty is %d, want 3 and 0", version, all, none)
		}
	}
}

// The first request for a topic creates it and answers that it is not there; the next finds it led.
func TestRule15CreationOnFirstUse(t *testing.T) {
	l := connect(t, brokertest.Start(t, brokertest.Property("num.partitions", "3")).Addr())
	for version := range int16(14) {
		name := fmt.Sprint("first", version)
		req := raw.Metadata(version, []string{name})
		req.AllowAutoTopicCreation = true
		first := l.Ask(req).(*kmsg.MetadataResponse).Topics[0]
		if c := kafka.Error(first.ErrorCode); c != kafka.UnknownTopicOrPartition && c != kafka.LeaderNotAvailable {
			t.Errorf("v%d: first answer %v", version, c)
		}
		raw.Until(l.Conn, req, "a leader", func(m *kmsg.MetadataResponse) bool {
			return m.Topics[0].ErrorCode == 0 && len(m.Topics[0].Partitions) == 3 && m.Topics[0].Partitions[2].Leader >= 0
		})
	}
}

func TestRule16NoCreationOnFirstUse(t *testing.T) {
	on, off := connect(t, brokertest.Start(t).Addr()), connect(t, brokertest.Start(t, brokertest.Property("auto.create.topics.enable", "false")).Addr())
	for version := range int16(14) {
		for _, allowed := range []bool{false, true} {
			for _, l := range []*link{on, off} {
				name := fmt.Sprintf("use-%d-%v", version, allowed)
				req := raw.Metadata(version, []string{name})
				req.AllowAutoTopicCreation = allowed
				l.Ask(req)
				want := kafka.None
				if l == off || version >= 4 && !allowed {
					want = kafka.UnknownTopicOrPartition
				}
				code(t, fmt.Sprintf("v%d, asked %v, on the broker %v", version, allowed, l == on), l.row(12, name).ErrorCode, want)
			}
		}
	}
	if topics := off.Ask(raw.Metadata(12, nil)).(*kmsg.MetadataResponse).Topics; len(topics) != 0 {
		t.Errorf("%d topics were created where none may be", len(topics))
	}
}

// Every answer that holds an address holds that of the listener on which it was asked for.
func TestRule17AddressOfTheListener(t *testing.T) {
	b := brokertest.Start(t, brokertest.Property("listeners", "IN://127.0.0.1:0,OUT://127.0.0.1:0"),
		brokertest.Property("advertised.listeners", "IN://in.example:1111,OUT://out.example:2222"),
		brokertest.Property("listener.security.protocol.map", "IN:PLAINTEXT,OUT:PLAINTEXT"),
		brokertest.Property("inter.broker.listener.name", "IN"))
	for i, want := range []string{"in.example:1111", "out.example:2222"} {
		l := connect(t, b.Node().Addrs()[i].String())
		for version := range int16(14) {
			m := l.Ask(raw.Metadata(version, []string{})).(*kmsg.MetadataResponse).Brokers
			if got := fmt.Sprintf("%s:%d", m[0].Host, m[0].Port); len(m) != 1 || got != want {
				t.Errorf("Metadata v%d: %d brokers, %s, want %s", version, len(m), got, want)
			}
		}
		for version := range int16(3) {
			c := l.Ask(raw.At(version, kmsg.NewPtrDescribeClusterRequest())).(*kmsg.DescribeClusterResponse).Brokers
			if got := fmt.Sprintf("%s:%d", c[0].Host, c[0].Port); got != want {
				t.Errorf("DescribeCluster v%d: %s, want %s", version, got, want)
			}
		}
		for version := range int16(7) {
			req := raw.At(version, kmsg.NewPtrFindCoordinatorRequest())
			req.CoordinatorKey, req.CoordinatorKeys = "g", []string{"g"}
			raw.Until(l.Conn, req, "a coordinator", raw.Found)
			f := l.Ask(req).(*kmsg.FindCoordinatorResponse)
			got := fmt.Sprintf("%s:%d", f.Host, f.Port)
			if version >= 4 {
				got = fmt.Sprintf("%s:%d", f.Coordinators[0].Host, f.Coordinators[0].Port)
			}
			if got != want {
				t.Errorf("FindCoordinator v%d: %s, want %s", version, got, want)
			}
		}
	}
	for _, address := range []string{"0.0.0.0", "[::]"} {
		_, err := broker.Start(t.Context(), broker.Config{Memory: true, Properties: map[string]string{
			"listeners": "PLAINTEXT://127.0.0.1:0", "advertised.listeners": "PLAINTEXT://" + address + ":9092", "log.dirs": "data",
		}})
		if err == nil || !strings.Contains(err.Error(), "advertised") {
			t.Errorf("advertised %s: %v, want an error that says so", address, err)
		}
	}
}

// After any number of restarts, clean or not, leader epochs are real, where they are told at all, and not below what was told
// before.
func TestRule19EpochsNeverFall(t *testing.T) {
	dir := t.TempDir()
	last := int32(0)
	for round := range 4 {
		b := brokertest.Start(t, brokertest.Dir(dir))
		l := connect(t, b.Addr())
		if round == 0 {
			l.Create("t", 1)
		}
		offset := int64(round)
		p := l.Ask(raw.Produce(9, -1, raw.ProduceRow{Topic: "t", Records: raw.Values("x")})).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.BaseOffset != offset {
			t.Fatalf("round %d: %+v", round, p)
		}
		epoch := l.row(7, "t").Partitions[0].LeaderEpoch
		if epoch < last {
			t.Errorf("round %d: leader epoch %d, was %d", round, epoch, last)
		}
		for version := int16(7); version <= 13; version++ {
			if got := l.row(version, "t").Partitions[0].LeaderEpoch; got != epoch {
				t.Errorf("Metadata v%d: leader epoch %d, v7 says %d", version, got, epoch)
			}
		}
		batch := l.Ask(raw.Fetch(12, raw.FetchRow{Topic: "t", Offset: offset})).(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches
		if got := int32(batch[12])<<24 | int32(batch[13])<<16 | int32(batch[14])<<8 | int32(batch[15]); got != epoch {
			t.Errorf("round %d: the batch was written at epoch %d, Metadata says %d", round, got, epoch)
		}
		for version := int16(4); version <= 11; version++ {
			if got := l.Ask(raw.ListOffsets(version, raw.ListRow{Topic: "t", Timestamp: -1})).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].LeaderEpoch; got != epoch {
				t.Errorf("ListOffsets v%d: leader epoch %d, Metadata says %d", version, got, epoch)
			}
		}
		last = epoch
		if round%2 == 0 {
			b.Close()
			continue
		}
		dir = crashed(t, dir) // goes on as after kill -9: with what was written, without the end
	}
}

// crashed copies a directory while its broker runs, as kill -9 would leave it.
func crashed(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.Join(to, strings.TrimPrefix(path, dir))
		if entry.IsDir() {
			return os.MkdirAll(name, 0o755)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(name, text, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// A broker that comes back answers nothing before it knows its topics.
func TestRule20TopicsNeverVanish(t *testing.T) {
	dir := t.TempDir()
	port := fmt.Sprint(raw.FreePort(t))
	listeners := brokertest.Property("listeners", "PLAINTEXT://127.0.0.1:"+port)
	b := brokertest.Start(t, brokertest.Dir(dir), listeners)
	l := connect(t, b.Addr())
	for i := range 20 {
		l.Create(fmt.Sprint("t", i), 2)
	}
	for round := range 3 {
		b.Close()
		asked := make(chan error, 1)
		go func() { asked <- firstAnswer("127.0.0.1:"+port, "t19") }()
		b = brokertest.Start(t, brokertest.Dir(dir), listeners)
		if err := <-asked; err != nil {
			t.Errorf("round %d: %v", round, err)
		}
	}
}

// firstAnswer connects as soon as anybody listens and asks for a topic that is there.
func firstAnswer(address, topic string) error {
	for deadline := time.Now().Add(raw.Patience); time.Now().Before(deadline); {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			continue
		}
		defer conn.Close()
		req := raw.Metadata(12, []string{topic})
		if _, err := conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)); err != nil {
			return err
		}
		l := raw.On(nil, conn)
		_, body, err := l.Receive()
		if err != nil {
			return err
		}
		resp, err := raw.Decode(req, body)
		if err != nil {
			return err
		}
		if row := resp.(*kmsg.MetadataResponse).Topics[0]; row.ErrorCode != 0 || row.Partitions[1].Leader < 0 {
			return fmt.Errorf("the first answer after a start: %+v", row)
		}
		return nil
	}
	return fmt.Errorf("nobody listens on %s", address)
}

// A topic has an id from its first moment, and by id one reads the same bytes as by name.
func TestRule21TopicIDs(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	id := l.Create("t", 1)
	if id == [16]byte{} {
		t.Fatal("a new topic has no id")
	}
	for version := int16(10); version <= 13; version++ {
		if got := l.row(version, "t").TopicID; got != id {
			t.Errorf("Metadata v%d: id %x, want %x", version, got, id)
		}
	}
	l.Ask(raw.Produce(9, -1, raw.ProduceRow{Topic: "t", Records: raw.Values("a", "b", "c")}))
	var want []byte
	for version := int16(4); version <= 18; version++ {
		ask := raw.FetchRow{Topic: "t"}
		if version >= 13 {
			ask = raw.FetchRow{Topic: "", ID: id}
		}
		got := l.Ask(raw.Fetch(version, ask)).(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if want == nil {
			want = got.RecordBatches
		}
		if got.ErrorCode != 0 || len(want) == 0 || !bytes.Equal(got.RecordBatches, want) {
			t.Errorf("Fetch v%d: %v and %d bytes, v4 has %d", version, kafka.Error(got.ErrorCode), len(got.RecordBatches), len(want))
		}
	}
	made := l.Ask(raw.Produce(13, -1, raw.ProduceRow{Topic: "", ID: id, Records: raw.Values("d")})).(*kmsg.ProduceResponse).Topics[0]
	if made.TopicID != id || made.Partitions[0].ErrorCode != 0 || made.Partitions[0].BaseOffset != 3 {
		t.Errorf("Produce v13 by id: %+v", made)
	}
}

func createCode(l *link, version int16, topics ...kmsg.CreateTopicsRequestTopic) kafka.Error {
	l.Helper()
	return kafka.Error(l.Ask(raw.CreateTopics(version, topics...)).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
}

func TestRule22ReplicationFactors(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	for version := int16(2); version <= 7; version++ {
		for _, c := range []struct {
			partitions int32
			factor     int16
			want       kafka.Error
		}{
			{1, 3, kafka.InvalidReplicationFactor},
			{1, 0, kafka.InvalidReplicationFactor},
			{1, -2, kafka.InvalidReplicationFactor},
			{1, 32767, kafka.InvalidReplicationFactor},
			{0, 3, kafka.InvalidPartitions},
			{1, 1, kafka.None},
		} {
			name := fmt.Sprintf("t%d%d%d", version, c.partitions, c.factor)
			if got := createCode(l, version, raw.NewTopic(name, c.partitions, c.factor)); got != c.want {
				t.Errorf("v%d: %d partitions, %d replicas: %v, want %v", version, c.partitions, c.factor, got, c.want)
			}
		}
	}
}

func TestRule23DefaultsOfNewTopics(t *testing.T) {
	l := connect(t, brokertest.Start(t, brokertest.Property("num.partitions", "4")).Addr())
	for version := int16(4); version <= 7; version++ {
		name := fmt.Sprint("t", version)
		row := l.Ask(raw.CreateTopics(version, raw.NewTopic(name, -1, -1))).(*kmsg.CreateTopicsResponse).Topics[0]
		if row.ErrorCode != 0 || version >= 5 && (row.NumPartitions != 4 || row.ReplicationFactor != 1 || len(row.Configs) < 20) {
			t.Errorf("v%d: %v, %d partitions, %d replicas, %d settings", version, kafka.Error(row.ErrorCode), row.NumPartitions, row.ReplicationFactor, len(row.Configs))
		}
		if n := len(l.row(12, name).Partitions); n != 4 {
			t.Errorf("v%d: %d partitions were made", version, n)
		}
		if got := createCode(l, version, raw.NewTopic("zero", 0, 1)); got != kafka.InvalidPartitions {
			t.Errorf("v%d: no partitions: %v", version, got)
		}
		if got := createCode(l, version, raw.NewTopic("twice", 1, 1), raw.NewTopic("twice", 1, 1)); got != kafka.InvalidRequest {
			t.Errorf("v%d: a name twice: %v", version, got)
		}
		try := raw.CreateTopics(version, raw.NewTopic("tried", 1, 1))
		try.ValidateOnly = true
		code(t, "only tried", l.Ask(try).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode, kafka.None)
		code(t, "after it was only tried", l.row(12, "tried").ErrorCode, kafka.UnknownTopicOrPartition)
	}
}

func TestRule24TopicsOnlyGrow(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	l.Create("t", 5)
	for version := range int16(4) {
		now := int32(5 + version)
		for _, count := range []int32{now, 3} {
			row := l.Ask(raw.CreatePartitions(version, "t", count)).(*kmsg.CreatePartitionsResponse).Topics[0]
			if kafka.Error(row.ErrorCode) != kafka.InvalidPartitions || row.ErrorMessage == nil ||
				!strings.Contains(*row.ErrorMessage, fmt.Sprint(now)) || !strings.Contains(*row.ErrorMessage, fmt.Sprint(count)) {
				t.Errorf("v%d: %d to %d: %v, message %s; want both counts in it", version, now, count, kafka.Error(row.ErrorCode), deref(row.ErrorMessage))
			}
		}
		code(t, "one more", l.Ask(raw.CreatePartitions(version, "t", now+1)).(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode, kafka.None)
		if n := len(l.row(12, "t").Partitions); n != int(now)+1 {
			t.Errorf("v%d: %d partitions, want %d", version, n, now+1)
		}
	}
}

func deref(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

func TestRule25NamesThatCollide(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	l.Create("a.b", 1)
	row := l.Ask(raw.CreateTopics(7, raw.NewTopic("a_b", 1, 1))).(*kmsg.CreateTopicsResponse).Topics[0]
	if kafka.Error(row.ErrorCode) != kafka.InvalidTopicException || !strings.Contains(deref(row.ErrorMessage), "a.b") {
		t.Errorf("a_b beside a.b: %v, %s", kafka.Error(row.ErrorCode), deref(row.ErrorMessage))
	}
	l.Create("a-b", 1)
	l.Create("c_d", 1)
	if got := createCode(l, 7, raw.NewTopic("c.d", 1, 1)); got != kafka.InvalidTopicException {
		t.Errorf("c.d beside c_d: %v", got)
	}
	use := raw.Metadata(12, []string{"a_b"})
	use.AllowAutoTopicCreation = true
	l.Ask(use)
	if n := len(l.Ask(raw.Metadata(12, nil)).(*kmsg.MetadataResponse).Topics); n != 3 {
		t.Errorf("%d topics, want 3: one that collides was created on first use", n)
	}
}

func TestRule26LengthOfNames(t *testing.T) {
	dir := t.TempDir()
	b := brokertest.Start(t, brokertest.Dir(dir))
	l := connect(t, b.Addr())
	id := l.Create(raw.LongName, 2)
	for _, name := range []string{raw.LongName + "n", "", ".", "..", "a b", "a/b", "ä", strings.Repeat("n", 30000)} {
		if got := createCode(l, 7, raw.NewTopic(name, 1, 1)); got != kafka.InvalidTopicException {
			t.Errorf("%.20q, %d bytes: %v", name, len(name), got)
		}
		use := raw.Metadata(12, []string{name})
		use.AllowAutoTopicCreation = true
		code(t, fmt.Sprintf("%.20q on first use", name), l.Ask(use).(*kmsg.MetadataResponse).Topics[0].ErrorCode, kafka.InvalidTopicException)
	}
	code(t, "produce", l.Ask(raw.Produce(9, -1, raw.ProduceRow{Topic: raw.LongName, Partition: 1, Records: raw.Values("x")})).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode, kafka.None)
	b.Close()
	l = connect(t, brokertest.Start(t, brokertest.Dir(dir)).Addr())
	got := l.Ask(raw.Fetch(13, raw.FetchRow{Topic: "", ID: id, Partition: 1})).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if got.ErrorCode != 0 || len(got.RecordBatches) == 0 {
		t.Errorf("after a restart: %v, %d bytes", kafka.Error(got.ErrorCode), len(got.RecordBatches))
	}
	del := raw.At(6, kmsg.NewPtrDeleteTopicsRequest())
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.TopicID = id
	del.Topics = append(del.Topics, topic)
	code(t, "delete", l.Ask(del).(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode, kafka.None)
}

// Sizes add up to what is on the disk, nothing is behind or moving, and null is everything.
func TestRule31LogDirectories(t *testing.T) {
	dir := t.TempDir()
	l := connect(t, brokertest.Start(t, brokertest.Dir(dir)).Addr())
	for _, name := range []string{"a", "b"} {
		l.Create(name, 3)
		for p := range int32(3) {
			l.Ask(raw.Produce(9, -1, raw.ProduceRow{Topic: name, Partition: p, Records: raw.Values(strings.Repeat("x", 1000*int(p+1)))}))
		}
	}
	onDisk := int64(0)
	segments, _ := filepath.Glob(filepath.Join(dir, "[ab]-[0-9]", "*.log"))
	for _, name := range segments {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		onDisk += info.Size()
	}
	for version := int16(1); version <= 5; version++ {
		all := l.Ask(raw.At(version, kmsg.NewPtrDescribeLogDirsRequest())).(*kmsg.DescribeLogDirsResponse)
		if len(all.Dirs) != 1 || all.Dirs[0].ErrorCode != 0 || all.Dirs[0].Dir != dir || version >= 4 && (all.Dirs[0].TotalBytes <= 0 || all.Dirs[0].UsableBytes <= 0) {
			t.Fatalf("v%d: %+v", version, all.Dirs)
		}
		sum, partitions := int64(0), 0
		for _, topic := range all.Dirs[0].Topics {
			for _, p := range topic.Partitions {
				sum += p.Size
				partitions++
				if p.OffsetLag != 0 || p.IsFuture {
					t.Errorf("v%d: %s: %+v", version, topic.Topic, p)
				}
			}
		}
		if partitions != 6 || sum < 12_000 || sum > onDisk {
			t.Errorf("v%d: %d partitions with %d bytes, on the disk are %d", version, partitions, sum, onDisk)
		}
		some := raw.At(version, kmsg.NewPtrDescribeLogDirsRequest())
		some.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: "b", Partitions: []int32{2}}}
		if got := l.Ask(some).(*kmsg.DescribeLogDirsResponse).Dirs[0].Topics; len(got) != 1 || len(got[0].Partitions) != 1 || got[0].Partitions[0].Partition != 2 {
			t.Errorf("v%d: only b-2 was asked for: %+v", version, got)
		}
	}
}

// The controller is a broker that one can connect to, and the cluster keeps its id.
func TestRule32ClusterAndController(t *testing.T) {
	dir, id := t.TempDir(), ""
	for range 2 {
		b := brokertest.Start(t, brokertest.Dir(dir))
		l := connect(t, b.Addr())
		for version := range int16(3) {
			c := l.Ask(raw.At(version, kmsg.NewPtrDescribeClusterRequest())).(*kmsg.DescribeClusterResponse)
			if !slices.ContainsFunc(c.Brokers, func(r kmsg.DescribeClusterResponseBroker) bool { return r.NodeID == c.ControllerID }) {
				t.Errorf("DescribeCluster v%d: controller %d is none of %+v", version, c.ControllerID, c.Brokers)
			}
			if id == "" {
				id = c.ClusterID
			}
			if c.ClusterID != id || len(id) != 22 {
				t.Errorf("DescribeCluster v%d: cluster %q, was %q", version, c.ClusterID, id)
			}
		}
		for version := int16(1); version <= 13; version++ {
			m := l.Ask(raw.Metadata(version, []string{})).(*kmsg.MetadataResponse)
			if len(m.Brokers) != 1 || m.ControllerID != m.Brokers[0].NodeID || version >= 2 && deref(m.ClusterID) != id {
				t.Errorf("Metadata v%d: controller %d, brokers %+v, cluster %s", version, m.ControllerID, m.Brokers, deref(m.ClusterID))
			}
		}
		host, port, _ := net.SplitHostPort(b.Addr())
		m := l.Ask(raw.Metadata(12, []string{})).(*kmsg.MetadataResponse)
		if m.Brokers[0].Host != host || fmt.Sprint(m.Brokers[0].Port) != port {
			t.Errorf("the broker is at %s, it says %s:%d", b.Addr(), m.Brokers[0].Host, m.Brokers[0].Port)
		}
		b.Close()
	}
}

// The limit of partitions has one code, whichever request runs into it, and the message says the limit.
func TestRule37TooManyPartitions(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	l.Create("t", 1)
	for _, count := range []int32{10_000_000, 1 << 30, 1<<31 - 1} {
		for range 2 {
			row := l.Ask(raw.CreateTopics(7, raw.NewTopic("many", count, 1))).(*kmsg.CreateTopicsResponse).Topics[0]
			grown := l.Ask(raw.CreatePartitions(3, "t", count)).(*kmsg.CreatePartitionsResponse).Topics[0]
			code(t, fmt.Sprint("create ", count), row.ErrorCode, kafka.PolicyViolation)
			code(t, fmt.Sprint("grow to ", count), grown.ErrorCode, kafka.PolicyViolation)
			for _, message := range []*string{row.ErrorMessage, grown.ErrorMessage} {
				if !strings.ContainsAny(deref(message), "0123456789") {
					t.Errorf("%d partitions: the message has no limit in it: %s", count, deref(message))
				}
			}
		}
	}
}
