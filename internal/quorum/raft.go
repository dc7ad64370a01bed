package quorum

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// logView is the log as the member sees it. It is used with mu.
type logView struct {
	*commitlog.Log
	n *Node
}

// Snapshots returns the oldest and the newest one, without the one of the format command.
func (v logView) Snapshots() (oldest, newest kraft.SnapshotID, ok bool) {
	known := v.n.known
	if len(known) > 0 && known[0].End == 0 {
		known = known[1:]
	}
	if len(known) == 0 {
		return kraft.SnapshotID{}, kraft.SnapshotID{}, false
	}
	return known[0], known[len(known)-1], true
}

// nowMs is the member's clock: monotonic, unlike Options.Now.
func (n *Node) nowMs() int64 { return time.Since(n.began).Milliseconds() }

// wake has one more round run by whoever waits on the channel.
func (n *Node) wake(due chan struct{}) {
	select {
	case due <- struct{}{}:
	default:
	}
}

// stepLocked tells the member of an event and does what comes of it.
func (n *Node) stepLocked(event func(nowMs int64) kraft.Effects) {
	if n.failure != nil {
		return
	}
	n.doLocked(event(n.nowMs()))
	if n.member.Deadline() < n.armed {
		n.wake(n.wakeLoop)
	}
	if n.stranded != nil && n.member.Stranded() {
		closeOnce(n.stranded)
	}
	if n.handedOver != nil && n.member.Done() {
		closeOnce(n.handedOver)
	}
}

// closeOnce closes a channel that may be closed; whoever calls it owns the channel.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// doLocked does what the member wants, in the order in which it must be done. After a failure of the disk nothing leaves any more.
func (n *Node) doLocked(e kraft.Effects) {
	if e.Warn != "" {
		n.warnLocked(e.Warn)
	}
	if err := n.storeLocked(e); err != nil {
		_ = n.endLocked(err)
	}
	if n.failure != nil {
		return
	}
	// An append, a cut or a snapshot that was told of inside may have moved both further already.
	if e.Role != nil {
		n.turnLocked(n.member.Role())
	}
	if e.HighWatermark != nil {
		n.highWatermark = n.member.HighWatermark()
		n.log.NoteHighWatermark(n.highWatermark)
		n.announceLocked()
		if !n.active.Load() || n.unattended > n.taken.Offset() {
			n.wake(n.wakeApply)
		}
	}
	for _, a := range e.Answers {
		if asker, waits := n.answers[a.Ticket]; waits {
			delete(n.answers, a.Ticket)
			asker <- answer{a.Response, n.cuts}
		}
	}
	for _, m := range e.Send {
		n.sendLocked(m)
	}
}

// warnAgainMs is how long the same warning of the member is not repeated, whose cause may last.
const warnAgainMs = 60_000

func (n *Node) warnLocked(text string) {
	now := n.nowMs()
	if at, warned := n.warned[text]; warned && now < at+warnAgainMs {
		return
	}
	maps.DeleteFunc(n.warned, func(_ string, at int64) bool { return now >= at+warnAgainMs })
	n.warned[text] = now
	n.o.Log.Error(text)
}

// storeLocked does the part of the effects that concerns the disk.
func (n *Node) storeLocked(e kraft.Effects) error {
	if e.Persist != nil {
		if err := writeState(n.o.FS, n.folder, *e.Persist, n.member.Membership()); err != nil {
			return fmt.Errorf("write %s: %w", StateFile, err)
		}
	}
	if e.Truncate != nil {
		if err := n.truncateLocked(*e.Truncate); err != nil {
			return fmt.Errorf("truncate the metadata log to offset %d: %w", *e.Truncate, err)
		}
	}
	if e.Chunk != nil {
		n.chunkLocked(e.Chunk)
	}
	if len(e.Append) > 0 {
		if err := n.copyLocked(e.Append); err != nil {
			return err
		}
	}
	if len(e.Controls) > 0 {
		return n.appendControlsLocked(e.Controls)
	}
	return nil
}

func (n *Node) truncateLocked(to kafka.Offset) error {
	n.o.Log.Info("the metadata log is cut: the quorum's leader has other records", "end", n.log.EndOffset(), "to", to)
	n.cuts++
	if err := n.log.Truncate(to); err != nil {
		return err
	}
	n.told = n.log.FlushedOffset()
	n.doLocked(n.member.Truncated(n.nowMs()))
	n.noteMembershipLocked()
	return nil
}

