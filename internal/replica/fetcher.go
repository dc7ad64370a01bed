package replica

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/partition"
	"github.com/raftsman/raftsman/internal/peer"
)

// fetcher follows all the partitions of one line that one broker leads, with one fetch at a time in one fetch session.
//
// A partition is asked for from its flushed end on, so it sits out while what came for it is on its way to the disk. If the answer was
// large there is more: the others are fetched meanwhile. If not, the next fetch would wait at the leader, and what was flushed could not be told:
// so it is sent when the flush is over.
type fetcher struct {
	fs   *fetchers
	m    *Manager
	node kafka.NodeID
	line int

	mu       sync.Mutex // guards all to the next blank line; taken after that of fetchers, and with no other held
	parts    map[partKey]*followed
	news     []*followed        // of which what is asked for may have changed
	forgets  []partKey          // those that were removed and are in the session
	awaiting int                // flushes
	waits    context.CancelFunc // gives up the fetch that may wait at the leader; nil if there is none
	waitsFor time.Time          // since when
	poked    bool               // waits was called, or is to be

	wake chan struct{} // holds one token while there is something new
	done chan struct{}

	// Of the goroutine alone.
	session  fetchSession
	asks     []*followed // what the next request names
	delayed  []*followed
	bulk     bool // the last answer was large
	failures int  // of the connection, one after the other
	silent   bool // that it fails was said
}

// followed is one partition that is fetched.
type followed struct {
	fetcher *fetcher
	slot    *slot
	key     partKey

	queued   bool // in news; guarded by the fetcher's mu, as the next one
	awaiting bool // a flush
	removed  atomic.Bool

	// Of the fetcher's goroutine alone.
	asked     peer.FetchPartition // in the session, or in the next request
	inSession bool
	inAsks    bool  // it is to be in the next request
	listed    bool  // in the fetcher's asks
	dueMs     int64 // it is in delayed until then; 0: it is not
}

// interruptEvery is how soon one after the other fetches that wait at a leader are given up for partitions that are new: each costs a connection.
const interruptEvery = 50 * time.Millisecond

