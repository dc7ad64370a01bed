package brokertest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/broker"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

var (
	chaosSeed = flag.Uint64("chaos-seed", 0, "seed of the chaos tests; 0: a new one")
	chaosFor  = flag.Duration("chaos-for", 0, "how long each chaos test disturbs; 0: its default")
	chaosLog  = flag.Bool("chaos-log", false, "write the broker's log into the test's")
)

// soaking tells whether the tests run for long.
func soaking() bool { return os.Getenv("RAFTSMAN_SOAK") == "1" }

// world is a broker that is restarted under its clients, the clients, and what they told the checker.
type world struct {
	testing.TB
	seed   uint64
	fs     vfs.FS
	own    *mortal       // the file system as the living broker has it
	disk   *faultfs.Disk // nil: there are no power cuts
	props  map[string]string
	ledger *ledger

	ctx     context.Context // of the workload
	workers sync.WaitGroup

	mu      sync.Mutex    // guards current and changed
	current *life         // nil while the broker is down
	changed chan struct{} // closed when current changes

	faults atomic.Int32
	lives  int
	cuts   int
	kills  int
	// stumbles are starts that were cut short.
	stumbles int
}

// life is the broker between a start and a stop.
type life struct {
	node   *broker.Node
	addr   string
	ending atomic.Bool // set before it is stopped or its power is cut: from then on it may break connections
}

// newWorld starts a broker on a file system. The workload runs for as long as the test does.
func newWorld(t *testing.T, fs vfs.FS, dir string, cancelled context.Context, seed uint64) *world {
	t.Helper()
	w := &world{
		TB: t, seed: seed, fs: fs, ctx: cancelled, changed: make(chan struct{}),
		props: map[string]string{
			"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": dir, "offsets.topic.num.partitions": "4",
			"group.min.session.timeout.ms": "200", "log.retention.check.interval.ms": "100",
			"metadata.log.max.record.bytes.between.snapshots": "20000",
		},
	}
	w.disk, _ = fs.(*faultfs.Disk)
	w.ledger = newLedger(w.fault)
	return w
}

// fault reports what must not be. After some the rest is noise.
func (w *world) fault(format string, args ...any) {
	w.Helper()
	if n := w.faults.Add(1); n <= 10 {
		w.Errorf("seed %d, life %d: %s", w.seed, w.lives, fmt.Sprintf(format, args...))
	}
}

// start starts the broker.
func (w *world) start() {
	w.Helper()
	node, err := w.tryStart(&mortal{FS: w.fs})
	if err != nil {
		w.Fatalf("seed %d: start %d of the broker: %v", w.seed, w.lives, err)
	}
	w.lives++
	w.become(&life{node: node, addr: node.Addrs()[0].String()})
}

func (w *world) tryStart(own *mortal) (*broker.Node, error) {
	w.own = own
	c := broker.Config{Properties: w.props, FS: own}
	if *chaosLog {
		c.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return broker.Start(ctx, c)
}

// stumble starts the broker and kills it, or cuts its power, on the way. No client sees that one.
func (w *world) stumble(r *rand.Rand) {
	w.Helper()
	own := &mortal{FS: w.fs}
	cut := w.disk != nil && r.IntN(2) == 0
	if at := r.IntN(200); cut {
		w.disk.CutAt(at)
	} else {
		own.killAt(at)
	}
	node, err := w.tryStart(own)
	if cut && !w.disk.Off() {
		w.disk.CutAt(0)
		_ = w.disk.MkdirAll(fmt.Sprintf("/stumbled%d", w.lives))
	}
	own.kill()
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = node.Close(ctx)
		if ctx.Err() != nil {
			w.fault("closing the broker after a start that was cut short took %v", patience)
		}
	}
	if w.ledger.crashed(); cut {
		w.disk.Restart()
	}
	w.stumbles++
}

func (w *world) become(l *life) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current = l
	close(w.changed)
	w.changed = make(chan struct{})
}

// stop stops the broker in order.
func (w *world) stop() {
	w.Helper()
	l := w.end()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := l.node.Close(ctx); err != nil {
		w.fault("close the broker: %v", err)
	}
}

// cut cuts the power at one of the next operations on the disk, and starts the broker on what is left.
func (w *world) cut(r *rand.Rand) {
	w.Helper()
	w.mu.Lock()
	l := w.current
	w.mu.Unlock()
	l.ending.Store(true)
	w.disk.CutAt(r.IntN(150))
	soon := time.NewTimer(time.Duration(r.IntN(300)) * time.Millisecond)
	defer soon.Stop()
	select {
	case <-l.node.Ended():
	case <-soon.C:
	}
	if !w.disk.Off() {
		w.disk.CutAt(0)
		_ = w.disk.MkdirAll(fmt.Sprintf("/cut%d", w.lives))
	}
	w.end()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = l.node.Close(ctx)
	if ctx.Err() != nil {
		w.fault("closing the broker after a power cut took %v", patience)
	}
	w.cuts++
	w.ledger.crashed()
	w.disk.Restart()
}

