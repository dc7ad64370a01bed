package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/test/anomaly"
	"github.com/raftsman/raftsman/test/proxy"
)

const (
	copyInput      = "copy-input"
	copyPartitions = 3  // of the input and of each output
	copyKeys       = 20 // that the records of the input have in turn
	copyRate       = 10 // records in 50 ms
)

// copyWorld is a broker behind a proxy, or a cluster, jobs that copy a topic in transactions, readers that follow the copies, and what all
// of them saw.
type copyWorld struct {
	t         testing.TB
	random    *rand.Rand
	bootstrap string       // of all clients
	backlog   int          // records that the slowest group may be behind
	broker    *copyBroker  // nil of a cluster
	proxy     *proxy.Proxy // nil of a cluster
	adm       *kadm.Client
	jobs      []*copyJob
	readers   []*follower
	ctx       context.Context // ends with the world's background work
	stop      func()

	mu      sync.Mutex // guards the rest
	history anomaly.History
	offsets map[string]map[anomaly.Partition]int64 // the last that were seen of each group
	failed  error                                  // of the background work
}

// copyBroker is Raftsman, or with RAFTSMAN_TEST_KAFKA=1 Apache Kafka, to try the tests themselves.
type copyBroker struct {
	t       testing.TB
	home    kafkaHome
	process *process // of Raftsman
	isKafka bool
}

func newCopyBroker(t testing.TB, settings ...string) *copyBroker {
	t.Helper()
	return &copyBroker{t: t, isKafka: os.Getenv("RAFTSMAN_TEST_KAFKA") == "1", home: kafkaHome{root: t.TempDir(), port: freePort(t), settings: append([]string{
		"transaction.abort.timed.out.transaction.cleanup.interval.ms=1000",
		"transaction.state.log.num.partitions=5", "offsets.topic.num.partitions=5", "group.initial.rebalance.delay.ms=0",
		"group.consumer.min.session.timeout.ms=6000", "group.consumer.session.timeout.ms=6000",
		"group.consumer.min.heartbeat.interval.ms=500", "group.consumer.heartbeat.interval.ms=500",
	}, settings...)}}
}

func (b *copyBroker) start() {
	b.t.Helper()
	if b.isKafka {
		b.home.start(b.t)
	} else {
		var args []string
		for _, setting := range b.home.settings {
			args = append(args, "--override", setting)
		}
		b.process = startBrokerAt(b.t, filepath.Join(b.home.root, "data"), b.home.port, args...)
	}
}

func (b *copyBroker) kill() {
	b.t.Helper()
	if b.isKafka {
		run(b.t, atLast, nil, "kafka/kafka", "stop", b.home.root, "KILL")
		return
	}
	b.process.kill()
}

// copyJob is one instance of a copy job, which is started again whenever it ends.
type copyJob struct {
	w       *copyWorld
	copies  int // index into history.Copies: the group and the output
	id      string
	env     []string
	command []string
	starts  int

	mu      sync.Mutex // guards process
	process *process
}

// follower is a read_committed reader.
type follower struct {
	w       *copyWorld
	name    string
	process *process

	mu       sync.Mutex // guards the rest
	sessions [][]anomaly.Read
	latest   map[anomaly.Partition]int64
}

// eachLine is a writer that hands over whole lines.
type eachLine struct {
	do      func([]byte)
	partial []byte
}

func (e *eachLine) Write(p []byte) (int, error) {
	e.partial = append(e.partial, p...)
	for {
		end := bytes.IndexByte(e.partial, '\n')
		if end < 0 {
			return len(p), nil
		}
		e.do(e.partial[:end])
		e.partial = e.partial[end+1:]
	}
}