// copyLocked appends what the leader has sent. A full disk refuses it: the member asks for it again.
func (n *Node) copyLocked(content []byte) error {
	var appended []kraft.Batch
	for len(content) > 0 {
		b, behind, err := record.Split(content)
		if err != nil {
			return fmt.Errorf("append to the metadata log: %w", err) // they were checked
		}
		content = behind
		parsed, err := parseBatch(b)
		if err != nil {
			return fmt.Errorf("append to the metadata log: %w", err)
		}
		if _, err := n.log.AppendAsFollower(b, n.o.Now()); err != nil {
			if errors.Is(err, commitlog.ErrDiskFailed) {
				return fmt.Errorf("append to the metadata log: %w", err)
			}
			n.o.Log.Error("what the quorum's leader has sent can't be appended to the metadata log", "error", err)
			break
		}
		appended = append(appended, parsed)
	}
	n.doLocked(n.member.Appended(n.nowMs(), appended...))
	n.noteMembershipLocked()
	n.wake(n.wakeLoop)
	return nil
}

// appendControlsLocked appends what the member says as the leader.
func (n *Node) appendControlsLocked(controls []kraft.Control) error {
	records := make([]control, len(controls))
	for i, c := range controls {
		records[i] = controlOf(c)
	}
	nowMs, epoch := n.o.Now().UnixMilli(), n.member.Role().Epoch
	batch := encodeControl(records, nowMs)
	appended, err := n.log.Append(batch, epoch, n.o.Now())
	switch {
	case errors.Is(err, commitlog.ErrDiskFailed):
		return fmt.Errorf("append to the metadata log: %w", err)
	case err != nil:
		n.o.Log.Error("the metadata log can't be appended to", "error", err)
		n.refused = err
		n.doLocked(n.member.Appended(n.nowMs()))
		return nil
	}
	if n.active.Load() && n.term == epoch {
		n.tip = n.tip.Update().Image(appended.Last, epoch, nowMs)
		n.pending = append(n.pending, pendingImage{n.tip, int64(len(batch))})
	}
	n.doLocked(n.member.Appended(n.nowMs(), kraft.Batch{Base: appended.Base, End: appended.Last + 1, Epoch: epoch, Controls: controls}))
	n.noteMembershipLocked()
	n.unattendedLocked()
	return nil
}

// controlledLocked names the active controller in an image that does not know it: snapshots don't say, and what follows them in the log may
// be of the same epoch.
func (n *Node) controlledLocked(im *meta.Image) *meta.Image {
	leader := n.role.Load().Leader
	if im.Controller() != kafka.NoNode || leader == kafka.NoNode {
		return im
	}
	u := im.Update()
	u.SetController(leader)
	return u.Image(im.Offset(), im.Epoch(), im.AppendMs())
}

func (n *Node) noteMembershipLocked() {
	m := n.member.Membership()
	n.membership.Store(&m)
}

// turnLocked takes over what the member is now.
func (n *Node) turnLocked(r kraft.Role) {
	if r.Kind != kraft.Leader || r.Epoch != n.term {
		n.deactivateLocked()
	}
	before := n.role.Swap(&r)
	if before.Kind != r.Kind || before.Epoch != r.Epoch || before.Leader != r.Leader {
		n.o.Log.Debug("metadata quorum", "role", r.Kind, "epoch", r.Epoch, "leader", r.Leader)
		n.broker.turn()
	}
	n.announceLocked()
	n.wake(n.wakeApply)
}

// chunkLocked writes a part of a snapshot from the leader. A snapshot that can't be kept is refused, and asked for again.
func (n *Node) chunkLocked(c *kraft.Chunk) {
	err := n.downloadLocked(c)
	if err == nil && !c.Last {
		return
	}
	if err == nil {
		err = n.restoreLocked(c.Snapshot)
	}
	if err != nil && n.failure == nil {
		n.o.Log.Error("a metadata snapshot of the quorum's leader can't be used", "end", c.Snapshot.End, "epoch", c.Snapshot.Epoch, "error", err)
		if n.download != nil {
			n.download.abandon(n.o.FS)
			n.download = nil
		}
		n.doLocked(n.member.SnapshotRefused(n.nowMs(), c.Snapshot))
	}
}

func (n *Node) downloadLocked(c *kraft.Chunk) (err error) {
	if c.Position == 0 {
		if n.download != nil {
			n.download.abandon(n.o.FS)
		}
		if n.download, err = newDownload(n.o.FS, n.folder, c.Snapshot); err != nil {
			return err
		}
	}
	if n.download == nil || n.download.at != c.Position {
		return fmt.Errorf("bytes from position %d on, which do not go on with what there is", c.Position)
	}
	return n.download.write(c.Bytes)
}

