package api_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/raw"
)

// sharer is a franz-go client that consumes topic t in group g, and says what it owns.
type sharer struct {
	cl    *kgo.Client
	mu    sync.Mutex // guards owned
	owned map[int32]bool
}

func newSharer(t *testing.T, address string, options ...kgo.Opt) *sharer {
	t.Helper()
	s := &sharer{owned: map[int32]bool{}}
	change := func(owns bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, p := range topics["t"] {
				if delete(s.owned, p); owns {
					s.owned[p] = true
				}
			}
		}
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(address), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.HeartbeatInterval(100 * time.Millisecond),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	s.cl = cl
	t.Cleanup(cl.Close)
	return s
}

func (s *sharer) partitions() []int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.owned))
}

// A member of the new protocol joins a classic group, and they share it; it leaves, and the classic one has it all again.
func TestRuleH6GroupsOfBothProtocols(t *testing.T) {
	b := brokertest.Start(t, brokertest.Property("group.consumer.min.heartbeat.interval.ms", "100"),
		brokertest.Property("group.consumer.heartbeat.interval.ms", "100"))
	l := connect(t, b.Addr())
	l.Create("t", 4)
	share := func(kind string, sharers ...*sharer) {
		t.Helper()
		deadline := time.Now().Add(raw.Patience)
		for {
			seen, spread, is := map[int32]int{}, []int{}, ""
			for _, s := range sharers {
				owned := s.partitions()
				spread = append(spread, len(owned))
				for _, p := range owned {
					seen[p]++
				}
			}
			for _, g := range l.Ask(raw.At(5, kmsg.NewPtrListGroupsRequest())).(*kmsg.ListGroupsResponse).Groups {
				is = fmt.Sprint(g.GroupType, " ", g.GroupState)
			}
			if len(seen) == 4 && slices.Max(spread)-slices.Min(spread) <= 1 && slices.Max(slices.Collect(maps.Values(seen))) == 1 && is == kind+" Stable" {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("members own %v, partitions have %v owners, the group is %s", spread, seen, is)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	classic := newSharer(t, b.Addr())
	share("classic", classic)
	young := newSharer(t, b.Addr(), kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	share("consumer", classic, young)
	third := newSharer(t, b.Addr(), kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))
	share("consumer", classic, young, third)
	third.cl.Close()
	young.cl.Close()
	share("classic", classic)
	again := newSharer(t, b.Addr(), kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	share("consumer", classic, again)
	classic.cl.Close()
	share("consumer", again)
}
