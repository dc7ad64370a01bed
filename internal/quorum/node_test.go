package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/sysrecord"
	"github.com/raftsman/raftsman/internal/vfs"
)

// anyConfig accepts every configuration; cleanup.policy is its one list.
type anyConfig struct{}

func (anyConfig) Validate(meta.Resource, []string, map[string]string) error { return nil }

func (anyConfig) ListDefault(_ meta.ResourceType, name string) (string, bool) {
	return "delete", name == "cleanup.policy"
}

// host is a disk on which nodes are started one after the other.
type host struct {
	t       testing.TB
	fs      vfs.FS
	random  *rand.Rand
	now     time.Time
	options func(*Options)

	dir  *commitlog.Dir
	node *Node
}

func newHost(t testing.TB, fs vfs.FS, seed uint64) *host {
	return &host{t: t, fs: fs, random: rand.New(rand.NewPCG(seed, 0)), now: time.UnixMilli(1_700_000_000_000)}
}

const hostDir = "/data"

func (h *host) fill(b []byte) {
	for i := range b {
		b[i] = byte(h.random.Uint32())
	}
}

var controller = meta.Endpoint{Name: "CONTROLLER", Host: "127.0.0.1", Port: 9093, Security: "PLAINTEXT"}

func (h *host) format() error {
	p := commitlog.MetaProperties{ClusterID: "c1uster", NodeID: 1, ID: kafka.NewUUID(h.fill)}
	if err := h.fs.MkdirAll(hostDir); err != nil {
		return err
	}
	return Format(h.fs, hostDir, p, controller, h.now)
}

// open opens the directory and the node, and starts it.
func (h *host) open(watch ...func(old, now *meta.Image)) error {
	dir, err := commitlog.OpenDir(h.fs, hostDir, h.fill)
	if err != nil {
		return err
	}
	h.dir = dir
	o := Options{
		FS: h.fs, Dir: dir, NodeID: 1, ClusterID: "c1uster", Controller: controller, Configs: anyConfig{},
		Now: func() time.Time { return h.now }, Random: h.fill, Log: slog.New(slog.DiscardHandler), snapshotsByCaller: true,
	}
	if h.options != nil {
		h.options(&o)
	}
	if h.node, err = Open(o); err != nil {
		return err
	}
	for _, w := range watch {
		h.node.Watch(w)
	}
	return h.node.Start(context.Background(), h.registration(!dir.WasClean()))
}

func (h *host) registration(unclean bool) meta.Registration {
	return meta.Registration{
		Incarnation: kafka.NewUUID(h.fill), LogDirs: []kafka.UUID{h.dir.ID()}, Unclean: unclean,
		Endpoints: []meta.Endpoint{{Name: "PLAINTEXT", Host: "127.0.0.1", Port: 9092, Security: "PLAINTEXT"}},
	}
}

func (h *host) close() error {
	if err := h.node.Close(); err != nil {
		return err
	}
	return h.dir.Close(true, h.node.BrokerEpoch())
}

func (h *host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) create(names ...string) {
	h.t.Helper()
	cmd := meta.CreateTopics{}
	for _, name := range names {
		cmd.Topics = append(cmd.Topics, meta.NewTopic{
			Name: name, Partitions: 3, ReplicationFactor: -1, Configs: []meta.ConfigValue{{Name: "retention.ms", Value: new("5")}},
		})
	}
	results, err := h.node.CreateTopics(context.Background(), cmd)
	h.must(err)
	for _, r := range results {
		h.must(r.Err)
	}
}

// describe is the image as text, without what differs from start to start.
func describe(im *meta.Image) string {
	var b strings.Builder
	for t := range im.Topics() {
		fmt.Fprintf(&b, "topic %s %s\n", t.Name, t.ID)
		for i, p := range t.Partitions {
			fmt.Fprintf(&b, "  %d leader %d replicas %v isr %v\n", i, p.Leader, p.Replicas, p.ISR)
		}
		describeConfig(&b, im, meta.Resource{Type: meta.TopicResource, Name: t.Name})
	}
	describeConfig(&b, im, meta.Resource{Type: meta.BrokerResource})
	for _, broker := range im.Brokers() {
		fmt.Fprintf(&b, "broker %d fenced %v %v\n", broker.ID, broker.Fenced, broker.Endpoints)
	}
	for _, name := range im.FeatureNames() {
		fmt.Fprintf(&b, "feature %s %d\n", name, im.Features()[name])
	}
	fmt.Fprintf(&b, "next producer id %d\n", im.NextProducerID())
	return b.String()
}

func describeConfig(b *strings.Builder, im *meta.Image, r meta.Resource) {
	values := im.Config(r)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(b, "  config %d/%s %s=%s\n", r.Type, r.Name, name, values[name])
	}
}

