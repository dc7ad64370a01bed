package plan

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/transcript"
)

// TestScenarios runs the transcripts in testdata: a cluster and a command, and the plan with what brokers have before and after. Each block
// begins with no cluster.
func TestScenarios(t *testing.T) {
	transcript.Run(t, func(t *testing.T) (command func(string), outcome func() string) {
		var block []string
		return func(line string) { block = append(block, line) }, func() string {
			defer func() { block = nil }()
			return play(t, block)
		}
	})
}

// play reads
//
//	broker 1 [rack=a] [down] [cordoned]
//	topic t 1,2 2,3*300 3,1!1        replicas of each partition, with bytes and in-sync set where they are not 100 and all
//
// and one of: drain 3; drain-leaders 3; assign t [on=1,2] [factor=3]; rebalance [slack=0.1] [leaders] [only=t]
func play(t *testing.T, commands []string) string {
	t.Helper()
	var c Cluster
	var out strings.Builder
	for _, line := range commands {
		words := strings.Fields(line)
		switch words[0] {
		case "broker":
			c.Brokers = append(c.Brokers, Broker{
				ID: ids(t, words[1])[0], Rack: option(words, "rack"), Down: slices.Contains(words, "down"), Cordoned: slices.Contains(words, "cordoned"),
			})
		case "topic":
			for i, text := range words[2:] {
				c.Partitions = append(c.Partitions, parsePartition(t, words[1], i, text))
			}
		default:
			moves, err := decide(t, &c, words, &out)
			if err != nil {
				return "refused: " + err.Error()
			}
			show(&out, &c, moves)
		}
	}
	return strings.TrimRight(out.String(), "\n")
}

func parsePartition(t *testing.T, topic string, number int, text string) Partition {
	t.Helper()
	text, isr, partial := strings.Cut(text, "!")
	replicas, bytes, sized := strings.Cut(text, "*")
	p := Partition{Topic: topic, Number: int32(number), Replicas: ids(t, replicas), Bytes: 100}
	p.ISR, p.Leader = p.Replicas, p.Replicas[0]
	if partial {
		p.ISR = ids(t, isr)
		p.Leader = p.ISR[0]
	}
	if sized {
		n, err := strconv.ParseInt(bytes, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		p.Bytes = n
	}
	return p
}

func decide(t *testing.T, c *Cluster, words []string, out *strings.Builder) ([]Move, error) {
	t.Helper()
	switch words[0] {
	case "drain":
		return Drain(c, ids(t, words[1])[0])
	case "drain-leaders":
		moves, stay := DrainLeaders(c, ids(t, words[1])[0])
		for _, p := range stay {
			fmt.Fprintf(out, "%s-%d stays\n", p.Topic, p.Number)
		}
		return moves, nil
	case "assign":
		w := Wish{}
		if on := option(words, "on"); on != "" {
			w.Brokers = ids(t, on)
		}
		w.Factor, _ = strconv.Atoi(option(words, "factor"))
		return Assign(c, func(p *Partition) bool { return p.Topic == words[1] }, w)
	case "rebalance":
		g := Goal{LeadersOnly: slices.Contains(words, "leaders"), Slack: 0.1}
		if text := option(words, "slack"); text != "" {
			slack, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			g.Slack = slack
		}
		if only := option(words, "only"); only != "" {
			g.Movable = func(p *Partition) bool { return p.Topic == only }
		}
		return Rebalance(c, g), nil
	}
	t.Fatalf("%q is no command", words)
	return nil, nil
}

func show(out *strings.Builder, c *Cluster, moves []Move) {
	if len(moves) == 0 {
		out.WriteString("nothing moves\n")
		return
	}
	for _, m := range moves {
		fmt.Fprintf(out, "%s-%d %s -> %s", m.Topic, m.Number, join(m.From), join(m.To))
		if m.Bytes > 0 {
			fmt.Fprintf(out, ", %d bytes", m.Bytes)
		}
		out.WriteString("\n")
	}
	after := c.After(moves)
	was := c.Loads()
	for i, l := range after.Loads() {
		fmt.Fprintf(out, "broker %d: %d replicas (was %d), leads %d (%d), %d bytes (%d)\n", l.ID, l.Replicas, was[i].Replicas, l.Leads, was[i].Leads, l.Bytes, was[i].Bytes)
	}
}

func option(words []string, key string) string {
	for _, w := range words {
		if value, ok := strings.CutPrefix(w, key+"="); ok {
			return value
		}
	}
	return ""
}

func ids(t *testing.T, text string) (list []kafka.NodeID) {
	t.Helper()
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseInt(part, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, kafka.NodeID(n))
	}
	return list
}

