package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// The crash test runs a program of everything that a log can do over a disk whose power is cut, and compares what comes back
// with what had been promised. Each run takes fresh seeds. More of them: CRASH_SEEDS=1000 go test -run PowerCut ./internal/commitlog

// crashSeeds is how many seeds CRASH_SEEDS asks for, or the standard number, and fewer under the race detector.
func crashSeeds(standard int) int {
	if n, err := strconv.Atoi(os.Getenv("CRASH_SEEDS")); err == nil {
		return n
	}
	return max(1, standard/seedsUnderRace)
}

// seeds yields so many seeds, from CRASH_SEED on or from anywhere.
func seeds(n int) iter.Seq[uint64] {
	first, err := strconv.ParseUint(os.Getenv("CRASH_SEED"), 10, 64)
	if err != nil {
		first = uint64(rand.Uint32())
	}
	return func(yield func(uint64) bool) {
		for i := range uint64(n) {
			if !yield(first + i) {
				return
			}
		}
	}
}

// stored is a batch as it was written.
type stored struct {
	base, next kafka.Offset
	epoch      kafka.Epoch
	bytes      []byte
}

// promise is what a log must be after a power cut.
type promise struct {
	history   []stored
	acked     kafka.Offset // all below was flushed
	startMin  kafka.Offset // the start cannot be lower
	startMax  kafka.Offset
	id        kafka.TopicID
	created   bool // Create was called
	durable   bool // something was flushed since Create
	deleting  bool // Delete was called
	resetting kafka.Offset
	cleaned   kafka.Offset   // nothing at or behind it was compacted
	adopted   []kafka.Offset // where the log ended when it was opened, or truncated where nothing was
}

// crasher runs one program.
type crasher struct {
	seed      uint64
	rand      *rand.Rand
	disk      *faultfs.Disk
	dir       *Dir
	log       *Log
	promise   promise
	config    Config
	now       time.Time
	formatted bool
	counter   int
	producer  kafka.ProducerID
	sequence  kafka.Sequence
	epoch     kafka.Epoch
	ids       byte
	last      string         // the operation that ran last
	aim       string         // the operation in which the power is to be cut, if it comes
	only      []string       // if any, the operations that are run
	taste     map[string]int // how often each operation comes in this life
	found     []stored       // what compaction has left, as the last check found it
}

func newCrasher(seed uint64, skip string) *crasher {
	r := rand.New(rand.NewPCG(seed, 7))
	c := &crasher{seed: seed, rand: r, disk: faultfs.NewDisk(seed), now: testStart}
	c.disk.SkipSync(skip)
	c.config = smallConfig()
	c.config.SegmentBytes = 1000 + r.IntN(9000)
	c.config.IndexIntervalBytes = 100 + r.IntN(400)
	c.config.RetentionBytes = int64(5000 + r.IntN(30000))
	c.config.FileDeleteDelayMs = int64(r.IntN(2) * 1000)
	c.config.Compact = r.IntN(2) == 0
	c.config.DeleteRetentionMs = int64(r.IntN(2) * 500)
	c.promise.resetting = kafka.NoOffset
	return c
}

// choose gives each life a taste of its own: a log that is never flushed, or is truncated all the time, meets other states than
// one that does a little of everything. What the power is to be cut in comes often.
func (c *crasher) choose() {
	c.taste = make(map[string]int)
	mixed := c.rand.IntN(2) == 0
	for _, o := range c.program() {
		weight := o.weight
		switch {
		case len(c.only) > 0:
			weight = 0
			if slices.Contains(c.only, o.name) {
				weight = 10
			}
		case o.name == c.aim:
			weight = max(weight, 8)
		case mixed && o.name != "append":
			weight *= []int{0, 1, 1, 5}[c.rand.IntN(4)]
		}
		c.taste[o.name] = weight
	}
}

// live runs until the power is cut, or for so many operations of the program.
func (c *crasher) live(operations int) error {
	if err := c.start(); err != nil {
		return c.outcome(err)
	}
	for range operations {
		if err := c.operate(); err != nil {
			return c.outcome(err)
		}
	}
	return nil
}

// outcome lets a power cut pass.
func (c *crasher) outcome(err error) error {
	if errors.Is(err, faultfs.ErrPowerCut) && c.disk.Off() {
		return nil
	}
	return fmt.Errorf("%s: %w", c.last, err)
}