// startCopyWorld starts a broker behind a proxy, and the readers. Of each group of jobs there is an output.
func startCopyWorld(t testing.TB, groups ...string) *copyWorld {
	t.Helper()
	seed := testSeed(t)
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	w := newCopyWorld(t, seed, address)
	w.broker = newCopyBroker(t, "advertised.listeners=PLAINTEXT://"+address) // clients are told the proxy's address
	w.proxy = must(proxy.Start(address, w.broker.home.addr(), proxy.Random(seed)))(t)
	t.Cleanup(w.proxy.Close)
	w.broker.start()
	w.begin(1, []string{"java", "franz-go", "confluent-kafka", "aiokafka", "kafkajs"}, groups)
	return w
}

// newCopyWorld is one without anything.
func newCopyWorld(t testing.TB, seed uint64, bootstrap string) *copyWorld {
	t.Helper()
	w := &copyWorld{t: t, random: rand.New(rand.NewPCG(seed, 0)), bootstrap: bootstrap, backlog: 3000, offsets: map[string]map[anomaly.Partition]int64{}}
	w.history = anomaly.History{Input: map[string]int{}, InputEnds: map[anomaly.Partition]int64{}, StableWithin: 30 * time.Second}
	return w
}

// begin makes the topics and starts the readers.
func (w *copyWorld) begin(replicas int16, readers, groups []string) {
	t := w.t
	t.Helper()
	w.adm = kadm.NewClient(crashClient(t, w.bootstrap))
	topics := []string{copyInput}
	for _, group := range groups {
		w.offsets[group] = map[anomaly.Partition]int64{}
		w.history.Copies = append(w.history.Copies, anomaly.Copy{Group: group, Output: "copy-" + group})
		topics = append(topics, "copy-"+group)
	}
	ctx, cancel := context.WithTimeout(t.Context(), atLast)
	defer cancel()
	if err := must(w.adm.CreateTopics(ctx, copyPartitions, replicas, nil, topics...))(t).Error(); err != nil {
		t.Fatal(err)
	}
	var background sync.WaitGroup
	w.ctx, w.stop = context.WithCancel(context.Background())
	w.stop = sync.OnceFunc(func(cancel func()) func() { return func() { cancel(); background.Wait() } }(w.stop))
	t.Cleanup(w.stop)
	background.Go(w.sample)
	w.follow(readers, topics[1:])
	for _, f := range w.readers {
		eventually(t, atLast, f.name+" is ready", func() error {
			w.tend()
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(f.sessions) < 2 {
				return errors.New("not yet")
			}
			return nil
		})
	}
}

// follow starts a reader of each of the clients.
func (w *copyWorld) follow(clients, topics []string) {
	w.t.Helper()
	deps := must(filepath.Abs(".deps"))(w.t)
	names := strings.Join(topics, ",")
	commands := map[string][]string{
		"java": {"java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", deps + "/java/*", "Follow"}, "franz-go": {deps + "/golang", "franz", "follow"},
		"confluent-kafka": {deps + "/python/bin/python", "clients/python/follow.py", "confluent"},
		"aiokafka":        {deps + "/python/bin/python", "clients/python/follow.py", "aiokafka"},
		"kafkajs":         {"node", "clients/kafkajs/follow.js"},
	}
	for _, name := range clients {
		command := commands[name]
		f := &follower{w: w, name: name, sessions: [][]anomaly.Read{nil}, latest: map[anomaly.Partition]int64{}}
		c := exec.Command(command[0], append(command[1:], names)...)
		c.Env = append(os.Environ(), "BOOTSTRAP="+w.bootstrap)
		c.Stdout = &eachLine{do: f.take}
		f.process = startProcess(w.t, "", c)
		w.readers = append(w.readers, f)
	}
}