func newFetcher(fs *fetchers, key fetcherKey) *fetcher {
	return &fetcher{
		fs: fs, m: fs.m, node: key.node, line: key.line, parts: map[partKey]*followed{},
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

func (f *fetcher) add(x *followed) {
	f.mu.Lock()
	f.parts[x.key] = x
	f.queue(x)
	f.interrupt()
	f.mu.Unlock()
}

func (f *fetcher) remove(x *followed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x.removed.Store(true)
	if f.parts[x.key] == x {
		delete(f.parts, x.key)
	}
	f.settled(x)
	f.forgets = append(f.forgets, x.key)
	f.wakeUp()
}

// changed has it looked anew what is asked for of a partition: it was flushed, or has failed, or the metadata says something else.
func (f *fetcher) changed(x *followed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settled(x)
	f.queue(x)
	f.interrupt()
}

// note has the next fetch ask anew for a partition, and does not give up one that waits.
func (f *fetcher) note(x *followed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue(x)
}

// queue needs mu.
func (f *fetcher) queue(x *followed) {
	if !x.queued && !x.removed.Load() {
		x.queued = true
		f.news = append(f.news, x)
	}
	f.wakeUp()
}

// settled needs mu.
func (f *fetcher) settled(x *followed) {
	if x.awaiting {
		x.awaiting = false
		f.awaiting--
	}
}

func (f *fetcher) wakeUp() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// interrupt gives up a fetch that waits at the leader: what is new would have to wait as long. The caller holds mu.
func (f *fetcher) interrupt() {
	if f.waits == nil || f.poked {
		return
	}
	f.poked = true
	waits := f.waits
	if since := time.Since(f.waitsFor); since < interruptEvery {
		time.AfterFunc(interruptEvery-since, waits)
		return
	}
	waits()
}

func (f *fetcher) run() {
	defer close(f.done)
	for f.fs.ctx.Err() == nil {
		f.absorb()
		f.mu.Lock()
		awaiting := f.awaiting
		f.mu.Unlock()
		if awaiting > 0 && !f.bulk {
			f.rest(0)
			continue
		}
		if len(f.asks) == 0 && f.session.len() == 0 {
			f.failures, f.bulk = 0, false
			f.rest(0)
			continue
		}
		if wait := f.fetch(awaiting > 0); wait > 0 {
			f.rest(wait)
		}
	}
}

// rest waits until something is new, or for what is delayed; for the connection to be tried again if atLeast is not 0.
func (f *fetcher) rest(atLeast time.Duration) {
	var due <-chan time.Time
	wait := atLeast
	if wait == 0 {
		if first := f.firstDelayed(); first > 0 {
			wait = time.Duration(max(first-f.m.upMs(f.m.now()), 1)) * time.Millisecond
		}
	}
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	wake := f.wake
	if atLeast > 0 {
		wake = nil
	}
	select {
	case <-wake:
	case <-due:
	case <-f.fs.ctx.Done():
	}
}

func (f *fetcher) firstDelayed() (dueMs int64) {
	for _, x := range f.delayed {
		if dueMs == 0 || x.dueMs < dueMs {
			dueMs = x.dueMs
		}
	}
	return dueMs
}

// absorb looks at what is new and finds out what is to be asked for.
func (f *fetcher) absorb() {
	nowMs := f.m.upMs(f.m.now())
	f.mu.Lock()
	news, forgets := f.news, f.forgets
	f.news, f.forgets = nil, nil
	for _, x := range news {
		x.queued = false
	}
	f.mu.Unlock()
	for _, key := range forgets {
		f.session.forget(key)
	}
	delayed := f.delayed
	f.delayed = nil
	for _, x := range delayed {
		if x.dueMs > nowMs && !x.removed.Load() {
			f.delayed = append(f.delayed, x)
			continue
		}
		x.dueMs = 0
		news = append(news, x)
	}
	asleep := slices.DeleteFunc(slices.Clone(news), func(x *followed) bool { return x.slot.awakened() != nil })
	several(len(asleep), func(i int) { _, _ = asleep[i].slot.replica() })
	for _, x := range news {
		f.look(x, nowMs)
	}
	f.asks = slices.DeleteFunc(f.asks, func(x *followed) bool {
		x.listed = x.inAsks && !x.removed.Load()
		return !x.listed
	})
}

// look finds out what is asked for of one partition.
func (f *fetcher) look(x *followed, nowMs int64) {
	if x.removed.Load() {
		return
	}
	var ask peer.FetchPartition
	ready, dueMs := false, nowMs+f.fs.settings.backoffMaxMs
	if p, err := x.slot.replica(); err == nil { // else the system has run out of something
		p.followed.Store(x)
		ask, ready, dueMs = p.nextFetch(nowMs)
	}
	if !ready {
		f.session.forget(x.key)
		x.inAsks = false
		if dueMs > 0 {
			if x.dueMs == 0 {
				f.delayed = append(f.delayed, x)
			}
			x.dueMs = dueMs
		}
		return
	}
	if x.inSession && x.asked == ask {
		return
	}
	x.asked = ask
	if !x.inAsks {
		x.inAsks = true
		if !x.listed {
			x.listed = true
			f.asks = append(f.asks, x)
		}
	}
}

// request makes the next request. While others are flushed it does not wait at the leader.
func (f *fetcher) request(flushing bool) *peer.FetchRequest {
	s := &f.fs.settings
	req := &peer.FetchRequest{
		Replica: f.m.node, BrokerEpoch: kafka.BrokerEpoch(f.m.brokerEpoch.Load()), MaxWaitMs: s.waitMaxMs, MinBytes: s.bytesMin, MaxBytes: s.bytesMax,
	}
	if first := f.firstDelayed(); first > 0 {
		req.MaxWaitMs = int32(min(int64(req.MaxWaitMs), max(first-f.m.upMs(f.m.now()), 1)))
	}
	if flushing {
		req.MaxWaitMs = 0
	}
	f.session.request(f.asks, req)
	for _, x := range f.asks {
		x.inAsks, x.listed = false, false
	}
	clear(f.asks)
	f.asks = f.asks[:0]
	return req
}

// fetch sends one request and takes the answer in. It returns how long to wait after an error.
func (f *fetcher) fetch(flushing bool) (wait time.Duration) {
	req := f.request(flushing)
	ctx, cancel := context.WithCancel(f.fs.ctx)
	defer cancel()
	f.mu.Lock()
	if len(f.news) > 0 || len(f.forgets) > 0 {
		req.MaxWaitMs = 0 // they came meanwhile
	}
	f.poked = false
	if req.MaxWaitMs > 0 {
		f.waits, f.waitsFor = cancel, time.Now()
	}
	f.mu.Unlock()
	resp, err := f.fs.peers.Fetch(ctx, f.node, f.line, req)
	f.mu.Lock()
	f.waits = nil
	interrupted := f.poked
	f.mu.Unlock()
	if err != nil {
		f.session.restart()
		f.askAnew()
		if interrupted && ctx.Err() != nil {
			return 0
		}
		return f.failed(err)
	}
	defer resp.Release()
	if resp.Error != kafka.None {
		f.session.lost(resp.Error)
		f.askAnew()
		if isSessionError(resp.Error) {
			return 0
		}
		return f.failed(resp.Error)
	}
	goesOn := f.session.answered(resp.SessionID)
	f.failures, f.silent = 0, false
	f.takeIn(resp)
	if !goesOn {
		f.askAnew()
	}
	return 0
}

func isSessionError(code kafka.Error) bool {
	switch code {
	case kafka.FetchSessionIdNotFound, kafka.InvalidFetchSessionEpoch, kafka.FetchSessionTopicIdError:
		return true
	}
	return false
}

// failed notes that the leader's broker does not answer, and how long to wait before it is asked again.
func (f *fetcher) failed(why error) time.Duration {
	if f.fs.ctx.Err() != nil {
		return 0
	}
	f.bulk = false
	wait := partition.Backoff(f.failures, f.fs.settings.backoffMaxMs)
	f.failures++
	if !f.silent && f.failures > 7 { // for more than a second: an election takes less
		f.silent = true
		f.m.log.Warn("a broker that leads partitions does not answer: they are fetched as soon as it does, or another one leads",
			"broker", int32(f.node), "error", why)
	}
	return time.Duration(max(wait, 1)) * time.Millisecond
}

// askAnew names everything in the next request, as the session has ended.
func (f *fetcher) askAnew() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.parts {
		x.inSession = false
		if !x.queued {
			x.queued = true
			f.news = append(f.news, x)
		}
	}
}

// takeIn does what the answers ask for. What was appended is flushed in one round.
func (f *fetcher) takeIn(resp *peer.FetchResponse) {
	now := f.m.now()
	bytes := 0
	var ask []*followed
	f.m.hold()
	for i := range resp.Partitions {
		row := &resp.Partitions[i]
		f.mu.Lock()
		x := f.parts[partKey{row.TopicID, row.Index}]
		if x != nil && len(row.Records) > 0 && !x.awaiting { // before it can end
			x.awaiting = true
			f.awaiting++
		}
		f.mu.Unlock()
		if x == nil {
			continue
		}
		bytes += len(row.Records)
		p, err := x.slot.replica()
		if err != nil {
			f.changed(x)
			continue
		}
		t := p.takeIn(&x.asked, row, now)
		switch {
		case t.ask:
			ask = append(ask, x)
		case t.appended && t.err == nil && !f.m.osDurability:
			f.session.forget(x.key) // until it is flushed
		case t.changed || len(row.Records) > 0:
			f.changed(x)
		}
	}
	f.m.release()
	f.bulk = bytes >= int(f.fs.settings.bytesMax)/2
	for _, x := range ask {
		f.askForEnds(x)
	}
}

// askForEnds asks the leader where its log begins and ends, which does not hold what was asked for.
func (f *fetcher) askForEnds(x *followed) {
	p, err := x.slot.replica()
	if err == nil {
		ctx, cancel := context.WithTimeout(f.fs.ctx, alterWithin)
		defer cancel()
		var start, end kafka.Offset
		epoch := x.asked.CurrentLeaderEpoch
		end, err = f.fs.peers.ListOffset(ctx, f.node, p.tp, epoch, Latest)
		if err == nil {
			start, err = f.fs.peers.ListOffset(ctx, f.node, p.tp, epoch, Earliest)
		}
		if err == nil {
			p.rangeIs(epoch, start, end, f.m.now())
		} else {
			p.rangeUnknown(f.m.now())
		}
	}
	f.changed(x)
}