// start formats the directory if that was not done, opens it and checks what is in it.
func (c *crasher) start() error {
	c.last = "start"
	c.dir, c.log = nil, nil
	p := MetaProperties{ClusterID: "cluster", NodeID: 3, ID: kafka.UUID{6: 0x40, 8: 0x80, 15: 1}}
	if !c.formatted {
		if err := FormatDir(c.disk, testDir, p); err != nil {
			return err
		}
		c.formatted = true
	}
	d, err := OpenDir(c.disk, testDir, testRandom(c.rand.Uint64()))
	if err != nil {
		return err
	}
	if d.Meta() != p {
		return fmt.Errorf("meta.properties say %+v", d.Meta())
	}
	d.SetJournal(int64(4000+c.rand.IntN(8000)), c.rand.IntN(3))
	d.LimitFiles(1 + c.rand.IntN(8))
	d.resumeBytes, d.briefBytes = int64(200+c.rand.IntN(2000)), int64(200+c.rand.IntN(2000))
	c.dir = d
	if err := c.find(); err != nil {
		return err
	}
	for _, note := range d.Notes() {
		if strings.Contains(note, "taken as empty") || strings.Contains(note, "epochs are read") || strings.Contains(note, "cleanshutdown") {
			return fmt.Errorf("a checkpoint is neither old nor new: %s", note)
		}
	}
	return nil
}

// find opens the log that is there, or makes one.
func (c *crasher) find() error {
	found, err := c.dir.Partitions()
	if err != nil {
		return err
	}
	p := &c.promise
	switch {
	case len(found) == 0 && p.durable && !p.deleting:
		return errors.New("the partition is gone")
	case len(found) == 0:
		return c.create()
	case !p.created:
		return fmt.Errorf("%v was deleted and is back", found)
	}
	id, err := c.dir.TopicID(found[0])
	if err != nil {
		return err
	}
	if id != p.id && (p.durable || !id.IsZero()) {
		return fmt.Errorf("topic id %s, want %s", id, p.id)
	}
	p.deleting = false
	if c.log, err = c.dir.Open(testTopic, p.id, c.config, c.now); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	if err := c.dir.SyncRecovered(); err != nil {
		return err
	}
	if got := c.log.FlushedOffset(); got != c.log.EndOffset() {
		return fmt.Errorf("flushed up to %d after recovery, the end is %d", got, c.log.EndOffset())
	}
	c.adopt()
	return nil
}

func (c *crasher) create() (err error) {
	c.last = "create"
	c.ids++
	c.promise = promise{id: kafka.TopicID{0: c.ids, 6: 0x40, 8: 0x80}, created: true, resetting: kafka.NoOffset}
	c.log, err = c.dir.Create(testTopic, c.promise.id, c.config, c.now)
	return err
}

// adopt makes what was found the new truth.
func (c *crasher) adopt() {
	p, end := &c.promise, c.log.EndOffset()
	switch {
	case c.config.Compact && p.resetting >= 0: // part of a log that was given up; what lies below its start may come back
		below := slices.DeleteFunc(p.history, func(s stored) bool { return s.next > c.log.StartOffset() })
		p.history = append(below, c.found...)
	case c.config.Compact:
		p.history = slices.DeleteFunc(p.history, c.isTorn)
	}
	p.cleaned, p.adopted = min(p.cleaned, end), append(p.adopted, end)
	p.history = slices.DeleteFunc(p.history, func(s stored) bool { return s.next > end })
	p.acked, p.startMax, p.resetting = end, c.log.StartOffset(), kafka.NoOffset
	p.startMin = min(p.startMin, p.startMax)
	p.durable = p.durable || end > 0
	c.resequence()
}