// restoreLocked puts a snapshot that was downloaded in place of the log. The snapshot gets its name first: a crash in between leaves both,
// and the next start ends it.
func (n *Node) restoreLocked(id kraft.SnapshotID) error {
	d := n.download
	n.download = nil
	p, image, headerMs, err := d.finish(n.o.FS, n.o.ClusterID)
	if err != nil {
		return err
	}
	n.cuts++
	if err := n.log.Reset(id.End); err != nil {
		return n.endLocked(fmt.Errorf("begin the metadata log behind a snapshot: %w", err))
	}
	n.known = append(n.known, id)
	n.told = n.log.FlushedOffset()
	n.restored, n.unsnapped, n.snapped = n.controlledLocked(image), 0, snapshotMark{id.End, headerMs}
	n.o.Log.Info("a metadata snapshot of the quorum's leader takes the log's place", "end", id.End, "epoch", id.Epoch)
	n.doLocked(n.member.Restored(n.nowMs(), id, p.membership))
	n.noteMembershipLocked()
	n.wake(n.wakeApply)
	return nil
}

// sendLocked asks another node, on a goroutine.
func (n *Node) sendLocked(m kraft.Message) {
	if n.closed {
		return
	}
	n.background.Go(func() {
		ctx, cancel := context.WithTimeout(n.life, time.Duration(n.o.RequestTimeoutMs)*time.Millisecond)
		defer cancel()
		if n.o.Transport == nil {
			n.answered(m, nil, errNoTransport)
			return
		}
		if remove, is := m.Request.(*kraft.RemoveVoterRequest); is && remove.Voter.ID == n.o.NodeID && !n.isProven() {
			n.answered(m, nil, errUnproven)
			return
		}
		response, err := n.o.Transport.Ask(ctx, m.To, m.Request)
		n.answered(m, response, err)
	})
}

// errNoTransport is what comes of a message of a node that is to be the whole quorum, as when it is asked to add a voter.
var errNoTransport = errors.New("this node reaches no other")

// errUnproven keeps a node from the place of a voter that may be another process of the same id.
var errUnproven = errors.New("this node's broker is not registered")

// isProven tells whether a voter of this node's id with another directory can be taken for its own former one, which is to be removed: no
// other process of that id lives, or its broker would not have been registered. Of a node that is a controller alone this is not known.
func (n *Node) isProven() bool {
	n.broker.mu.Lock()
	defer n.broker.mu.Unlock()
	return n.o.ControllerOnly || n.broker.registered
}

// answered tells the member what came of a message.
func (n *Node) answered(m kraft.Message, response kraft.Response, failed error) {
	if fetched, ok := response.(*kraft.FetchResponse); failed == nil && ok {
		failed = checkFetched(m.Request.(*kraft.FetchRequest), fetched)
		if failed != nil {
			n.o.Log.Error("the quorum's leader has sent records that can't be appended", "leader", m.To.ID, "error", failed)
		}
	}
	if fetched, ok := response.(*kraft.FetchResponse); failed == nil && ok && fetched.Error == kafka.InconsistentClusterId {
		n.broker.refusedBy(m.To)
	}
	n.mu.Lock()
	n.stepLocked(func(nowMs int64) kraft.Effects {
		switch {
		case failed == nil:
			return n.member.Answered(nowMs, m.ID, response)
		case isDead(failed):
			return n.member.Gone(nowMs, m.ID)
		}
		return n.member.Failed(nowMs, m.ID)
	})
	end := n.log.EndOffset()
	n.mu.Unlock()
	_ = n.flush(end) // the next fetch waits for it; after an error the loop tries again, or the node is at its end
}

// isDead tells whether a call failed because nobody serves at the address any more: it was refused, or reset and refused again.
func isDead(err error) bool {
	var dead interface{ Dead() bool }
	return errors.As(err, &dead) && dead.Dead()
}

// checkFetched checks batches before they are appended, and cuts off the last one where the leader has sent a part of it.
func checkFetched(req *kraft.FetchRequest, resp *kraft.FetchResponse) error {
	next, epoch := req.Offset, req.LastEpoch
	whole := 0
	for rest := resp.Records; len(rest) > 0; {
		b, behind, err := record.Split(rest)
		if errors.Is(err, record.ErrShort) {
			break
		}
		if err == nil {
			err = b.Check()
		}
		switch {
		case err != nil:
			return fmt.Errorf("batch at offset %d: %w", next, err)
		case b.BaseOffset() != next:
			return fmt.Errorf("a batch at offset %d where one at %d was to come", b.BaseOffset(), next)
		case b.LeaderEpoch() < epoch || b.LeaderEpoch() > resp.Current.Epoch:
			return fmt.Errorf("a batch of epoch %d at offset %d, behind one of epoch %d, from the leader of epoch %d", b.LeaderEpoch(), next, epoch, resp.Current.Epoch)
		}
		next, epoch = b.NextOffset(), b.LeaderEpoch()
		whole += len(b)
		rest = behind
	}
	if whole == 0 && len(resp.Records) > 0 {
		return fmt.Errorf("a part of a batch at offset %d, and nothing before it", next)
	}
	resp.Records = resp.Records[:whole]
	return nil
}

