package assign

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
)

// kafkaCase is one line of testdata/kafka.jsonl, which test/kafka/Assignments.java writes. Topics are numbers.
type kafkaCase struct {
	Assignor string
	Alike    bool
	Topics   map[string]int32
	Members  []struct {
		ID       string
		Instance *string
		Reads    []int
		Owned    map[string][]int32
	}
	Gives []map[string][]int32
}

func topicID(number int) (id kafka.TopicID) {
	binary.BigEndian.PutUint64(id[8:], uint64(number))
	return id
}

func topicNumber(id kafka.TopicID) int { return int(binary.BigEndian.Uint64(id[8:])) }

func assignment(topics map[string][]int32) Assignment {
	var a Assignment
	for number, partitions := range topics {
		n, _ := strconv.Atoi(number)
		a = append(a, Topic{ID: topicID(n), Partitions: partitions})
	}
	slices.SortFunc(a, func(x, y Topic) int { return CompareIDs(x.ID, y.ID) })
	return a
}

// TestAssignorsChooseAsKafkaDoes: what Kafka 4.4's own assignors have chosen in random histories of groups.
func TestAssignorsChooseAsKafkaDoes(t *testing.T) {
	text, err := os.ReadFile("testdata/kafka.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	unlike, lines := 0, bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	for n, line := range lines {
		var c kafkaCase
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatalf("line %d: %v", n+1, err)
		}
		g := Group{Alike: c.Alike, Partitions: func(id kafka.TopicID) int32 { return c.Topics[strconv.Itoa(topicNumber(id))] }}
		for _, m := range c.Members {
			member := Member{ID: m.ID, InstanceID: m.Instance, Owned: assignment(m.Owned)}
			for _, number := range m.Reads {
				member.Topics = append(member.Topics, topicID(number))
			}
			g.Members = append(g.Members, member)
		}
		assignor, ok := ByName(c.Assignor)
		if !ok {
			t.Fatalf("line %d: no assignor %q", n+1, c.Assignor)
		}
		if !c.Alike && c.Assignor == UniformName {
			unlike++
		}
		for i, got := range assignor(g) {
			if want := assignment(c.Gives[i]); !got.Equal(want) {
				t.Errorf("line %d, member %s gets %v, from Kafka %v", n+1, c.Members[i].ID, show(got), show(want))
			}
		}
	}
	if len(lines) < 300 || unlike < 50 {
		t.Errorf("only %d cases, %d of them of members that read different topics: record more", len(lines), unlike)
	}
}

func show(a Assignment) string {
	var text string
	for _, t := range a {
		text += fmt.Sprintf("%d%v ", topicNumber(t.ID), t.Partitions)
	}
	return text
}

// TestAssignmentsUnderRandomHistories: whatever comes and goes, each partition that anybody reads has exactly one owner, who
// reads it; shares differ by one at most where all read the same; and the uniform assignor moves no more than it must.
func TestAssignmentsUnderRandomHistories(t *testing.T) {
	for range 200 {
		seed := rand.Uint64()
		w := &world{T: t, seed: seed, random: rand.New(rand.NewPCG(seed, 1)), topics: map[kafka.TopicID]int32{}}
		w.alike = w.random.IntN(2) == 0
		for range 30 {
			w.change()
			w.check(UniformName)
			w.check(RangeName)
		}
	}
}

type world struct {
	*testing.T
	seed    uint64
	random  *rand.Rand
	alike   bool
	topics  map[kafka.TopicID]int32
	members []Member
	names   int
}

func (w *world) change() {
	switch r := w.random; r.IntN(6) {
	case 0:
		w.topics[topicID(r.IntN(8))] += int32(r.IntN(12))
	case 1:
		delete(w.topics, topicID(r.IntN(8)))
	case 2:
		if len(w.members) > 0 {
			i := r.IntN(len(w.members))
			w.members = slices.Delete(w.members, i, i+1)
		}
	default:
		w.names++
		m := Member{ID: fmt.Sprintf("m%04d", w.random.IntN(10000)*1000+w.names)}
		if r.IntN(3) == 0 {
			instance := fmt.Sprint(w.names)
			m.InstanceID = &instance
		}
		w.members = append(w.members, m)
		slices.SortFunc(w.members, func(a, b Member) int { return bytes.Compare([]byte(a.ID), []byte(b.ID)) })
	}
	var all []kafka.TopicID
	for n := range 8 {
		if w.topics[topicID(n)] > 0 {
			all = append(all, topicID(n))
		}
	}
	for i := range w.members {
		m := &w.members[i]
		if w.alike {
			m.Topics = all
			continue
		}
		if m.Topics == nil || w.random.IntN(10) == 0 {
			m.Topics = slices.Clone(all)
			w.random.Shuffle(len(all), func(i, j int) { m.Topics[i], m.Topics[j] = m.Topics[j], m.Topics[i] })
			m.Topics = m.Topics[:w.random.IntN(len(all)+1)]
			slices.SortFunc(m.Topics, CompareIDs)
		}
		m.Topics = slices.DeleteFunc(slices.Clone(m.Topics), func(id kafka.TopicID) bool { return w.topics[id] == 0 })
	}
}