func (f *follower) take(line []byte) {
	var told struct {
		Topic, Key, Value string
		Partition         int32
		Offset            int64
		Assigned          []int
	}
	if err := json.Unmarshal(line, &told); err != nil {
		_, _ = fmt.Fprintf(f.process.log, "%s\n", line)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if told.Assigned != nil { // empty of those that own all
		f.sessions = append(f.sessions, nil)
		return
	}
	read := anomaly.Read{Place: anomaly.Place{Topic: told.Topic, Partition: told.Partition, Offset: told.Offset}, Key: told.Key, Value: told.Value}
	current := len(f.sessions) - 1
	f.sessions[current] = append(f.sessions[current], read)
	at := anomaly.Partition{Topic: told.Topic, Partition: told.Partition}
	f.latest[at] = max(f.latest[at], told.Offset)
}

// job starts an instance of a copy job.
func (w *copyWorld) job(group int, kind, id string, env ...string) {
	w.t.Helper()
	deps := must(filepath.Abs(".deps"))(w.t)
	command := map[string][]string{
		"java":     {"java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", deps + "/java/*", "Copy"},
		"franz-go": {deps + "/golang", "franz", "copy"}, "confluent-kafka": {deps + "/python/bin/python", "clients/python/copy_job.py"},
	}[kind]
	of := w.history.Copies[group]
	j := &copyJob{w: w, copies: group, id: id, env: env, command: append(command, copyInput, of.Output, of.Group, id)}
	w.jobs = append(w.jobs, j)
	j.start()
}

func (j *copyJob) start() {
	j.w.t.Helper()
	c := exec.Command(j.command[0], j.command[1:]...)
	c.Env = append(append(os.Environ(), "BOOTSTRAP="+j.w.bootstrap), j.env...)
	c.Stdout = &eachLine{do: j.take}
	p := startProcess(j.w.t, "", c)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.process = p
	j.starts++
}

func (j *copyJob) take(line []byte) {
	var told struct{ Committed, Aborted string }
	if err := json.Unmarshal(line, &told); err != nil {
		return
	}
	j.w.mu.Lock()
	defer j.w.mu.Unlock()
	of := &j.w.history.Copies[j.copies]
	if told.Committed != "" {
		of.Committed = append(of.Committed, told.Committed)
	}
	if told.Aborted != "" {
		of.Aborted = append(of.Aborted, told.Aborted)
	}
}

// tend starts again the jobs that have ended by themselves: one that was fenced or can't know what became of its transaction does.
// A reader must never end.
func (w *copyWorld) tend() {
	w.t.Helper()
	for _, j := range w.jobs {
		select {
		case <-j.process.exited:
			w.t.Logf("%s ended, and is started again: %v: %s", j.id, j.process.err, last(j.process.log.tail(2), 300))
			j.start()
		default:
		}
	}
	for _, f := range w.readers {
		select {
		case <-f.process.exited:
			w.t.Fatalf("the reader %s ended: %v", f.name, f.process.err)
		default:
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil {
		w.t.Fatal(w.failed)
	}
}

// pause lets the clients work, and tends them.
func (w *copyWorld) pause(d time.Duration) {
	w.t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
	w.tend()
}

// produce writes the input until ctx ends, and knows then what it wrote.
func (w *copyWorld) produce(ctx context.Context) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(w.bootstrap, ",")...), kgo.DefaultProduceTopic(copyInput), kgo.ProducerLinger(2*time.Millisecond),
		kgo.MaxBufferedRecords(100*copyRate), kgo.RecordRetries(1<<30))
	if err != nil {
		w.fail(err)
		return
	}
	defer cl.Close()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	counts := map[string]int{}
	for n := 0; ctx.Err() == nil; n++ {
		key := fmt.Sprint("key-", n%copyKeys)
		cl.Produce(context.Background(), &kgo.Record{Key: []byte(key), Value: fmt.Append(nil, counts[key])}, func(_ *kgo.Record, err error) {
			if err != nil {
				w.fail(fmt.Errorf("produce the input: %w", err))
			}
		})
		counts[key]++
		for n%copyRate == 0 {
			if <-tick.C; ctx.Err() != nil || n-w.leastCopied() < w.backlog {
				break
			}
		}
	}
	flush, cancel := context.WithTimeout(context.Background(), atLast)
	defer cancel()
	if err := cl.Flush(flush); err != nil {
		w.fail(fmt.Errorf("produce the input: %w", err))
	}
	ends, err := w.adm.ListEndOffsets(flush, copyInput)
	if err != nil {
		w.fail(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history.Input = counts
	ends.Each(func(o kadm.ListedOffset) {
		w.history.InputEnds[anomaly.Partition{Topic: o.Topic, Partition: o.Partition}] = o.Offset
	})
}

// leastCopied is how many records the slowest group has copied.
func (w *copyWorld) leastCopied() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	least := int64(math.MaxInt64)
	for _, of := range w.history.Copies {
		sum := int64(0)
		for _, offset := range w.offsets[of.Group] {
			sum += offset
		}
		least = min(least, sum)
	}
	return int(least)
}

func (w *copyWorld) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = errors.Join(w.failed, err)
}

