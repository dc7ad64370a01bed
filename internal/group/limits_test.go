package group

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

// TestMemberIDsThatNobodyUses: clients that ask for a member id and never join with it take so much memory at most, and who asks last can
// join.
func TestMemberIDsThatNobodyUses(t *testing.T) {
	n := 0
	m := New(testConfig(), func(b []byte) {
		n++
		copy(b, fmt.Sprintf("%016d", n))
	})
	m.Learn(newTestCluster(), nil, false)
	handle := func(c Command) *JoinReply {
		e := m.Handle(scenarioStart, 1, "g", c)
		after := settle(m, e)
		if len(e.Replies) > 0 {
			return e.Replies[0].Reply.(*JoinReply)
		}
		if len(after) > 0 {
			return after[0].Reply.(*JoinReply)
		}
		return nil
	}
	join := func(id, client string) *JoinReply {
		return handle(&Join{
			MemberID: id, ClientID: client, MemberIDRequired: true, SessionTimeoutMs: 1_800_000, RebalanceTimeoutMs: 60_000,
			ProtocolType: "consumer", Protocols: []Protocol{{Name: "range"}},
		})
	}
	first := join("", "first").MemberID
	for range 2 * pendingBytesMax / memberNameMax {
		join("", strings.Repeat("x", memberNameMax))
	}
	last := join("", "last").MemberID
	g := m.groups["g"]
	bytes := 0
	for id := range g.pending {
		bytes += len(id) + pendingBytesForEach
	}
	if bytes != g.pendingBytes || bytes > pendingBytesMax || bytes < pendingBytesMax*9/10 || len(g.handedOut) != len(g.pending) {
		t.Errorf("%d ids of %d bytes, counted as %d and %d", len(g.pending), bytes, len(g.handedOut), g.pendingBytes)
	}
	if timers := len(m.timers.heap); timers > 2*fewTimers+1 {
		t.Errorf("%d timers", timers)
	}
	if r := join(first, "first"); r.Code != kafka.UnknownMemberId {
		t.Errorf("the first: %v", r.Code)
	}
	if r := join(last, "last"); r != nil {
		t.Errorf("the last is not taken into the round: %v", r.Code)
	}
	for id := range g.pending {
		g.forget(id)
	}
	if g.pendingBytes != 0 {
		t.Errorf("%d bytes without ids", g.pendingBytes)
	}
}

// settle applies what a command writes and returns what is answered then.
func settle(m *Machine, e Effects) []Sent {
	if len(e.Records) == 0 {
		return nil
	}
	for _, r := range e.Records {
		m.Apply(r)
	}
	return m.Settle(scenarioStart, e, kafka.None).Replies
}

// TestCancelledTimersGo: a member that comes and goes leaves nothing behind, however long its session would have been.
func TestCancelledTimersGo(t *testing.T) {
	q, g := timerQueue{}, newGroup("g")
	var left []*timer
	for i := range 100_000 {
		timer := newTimer(sessionTimer, g, fmt.Sprint(i))
		q.start(timer, scenarioStart.Add(time.Duration(100_000-i)*time.Second))
		if i%100 == 0 {
			left = append(left, timer)
		} else {
			timer.cancel()
		}
		if len(q.heap) > 4*fewTimers {
			t.Fatalf("%d timers, of which %d can fire", len(q.heap), len(left))
		}
	}
	for i := range left {
		want := left[len(left)-1-i]
		if got := q.pop(scenarioStart.Add(100_000 * time.Second)); got != want {
			t.Fatalf("the timer that fires as number %d is %v, want %v", i, got, want)
		}
	}
	if got := q.pop(scenarioStart.Add(100_000 * time.Second)); got != nil {
		t.Errorf("%v fires too", got)
	}
}
