package group

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

// TestRegexLimits: what would take long to compile, or to match against every topic, is refused.
func TestRegexLimits(t *testing.T) {
	for _, c := range []struct {
		regex string
		taken bool
	}{
		{"orders-.*|payments-[0-9]{1,10}", true},
		{`\p{L}{1,100}`, true},
		{strings.Repeat("a|", 4000) + "a", true},
		{strings.Repeat("a", regexBytesMax+1), false},
		{"(.{10}[a-z]{10}){40}", true},
		{"(abcdef){1000}", true},
		{"(abcdefghijkl){1000}", false},
		{"((((.{2}){20}){20}){20}){20}", false},
		{"(a+)+$", true}, // it takes no longer than others
		{"a)|(b", false},
	} {
		if _, err := CompileRegex(c.regex); (err == nil) != c.taken {
			t.Errorf("%s: %v, want taken %v", shortened(c.regex), err, c.taken)
		}
	}
}

// TestRegexMatchesTheWholeName, whatever the expression leaves open.
func TestRegexMatchesTheWholeName(t *testing.T) {
	for _, c := range []struct {
		regex, name string
		matches     bool
	}{
		{`\Qa.b`, "a.b", true},
		{`\Qa.b`, "axb", false},
		{`\Qa.b`, "a.bc", false},
		{`\Qa.b\E.*`, "a.bc", true},
		{`a|ab`, "ab", true},
		{`(?i)ab`, "AB", true},
		{`(?m)^a$`, "a", true},
		{`a$|b`, "xa", false},
	} {
		compiled, err := CompileRegex(c.regex)
		if err != nil || compiled.MatchString(c.name) != c.matches {
			t.Errorf("%s of %s: %v, want a match %v", c.regex, c.name, err, c.matches)
		}
	}
}

// TestRefusedRegexIsNotResolvedAtOnce: where the topics that match cannot be written, not every heartbeat goes through all topics again.
func TestRefusedRegexIsNotResolvedAtOnce(t *testing.T) {
	c := newTestCluster()
	c.set("t", 1)
	m := New(testConfig(), func([]byte) {})
	m.Learn(c, nil, true)
	now, resolved := scenarioStart, 0
	var tickets Ticket
	beat := func(epoch int32) {
		b := &ConsumerHeartbeat{MemberID: "m", Epoch: epoch, RebalanceTimeoutMs: -1, OwnMemberID: true}
		if epoch == 0 {
			b.RebalanceTimeoutMs, b.Regex, b.HasKnown = 60_000, new(".*"), true
		}
		tickets++
		e := m.Handle(now, tickets, "g", b)
		asides := e.Aside
		if len(e.Records) > 0 {
			for _, r := range e.Records {
				m.Apply(r)
			}
			asides = m.Settle(now, e, kafka.None).Aside
		}
		for _, a := range asides {
			resolved++
			finish := m.Finish(now, a.Group, a.Work(always))
			if len(finish.Records) == 0 {
				t.Fatal("nothing is to be written of what was resolved")
			}
			m.Settle(now, finish, kafka.MessageTooLarge)
		}
	}
	for i := range 5 {
		beat(int32(min(i, 1)))
		now = now.Add(time.Second)
	}
	if resolved != 1 {
		t.Errorf("within 5 s expressions were resolved %d times, want once", resolved)
	}
	refused := 0
	for _, e := range m.TakeEvents() {
		if e.Kind == RegexRefused {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("told of %d times, want once", refused)
	}
	now = now.Add(regexRefreshMin)
	if beat(1); resolved != 2 {
		t.Errorf("after %v they were resolved %d times, want twice", regexRefreshMin, resolved)
	}
}

// TestResolvingEnds: work aside for a shard that has ended goes on no longer.
func TestResolvingEnds(t *testing.T) {
	c := newTestCluster()
	for i := range 3 {
		c.set(fmt.Sprint("t", i), 1)
	}
	asked := 0
	if got := resolveAll(c, []string{".*"}, 0, func() bool { asked++; return asked < 2 }); got != nil || asked != 2 {
		t.Errorf("resolved %v, asked %d times, want nothing, twice", got, asked)
	}
}