// sample asks again and again for committed offsets and last stable offsets. What can't be answered, as the broker is not there or
// an offset is not stable, is asked again.
func (w *copyWorld) sample() {
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(w.bootstrap, ",")...), kgo.RequestRetries(0))
	if err != nil {
		w.fail(err)
		return
	}
	defer cl.Close()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for w.ctx.Err() == nil {
		for _, of := range w.history.Copies {
			w.sampleOffsets(cl, of.Group)
			w.sampleStable(cl, of.Output)
		}
		select {
		case <-tick.C:
		case <-w.ctx.Done():
		}
	}
}

func (w *copyWorld) sampleOffsets(cl *kgo.Client, group string) {
	ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
	defer cancel()
	offsets, err := kadm.NewClient(cl).FetchOffsets(kadm.RequireStable(ctx), group)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range offsets.Sorted() {
		if o.Err == nil {
			w.offsets[group][anomaly.Partition{Topic: o.Topic, Partition: o.Partition}] = o.At
			w.history.Offsets = append(w.history.Offsets, anomaly.OffsetSample{Group: group, Place: anomaly.Place{Topic: o.Topic, Partition: o.Partition, Offset: o.At}})
		}
	}
}

func (w *copyWorld) sampleStable(cl *kgo.Client, topic string) {
	ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
	defer cancel()
	adm := kadm.NewClient(cl)
	stable, err := adm.ListCommittedOffsets(ctx, topic)
	if err != nil {
		return
	}
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	stable.Each(func(o kadm.ListedOffset) {
		end, ok := ends.Lookup(o.Topic, o.Partition)
		if ok && o.Err == nil && end.Err == nil {
			w.history.Stable = append(w.history.Stable, anomaly.StableSample{
				At: time.Now(), Partition: anomaly.Partition{Topic: o.Topic, Partition: o.Partition}, LastStable: o.Offset, HighWatermark: end.Offset,
			})
		}
	})
}

// crash kills the broker and starts it again.
func (w *copyWorld) crash() {
	w.t.Helper()
	w.proxy.Refuse()
	w.broker.kill()
	w.broker.start()
	if err := w.proxy.Accept(); err != nil {
		w.t.Fatal(err)
	}
}

// killJob kills a job, which is started again at once; or, one time in three, stops it, and lets it go on as a zombie when another
// has taken its place for a while.
func (w *copyWorld) killJob(n int) {
	w.t.Helper()
	j := w.jobs[n]
	old := j.process
	if w.random.IntN(3) > 0 {
		old.kill()
		j.start()
		return
	}
	_ = syscall.Kill(-old.command.Process.Pid, syscall.SIGSTOP)
	j.start()
	w.pause(time.Duration(1+w.random.IntN(4)) * time.Second)
	_ = syscall.Kill(-old.command.Process.Pid, syscall.SIGCONT)
	w.pause(2 * time.Second)
	old.kill()
}

