package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

func oneTopic(name string) meta.CreateTopics {
	return meta.CreateTopics{Topics: []meta.NewTopic{{Name: name, Partitions: 1, ReplicationFactor: 1}}}
}

func TestCommandsFromManySidesAreOneHistory(t *testing.T) {
	h := newHost(t, vfs.NewMemory(), 1)
	var fill sync.Mutex
	h.options = func(o *Options) {
		random := o.Random
		o.Random = func(b []byte) {
			fill.Lock()
			defer fill.Unlock()
			random(b)
		}
	}
	h.must(h.format())
	var last *meta.Image
	h.must(h.open(func(old, now *meta.Image) {
		if last != nil && old != last || now.Offset() <= old.Offset() {
			t.Errorf("watched %d to %d", old.Offset(), now.Offset())
		}
		last = now
	}))
	var ids sync.Map
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 50 {
				name := fmt.Sprintf("topic-%d-%d", worker, i)
				results, err := h.node.CreateTopics(t.Context(), oneTopic(name))
				if err != nil || results[0].Err != nil {
					t.Errorf("create %s: %v %v", name, err, results)
				}
				if _, ok := h.node.Image().Topic(name); !ok {
					t.Errorf("topic %s was answered and is not published", name)
				}
				for range 50 {
					id, err := h.node.NextProducerID(t.Context())
					if _, twice := ids.LoadOrStore(id, true); twice || err != nil {
						t.Errorf("producer id %d: twice %v, %v", id, twice, err)
					}
				}
			}
		})
	}
	all.Wait()
	if n := h.node.Image().TopicCount(); n != 400 {
		t.Errorf("got %d topics, want 400", n)
	}
}

func TestAFailedFlushEndsTheNode(t *testing.T) {
	disk := faultfs.Inject(vfs.NewMemory())
	h := newHost(t, disk, 1)
	var failed error
	h.options = func(o *Options) { o.OnFailure = func(err error) { failed = errors.Join(failed, err) } }
	h.must(h.format())
	h.must(h.open())
	h.create("before")
	broken := errors.New("the disk is broken")
	disk.Add(faultfs.Rule{Op: faultfs.OpSync, Name: ".log", Err: broken})
	for range 2 { // the second one must not flush again and believe it
		if _, err := h.node.CreateTopics(t.Context(), oneTopic("lost")); !errors.Is(err, broken) {
			t.Errorf("got %v, want %v", err, broken)
		}
	}
	if _, err := h.node.NextProducerID(t.Context()); err == nil {
		t.Error("a producer id was handed out after the disk failed")
	}
	if _, published := h.node.Image().Topic("lost"); published {
		t.Error("what was not flushed is published")
	}
	if !errors.Is(failed, broken) || !errors.Is(failed, commitlog.ErrDiskFailed) {
		t.Errorf("OnFailure was told %v", failed)
	}
}

// TestAFullDiskRefusesTheStart once, and not each epoch that it would begin next.
func TestAFullDiskRefusesTheStart(t *testing.T) {
	disk := faultfs.Inject(vfs.NewMemory())
	h := newHost(t, disk, 1)
	h.must(h.format())
	h.must(h.open())
	h.create("before")
	h.must(h.close())
	disk.Add(faultfs.Rule{Op: faultfs.OpWrite, Name: ".log", Times: -1, Err: syscall.ENOSPC})
	if err := h.open(); !errors.Is(err, kafka.KafkaStorageError) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want %v", err, kafka.KafkaStorageError)
	}
	if epoch := h.node.member.State().Epoch; epoch != 2 {
		t.Errorf("it has come to epoch %d, want 2", epoch)
	}
	disk.Reset()
	h.must(h.close())
	h.must(h.open())
	if _, there := h.node.Image().Topic("before"); !there {
		t.Error("with room again the topic is gone")
	}
}

