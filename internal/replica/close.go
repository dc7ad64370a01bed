package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
)

// Stop refuses everything from now on and answers parked fetches at once, with NOT_LEADER_OR_FOLLOWER, so that clients look
// for another broker. Produces that were appended are still answered when they are durable.
func (m *Manager) Stop() {
	m.moves.paused.Store(true)
	m.fetchers.close()
	m.alterer.close()
	m.recovery.stop() // before partitions are shut that it has not opened
	m.applyMu.Lock()
	m.closed = true
	m.applyMu.Unlock()
	for s := range m.slots() {
		s.shut(kafka.NotLeaderOrFollower).stopServing(kafka.NotLeaderOrFollower)
	}
}

// Close stops, makes everything durable, writes the producer snapshots and checkpoints, and marks each log directory as cleanly
// closed; the metadata log that lies in one of them must be closed before. When ctx ends first, the rest is left to the next
// start, which recovers. Close is called once.
func (m *Manager) Close(ctx context.Context) error {
	m.Stop()
	m.recovery.close(ctx)
	m.moves.close()
	m.scrubber.close()
	m.background.close()
	m.applyMu.Lock()
	m.cleaner.close()
	m.applyMu.Unlock()
	all := slices.Collect(m.replicas())
	for _, p := range all {
		if p.log != nil && p.log.FlushedOffset() < p.log.EndOffset() {
			p.dir.flusher.add(p)
		}
	}
	var failed []error
	for _, d := range m.allDirs {
		d.flusher.close()
	}
	for _, p := range all {
		p.resign(kafka.NotLeaderOrFollower)
	}
	for _, d := range m.allDirs {
		if err := d.close(ctx, all); err != nil {
			failed = append(failed, fmt.Errorf("close log directory %s: %w", d.disk.Path(), err))
		}
	}
	return errors.Join(failed...)
}

// finishMax is how many logs get all their files in a stop, which has a few seconds. More of them do without what the next start makes anew.
const finishMax = 2_000

// close closes the logs of the directory, several at a time, and the directory itself: in order, if all of it is recovered.
func (d *logDir) close(ctx context.Context, all []*replica) error {
	if !d.failed() {
		_ = d.disk.SettleJournal() // all at once what each log would flush alone; what goes wrong is told by them
	}
	unfinished := 0
	for _, p := range all {
		if p.dir == d && p.log != nil && !p.log.Finished() {
			unfinished++
		}
	}
	finish := (*commitlog.Log).Close
	if unfinished > finishMax {
		finish = (*commitlog.Log).CloseBriefly
	}
	var mu sync.Mutex // guards failed
	var failed error
	several(len(all), func(i int) {
		if all[i].dir != d || all[i].log == nil {
			return
		}
		err := ctx.Err()
		if err == nil {
			err = finish(all[i].log)
		}
		if err != nil && !errors.Is(err, commitlog.ErrClosed) {
			mu.Lock()
			failed = err
			mu.Unlock()
		}
	})
	recovered := d.recovered.Load()
	if !recovered && failed == nil && !d.failed() {
		failed = d.save() // or the next start would recover again what is recovered
	}
	clean := recovered && failed == nil && !d.failed()
	return errors.Join(failed, d.disk.Close(clean, kafka.BrokerEpoch(d.m.brokerEpoch.Load())))
}