// work kills the broker and the jobs until enough says so. In between the jobs may do something, if they can soon.
func (w *copyWorld) work(brokerToo bool, enough func(crashes, kills int) bool) {
	w.t.Helper()
	began, crashes, kills := time.Now(), 0, 0
	for !enough(crashes, kills) {
		w.progress()
		w.pause(time.Duration(w.random.IntN(1000)) * time.Millisecond)
		if brokerToo && (crashes == 0 || w.random.IntN(2) == 0) {
			w.crash()
			crashes++
		} else {
			w.killJob(w.random.IntN(len(w.jobs)))
			kills++
		}
	}
	w.progress()
	w.t.Logf("worked for %v: the broker was killed %d times, jobs %d times", time.Since(began).Round(time.Millisecond), crashes, kills)
}

// rounds is enough after so many kills of the broker or the jobs.
func rounds(n int) func(int, int) bool {
	return func(crashes, kills int) bool { return crashes+kills >= n }
}

// lasting is enough after so long.
func lasting(d time.Duration) func(int, int) bool {
	end := time.Now().Add(d)
	return func(int, int) bool { return time.Now().After(end) }
}

// progress waits until every group has copied something, if that does not take too long: what is killed amid its start and its
// recovery has to bear it too.
func (w *copyWorld) progress() {
	w.t.Helper()
	counts := func() (all []int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, of := range w.history.Copies {
			all = append(all, len(of.Committed))
		}
		return all
	}
	began := counts()
	const patience, step = 5 * time.Second, 50 * time.Millisecond
	for end := time.Now().Add(patience); time.Now().Before(end); w.pause(step) {
		if everyGreater(counts(), began) {
			return
		}
	}
}

func everyGreater(now, before []int) bool {
	for i := range now {
		if now[i] <= before[i] {
			return false
		}
	}
	return true
}

// setTransactionVersion changes the feature. Clients learn of it when they connect anew, so the jobs are killed first.
func (w *copyWorld) setTransactionVersion(level int16) {
	w.t.Helper()
	for _, j := range w.jobs {
		j.process.kill()
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), atLast)
	defer cancel()
	req := kmsg.NewPtrUpdateFeaturesRequest()
	update := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	update.Feature, update.MaxVersionLevel, update.UpgradeType = "transaction.version", level, 2
	req.FeatureUpdates = append(req.FeatureUpdates, update)
	answer := must(req.RequestWith(ctx, crashClient(w.t, w.bootstrap)))(w.t)
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		w.t.Fatalf("transaction.version %d: %v: %v", level, err, answer.ErrorMessage)
	}
	for _, r := range answer.Results {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			w.t.Fatalf("transaction.version %d: %v: %v", level, err, r.ErrorMessage)
		}
	}
	for _, j := range w.jobs {
		j.start()
	}
}

// finish waits until all is copied and every reader has read it, and judges.
func (w *copyWorld) finish() {
	w.t.Helper()
	began := time.Now()
	eventually(w.t, 2*atLast, "all is copied", func() error {
		w.tend()
		return w.copied()
	})
	copied := time.Now()
	for _, j := range w.jobs {
		j.process.kill()
	}
	jobs := w.jobs
	w.jobs = nil // nobody starts them again
	w.mu.Lock()
	var topics []string
	for _, of := range w.history.Copies {
		topics = append(topics, of.Output)
	}
	w.mu.Unlock()
	eventually(w.t, atLast, "no transaction is open", func() error { return w.allEnded(topics) })
	mine := w.readToEnd(topics)
	for _, f := range w.readers {
		eventually(w.t, atLast, f.name+" has read all", func() error {
			w.tend()
			return f.hasRead(mine)
		})
	}
	for _, f := range w.readers {
		f.process.kill()
	}
	w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil {
		w.t.Fatal(w.failed)
	}
	w.history.Readers = []anomaly.Reader{{Name: "franz-go, afterwards", Sessions: [][]anomaly.Read{mine}}}
	for _, f := range w.readers {
		f.mu.Lock()
		w.history.Readers = append(w.history.Readers, anomaly.Reader{Name: f.name, Sessions: f.sessions})
		f.mu.Unlock()
	}
	for _, of := range w.history.Copies {
		w.t.Logf("%s: %d transactions acknowledged, %d aborted", of.Group, len(of.Committed), len(of.Aborted))
	}
	records := 0
	for _, n := range w.history.Input {
		records += n
	}
	w.t.Logf("%d records copied %d times; %d committed offsets and %d last stable offsets seen; waited %v for the copies and %v for the readers",
		records, len(w.history.Copies), len(w.history.Offsets), len(w.history.Stable), copied.Sub(began).Round(time.Millisecond), time.Since(copied).Round(time.Millisecond))
	for _, j := range jobs {
		w.t.Logf("%s was started %d times", j.id, j.starts)
	}
	if w.proxy != nil {
		w.t.Logf("requests and faults:\n%s", proxy.Describe(w.proxy.Counts(), kmsg.NameForKey))
	}
	const most = 20
	for n, finding := range anomaly.Check(w.history) {
		if n == most {
			w.t.Errorf("and more")
			break
		}
		w.t.Error(finding)
	}
}