func join(list []kafka.NodeID) string {
	texts := make([]string, len(list))
	for i, id := range list {
		texts[i] = fmt.Sprint(id)
	}
	return strings.Join(texts, ",")
}

// randomCluster has brokers in racks, some down or cordoned, and partitions whose replicas are anywhere.
func randomCluster(r *rand.Rand) *Cluster {
	c := &Cluster{}
	brokers, racks := 1+r.IntN(9), 1+r.IntN(4)
	for i := range brokers {
		c.Brokers = append(c.Brokers, Broker{ID: kafka.NodeID(i + 1), Rack: string(rune('a' + r.IntN(racks))), Down: r.IntN(8) == 0, Cordoned: r.IntN(8) == 0})
	}
	for topic := range 1 + r.IntN(4) {
		factor, skewed := 1+r.IntN(min(4, brokers)), r.IntN(2) == 0
		for n := range r.IntN(20) {
			p := Partition{Topic: fmt.Sprint("t", topic), Number: int32(n), Bytes: r.Int64N(1000)}
			if skewed {
				p.Bytes *= p.Bytes
			}
			for _, i := range r.Perm(brokers)[:factor] {
				p.Replicas = append(p.Replicas, kafka.NodeID(i+1))
			}
			for _, id := range p.Replicas {
				if !c.Brokers[id-1].Down {
					p.ISR = append(p.ISR, id)
				}
			}
			p.Leader = kafka.NoNode
			if len(p.ISR) > 0 {
				p.Leader = p.ISR[r.IntN(len(p.ISR))]
			}
			c.Partitions = append(c.Partitions, p)
		}
	}
	return c
}

// histories runs a check with many seeds, or with the one that -seed names.
var seed = flag.Uint64("seed", 0, "the one seed of the random tests")

func histories(t *testing.T, check func(*testing.T, *Cluster, *rand.Rand)) {
	t.Helper()
	from, to := uint64(1), uint64(1000)
	if *seed != 0 {
		from, to = *seed, *seed
	}
	for s := from; s <= to && !t.Failed(); s++ {
		r := rand.New(rand.NewPCG(s, 1))
		check(t, randomCluster(r), r)
		if t.Failed() {
			t.Logf("to repeat it: go test ./internal/plan -run '%s$' -seed %d", t.Name(), s)
		}
	}
}

// sound fails where a move is none that a controller would take, or copies to where nothing is to be.
func sound(t *testing.T, c *Cluster, moves []Move) {
	t.Helper()
	racks := map[kafka.NodeID]Broker{}
	for _, b := range c.Brokers {
		racks[b.ID] = b
	}
	for _, m := range moves {
		if len(slices.Compact(slices.Sorted(slices.Values(m.To)))) != len(m.To) || len(m.To) == 0 {
			t.Errorf("%+v has a replica twice, or none", m)
		}
		for _, id := range m.Adding() {
			if b := racks[id]; b.Down || b.Cordoned {
				t.Errorf("%+v goes to %+v", m, b)
			}
		}
	}
}

func leads(c *Cluster) map[kafka.NodeID]int {
	n := map[kafka.NodeID]int{}
	for _, p := range c.Partitions {
		n[p.Replicas[0]]++
	}
	return n
}

func TestADrainedBrokerHasNothingAndNoOtherReplicaMoves(t *testing.T) {
	histories(t, func(t *testing.T, c *Cluster, r *rand.Rand) {
		id := c.Brokers[r.IntN(len(c.Brokers))].ID
		moves, err := Drain(c, id)
		if err != nil {
			return // TestScenarios has it
		}
		sound(t, c, moves)
		after := c.After(moves)
		for i, p := range after.Partitions {
			was := c.Partitions[slices.IndexFunc(c.Partitions, func(q Partition) bool { return q.Topic == p.Topic && q.Number == p.Number })]
			if slices.Contains(p.Replicas, id) || len(p.Replicas) != len(was.Replicas) {
				t.Errorf("%d: %+v becomes %v", i, was, p.Replicas)
			}
			kept := slices.DeleteFunc(slices.Clone(p.Replicas), func(other kafka.NodeID) bool { return !slices.Contains(was.Replicas, other) })
			if slices.Contains(was.Replicas, id) && len(kept) != len(was.Replicas)-1 || !slices.Contains(was.Replicas, id) && !slices.Equal(was.Replicas, p.Replicas) {
				t.Errorf("%+v becomes %v: more moves than the one replica", was, p.Replicas)
			}
		}
		if again, err := Drain(&after, id); err != nil || len(again) > 0 {
			t.Errorf("once more: %v, %v", again, err)
		}
	})
}