func TestANewClusterIsFormattedStartedAndFoundAgain(t *testing.T) {
	h := newHost(t, vfs.NewMemory(), 1)
	h.must(h.format())
	var steps []string
	h.must(h.open(func(old, now *meta.Image) {
		steps = append(steps, fmt.Sprintf("%d->%d topics", old.TopicCount(), now.TopicCount()))
	}))
	im := h.node.Image()
	if im.Controller() != 1 || !im.Alive(1) || im.Features()[meta.MetadataVersion] != meta.LatestMetadataVersion {
		t.Errorf("got controller %d, brokers %+v, features %v", im.Controller(), im.Brokers(), im.Features())
	}
	h.create("a", "b")
	h.create("c")
	if want := []string{"0->0 topics", "0->2 topics", "2->3 topics"}; !slices.Equal(steps, want) {
		t.Errorf("watched %q, want %q", steps, want)
	}
	first, err := h.node.NextProducerID(context.Background())
	h.must(err)
	before := describe(h.node.Image())
	h.must(h.close())
	h.must(h.open())
	if after := describe(h.node.Image()); after != before {
		t.Errorf("after a restart got\n%s\nwant\n%s", after, before)
	}
	if again, err := h.node.NextProducerID(context.Background()); err != nil || again < first+meta.ProducerIDBlock {
		t.Errorf("after a restart got producer id %d %v, want one behind the block of %d", again, err, first)
	}
	if p, _ := h.node.Image().Partition(kafka.TopicPartition{Topic: "a"}); p.LeaderEpoch != 0 {
		t.Errorf("a clean restart made leader epoch %d", p.LeaderEpoch)
	}
}

func TestSnapshotsTakeThePlaceOfTheLog(t *testing.T) {
	h := newHost(t, vfs.NewMemory(), 2)
	h.options = func(o *Options) { o.SegmentBytes, o.RetentionBytes = 4096, 1 }
	h.must(h.format())
	h.must(h.open())
	for i := range 30 {
		h.create(fmt.Sprintf("topic-%d", i))
		if i%10 == 9 {
			h.must(h.node.Snapshot())
		}
	}
	h.create("behind-the-snapshot")
	before := describe(h.node.Image())
	ids, err := listSnapshots(h.fs, filepath.Join(hostDir, "__cluster_metadata-0"))
	h.must(err)
	if len(ids) != 1 {
		t.Errorf("got snapshots %v, want the newest alone", ids)
	}
	if start := h.node.log.StartOffset(); start != ids[0].End || len(h.node.log.Segments()) > 3 {
		t.Errorf("log starts at %d with %d segments, want %d", start, len(h.node.log.Segments()), ids[0].End)
	}
	h.must(h.close())
	h.must(h.open())
	if after := describe(h.node.Image()); after != before {
		t.Errorf("after a restart got\n%s\nwant\n%s", after, before)
	}
}

// TestTheSnapshotBeforeTakesThePlaceOfADamagedOne, as long as the log behind it is there, and a new one is written. Without it the
// node does not start: an older state must not pass for the newest.
func TestTheSnapshotBeforeTakesThePlaceOfADamagedOne(t *testing.T) {
	h := newHost(t, vfs.NewMemory(), 9)
	folder := filepath.Join(hostDir, "__cluster_metadata-0")
	h.must(h.format())
	h.must(h.open())
	for i := range 6 {
		h.create(fmt.Sprintf("topic-%d", i))
		if i%2 == 1 {
			h.must(h.node.Snapshot())
		}
	}
	before := describe(h.node.Image())
	h.must(h.close())
	ids, err := listSnapshots(h.fs, folder)
	h.must(err)
	newest := ids[len(ids)-1]
	content, err := vfs.ReadFile(h.fs, filepath.Join(folder, snapshotName(newest)))
	h.must(err)
	for name, damaged := range map[string][]byte{
		"a bit": slices.Concat(content[:len(content)/2], []byte{content[len(content)/2] ^ 4}, content[len(content)/2+1:]),
		"torn":  content[:len(content)-1], "empty": {},
	} {
		h.must(vfs.WriteFile(h.fs, filepath.Join(folder, snapshotName(newest)), damaged))
		var log strings.Builder
		h.options = func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) }
		h.must(h.open())
		if after := describe(h.node.Image()); after != before {
			t.Errorf("%s: got\n%s\nwant\n%s", name, after, before)
		}
		if said := log.String(); strings.Count(said, "metadata snapshot is damaged") != 1 || !strings.Contains(said, snapshotName(newest)) {
			t.Errorf("%s: the log says\n%s", name, said)
		}
		if n := h.node.unsnapped; n < h.node.o.SnapshotBytes {
			t.Errorf("%s: no new snapshot is due", name)
		}
		h.must(h.close())
	}
	for _, id := range ids[:len(ids)-1] {
		h.must(h.fs.Remove(filepath.Join(folder, snapshotName(id))))
	}
	var corrupt *commitlog.CorruptError
	if err := h.open(); !errors.As(err, &corrupt) || !strings.HasSuffix(corrupt.File, snapshotName(newest)) {
		t.Errorf("a start without the snapshot before: %v", err)
	}
}