// copied tells what is missing of the committed offsets.
func (w *copyWorld) copied() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.history.InputEnds) == 0 {
		return errors.New("the input is not written yet")
	}
	for _, of := range w.history.Copies {
		if last := w.offsets[of.Group]; !maps.Equal(last, w.history.InputEnds) {
			return fmt.Errorf("group %s has committed %v, the input ends at %v", of.Group, last, w.history.InputEnds)
		}
	}
	return nil
}

// allEnded tells where a transaction is open.
func (w *copyWorld) allEnded(topics []string) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	stable, err := w.adm.ListCommittedOffsets(ctx, topics...)
	if err != nil {
		return err
	}
	ends, err := w.adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return err
	}
	stable.Each(func(o kadm.ListedOffset) {
		if end, _ := ends.Lookup(o.Topic, o.Partition); end.Offset != o.Offset {
			err = fmt.Errorf("%s-%d is stable up to %d and ends at %d", o.Topic, o.Partition, o.Offset, end.Offset)
		}
	})
	return err
}

// readToEnd reads the outputs from the start to their last stable offsets.
func (w *copyWorld) readToEnd(topics []string) (all []anomaly.Read) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), atLast)
	defer cancel()
	open, from := map[anomaly.Partition]int64{}, map[string]map[int32]kgo.Offset{}
	must(w.adm.ListCommittedOffsets(ctx, topics...))(w.t).Each(func(o kadm.ListedOffset) {
		if from[o.Topic] == nil {
			from[o.Topic] = map[int32]kgo.Offset{}
		}
		from[o.Topic][o.Partition] = kgo.NewOffset().At(0)
		if o.Offset > 0 {
			open[anomaly.Partition{Topic: o.Topic, Partition: o.Partition}] = o.Offset
		}
	})
	cl := crashClient(w.t, w.bootstrap, kgo.ConsumePartitions(from), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	defer cl.Close()
	for len(open) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := errors.Join(ctx.Err(), fetches.Err()); err != nil {
			w.t.Fatalf("read the outputs: %v; to be read: %v", err, open)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			at := anomaly.Partition{Topic: r.Topic, Partition: r.Partition}
			if !r.Attrs.IsControl() {
				all = append(all, anomaly.Read{Place: anomaly.Place{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}, Key: string(r.Key), Value: string(r.Value)})
			}
			if end, ok := open[at]; ok && r.Offset+1 >= end {
				delete(open, at)
			}
		})
	}
	return all
}

// hasRead tells what a reader has not read of what is there.
func (f *follower) hasRead(all []anomaly.Read) error {
	ends := map[anomaly.Partition]int64{}
	for _, r := range all {
		ends[anomaly.Partition{Topic: r.Topic, Partition: r.Partition}] = r.Offset
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, at := range slices.SortedFunc(maps.Keys(ends), func(a, b anomaly.Partition) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
		if f.latest[at] < ends[at] {
			return fmt.Errorf("%s-%d is read up to %d of %d", at.Topic, at.Partition, f.latest[at], ends[at])
		}
	}
	return nil
}
