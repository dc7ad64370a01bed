package replica

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/sysrecord"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// gateFS is a file system whose flushes a test can watch, hold up and fail.
type gateFS struct {
	vfs.FS

	mu      sync.Mutex
	onSync  func(name string) error // called before each flush; nil: nothing
	onWrite func(name string) error // called before each write to a segment
	onOpen  func(name string) error // called before each open
	onFree  func() (total, usable int64, err error)
	syncs   int
}

func (g *gateFS) setFree(on func() (total, usable int64, err error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.onFree = on
}

func (g *gateFS) Free(dir string) (total, usable int64, err error) {
	g.mu.Lock()
	on := g.onFree
	g.mu.Unlock()
	if on == nil {
		return g.FS.Free(dir)
	}
	return on()
}

func (g *gateFS) setWrite(on func(name string) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.onWrite = on
}

func (g *gateFS) setOpen(on func(name string) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.onOpen = on
}

func (g *gateFS) hook(name string) error {
	g.mu.Lock()
	on := g.onSync
	g.syncs++
	g.mu.Unlock()
	if on == nil {
		return nil
	}
	return on(name)
}

func (g *gateFS) set(on func(name string) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.onSync = on
}

func (g *gateFS) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.syncs
}

func (g *gateFS) Open(name string, flag int) (vfs.File, error) {
	g.mu.Lock()
	on := g.onOpen
	g.mu.Unlock()
	if on != nil {
		if err := on(name); err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
	f, err := g.FS.Open(name, flag)
	if err != nil {
		return nil, err
	}
	return &gateFile{f, g, name}, nil
}

func (g *gateFS) SyncFS(dir string) error {
	if err := g.hook(dir); err != nil {
		return err
	}
	return g.FS.SyncFS(dir)
}

type gateFile struct {
	vfs.File
	g    *gateFS
	name string
}

func (f *gateFile) WriteAt(b []byte, at int64) (int, error) {
	f.g.mu.Lock()
	on := f.g.onWrite
	f.g.mu.Unlock()
	if on != nil && strings.HasSuffix(f.name, ".log") {
		if err := on(f.name); err != nil {
			return 0, &fs.PathError{Op: "write", Path: f.name, Err: err}
		}
	}
	return f.File.WriteAt(b, at)
}

func (f *gateFile) Sync() error {
	if err := f.g.hook(f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

// world is a Manager with all that it stands on.
type world struct {
	testing.TB
	fs    *gateFS
	dirs  []string
	props map[string]string
	m     *Manager
	image *meta.Image
	log   *lockedBuffer

	// Of the power-cut test: the epoch of its producers, and where each one's sequences begin.
	epochs int
	base   [crashPartitions]int

	mu   sync.Mutex
	fell []string // directories that went offline

	falls chan struct{} // a value for each of them

	opened func() // called when the directories are open and nothing is decided
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

const testNode kafka.NodeID = 1

// newWorld starts a Manager in memory; settings are pairs of name=value for the broker, among them dirs=N.
func newWorld(t testing.TB, settings ...string) *world {
	t.Helper()
	w := &world{TB: t, fs: &gateFS{FS: vfs.NewMemory()}, props: map[string]string{"node.id": "1"}, log: &lockedBuffer{}, falls: make(chan struct{}, 16)}
	dirs := 1
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		if name == "dirs" {
			dirs, _ = strconv.Atoi(value)
			continue
		}
		w.props[name] = value
	}
	for i := range dirs {
		dir := fmt.Sprintf("/data%d", i)
		w.dirs = append(w.dirs, dir)
		w.formatDir(dir)
	}
	w.image = meta.NewImage("test")
	w.start()
	t.Cleanup(func() {
		if w.m != nil {
			_ = w.m.Close(context.Background())
		}
	})
	return w
}

func (w *world) formatDir(dir string) {
	w.Helper()
	id := kafka.NewUUID(randomBytes)
	if err := commitlog.FormatDir(w.fs, dir, commitlog.MetaProperties{ClusterID: "test", NodeID: testNode, ID: id}); err != nil {
		w.Fatal(err)
	}
}

func randomBytes(b []byte) { _, _ = rand.Read(b) }

func (w *world) start() {
	w.Helper()
	broker, err := config.NewBroker(w.props)
	if err != nil {
		w.Fatal(err)
	}
	var dirs []*commitlog.Dir
	for _, dir := range w.dirs {
		d, err := commitlog.OpenDir(w.fs, dir, randomBytes)
		if err != nil {
			w.Fatal(err)
		}
		d.SetJournal(32<<10, 0)
		dirs = append(dirs, d)
	}
	w.m = New(Options{
		NodeID: testNode, Dirs: dirs, Broker: broker, Log: slog.New(slog.NewTextHandler(w.log, nil)), dutiesByCaller: true,
		OnDirFailure: func(path string, left int, _ error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.fell = append(w.fell, fmt.Sprintf("%s left=%d", path, left))
			select {
			case w.falls <- struct{}{}:
			default: // nobody waits for it
			}
		},
	})
	if w.opened != nil {
		w.opened()
	}
	w.m.Apply(meta.NewImage("test"), w.image)
}

func (w *world) fallen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fell
}

// restart closes in order and starts again.
func (w *world) restart() {
	w.Helper()
	if err := w.m.Close(context.Background()); err != nil {
		w.Fatal(err)
	}
	w.start()
}

// change applies metadata records.
func (w *world) change(records ...sysrecord.Record) {
	w.Helper()
	u := w.image.Update()
	for _, r := range records {
		if err := u.Apply(meta.Entry{Record: r}); err != nil {
			w.Fatal(err)
		}
	}
	old := w.image
	w.image = u.Image(old.Offset()+1, 1, 0)
	w.m.Apply(old, w.image)
}

// topic creates a topic on this node with the settings, pairs of name=value, and returns its id.
func (w *world) topic(name string, partitions int32, settings ...string) kafka.TopicID {
	w.Helper()
	id := kafka.NewUUID(randomBytes)
	created := sysrecord.NewTopicRecord()
	created.Name, created.TopicID = name, id
	records := []sysrecord.Record{created}
	for i := range partitions {
		records = append(records, w.partitionRecord(id, i, 1))
	}
	for _, s := range settings {
		records = append(records, configRecord(name, s))
	}
	w.change(records...)
	return id
}

func (w *world) partitionRecord(id kafka.TopicID, index int32, epoch kafka.Epoch) *sysrecord.PartitionRecord {
	p := sysrecord.NewPartitionRecord()
	p.TopicID, p.PartitionID = id, index
	p.Replicas, p.ISR, p.Leader = []kafka.NodeID{testNode}, []kafka.NodeID{testNode}, testNode
	p.LeaderEpoch = epoch
	return p
}

func configRecord(topic, setting string) *sysrecord.ConfigRecord {
	name, value, _ := strings.Cut(setting, "=")
	c := sysrecord.NewConfigRecord()
	c.ResourceType, c.ResourceName, c.Name, c.Value = int8(meta.TopicResource), topic, name, &value
	if value == "" {
		c.Value = nil
	}
	return c
}

func (w *world) deleteTopic(id kafka.TopicID) {
	w.Helper()
	r := sysrecord.NewRemoveTopicRecord()
	r.TopicID = id
	w.change(r)
}

// elect begins a new leader epoch, led by this node or another.
func (w *world) elect(id kafka.TopicID, index int32, leader kafka.NodeID) {
	w.Helper()
	r := sysrecord.NewPartitionChangeRecord()
	r.TopicID, r.PartitionID, r.Leader = id, index, leader
	w.change(r)
}

// waitLimit is when a test gives up waiting for what must happen.
const waitLimit = time.Minute

// waitFor waits for a condition that other goroutines bring about, and that nobody tells of.
func (w *world) waitFor(what string, condition func() bool) {
	w.Helper()
	late := time.Now().Add(waitLimit)
	for !condition() {
		if time.Now().After(late) {
			w.Fatalf("%s: not within %v; the log says\n%s", what, waitLimit, w.log)
		}
		time.Sleep(time.Millisecond)
	}
}

// answer waits for what a callback puts into the channel.
func answer[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(waitLimit):
		t.Fatal("no answer")
		panic("unreachable")
	}
}

// none fails if an answer is there.
func none[T any](t testing.TB, from <-chan T) {
	t.Helper()
	select {
	case v := <-from:
		t.Fatalf("answered too early: %+v", v)
	default:
	}
}

// send starts a produce of one batch.
func (w *world) send(topic string, index int32, acks int16, batch []byte) <-chan ProduceResult {
	return w.sendWithin(topic, index, acks, 5*60_000, batch)
}

func (w *world) sendWithin(topic string, index int32, acks int16, timeoutMs int32, batch []byte) <-chan ProduceResult {
	result := make(chan ProduceResult, 1)
	w.m.Produce(&ProduceRequest{Acks: acks, TimeoutMs: timeoutMs, Partitions: []ProducePartition{
		{Topic: topic, Partition: index, Records: batch},
	}}, func(r []ProduceResult) { result <- r[0] })
	return result
}

// produce sends a batch with acks=all and waits for the answer.
func (w *world) produce(topic string, index int32, batch []byte) ProduceResult {
	w.Helper()
	return answer(w, w.send(topic, index, -1, batch))
}

// mustProduce is produce, and the test ends if it is refused.
func (w *world) mustProduce(topic string, index int32, batch []byte) kafka.Offset {
	w.Helper()
	r := w.produce(topic, index, batch)
	if r.Err != kafka.None {
		w.Fatalf("produce to %s-%d: %v %s", topic, index, r.Err, r.Message)
	}
	return r.BaseOffset
}

// plain is a batch with the values.
func plain(values ...string) []byte {
	var b record.Builder
	for _, v := range values {
		b.Add([]byte("k"), []byte(v), nil, time.Now().UnixMilli())
	}
	return b.Build()
}

// sequenced is a batch of n records of an idempotent producer.
func sequenced(id kafka.ProducerID, epoch kafka.ProducerEpoch, base kafka.Sequence, n int) []byte {
	b := record.Builder{Producer: &record.Producer{ID: id, Epoch: epoch, BaseSequence: base}}
	for i := range n {
		b.Add([]byte("k"), fmt.Appendf(nil, "%d/%d", id, int(base)+i), nil, time.Now().UnixMilli())
	}
	return b.Build()
}

// fetched is what a read returned, with the bytes of its records.
type fetched struct {
	FetchResult
	bytes []byte
}

func (w *world) readRequest(req FetchRequest) <-chan []fetched {
	result := make(chan []fetched, 1)
	w.m.Read(&req, func(rows []FetchResult) {
		out := make([]fetched, len(rows))
		for i := range rows {
			r := &rows[i]
			out[i] = fetched{FetchResult: *r}
			if r.Chunk.Len > 0 {
				out[i].bytes = make([]byte, r.Chunk.Len)
				_, err := r.Chunk.File.ReadAt(out[i].bytes, r.Chunk.Pos)
				switch {
				case errors.Is(err, faultfs.ErrPowerCut):
					out[i].Err = kafka.KafkaStorageError
				case err != nil:
					w.Errorf("read chunk: %v", err)
				}
			}
			r.Chunk.Release()
		}
		result <- out
	})
	return result
}

// at is a partition to read from an offset.
func at(topic string, index int32, offset kafka.Offset) FetchPartition {
	return FetchPartition{
		Topic: topic, Partition: index, Offset: offset, MaxBytes: 1 << 20,
		CurrentLeaderEpoch: kafka.NoEpoch, LastFetchedEpoch: kafka.NoEpoch,
	}
}

// fetch reads one partition without waiting.
func (w *world) fetch(p FetchPartition) fetched {
	w.Helper()
	return answer(w, w.readRequest(FetchRequest{ReplicaID: -1, MinBytes: 1, MaxBytes: 1 << 20, Partitions: []FetchPartition{p}}))[0]
}

// values returns all values from an offset on.
func (w *world) values(topic string, index int32, from kafka.Offset) []string {
	w.Helper()
	var all []string
	for {
		got := w.fetch(at(topic, index, from))
		if got.Err != kafka.None {
			w.Fatalf("read %s-%d from %d: %v", topic, index, from, got.Err)
		}
		if len(got.bytes) == 0 {
			return all
		}
		var values []string
		values, from = decodeValues(w, got.bytes, from)
		all = append(all, values...)
	}
}

// decodeValues returns the values in whole batches, from an offset on, and the offset after them.
func decodeValues(t testing.TB, b []byte, from kafka.Offset) (values []string, next kafka.Offset) {
	t.Helper()
	next = from
	for len(b) > 0 {
		batch, rest, err := record.Split(b)
		if err != nil {
			t.Fatalf("split: %v", err)
		}
		if err := batch.Check(); err != nil {
			t.Fatalf("batch at %d: %v", batch.BaseOffset(), err)
		}
		for r, err := range batch.Records(1 << 20) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Offset >= from {
				values = append(values, string(r.Value))
			}
		}
		next, b = batch.NextOffset(), rest
	}
	return values, next
}

// topicOn creates a topic of one partition on the given replicas, led by this node.
func (w *world) topicOn(name string, id kafka.TopicID, replicas, isr []kafka.NodeID, settings ...string) {
	w.Helper()
	created := sysrecord.NewTopicRecord()
	created.Name, created.TopicID = name, id
	p := w.partitionRecord(id, 0, 1)
	p.Replicas, p.ISR = replicas, isr
	records := []sysrecord.Record{created, p}
	for _, s := range settings {
		records = append(records, configRecord(name, s))
	}
	w.change(records...)
}