// check compares the log with the promise.
func (c *crasher) check() error {
	p, l := &c.promise, c.log
	start, end := l.StartOffset(), l.EndOffset()
	if p.resetting >= 0 {
		if start == end { // emptied, or even begun again: it may know of batches that the history does not
			p.history, c.found = nil, nil
			c.producer++
			return nil
		}
		p.startMin, p.acked = 0, 0
	}
	if end < p.acked {
		return fmt.Errorf("the log ends at %d, acknowledged was up to %d", end, p.acked)
	}
	if start < p.startMin || start > max(p.startMax, p.startMin) {
		return fmt.Errorf("the log starts at %d, want %d to %d", start, p.startMin, p.startMax)
	}
	if n := len(p.history); n > 0 && end > p.history[n-1].next && !slices.Contains(p.adopted, end) {
		return fmt.Errorf("the log ends at %d, written was up to %d", end, p.history[n-1].next)
	}
	checkBatches := c.checkBatches
	if c.config.Compact {
		checkBatches = c.checkCompacted
	}
	if err := checkBatches(start, end); err != nil {
		return err
	}
	for _, w := range c.within(start, end) {
		if err := c.checkRead(w, start, end); err != nil {
			return err
		}
	}
	if err := c.checkEpochs(start, end); err != nil {
		return err
	}
	if err := c.checkProducers(start, end); err != nil {
		return err
	}
	return c.checkTimes(start, end)
}

func (c *crasher) checkBatches(start, end kafka.Offset) error {
	want := c.within(start, end)
	i := 0
	for b, err := range c.log.Batches(start) {
		if err != nil {
			return fmt.Errorf("read all from %d: %w", start, err)
		}
		if i == len(want) || !bytes.Equal(b, want[i].bytes) {
			return fmt.Errorf("batch %d of [%d, %d) at offset %d is not what was written", i, start, end, b.BaseOffset())
		}
		i++
	}
	if i != len(want) {
		return fmt.Errorf("%d batches in [%d, %d), want %d", i, start, end, len(want))
	}
	if n := len(want); n > 0 && want[n-1].next != end || n == 0 && start != end {
		return fmt.Errorf("the log says that it ends at %d", end)
	}
	return nil
}

// checkRead finds a batch by its last offset.
func (c *crasher) checkRead(w stored, start, end kafka.Offset) error {
	chunk, err := c.log.Read(max(w.next-1, start), end, 1, true)
	if err != nil {
		return fmt.Errorf("read %d: %w", w.next-1, err)
	}
	defer chunk.Release()
	if chunk.Len != len(w.bytes) {
		return fmt.Errorf("read %d: %d bytes, want %d", w.next-1, chunk.Len, len(w.bytes))
	}
	got := make([]byte, chunk.Len)
	if _, err := chunk.File.ReadAt(got, chunk.Pos); err != nil || !bytes.Equal(got, w.bytes) {
		return fmt.Errorf("read %d: other bytes, %w", w.next-1, err)
	}
	return nil
}

// within returns the batches that reach into [start, end), as compaction has left them.
func (c *crasher) within(start, end kafka.Offset) []stored {
	if c.config.Compact {
		return reaching(c.found, start, end)
	}
	return reaching(c.promise.history, start, end)
}

func reaching(all []stored, start, end kafka.Offset) []stored {
	var in []stored
	for _, s := range all {
		if s.next > start && s.base < end {
			in = append(in, s)
		}
	}
	return in
}

func (c *crasher) checkEpochs(start, end kafka.Offset) error {
	in := c.within(start, end)
	for i, s := range in {
		want := end
		for _, later := range in[i:] {
			if later.epoch > s.epoch {
				want = later.base
				break
			}
		}
		epoch, got := c.log.EpochEnd(s.epoch)
		if c.config.Compact && got >= in[i].next && got < want {
			got = want // where the batch was that began the next epoch
		}
		if epoch != s.epoch || got != want {
			return fmt.Errorf("epoch %d ends at (%d, %d), want %d", s.epoch, epoch, got, want)
		}
	}
	return nil
}

// checkProducers sends the last batch of the producer again.
func (c *crasher) checkProducers(start, end kafka.Offset) error {
	in := slices.DeleteFunc(reaching(c.promise.history, start, end), c.isTorn)
	if len(in) == 0 {
		return nil
	}
	last := record.Batch(in[len(in)-1].bytes)
	verdict, err := c.log.Producers().Check(last, producer.NoGuard)
	if err != nil || !verdict.Duplicate || verdict.BaseOffset != last.BaseOffset() {
		return fmt.Errorf("the last batch, offset %d, sent again: %+v, %w", last.BaseOffset(), verdict, err)
	}
	return nil
}

