package broker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/broker"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// twoDirs is a node with the log directories /a, which has the metadata log, and /b.
type twoDirs struct {
	*testing.T
	disk *faultfs.Injector
	node *broker.Node
	adm  *kadm.Client
}

const dirsTopic = "t"

func newTwoDirs(t *testing.T, properties ...string) *twoDirs {
	w := &twoDirs{T: t, disk: faultfs.Inject(vfs.NewMemory())}
	w.start(properties...)
	t.Cleanup(w.stop)
	return w
}

func (w *twoDirs) start(properties ...string) {
	w.Helper()
	p := map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "/a,/b", "raftsman.config.strict": "true"}
	for _, property := range properties {
		name, value, _ := strings.Cut(property, "=")
		p[name] = value
	}
	node, err := broker.Start(w.Context(), broker.Config{Properties: p, FS: w.disk})
	if err != nil {
		w.Fatal(err)
	}
	w.node = node
	w.adm = kadm.NewClient(w.client())
}

func (w *twoDirs) client(options ...kgo.Opt) *kgo.Client {
	w.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(w.node.Addrs()[0].String()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(10 * time.Millisecond),
	}, options...)...)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(cl.Close)
	return cl
}

// httpListener lets a node answer HTTP.
const httpListener = "raftsman.http.listener=127.0.0.1:0"

// get asks a node that answers HTTP.
func (w *twoDirs) get(path string) (status int, text string) {
	w.Helper()
	resp, err := http.Get("http://" + w.node.HTTPAddr().String() + path)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	return resp.StatusCode, string(all)
}

func (w *twoDirs) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = w.node.Close(ctx)
}

// create makes the topic with so many partitions.
func (w *twoDirs) create(name string, partitions int32) {
	w.Helper()
	if r, err := w.adm.CreateTopic(w.Context(), partitions, 1, nil, name); err != nil {
		w.Fatal(err, r.ErrMessage)
	}
}

// partitionsIn lists the topic's partitions that DescribeLogDirs has in a directory.
func (w *twoDirs) partitionsIn(topic, dir string) (numbers []int32) {
	w.Helper()
	all, err := w.adm.DescribeAllLogDirs(w.Context(), nil)
	if err != nil {
		w.Fatal(err)
	}
	for number := range all[1][dir].Topics[topic] {
		numbers = append(numbers, number)
	}
	return numbers
}

// produce sends one record, once.
func (w *twoDirs) produce(partition int32, value string) error {
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	cl := w.client(kgo.RecordRetries(0), kgo.DisableIdempotentWrite(), kgo.UnknownTopicRetries(0))
	return cl.ProduceSync(ctx, &kgo.Record{Topic: dirsTopic, Partition: partition, Value: []byte(value)}).FirstErr()
}

func (w *twoDirs) eventually(what string, check func() error) {
	w.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.Now().Add(patience); ; <-tick.C {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(late) {
			w.Fatalf("%s: %v", what, err)
		}
	}
}

// metadata asks for the topic as clients do.
func (w *twoDirs) metadata() []kmsg.MetadataResponseTopicPartition {
	w.Helper()
	req := kmsg.NewPtrMetadataRequest()
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = kmsg.StringPtr(dirsTopic)
	req.Topics = append(req.Topics, asked)
	resp, err := req.RequestWith(w.Context(), w.client())
	if err != nil {
		w.Fatal(err)
	}
	return resp.Topics[0].Partitions
}

