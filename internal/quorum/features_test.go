package quorum

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// TestKRaftVersionIsRaised: of a quorum whose one voter stands in the configuration, the log names it from then on.
func TestKRaftVersionIsRaised(t *testing.T) {
	h := newHost(t, vfs.NewMemory(), 1)
	h.must(h.fs.MkdirAll(hostDir))
	// As Kafka formats a directory with controller.quorum.voters.
	h.must(commitlog.FormatDir(h.fs, hostDir, commitlog.MetaProperties{ClusterID: "c1uster", NodeID: 1, ID: kafka.NewUUID(h.fill)}))
	h.must(h.open())
	update := func(try bool, updates ...meta.FeatureUpdate) error {
		return h.node.UpdateFeatures(t.Context(), meta.UpdateFeatures{Updates: updates, ValidateOnly: try})
	}
	raise := meta.FeatureUpdate{Name: meta.KRaftVersion, Level: 1, Type: meta.UpgradeOnly}
	h.must(update(true, raise))
	if err := update(false, raise, meta.FeatureUpdate{Name: "nope", Level: 1, Type: meta.UpgradeOnly}); !errors.Is(err, kafka.InvalidUpdateVersion) {
		t.Errorf("beside a feature that there is not: %v", err)
	}
	if m := h.node.Membership(); m.Version != 0 || len(m.Voters) != 1 {
		t.Fatalf("before the change: %+v", m)
	}
	h.must(update(false, raise, meta.FeatureUpdate{Name: meta.GroupVersion, Level: 0, Type: meta.SafeDowngrade}))
	for _, when := range []string{"changed", "opened again", "opened again from a snapshot"} {
		m := h.node.Membership()
		if m.Version != 1 || len(m.Voters) != 1 || m.Voters[0].Directory != h.dir.ID() || len(m.Voters[0].Endpoints) != 1 {
			t.Errorf("%s: %+v, want version 1 and this node's directory and address", when, m)
		}
		if level := h.node.Image().Features()[meta.GroupVersion]; level != 0 {
			t.Errorf("%s: group.version %d, want 0", when, level)
		}
		d, err := h.node.Describe()
		if err != nil || d.Leader != 1 || len(d.Voters) != 1 || d.HighWatermark != d.Voters[0].End || d.HighWatermark == 0 {
			t.Errorf("%s: %+v, %v; want all to be committed", when, d, err)
		}
		if when == "opened again" {
			h.must(h.node.Snapshot())
		}
		h.must(h.close())
		h.must(h.open())
	}
	if err := update(false, meta.FeatureUpdate{Name: meta.KRaftVersion, Level: 0, Type: meta.UnsafeDowngrade}); !errors.Is(err, kafka.InvalidUpdateVersion) {
		t.Errorf("a downgrade: %v", err)
	}
}

// Clients that connect are told of it: an append that is stuck in the disk, with the lock held, must not keep them out.
func TestMembershipWaitsForNobody(t *testing.T) {
	h := newHost(t, vfs.NewMemory(), 1)
	h.must(h.format())
	h.must(h.open())
	h.node.mu.Lock()
	defer h.node.mu.Unlock()
	told := make(chan int, 1)
	go func() { told <- len(h.node.Membership().Voters) }()
	select {
	case voters := <-told:
		if voters != 1 {
			t.Errorf("%d voters, want 1", voters)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for the lock")
	}
}

// TestKRaftVersionIsNotRaisedOnAFullDisk: the command fails as a whole, and can be repeated when there is room.
func TestKRaftVersionIsNotRaisedOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.Inject(vfs.NewMemory())
		h := newHost(t, disk, 1)
		h.must(h.fs.MkdirAll(hostDir))
		h.must(commitlog.FormatDir(h.fs, hostDir, commitlog.MetaProperties{ClusterID: "c1uster", NodeID: 1, ID: kafka.NewUUID(h.fill)}))
		h.must(h.open())
		defer func() { h.must(h.close()) }()
		update := func() error {
			return h.node.UpdateFeatures(t.Context(), meta.UpdateFeatures{Updates: []meta.FeatureUpdate{
				{Name: meta.KRaftVersion, Level: 1, Type: meta.UpgradeOnly}, {Name: meta.GroupVersion, Level: 0, Type: meta.SafeDowngrade},
			}})
		}
		disk.Add(faultfs.Rule{Op: faultfs.OpWrite, Name: ".log", Times: 2, Err: syscall.ENOSPC})
		if err := update(); !errors.Is(err, kafka.NotController) {
			t.Errorf("on a full disk: %v, want %v", err, kafka.NotController)
		}
		began := time.Now()
		err := update()
		for ; errors.Is(err, kafka.NotController) && time.Since(began) < time.Minute; err = update() {
			time.Sleep(10 * time.Millisecond)
		}
		if level := h.node.Image().Features()[meta.GroupVersion]; err != nil || h.node.Membership().Version != 1 || level != 0 {
			t.Errorf("with room again: %v, kraft.version %d, group.version %d; want 1 and 0", err, h.node.Membership().Version, level)
		}
	})
}