func (c *crasher) checkTimes(start, end kafka.Offset) error {
	largest := int64(-1)
	in := c.within(start, end)
	for _, s := range in {
		ms := largestSince(s.bytes, start)
		if ms < 0 {
			continue // emptied
		}
		largest = max(largest, ms)
		got, ok, err := c.log.OffsetForTime(ms, end)
		if err != nil || !ok || got.TimestampMs < ms || got.Offset > s.next-1 || got.Offset < start {
			return fmt.Errorf("time %d of a record up to offset %d: %+v, %v, %w", ms, s.next-1, got, ok, err)
		}
	}
	got, ok, err := c.log.MaxTimestamp(end)
	if err != nil || ok != (largest >= 0) || ok && got.TimestampMs != largest {
		return fmt.Errorf("largest timestamp: %+v, %v, %w, want %d", got, ok, err, largest)
	}
	return nil
}

// largestSince is the largest timestamp of a batch's records from an offset on.
func largestSince(b record.Batch, start kafka.Offset) int64 {
	largest := int64(-1)
	for r := range b.Records(1 << 20) {
		if r.Offset >= start {
			largest = max(largest, r.TimestampMs)
		}
	}
	return largest
}

// operate does one thing of the program.
func (c *crasher) operate() error {
	c.now = c.now.Add(time.Duration(c.rand.IntN(1000)) * time.Millisecond)
	o := c.next()
	c.last = o.name
	if c.aim == o.name && c.rand.IntN(3) == 0 {
		c.aim = ""
		c.disk.CutAt(c.rand.IntN(4 << c.rand.IntN(5)))
	}
	if os.Getenv("CRASH_TRACE") != "" {
		fmt.Printf("%d %s: [%d, %d) flushed %d, promised %d, start %d to %d, segments %v\n", c.disk.Ops(), o.name, c.log.StartOffset(),
			c.log.EndOffset(), c.log.FlushedOffset(), c.promise.acked, c.promise.startMin, c.promise.startMax, lastOf(c.log.Segments()))
	}
	return o.do()
}

// next chooses an operation by this life's taste.
func (c *crasher) next() step {
	program, total := c.program(), 0
	for _, o := range program {
		total += c.taste[o.name]
	}
	at := c.rand.IntN(total)
	for _, o := range program {
		if at -= c.taste[o.name]; at < 0 {
			return o
		}
	}
	panic("unreachable")
}

// step is an operation of the program, and how often it comes compared with others.
type step struct {
	weight int
	name   string
	do     func() error
}

func (c *crasher) program() []step {
	return []step{
		{50, "append", c.append},
		{14, "flush", c.flush},
		{14, "flush small", c.flushSmall},
		{6, "checkpoint", c.checkpoint},
		{5, "retain", c.retain},
		{5, "sweep", c.sweep},
		{3, "set start", c.setStart},
		{4, "truncate", c.truncate},
		{1, "reset", c.reset},
		{3, "reopen log", c.reopenLog},
		{3, "restart", c.restart},
		{1, "recreate", c.recreate},
		{10, "compact", c.compact},
		{2, "flush all", c.flushAll},
		{3, "new epoch", func() error { c.epoch++; return nil }},
	}
}

func lastOf(all []SegmentInfo) []SegmentInfo { return all[max(0, len(all)-4):] }

func (c *crasher) append() error {
	for range 1 + c.rand.IntN(6) {
		c.counter++
		n := 1 + c.rand.IntN(3)
		b := record.Builder{Producer: &record.Producer{ID: c.producer, BaseSequence: c.sequence}}
		for range n {
			size := c.rand.IntN(300)
			if c.rand.IntN(20) == 0 {
				size = 5000
			}
			value := fmt.Appendf(nil, "seed %d record %d ", c.seed, c.counter)
			value = append(value, bytes.Repeat([]byte{byte(c.counter)}, size)...)
			if c.config.Compact && c.rand.IntN(3) == 0 {
				value = nil
			}
			b.Add(c.key(), value, nil, c.now.UnixMilli()+int64(c.rand.IntN(100)))
		}
		c.sequence = record.AddSequence(c.sequence, int32(n))
		built := b.Build()
		built.SetBaseOffset(c.log.EndOffset())
		built.SetLeaderEpoch(c.epoch)
		c.promise.history = append(c.promise.history, stored{
			base: built.BaseOffset(), next: built.NextOffset(), epoch: c.epoch, bytes: bytes.Clone(built),
		})
		if _, err := c.log.Append(built, c.epoch, c.now); err != nil {
			return err
		}
		c.log.Producers().Apply(built, c.now)
	}
	return nil
}