// TestOneLogDirectoryOfTwoFails: a flush that fails takes its directory offline and nothing else. Its partitions have no leader,
// as in Kafka, and get one again at the next start, with all that was acknowledged.
func TestOneLogDirectoryOfTwoFails(t *testing.T) {
	w := newTwoDirs(t, httpListener)
	const partitions = 6
	w.create(dirsTopic, partitions)
	failing := map[int32]bool{}
	for _, p := range w.partitionsIn(dirsTopic, "/b") {
		failing[p] = true
	}
	if len(failing) != partitions/2 {
		t.Fatalf("%d of %d partitions are in /b, want half of them", len(failing), partitions)
	}
	for p := range int32(partitions) {
		if err := w.produce(p, "before"); err != nil {
			t.Fatal(err)
		}
	}
	w.disk.Add(faultfs.Rule{Op: faultfs.OpAnySync, Name: "/b", Times: -1, Err: syscall.EIO})
	for p := range failing {
		if err := w.produce(p, "lost"); err == nil {
			t.Fatalf("a record in partition %d was acknowledged though its flush failed", p)
		}
	}
	w.eventually("the metadata says what is offline", func() error {
		for _, row := range w.metadata() {
			offline := len(row.OfflineReplicas) == 1 && row.OfflineReplicas[0] == 1
			if failing[row.Partition] != offline || failing[row.Partition] != (row.Leader == -1) ||
				failing[row.Partition] != (row.ErrorCode == kerr.LeaderNotAvailable.Code) {
				return fmt.Errorf("partition %d: leader %d, error %d, offline %v", row.Partition, row.Leader, row.ErrorCode, row.OfflineReplicas)
			}
		}
		return nil
	})
	for p := range int32(partitions) {
		if err := w.produce(p, "after"); (err == nil) == failing[p] {
			t.Errorf("produce to partition %d: %v, its directory failed: %v", p, err, failing[p])
		}
	}
	dirs, err := w.adm.DescribeAllLogDirs(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := dirs[1]["/a"], dirs[1]["/b"]; a.Err != nil || !errors.Is(b.Err, kerr.KafkaStorageError) || len(b.Topics) > 0 {
		t.Errorf("/a: %v, /b: %v with %d topics; want KAFKA_STORAGE_ERROR for /b", a.Err, b.Err, len(b.Topics))
	}
	w.create("new", 4)
	if in := w.partitionsIn("new", "/a"); len(in) != 4 {
		t.Errorf("of a new topic partitions %v are in /a, want all 4", in)
	}
	for path, part := range map[string]string{
		"/healthz": "ok", "/readyz": "the directories failed: /b\n", "/metrics": "\nraftsman_log_dir_online{logdirectory=\"/b\"} 0\n",
	} {
		if status, text := w.get(path); status != http.StatusOK || !strings.Contains(text, part) {
			t.Errorf("%s of a node with one directory of two: %d, and no %q in %q", path, status, part, text[:min(len(text), 200)])
		}
	}
	select {
	case <-w.node.Ended():
		t.Fatalf("the node ended: %v", w.node.Err())
	default:
	}

	w.stop()
	w.disk.Reset()
	w.start()
	for p := range int32(partitions) {
		if err := w.produce(p, "again"); err != nil {
			t.Errorf("produce to partition %d after a restart: %v", p, err)
		}
		if got := w.values(p); got[0] != "before" || got[len(got)-1] != "again" {
			t.Errorf("partition %d holds %v after a restart", p, got)
		}
	}
}

// values reads a partition to its end.
func (w *twoDirs) values(partition int32) (values []string) {
	w.Helper()
	ends, err := w.adm.ListEndOffsets(w.Context(), dirsTopic)
	if err != nil {
		w.Fatal(err)
	}
	end, _ := ends.Lookup(dirsTopic, partition)
	cl := w.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{dirsTopic: {partition: kgo.NewOffset().At(0)}}))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	for int64(len(values)) < end.Offset && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

// TestTheMetadataDirectoryFails: without it nothing can be decided, so the node ends and says why.
func TestTheMetadataDirectoryFails(t *testing.T) {
	w := newTwoDirs(t, httpListener)
	w.create(dirsTopic, 2)
	w.disk.Add(faultfs.Rule{Op: faultfs.OpAnySync, Name: "/a", Times: -1, Err: syscall.EIO})
	for p := range int32(2) {
		_ = w.produce(p, "x")
	}
	select {
	case <-w.node.Ended():
	case <-time.After(patience):
		t.Fatal("the node goes on")
	}
	if err := w.node.Err(); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "/a failed") {
		t.Errorf("it ended for %v, want a line that names /a and EIO", err)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, text := w.get(path); status != http.StatusServiceUnavailable || !strings.Contains(text, "/a failed") {
			t.Errorf("%s: %d %q, want 503 and the reason", path, status, text)
		}
	}
}

// TestCordonedDirectoriesTakeNoNewPartitions, told at start and changed while the node runs.
func TestCordonedDirectoriesTakeNoNewPartitions(t *testing.T) {
	w := newTwoDirs(t, "cordoned.log.dirs=/b")
	w.create("one", 4)
	if in := w.partitionsIn("one", "/b"); len(in) > 0 {
		t.Errorf("partitions %v are in /b, which is cordoned", in)
	}
	set := func(value string) {
		t.Helper()
		r, err := w.adm.AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "cordoned.log.dirs", Value: &value}}, 1)
		if err != nil || r[0].Err != nil {
			t.Fatal(err, r)
		}
	}
	set("/a")
	w.create("two", 4)
	if in := w.partitionsIn("two", "/a"); len(in) > 0 {
		t.Errorf("partitions %v are in /a, which is cordoned now", in)
	}
	set("*")
	w.eventually("no directory takes a topic", func() error {
		_, err := w.adm.CreateTopic(t.Context(), 1, 1, nil, "three")
		if errors.Is(err, kerr.InvalidReplicationFactor) {
			return nil
		}
		_, _ = w.adm.DeleteTopics(t.Context(), "three")
		return fmt.Errorf("create: %w, want INVALID_REPLICATION_FACTOR", err)
	})
	if err := w.produceTo("two"); err != nil {
		t.Errorf("produce to what was there before: %v", err)
	}
}

