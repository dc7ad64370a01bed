package telemetry

import (
	"sync"
	"time"

	"github.com/raftsman/raftsman/internal/group"
	"github.com/raftsman/raftsman/internal/kafka"
)

// groupsWait is how long a scrape waits for the coordinators, all groups together. What they have not told by then is left out.
const groupsWait = 2 * time.Second

// groupsAtOnce is how many groups' offsets are asked for before the first is answered: requests of clients get their turn in between.
const groupsAtOnce = 16

// groups is what the coordinators have told.
type groups struct {
	known   bool // false while some of them are being loaded
	listed  []group.Listed
	commits []commit // by group and topic
	text    []byte   // backs the labels of commits, as far as it was not too short
}

// commit is an offset that a group has stored.
type commit struct {
	group, topic string
	partition    int32
	offset       kafka.Offset
	start, high  kafka.Offset // of the partition; kafka.NoOffset where it is not known
	labels       []byte       // as the text has them
	seconds      float64      // how old the first record is that was not read; 0: all are read, below 0: not known
}

// lag is how many records were not read; known is false where the partition's end is not known.
func (c *commit) lag() (records int64, known bool) {
	return max(int64(c.high-c.offset), 0), c.high != kafka.NoOffset
}

// look asks the coordinators for all groups and what they have committed.
func (g *groups) look(from *Sources) {
	deadline := time.NewTimer(groupsWait)
	defer deadline.Stop()
	listed := make(chan groups, 1)
	from.Coord.List(func(all []group.Listed, code kafka.Error) {
		listed <- groups{known: code == kafka.None, listed: append([]group.Listed(nil), all...)}
	})
	select {
	case *g = <-listed:
	case <-deadline.C:
	}
	if !g.known {
		return
	}
	told, n := storedOffsets(from, g.listed[:min(len(g.listed), groupsMax)], deadline.C)
	g.commits, g.text = make([]commit, 0, min(n, commitsMax)), make([]byte, 0, min(n, commitsMax)*labelBytes)
	for i, stored := range told {
		if stored != nil {
			g.take(from, g.listed[i].Group, stored)
		}
	}
}

// storedOffsets asks for all that the groups have committed, until there is enough or no time left. What is missing is nil; commits is
// how many there are.
func storedOffsets(from *Sources, of []group.Listed, deadline <-chan time.Time) (told []*group.FetchReply, commits int) {
	type stored struct {
		at int
		is *group.FetchReply
	}
	told = make([]*group.FetchReply, len(of))
	replies := make(chan stored, len(of)) // who answers late is not held up
	asked := 0
	for answered := range of {
		for ; asked < min(answered+groupsAtOnce, len(of)); asked++ {
			at := asked
			from.Coord.Do(of[at].Group, &group.Fetch{}, func(r group.Reply) {
				is, _ := r.(*group.FetchReply)
				replies <- stored{at, is}
			})
		}
		select {
		case r := <-replies:
			if r.is == nil || r.is.Code != kafka.None {
				continue
			}
			told[r.at] = r.is
			for i := range r.is.Topics {
				commits += len(r.is.Topics[i].Partitions)
			}
			if commits >= commitsMax {
				return told, commits
			}
		case <-deadline:
			return told, commits
		}
	}
	return told, commits
}

func (g *groups) take(from *Sources, name string, stored *group.FetchReply) {
	for _, t := range stored.Topics {
		for _, p := range t.Partitions {
			if p.Offset < 0 || p.Code != kafka.None || len(g.commits) == commitsMax {
				continue
			}
			start, high, known := from.Replicas.Readable(kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition})
			if !known {
				start, high = kafka.NoOffset, kafka.NoOffset
			}
			begin := len(g.text)
			g.text = appendLabels(g.text, perGroup, name, t.Topic, digits(p.Partition))
			g.commits = append(g.commits, commit{name, t.Topic, p.Partition, p.Offset, start, high, g.text[begin:], -1})
		}
	}
}

// inState counts the groups of both protocols in a state.
func (g *groups) inState(state group.State) int64 {
	n := int64(0)
	for i := range g.listed {
		n += oneIf(g.listed[i].State == state)
	}
	return n
}

// eachTopic visits the commits of each group in each topic.
func (g *groups) eachTopic(visit func(of []commit)) {
	g.runs(func(a, b *commit) bool { return a.group == b.group && a.topic == b.topic }, visit)
}

// eachGroup visits the commits of each group.
func (g *groups) eachGroup(visit func(of []commit)) {
	g.runs(func(a, b *commit) bool { return a.group == b.group }, visit)
}

func (g *groups) runs(same func(a, b *commit) bool, visit func(of []commit)) {
	for first := 0; first < len(g.commits); {
		end := first + 1
		for end < len(g.commits) && same(&g.commits[first], &g.commits[end]) {
			end++
		}
		visit(g.commits[first:end])
		first = end
	}
}

// unreadLook is how long a scrape looks into logs for the times of records that it does not know. What is left is looked for in the next.
const unreadLook = 100 * time.Millisecond

// unreadTimes remembers, from scrape to scrape, when the records were made that groups are to read next: a log is looked into only where
// a group, or the log's start, has moved since.
type unreadTimes struct {
	mu    sync.Mutex // guards all below; held while logs are read, which only scrapes do
	ms    map[unread]int64
	first int // where to begin, so that all have their turn
}

// unread is the record that a group is to read next.
type unread struct {
	topic     kafka.TopicID
	partition int32
	offset    kafka.Offset
}

// fill sets the seconds of all commits.
func (u *unreadTimes) fill(s *scene, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	commits := s.groups.commits
	next := make(map[unread]int64, len(u.ms))
	late := false
	begun := time.Now()
	from := u.first
	for i := range commits {
		at := (from + i) % len(commits)
		c := &commits[at]
		switch lag, known := c.lag(); {
		case !known:
			continue
		case lag == 0:
			c.seconds = 0
			continue
		}
		topic, ok := s.image.Topic(c.topic)
		if !ok {
			continue
		}
		key := unread{topic.ID, c.partition, max(c.offset, c.start)}
		ms, known := next[key]
		if !known {
			ms, known = u.ms[key]
		}
		if !known && !late {
			if late = time.Since(begun) > unreadLook; late {
				u.first = at
				continue
			}
			ms, known = s.from.Replicas.FirstUnread(kafka.TopicPartition{Topic: c.topic, Partition: c.partition}, key.offset)
		}
		if known {
			next[key] = ms
			c.seconds = max(float64(now.UnixMilli()-ms)/1000, 0)
		}
	}
	u.ms = next
}