func (c *crasher) flush() error {
	end, err := c.log.Flush()
	if err != nil {
		return err
	}
	if end != c.log.EndOffset() {
		return fmt.Errorf("flushed up to %d of %d", end, c.log.EndOffset())
	}
	c.acknowledge()
	return nil
}

func (c *crasher) flushSmall() error {
	if err := c.dir.FlushSmall([]*Log{c.log}); err != nil {
		return err
	}
	if c.log.FlushedOffset() == c.log.EndOffset() {
		c.acknowledge()
	}
	return nil
}

func (c *crasher) acknowledge() {
	c.promise.acked = c.log.EndOffset()
	c.promise.durable = c.promise.durable || c.promise.acked > 0
}

func (c *crasher) flushAll() error {
	if err := c.dir.syncAll([]*Log{c.log}); err != nil {
		return err
	}
	c.acknowledge()
	return nil
}

func (c *crasher) checkpoint() error {
	if err := c.dir.WriteCheckpoints(); err != nil {
		return err
	}
	if c.promise.durable {
		c.promise.startMin = c.log.StartOffset()
	}
	return nil
}

func (c *crasher) retain() error {
	c.promise.startMax = c.log.EndOffset()
	_, err := c.log.Retain(c.now, c.log.FlushedOffset())
	c.promise.startMax = c.log.StartOffset()
	return err
}

func (c *crasher) sweep() error {
	if err := c.dir.Sweep(c.now); err != nil {
		return err
	}
	if c.promise.durable {
		c.promise.startMin = max(c.promise.startMin, c.log.Segments()[0].Base)
	}
	return nil
}

func (c *crasher) setStart() error {
	start, flushed := c.log.StartOffset(), c.log.FlushedOffset()
	if flushed <= start {
		return nil
	}
	c.promise.startMax = start + kafka.Offset(c.rand.Int64N(int64(flushed-start)+1))
	return c.log.SetStart(c.promise.startMax)
}

func (c *crasher) truncate() error {
	start, end := c.log.StartOffset(), c.log.EndOffset()
	to := max(end-kafka.Offset(c.rand.Int64N(min(int64(end-start), 60)+1)), c.promise.cleaned)
	p := &c.promise
	cut := to
	for _, s := range p.history {
		if s.base < to && s.next > to {
			cut = s.base
		}
	}
	if c.config.Compact {
		cut = c.lastEnd(cut)
	}
	p.acked, p.startMin = min(p.acked, cut), min(p.startMin, cut)
	adopted := len(p.adopted)
	for _, s := range c.log.Segments() { // the newest goes first: where those before it are empty the power may leave the log at the begin of one
		if c.config.Compact && s.Bytes == 0 && s.Base >= cut {
			p.adopted = append(p.adopted, s.Base)
		}
	}
	if err := c.log.Truncate(to); err != nil {
		return err
	}
	p.adopted = p.adopted[:adopted] // it is whole
	if end := c.log.EndOffset(); c.config.Compact && end >= cut && end <= to {
		cut, p.adopted = end, append(p.adopted, end)
	}
	if c.log.EndOffset() != cut {
		return fmt.Errorf("truncated to %d: the end is %d, want %d", to, c.log.EndOffset(), cut)
	}
	p.history = slices.DeleteFunc(p.history, func(s stored) bool { return s.next > cut })
	c.resequence()
	p.startMax = c.log.StartOffset()
	return c.check()
}

// resequence goes on with the sequence that the log's last batch ends with.
func (c *crasher) resequence() {
	c.sequence = 0
	if n := len(c.promise.history); n > 0 {
		c.sequence = record.AddSequence(record.Batch(c.promise.history[n-1].bytes).LastSequence(), 1)
	}
}

func (c *crasher) reset() error {
	p := &c.promise
	p.resetting = max(0, c.log.EndOffset()+kafka.Offset(c.rand.IntN(200)-100))
	if err := c.log.Reset(p.resetting); err != nil {
		return err
	}
	*p = promise{
		acked: p.resetting, startMin: p.resetting, startMax: p.resetting, id: p.id, created: true,
		durable: p.durable, resetting: kafka.NoOffset,
	}
	c.resequence()
	return c.check()
}