func (w *twoDirs) produceTo(topic string) error {
	return w.client().ProduceSync(w.Context(), &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr()
}

// TestALogDirectoryIsGone: partitions whose directory was taken out of log.dirs are offline, not replaced by empty logs.
func TestALogDirectoryIsGone(t *testing.T) {
	w := newTwoDirs(t)
	w.create(dirsTopic, 4)
	gone := map[int32]bool{}
	for _, p := range w.partitionsIn(dirsTopic, "/b") {
		gone[p] = true
	}
	for p := range int32(4) {
		if err := w.produce(p, "before"); err != nil {
			t.Fatal(err)
		}
	}
	w.stop()
	w.start("log.dirs=/a")
	for p := range int32(4) {
		if err := w.produce(p, "meanwhile"); (err == nil) == gone[p] {
			t.Errorf("produce to partition %d, whose directory is gone: %v: %v", p, gone[p], err)
		}
	}
	w.stop()
	w.start()
	for p := range int32(4) {
		if err := w.produce(p, "again"); err != nil {
			t.Errorf("produce to partition %d with its directory back: %v", p, err)
		}
		if got := w.values(p); got[0] != "before" {
			t.Errorf("partition %d holds %v", p, got)
		}
	}
}

// TestRelativeLogDirsAreAbsolute: Kafka knows a log directory by its absolute path, and shows what was set as it was written.
func TestRelativeLogDirsAreAbsolute(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	properties := map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "one,./two", "cordoned.log.dirs": "two"}
	node, err := broker.Start(t.Context(), broker.Config{Properties: properties})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, node)
	want := []string{filepath.Join(folder, "one"), filepath.Join(folder, "two")}
	if got := node.LogDirs(); !slices.Equal(got, want) {
		t.Errorf("log directories are %q, want %q", got, want)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(node.Addrs()[0].String()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	resp, err := kmsg.NewPtrDescribeLogDirsRequest().RequestWith(t.Context(), cl.Broker(1))
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, d := range resp.Dirs {
		told = append(told, d.Dir)
		if d.IsCordoned != (d.Dir == want[1]) {
			t.Errorf("%s is cordoned: %v; %s is meant to be", d.Dir, d.IsCordoned, want[1])
		}
	}
	if slices.Sort(told); !slices.Equal(told, want) {
		t.Errorf("DescribeLogDirs answers %q, want %q", told, want)
	}
	configs, err := kadm.NewClient(cl).DescribeBrokerConfigs(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range configs[0].Configs {
		if c.Key == "log.dirs" && c.MaybeValue() != properties["log.dirs"] {
			t.Errorf("DescribeConfigs answers log.dirs=%s, want it as it was written", c.MaybeValue())
		}
	}
	properties = map[string]string{"listeners": properties["listeners"], "log.dirs": "one," + want[0]}
	if _, err := broker.Start(t.Context(), broker.Config{Properties: properties}); err == nil || !strings.Contains(err.Error(), "name it once") {
		t.Errorf("start with two spellings of one directory: got %v, want an error that says so", err)
	}
}

// TestStartWithoutFileDescriptors: whichever file it is that can't be opened any more, the start is refused with the limit to raise, or goes
// well; and no directory has failed.
func TestStartWithoutFileDescriptors(t *testing.T) {
	disk := faultfs.Inject(vfs.NewMemory())
	start := func() (*broker.Node, error) {
		return broker.Start(t.Context(), broker.Config{FS: disk, Properties: map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "/a,/b"}})
	}
	refused := 0
	for after := range 80 {
		if after > 0 {
			disk.Add(faultfs.Rule{Op: faultfs.OpOpen | faultfs.OpReadDir | faultfs.OpAnySync, After: after, Times: -1, Err: syscall.EMFILE})
		}
		node, err := start()
		disk.Reset()
		switch {
		case err == nil:
			stop(t, node)
		case !strings.Contains(err.Error(), "ulimit -n"):
			t.Errorf("without a descriptor after %d operations: %v, want that it names the limit", after, err)
		default:
			refused++
		}
	}
	if refused == 0 {
		t.Error("no start was refused")
	}
	node, err := start()
	if err != nil {
		t.Fatal(err)
	}
	stop(t, node)
}