// kill lets the broker end as kill -9 does: what it wrote is there, flushed or not.
func (w *world) kill() {
	w.Helper()
	l := w.end()
	w.own.kill()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = l.node.Close(ctx)
	if ctx.Err() != nil {
		w.fault("closing the broker after it was killed took %v", patience)
	}
	w.kills++
	w.ledger.crashed()
}

// end takes the life away from the clients.
func (w *world) end() *life {
	w.mu.Lock()
	l := w.current
	w.mu.Unlock()
	l.ending.Store(true)
	w.become(nil)
	return l
}

// alive waits until there is a broker. nil: the workload is over.
func (w *world) alive(ctx context.Context) *life {
	for {
		w.mu.Lock()
		l, changed := w.current, w.changed
		w.mu.Unlock()
		if l != nil {
			return l
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// disturb restarts the broker again and again until the time is over.
func (w *world) disturb(d time.Duration) {
	w.Helper()
	r := w.chance("disturb")
	over := time.NewTimer(d)
	defer over.Stop()
	for {
		next := time.NewTimer(time.Duration(100+r.IntN(800)) * time.Millisecond)
		select {
		case <-over.C:
			next.Stop()
			return
		case <-next.C:
		}
		switch n := r.IntN(6); {
		case w.disk != nil && n > 2:
			w.cut(r)
		case n > 0:
			w.kill()
		default:
			w.stop()
		}
		for r.IntN(3) == 0 {
			w.stumble(r)
		}
		w.start()
	}
}

// chance is the dice of one worker: the same for the same seed and name.
func (w *world) chance(name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}

// worker is one client with its own dice and at most one connection at a time.
type worker struct {
	*world
	name string
	r    *rand.Rand
	ctx  context.Context

	life *life
	link *link
	// quick says that the broker may close the connection at any time, as it does when it refuses records with acks=0.
	mayClose bool
}

// work runs a client until the workload is over.
func (w *world) work(name string, run func(k *worker)) {
	w.workers.Go(func() {
		k := w.newWorker(name, w.ctx)
		defer k.hangUp()
		run(k)
	})
}

func (w *world) newWorker(name string, ctx context.Context) *worker {
	return &worker{world: w, name: name, r: w.chance(name), ctx: ctx}
}

// running tells whether the worker goes on. It waits while the broker is down.
func (k *worker) running() bool {
	return k.ctx.Err() == nil && k.alive(k.ctx) != nil && k.ctx.Err() == nil
}

// pause waits for up to d.
func (k *worker) pause(d time.Duration) {
	t := time.NewTimer(time.Duration(k.r.Int64N(int64(d) + 1)))
	defer t.Stop()
	select {
	case <-t.C:
	case <-k.ctx.Done():
	}
}

// connected returns the worker's connection, a new one if needed; nil when there is no broker to be had now.
func (k *worker) connected() *link {
	if k.link != nil {
		k.link.mu.Lock()
		broken := k.link.broken
		k.link.mu.Unlock()
		if broken == nil {
			return k.link
		}
		k.link = nil
	}
	l := k.alive(k.ctx)
	if l == nil {
		return nil
	}
	conn, err := dialLink(l.addr)
	if err != nil {
		if !l.ending.Load() {
			k.fault("%s: connect: %v", k.name, err)
		}
		return nil
	}
	k.life, k.link = l, conn
	return conn
}

func (k *worker) hangUp() {
	if k.link != nil {
		k.link.close()
		k.link = nil
	}
}

// send sends a request without waiting; nil when there is no broker now.
func (k *worker) send(req kmsg.Request) *asked {
	if l := k.connected(); l != nil {
		return l.send(req)
	}
	return nil
}

// wait waits for an answer. false: it will not come, for a reason that is all right.
func (k *worker) wait(a *asked) (kmsg.Response, bool) {
	if a == nil {
		return nil, false
	}
	life := k.life
	resp, err := a.answer()
	if err == nil {
		return resp, true
	}
	k.hangUp()
	var wrong *wrongAnswer
	switch {
	case errors.As(err, &wrong):
		k.fault("%s: %v", k.name, err)
	case errors.Is(err, errUnanswered) || !life.ending.Load() && !k.mayClose:
		k.fault("%s: %s: %v", k.name, kmsg.Key(a.req.Key()).Name(), err)
	}
	return nil, false
}

// ask sends a request and waits for the answer.
func (k *worker) ask(req kmsg.Request) (kmsg.Response, bool) { return k.wait(k.send(req)) }

// options connect a client of franz-go to whatever broker lives now.
func (w *world) options(extra ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers("127.0.0.1:9"), // nobody: the dialer decides
		kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			l := w.alive(ctx)
			if l == nil {
				return nil, context.Cause(ctx)
			}
			var d net.Dialer
			return d.DialContext(ctx, network, l.addr)
		}),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	}, extra...)
}

// verifyContext is for what a worker still does when the workload is over.
func (k *worker) verifyContext() context.Context { return context.Background() }