func TestAnUncleanStopBeginsNewLeaderEpochs(t *testing.T) {
	h := newHost(t, vfs.NewMemory(), 3)
	h.must(h.format())
	h.must(h.open())
	h.create("a")
	h.must(h.node.Close())
	h.must(h.dir.Close(false, 0))
	h.must(h.open(func(old, now *meta.Image) {
		if p, ok := now.Partition(kafka.TopicPartition{Topic: "a", Partition: 2}); !ok || p.LeaderEpoch != 1 || p.Leader != 1 {
			t.Errorf("the first image after an unclean stop has %+v, want leader epoch 1", p)
		}
	}))
}

func TestInspectTellsWhatKafkaNeeds(t *testing.T) {
	h := newHost(t, vfs.NewMemory(), 4)
	h.must(h.format())
	check := func(port uint16) {
		t.Helper()
		id, err := Inspect(h.fs, hostDir)
		h.must(err)
		if id.ClusterID != "c1uster" || id.NodeID != 1 || id.Directory.IsZero() || id.Membership.Version != 1 || len(id.Membership.Voters) != 1 {
			t.Fatalf("got %+v, want node 1 of c1uster alone in a quorum", id)
		}
		want := kraft.Endpoint{Name: "CONTROLLER", Host: "127.0.0.1", Port: port}
		if v := id.Membership.Voters[0]; v.ID != 1 || len(v.Endpoints) != 1 || v.Endpoints[0] != want {
			t.Errorf("the voter is %+v, want node 1 at %+v", v, want)
		}
	}
	check(9093)
	h.must(h.open())
	h.create("a")
	check(9093) // beside the running node
	h.must(h.close())
	h.options = func(o *Options) { o.Controller.Port = 7777 } // the controller moves: the voters' record follows
	h.must(h.open())
	check(7777)
	h.must(h.node.Snapshot())
	h.create("b")
	check(7777)
	h.must(h.close())
}

func TestALogThatEndsInsideATransactionIsAborted(t *testing.T) {
	h := newHost(t, vfs.NewMemory(), 5)
	h.must(h.format())
	h.must(h.open())
	h.create("a")
	begin := []meta.Entry{{Record: sysrecord.NewBeginTransactionRecord()}, {Record: &sysrecord.TopicRecord{Name: "half", TopicID: kafka.UUID{7}}}}
	if _, err := h.node.log.Append(encode(begin, 1), h.node.member.State().Epoch, h.now); err != nil {
		t.Fatal(err)
	}
	h.must(h.node.Close())
	h.must(h.dir.Close(true, 0))
	for range 2 {
		h.must(h.open())
		if _, half := h.node.Image().Topic("half"); half || h.node.Image().TopicCount() != 1 {
			t.Errorf("half a transaction shows: %s", describe(h.node.Image()))
		}
		h.must(h.close())
	}
}

func TestALostMetadataLogIsNotMadeAnew(t *testing.T) {
	h := newHost(t, vfs.NewMemory(), 6)
	h.must(h.format())
	h.must(h.open())
	if _, err := h.dir.Create(kafka.TopicPartition{Topic: "a"}, kafka.UUID{1}, commitlog.DefaultConfig(), h.now); err != nil {
		t.Fatal(err)
	}
	h.must(h.node.Close())
	h.must(h.dir.Close(false, 0))
	h.must(h.fs.RemoveAll(filepath.Join(hostDir, "__cluster_metadata-0")))
	var corrupt *commitlog.CorruptError
	if err := h.open(); !errors.As(err, &corrupt) {
		t.Errorf("got %v, want a CorruptError", err)
	}
}

// TestALostMetadataLogBesideOtherDirectories: the partitions may all be elsewhere.
func TestALostMetadataLogBesideOtherDirectories(t *testing.T) {
	h := newHost(t, vfs.NewMemory(), 7)
	h.must(h.format())
	p := commitlog.MetaProperties{ClusterID: "c1uster", NodeID: 1, ID: kafka.UUID{7}}
	h.must(h.fs.MkdirAll("/other"))
	h.must(commitlog.FormatDir(h.fs, "/other", p))
	other, err := commitlog.OpenDir(h.fs, "/other", h.fill)
	h.must(err)
	h.options = func(o *Options) { o.LogDirs = []*commitlog.Dir{other} }
	h.must(h.open())
	if _, err := other.Create(kafka.TopicPartition{Topic: "a"}, kafka.UUID{1}, commitlog.DefaultConfig(), h.now); err != nil {
		t.Fatal(err)
	}
	h.must(h.node.Close())
	h.must(h.dir.Close(false, 0))
	h.must(h.fs.RemoveAll(filepath.Join(hostDir, "__cluster_metadata-0")))
	var corrupt *commitlog.CorruptError
	if err := h.open(); !errors.As(err, &corrupt) || !strings.Contains(corrupt.Reason, "/other holds partitions, as a-0") {
		t.Errorf("got %v, want a CorruptError that names /other and a-0", err)
	}
}
