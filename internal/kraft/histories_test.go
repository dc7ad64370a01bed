package kraft

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/invariant"
)

var (
	simSeed = flag.Uint64("kraft.seed", 0, "run TestHistories with this seed only, and tell the whole story")
	simRuns = flag.Int("kraft.runs", 300, "how many seeds TestHistories runs")
	simFrom = flag.Uint64("kraft.from", 0, "the first of these seeds; by default the clock's")
)

// TestHistories simulates quorums under every fault there is, two times under each seed, which must be the same to the bit; when the
// faults end there must be a leader that commits, and everybody follows it.
func TestHistories(t *testing.T) {
	if *simSeed != 0 {
		w := history(*simSeed, plantedBugs{}, true)
		t.Log("\n" + strings.Join(w.lines, "\n"))
		if w.check.failure != "" {
			t.Error(w.check.failure)
		}
		return
	}
	from := *simFrom
	if from == 0 {
		from = uint64(time.Now().UnixNano())
	}
	sum := checker{}
	for i := range uint64(*simRuns) {
		seed := from + i
		w := history(seed, plantedBugs{}, false)
		if w.check.failure != "" {
			told := history(seed, plantedBugs{}, true)
			t.Fatalf("%s\n%s\nrepeat with: go test ./internal/kraft -run Histories -kraft.seed %d", strings.Join(tail(told.lines, 60), "\n"), w.check.failure, seed)
		}
		if again := history(seed, plantedBugs{}, false); again.trace != w.trace || again.events != w.events {
			t.Fatalf("seed %d is not the same history twice: something depends on more than the seed", seed)
		}
		sum.commits += w.check.commits
		sum.elections += w.check.elections
		sum.changes += w.check.changes
		sum.truncations += w.check.truncations
		sum.downloads += w.check.downloads
		sum.warnings += w.check.warnings
		sum.moves += w.check.moves
	}
	t.Logf("%d seeds: %d commits, %d elections, %d changes of voters, %d truncations, %d snapshots downloaded, %d moves, %d warnings",
		*simRuns, sum.commits, sum.elections, sum.changes, sum.truncations, sum.downloads, sum.moves, sum.warnings)
	if *simRuns >= 100 && (sum.commits < 10**simRuns || sum.elections < 2**simRuns || sum.changes == 0 || sum.truncations == 0 || sum.downloads == 0 || sum.moves == 0) {
		t.Error("too little has happened to show anything")
	}
}

func tail(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }

// history runs one seed: the faults, and the calm after them.
func history(seed uint64, bugs plantedBugs, tell bool) (w *world) {
	w = newWorld(seed, bugs, tell)
	defer func() {
		if r := recover(); r != nil {
			violation, is := r.(invariant.Violation)
			if !is {
				panic(r)
			}
			w.check.fail("%v", violation)
		}
	}()
	w.run(w.nowMs+w.cfg.durationMs, func() bool { return false })
	w.settle()
	return w
}

// settle ends all faults. The bound is generous for elections of 200 to 400 ms, and finite.
func (w *world) settle() {
	w.calm = true
	w.say(nil, "calm")
	clear(w.blocked)
	for _, n := range w.nodes {
		w.after(1, func() { n.start() })
	}
	probe := 0
	var ask func()
	ask = func() {
		for _, n := range w.nodes {
			if n.member != nil && n.member.Role().Kind == Leader {
				n.append(1, nil)
				if probe == 0 {
					probe = w.names
				}
			}
		}
		w.after(100, ask)
	}
	w.after(50, ask)
	const boundMs = 20_000
	committed := func() bool {
		return probe != 0 && slices.ContainsFunc(w.check.committed, func(c commit) bool { return c.name >= probe && c.controls == nil })
	}
	w.run(w.nowMs+boundMs, committed)
	if w.check.failure == "" && !committed() {
		w.check.fail("the faults are over for %d ms, and nothing is committed; %s", boundMs, w.roles())
		return
	}
	target := w.check.committedEnd()
	caughtUp := func() bool {
		return !slices.ContainsFunc(w.nodes, func(n *simNode) bool {
			return n.member == nil || n.member.HighWatermark() < target || !w.allAt(n.member.voters())
		})
	}
	w.run(w.nowMs+boundMs, caughtUp)
	if w.check.failure == "" && !caughtUp() {
		w.check.fail("the faults are over for %d ms, and not all know that %d is committed; %s", boundMs, target, w.roles())
	}
	w.check.quiet()
}

func (w *world) roles() string {
	var all []string
	for _, n := range w.nodes {
		if n.member == nil {
			all = append(all, fmt.Sprintf("node %d is down", n.id))
			continue
		}
		r := n.member.Role()
		all = append(all, fmt.Sprintf("node %d: %v of epoch %d, leader %d, voter %v, end %d, hw %d, voters %s", n.id, r.Kind, r.Epoch, r.Leader, r.Voter, n.log.EndOffset(), n.member.HighWatermark(), votersText(n.member.voters())))
	}
	return strings.Join(all, "; ")
}

// TestAQuorumFailsOverSoon: with Kafka's timeouts, a leader whose process dies is followed by another long before the fetch timeout, and one
// that shuts down at once. On the network of one machine, and with disks that flush in some milliseconds.
func TestAQuorumFailsOverSoon(t *testing.T) {
	for _, test := range []struct {
		name     string
		end      func(*simNode)
		medianMs int64
		mostMs   int64
	}{
		{"killed", (*simNode).crash, 150, 800},
		{"shut down", (*simNode).shutdown, 50, 150},
	} {
		t.Run(test.name, func(t *testing.T) {
			var took []int64
			for seed := range uint64(100) {
				took = append(took, failOver(t, seed+1, test.end))
			}
			slices.Sort(took)
			t.Logf("from the leader's end to the next one's commit: median %d ms, most %d ms", took[len(took)/2], took[len(took)-1])
			if took[len(took)/2] > test.medianMs || took[len(took)-1] > test.mostMs {
				t.Errorf("want a median of %d and at most %d ms", test.medianMs, test.mostMs)
			}
		})
	}
}

// failOver ends a leader, and returns how long it takes until something is committed without it.
func failOver(t *testing.T, seed uint64, end func(*simNode)) int64 {
	w := emptyWorld(seed)
	w.calm, w.timeoutMs, w.cfg = true, 1000, simConfig{voters: 3, observers: 1, version: 1, delayMs: 2, flushMs: 4}
	w.build()
	committed := func() bool { return w.check.committedEnd() > 0 }
	w.run(w.nowMs+10_000, committed)
	w.run(w.nowMs+1000+w.rand.Int64N(500), func() bool { return false })
	i := slices.IndexFunc(w.nodes, func(n *simNode) bool { return n.member.Role().Kind == Leader })
	if i < 0 {
		t.Fatalf("seed %d: there is no leader; %s", seed, w.roles())
	}
	epoch, since := w.nodes[i].member.Role().Epoch, w.nowMs
	end(w.nodes[i])
	w.run(w.nowMs+10_000, func() bool { return w.check.committed[len(w.check.committed)-1].by > epoch })
	if w.check.failure != "" {
		t.Fatalf("seed %d: %s", seed, w.check.failure)
	}
	return w.nowMs - since
}