func TestABrokerThatIsToLeadNothingKeepsItsReplicas(t *testing.T) {
	histories(t, func(t *testing.T, c *Cluster, r *rand.Rand) {
		id := c.Brokers[r.IntN(len(c.Brokers))].ID
		moves, stay := DrainLeaders(c, id)
		sound(t, c, moves)
		for _, m := range moves {
			if m.Bytes != 0 || len(m.Adding()) > 0 || len(m.From) != len(m.To) {
				t.Errorf("%+v copies something", m)
			}
		}
		after := c.After(moves)
		for _, p := range after.Partitions {
			stays := slices.ContainsFunc(stay, func(q Partition) bool { return q.Topic == p.Topic && q.Number == p.Number })
			if (p.Replicas[0] == id || p.Leader == id) && !stays {
				t.Errorf("%s-%d is led by %d, by %v", p.Topic, p.Number, p.Leader, p.Replicas)
			}
		}
	})
}

// Whatever there was before: less uneven, and not more in a rack.
func TestARebalancedClusterIsMoreEven(t *testing.T) {
	uneven := 0
	histories(t, func(t *testing.T, c *Cluster, _ *rand.Rand) {
		moves := Rebalance(c, Goal{Slack: 0.1})
		sound(t, c, moves)
		after := c.After(moves)
		rack := map[kafka.NodeID]string{}
		for _, b := range c.Brokers {
			rack[b.ID] = b.Rack
		}
		crowd := func(replicas []kafka.NodeID) (most int) {
			in := map[string]int{}
			for _, id := range replicas {
				in[rack[id]]++
			}
			for _, name := range slices.Sorted(maps.Keys(in)) {
				most = max(most, in[name])
			}
			return most
		}
		for _, m := range moves {
			if crowd(m.To) > crowd(m.From) || len(m.From) != len(m.To) {
				t.Errorf("%+v has more in a rack, or another number of replicas", m)
			}
		}
		spread := func(c *Cluster) (sum float64) {
			for _, l := range c.Loads() {
				sum += float64(l.Bytes) * float64(l.Bytes)
			}
			return sum
		}
		again := Rebalance(&after, Goal{Slack: 0.1})
		copied := int64(0)
		for _, m := range again {
			copied += m.Bytes
		}
		if copied > 0 {
			uneven++
		}
		crowded := func(p Partition) bool { return crowd(p.Replicas) > 1 } // it may have had to move for that
		if before, now := spread(c), spread(&after); now > before*1.02 && !slices.ContainsFunc(c.Partitions, crowded) {
			t.Errorf("bytes are less even: the sum of squares is %g, was %g", now, before)
		}
		n := leads(&after)
		for _, p := range after.Partitions {
			for _, id := range p.Replicas[1:] {
				if b := c.Brokers[id-1]; !b.Down && slices.Contains(p.ISR, id) && n[p.Replicas[0]]-n[id] > 1 {
					t.Errorf("%s-%d of %v is led by %d, which leads %d; %d leads %d", p.Topic, p.Number, p.Replicas, p.Replicas[0], n[p.Replicas[0]], id, n[id])
				}
			}
		}
	})
	if uneven > 0 {
		t.Errorf("%d clusters are moved again by a second plan", uneven)
	}
}

func BenchmarkRebalanceTenThousandPartitions(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	c := &Cluster{}
	for i := range 12 {
		c.Brokers = append(c.Brokers, Broker{ID: kafka.NodeID(i + 1), Rack: string(rune('a' + i%3))})
	}
	for n := range 10_000 {
		p := Partition{Topic: fmt.Sprint("t", n%100), Number: int32(n / 100), Bytes: r.Int64N(1 << 30)}
		for _, i := range r.Perm(10)[:3] { // two brokers are new
			p.Replicas = append(p.Replicas, kafka.NodeID(i+1))
		}
		p.ISR, p.Leader = p.Replicas, p.Replicas[0]
		c.Partitions = append(c.Partitions, p)
	}
	for b.Loop() {
		Rebalance(c, Goal{Slack: 0.1})
	}
}