func TestACanceledCommandDoesNothing(t *testing.T) {
	h := newHost(t, vfs.NewMemory(), 1)
	h.must(h.format())
	h.must(h.open())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.node.CreateTopics(ctx, oneTopic("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if h.node.Image().TopicCount() != 0 {
		t.Error("a canceled command made a topic")
	}
}

func TestAClosedNodeRefusesCommands(t *testing.T) {
	h := newHost(t, vfs.NewMemory(), 1)
	h.must(h.format())
	h.must(h.open())
	h.must(h.close())
	if _, err := h.node.CreateTopics(t.Context(), oneTopic("a")); !errors.Is(err, errClosed) {
		t.Errorf("got %v, want %v", err, errClosed)
	}
	if err := h.node.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

func TestALogOfAnotherQuorumIsRefused(t *testing.T) {
	h := newHost(t, vfs.NewMemory(), 1)
	h.must(h.format())
	// The directory is another disk than the one that was formatted: the voter is lost.
	h.must(commitlog.FormatDir(h.fs, hostDir, commitlog.MetaProperties{ClusterID: "c1uster", NodeID: 1, ID: kafka.UUID{9}}))
	var alone *NotAloneError
	if err := h.open(); !errors.As(err, &alone) || !strings.Contains(err.Error(), "directory.id") {
		t.Errorf("started as a voter that it is not: %v", err)
	}
}

// TestALargerQuorumIsRefused by a node that reaches no other.
func TestALargerQuorumIsRefused(t *testing.T) {
	h := newHost(t, vfs.NewMemory(), 1)
	p := commitlog.MetaProperties{ClusterID: "c1uster", NodeID: 1, ID: kafka.NewUUID(h.fill)}
	h.must(h.fs.MkdirAll(hostDir))
	h.must(FormatVoters(h.fs, hostDir, p, []kraft.Voter{{ID: 1, Directory: p.ID}, {ID: 2, Directory: kafka.UUID{2}}}, h.now))
	var alone *NotAloneError
	if err := h.open(); !errors.As(err, &alone) || len(alone.Voters) != 2 || !strings.Contains(err.Error(), "not this node alone") {
		t.Errorf("got %v, want a NotAloneError", err)
	}
}

// TestBrokersOfAFormerClusterAreFenced: the log of a node that is alone now may say that others live and lead.
func TestBrokersOfAFormerClusterAreFenced(t *testing.T) {
	h := newHost(t, vfs.NewMemory(), 1)
	h.must(h.format())
	h.must(h.open())
	other := meta.Registration{ID: 2, Incarnation: kafka.UUID{2}, LogDirs: []kafka.UUID{{2}}}
	h.must(h.node.propose(t.Context(), func(im *meta.Image) ([]meta.Entry, error) {
		return meta.DecideStart(im, other, im.Offset()+1, meta.Env{}), nil
	}))
	topic := func(name string, replicas ...kafka.NodeID) meta.NewTopic {
		return meta.NewTopic{Name: name, Partitions: -1, ReplicationFactor: -1, Assignments: map[int32][]kafka.NodeID{0: replicas}}
	}
	results, err := h.node.CreateTopics(t.Context(), meta.CreateTopics{Topics: []meta.NewTopic{topic("both", 2, 1), topic("its", 2), topic("ours", 1)}})
	if err := errors.Join(err, results[0].Err, results[1].Err, results[2].Err); err != nil {
		t.Fatal(err)
	}
	h.must(h.close())
	h.must(h.open())
	im := h.node.Image()
	if !im.Alive(1) || im.Alive(2) || len(im.Brokers()) != 2 {
		t.Errorf("broker 1 alive: %v, broker 2 alive: %v, of %d; want the first alone, of 2", im.Alive(1), im.Alive(2), len(im.Brokers()))
	}
	for name, want := range map[string]string{"both": "leader 1 isr [1] elr []", "its": "leader -1 isr [] elr [2]", "ours": "leader 1 isr [1] elr []"} {
		p, _ := im.Partition(kafka.TopicPartition{Topic: name})
		if got := fmt.Sprintf("leader %d isr %v elr %v", p.Leader, p.ISR, p.ELR); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	end := im.Offset()
	h.must(h.close())
	h.must(h.open())
	if got := h.node.Image(); got.Alive(2) || got.Offset() > end+10 {
		t.Errorf("started again: broker 2 alive: %v, %d records more", got.Alive(2), got.Offset()-end)
	}
}

func TestUnregisteredBrokersAreGone(t *testing.T) {
	h := newHost(t, vfs.NewMemory(), 1)
	h.must(h.format())
	h.must(h.open())
	if err := h.node.UnregisterBroker(t.Context(), 7); !errors.Is(err, kafka.BrokerIdNotRegistered) {
		t.Errorf("got %v, want %v", err, kafka.BrokerIdNotRegistered)
	}
	h.create("a")
	h.must(h.node.UnregisterBroker(t.Context(), 1))
	p, _ := h.node.Image().Partition(kafka.TopicPartition{Topic: "a"})
	if len(h.node.Image().Brokers()) != 0 || p.Leader != kafka.NoNode || len(p.ELR) != 1 {
		t.Errorf("got brokers %v, partition %+v", h.node.Image().Brokers(), p)
	}
	h.must(h.close())
	h.must(h.open())
	if p, _ := h.node.Image().Partition(kafka.TopicPartition{Topic: "a"}); p.Leader != 1 || p.LeaderEpoch != 2 {
		t.Errorf("registered again it has %+v, want leader 1 in epoch 2", p)
	}
}

// TestPanicOfOneDecisionIsNotTheEndOfTheOthers: nothing was changed by it, and nothing stays locked.
func TestPanicOfOneDecisionIsNotTheEndOfTheOthers(t *testing.T) {
	h := newHost(t, vfs.NewMemory(), 1)
	h.must(h.format())
	h.must(h.open())
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = h.node.propose(t.Context(), func(*meta.Image) ([]meta.Entry, error) { panic("out of luck") })
	}()
	if results, err := h.node.CreateTopics(t.Context(), oneTopic("t")); err != nil || results[0].Err != nil {
		t.Errorf("create: %v %v", err, results)
	}
	h.must(h.close())
}