// close closes the log, briefly or not.
func (c *crasher) close() error {
	if c.log.EndOffset()%2 == 0 {
		return c.log.CloseBriefly()
	}
	return c.log.Close()
}

func (c *crasher) reopenLog() (err error) {
	if err := c.close(); err != nil {
		return err
	}
	c.acknowledge()
	if c.log, err = c.dir.Open(testTopic, c.promise.id, c.config, c.now); err != nil {
		return err
	}
	return c.check()
}

func (c *crasher) restart() error {
	if err := c.close(); err != nil {
		return err
	}
	if err := c.dir.Close(true, 4); err != nil {
		return err
	}
	c.acknowledge()
	c.promise.durable = true
	c.promise.startMin = c.log.StartOffset()
	return c.start()
}

func (c *crasher) recreate() error {
	c.promise.deleting = true
	if err := c.dir.Delete(testTopic); err != nil {
		return err
	}
	c.promise.created = false
	c.sequence, c.epoch = 0, 0
	return c.create()
}

// crash runs a program of several lives; cutAt tells at which file operation each ends.
func crash(seed uint64, lives, operations int, skip string, cutAt func(c *crasher, life int) int) (err error) {
	c := newCrasher(seed, skip)
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: panic: %v", c.last, r)
		}
	}()
	for life := range lives {
		if n := cutAt(c, life); n >= 0 {
			c.disk.CutAt(n)
		}
		c.choose()
		if err := c.live(operations); err != nil {
			return fmt.Errorf("life %d: %w", life, err)
		}
		c.disk.Restart()
	}
	return nil
}

// randomCut cuts the power anywhere, or in an operation that is rare but delicate.
func randomCut(c *crasher, life int) int {
	c.aim = ""
	if c.rand.IntN(2) == 0 {
		delicate := []string{"checkpoint", "sweep", "truncate", "reset", "reopen log", "restart", "recreate", "flush all"}
		c.aim = delicate[c.rand.IntN(len(delicate))]
		return -1
	}
	if life == 0 && c.rand.IntN(2) == 0 {
		return c.rand.IntN(40)
	}
	return c.rand.IntN(400)
}

func reportSeed(t *testing.T, seed uint64, err error) {
	t.Helper()
	t.Fatalf("seed %d: %v\nrepeat: CRASH_SEED=%d CRASH_SEEDS=1 go test -run '^%s$' ./internal/commitlog", seed, err, seed, t.Name())
}

func TestPowerCutAtRandomOperations(t *testing.T) {
	for seed := range seeds(crashSeeds(400)) {
		if err := crash(seed, 5, 60, "", randomCut); err != nil {
			reportSeed(t, seed, err)
		}
	}
}

// TestPowerCutAtEveryOperation runs mostly short programs: a log is in more danger while it is young, as little of it is flushed.
func TestPowerCutAtEveryOperation(t *testing.T) {
	for seed := range seeds(crashSeeds(200)) {
		operations := 5 + int(seed%8)
		if seed%200 == 0 {
			operations = 50
		}
		if n, err := cutEverywhere(seed, operations); err != nil {
			t.Logf("cut at operation %d", n)
			reportSeed(t, seed, err)
		}
	}
}

// TestPowerCutWhileAYoungLogIsTruncated: a log whose only segment was never flushed was cut, and began a segment behind. Only
// that one's name was on the disk after a power cut, so the log began where it had been cut, as if all before had been durable.
func TestPowerCutWhileAYoungLogIsTruncated(t *testing.T) {
	for seed := range seeds(crashSeeds(400)) {
		if n, err := cutEverywhere(seed, 5, "append", "truncate"); err != nil {
			t.Logf("cut at operation %d", n)
			reportSeed(t, seed, err)
		}
	}
}

// cutEverywhere returns at which operation the power cut was that broke a promise. With names only these operations are run
// before it.
func cutEverywhere(seed uint64, operations int, only ...string) (int, error) {
	total := 0
	for n := -1; n < total; n++ {
		err := crash(seed, 2, operations, "", func(c *crasher, life int) int {
			if c.only = nil; life == 0 {
				c.only = only
				return n
			}
			total = max(total, c.disk.Ops())
			return -1
		})
		if err != nil {
			return n, err
		}
	}
	return total, nil
}