// answer is a response of the member, and how often the log had been cut then.
type answer struct {
	kraft.Response
	cuts int
}

// errNotRunning is what is answered before Start.
var errNotRunning = errors.New("this node's replica of the metadata log is not started yet")

// Handle answers a request of the quorum. It returns when the member has the answer, which for a fetch may take as long as that wants to
// wait. An error means that there is none: ctx has ended, or the node.
func (n *Node) Handle(ctx context.Context, req kraft.Request) (kraft.Response, error) {
	waits := make(chan answer, 1)
	ticket, err := n.ask(req, waits)
	if err != nil {
		return nil, err
	}
	select {
	case a := <-waits:
		return n.complete(req, a)
	default:
	}
	select {
	case a := <-waits:
		return n.complete(req, a)
	case <-ctx.Done():
		err = ctx.Err()
	case <-n.quit:
		err = errClosed
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.answers, ticket)
	return nil, err
}

func (n *Node) ask(req kraft.Request, waits chan<- answer) (kraft.Ticket, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.failure != nil:
		return 0, n.failure
	case !n.running:
		return 0, errNotRunning
	}
	n.tickets++
	ticket := n.tickets
	n.answers[ticket] = waits
	n.stepLocked(func(nowMs int64) kraft.Effects { return n.member.Handle(nowMs, ticket, req) })
	return ticket, n.failure
}

// complete fills in what the member leaves to be read from the disk.
func (n *Node) complete(req kraft.Request, a answer) (kraft.Response, error) {
	switch resp := a.Response.(type) {
	case *kraft.FetchResponse:
		req := req.(*kraft.FetchRequest)
		if resp.Error != kafka.None || resp.Diverging != nil || resp.Snapshot != nil || resp.End <= req.Offset {
			return resp, nil
		}
		content, err := n.readRange(req.Offset, resp.End, int(req.MaxBytes))
		if err != nil && !errors.Is(err, kafka.OffsetOutOfRange) {
			n.o.Log.Warn("a fetch of the metadata log", "replica", req.Replica.ID, "offset", req.Offset, "error", err)
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if err == nil && n.cuts == a.cuts { // else it asks again
			resp.Records = content
		}
	case *kraft.FetchSnapshotResponse:
		req := req.(*kraft.FetchSnapshotRequest)
		if resp.Error != kafka.None {
			return resp, nil
		}
		content, size, err := readSnapshotRange(n.o.FS, n.folder, req.Snapshot, req.Position, int(req.MaxBytes))
		if code := kafka.Error(0); errors.As(err, &code) {
			resp.Error = code
			return resp, nil
		}
		if err != nil {
			n.o.Log.Warn("a fetch of a metadata snapshot", "replica", req.Replica.ID, "snapshot", snapshotName(req.Snapshot), "error", err)
			resp.Error = kafka.SnapshotNotFound
			return resp, nil
		}
		resp.Bytes, resp.Size = content, size
	}
	return a.Response, nil
}

// flushAgainAfter is how long the loop waits with a flush that could not be tried.
const flushAgainAfter = 100 * time.Millisecond

// loop lets the member see that time passes, and flushes what nobody waits for.
func (n *Node) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if end := n.log.EndOffset(); n.log.FlushedOffset() < end {
			if err := n.flush(end); vfs.IsOutOfFiles(err) {
				time.AfterFunc(flushAgainAfter, func() { n.wake(n.wakeLoop) })
			}
		}
		if wait := n.tick(); wait < 0 {
			timer.Stop()
		} else {
			timer.Reset(wait)
		}
		select {
		case <-n.quit:
			return
		case <-timer.C:
		case <-n.wakeLoop:
		}
	}
}

// tick returns how long until the next one, below 0 for never.
func (n *Node) tick() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failure != nil {
		return -1
	}
	n.armed = math.MinInt64 // the deadline is looked at below, whatever it is
	if n.member.Deadline() <= n.nowMs() {
		n.stepLocked(n.member.Tick)
	}
	n.armed = n.member.Deadline()
	if n.failure != nil || n.armed == math.MaxInt64 {
		return -1
	}
	return time.Duration(max(n.armed-n.nowMs(), 0)) * time.Millisecond
}

// applyLoop applies and publishes what is committed where no command does, and begins the work of the active controller.
func (n *Node) applyLoop() {
	for {
		select {
		case <-n.quit:
			return
		case <-n.wakeApply:
		}
		if err := n.publish(); err == nil {
			_ = n.activate() // after an error another one leads, or the node is at its end
		}
	}
}