func (w *world) check(name string) {
	w.Helper()
	assignor, _ := ByName(name)
	given := assignor(Group{Members: w.members, Alike: w.alike, Partitions: func(id kafka.TopicID) int32 { return w.topics[id] }})
	fail := func(format string, args ...any) {
		w.Helper()
		w.Fatalf("seed %d, %s, alike %v: "+format, append([]any{w.seed, name, w.alike}, args...)...)
	}
	owner := map[kafka.TopicID]map[int32]int{}
	least, most, total, kept := 1<<30, 0, 0, 0
	for i, a := range given {
		n := 0
		for _, t := range a {
			if !slices.Contains(w.members[i].Topics, t.ID) {
				fail("%s gets topic %d, which it does not read", w.members[i].ID, topicNumber(t.ID))
			}
			for _, p := range t.Partitions {
				if owner[t.ID] == nil {
					owner[t.ID] = map[int32]int{}
				}
				if _, twice := owner[t.ID][p]; twice || p >= w.topics[t.ID] {
					fail("partition %d-%d is given twice or does not exist", topicNumber(t.ID), p)
				}
				owner[t.ID][p] = i
				if w.members[i].Owned.Has(t.ID, p) {
					kept++
				}
				n++
			}
		}
		least, most, total = min(least, n), max(most, n), total+n
	}
	for i := range w.members {
		for _, id := range w.members[i].Topics {
			if len(owner[id]) != int(w.topics[id]) {
				fail("topic %d is read by %s, and %d of its %d partitions have an owner", topicNumber(id), w.members[i].ID, len(owner[id]), w.topics[id])
			}
		}
	}
	if name != UniformName {
		return
	}
	if w.alike && len(given) > 0 {
		if most-least > 1 {
			fail("shares from %d to %d", least, most)
		}
		w.checkMoves(fail, total, kept)
	}
	for i := range w.members {
		w.members[i].Owned = given[i]
	}
	if again := assignor(Group{Members: w.members, Alike: w.alike, Partitions: func(id kafka.TopicID) int32 { return w.topics[id] }}); w.alike {
		for i := range again {
			if !again[i].Equal(given[i]) {
				fail("nothing has changed, and %s gets %s instead of %s", w.members[i].ID, show(again[i]), show(given[i]))
			}
		}
	}
}

// checkMoves: of what a member had, it keeps as much as its share allows. With the larger shares dealt as well as can be, that is
// the most that any assignment of equal shares could keep.
func (w *world) checkMoves(fail func(string, ...any), total, kept int) {
	share, larger := total/len(w.members), total%len(w.members)
	best := 0
	for i := range w.members {
		had := 0
		for _, t := range w.members[i].Owned {
			for _, p := range t.Partitions {
				if slices.Contains(w.members[i].Topics, t.ID) && p < w.topics[t.ID] {
					had++
				}
			}
		}
		best += min(had, share)
		if had > share && larger > 0 {
			best++
			larger--
		}
	}
	if kept < best {
		fail("%d partitions stay where they were; %d could", kept, best)
	}
}

// BenchmarkUniform is what one assignment of 10,000 partitions costs, after one member has come: the other groups of the coordinator's
// partition wait meanwhile.
func BenchmarkUniform(b *testing.B) {
	for _, alike := range []bool{true, false} {
		for _, size := range []int{100, 1000} {
			g := Group{Alike: alike, Partitions: func(kafka.TopicID) int32 { return 100 }}
			for i := range size {
				m := Member{ID: fmt.Sprintf("m%05d", i)}
				for n := range 100 {
					if alike || (i+n)%3 > 0 {
						m.Topics = append(m.Topics, topicID(n))
					}
				}
				g.Members = append(g.Members, m)
			}
			given := Uniform(g)
			for i := range given[1:] {
				g.Members[i+1].Owned = given[i+1]
			}
			b.Run(fmt.Sprintf("alike=%v/members=%d", alike, size), func(b *testing.B) {
				for b.Loop() {
					Uniform(g)
				}
			})
		}
	}
}
