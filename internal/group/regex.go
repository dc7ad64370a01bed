package group

import (
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

// regexRefreshMin is the time after which regular expressions are resolved again at the soonest, whatever has changed.
const regexRefreshMin = 10 * time.Second

// What a regular expression may be: matching a name takes time in proportion to the instructions that it is compiled to, and there
// may be 100,000 names.
const (
	regexBytesMax        = 10_000
	regexInstructionsMax = 10_000
)

// regexChange is what a member's regular expression means for its group.
type regexChange uint8

const (
	regexSame    regexChange = iota
	regexUpdated             // its topics are not known yet
	regexKnown               // another one, of which the topics are known, or none
)

// Aside is work that takes long and needs nothing of the machine: the caller does it while the machine goes on with other
// commands, and hands what comes of it to Finish.
type Aside struct {
	Group string
	// Work ends early, and its result counts for nothing, when goOn returns false.
	Work func(goOn func() bool) any
}

// CompileRegex compiles what must match a whole name: of a topic, or a transactional id. Go's expressions are RE2's, as Kafka's: matching
// takes time in proportion to the name, whatever the expression.
func CompileRegex(regex string) (*regexp.Regexp, error) {
	if len(regex) > regexBytesMax {
		return nil, fmt.Errorf("too long a regular expression, with %d bytes where %d are allowed: name the topics, or write it shorter", len(regex), regexBytesMax)
	}
	parsed, err := syntax.Parse(regex, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("not a regular expression of RE2: %w", err)
	}
	if instructions(parsed) > regexInstructionsMax {
		return nil, fmt.Errorf("too large a regular expression, with its repetitions: it takes more than %d instructions", regexInstructionsMax)
	}
	return regexp.Compile(`\A(?:` + parsed.String() + `)\z`) // not what was said: what it left open, as \Q, would go on
}

// instructions is about how many instructions an expression is compiled to, and not much more than regexInstructionsMax: what is
// repeated takes as many as it is repeated.
func instructions(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n = min(n+instructions(sub), regexInstructionsMax+1)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, regexInstructionsMax+1)
}

// regexSaid looks at the member's regular expression, and has all of the group resolved when that is due.
func (ch *change) regexSaid() (regexChange, *kafka.Refusal) {
	c, was, is := ch.c, ch.member.regex, ch.said.regex
	result, required := regexSame, false
	if is != was {
		result = regexUpdated
		if was != "" && c.regexReads[was] == 1 {
			ch.records = append(ch.records, regexRecord(ch.id, was, nil))
		}
		switch {
		case is == "":
			result = regexKnown
		case c.regexReads[is] == 0:
			if _, err := CompileRegex(is); err != nil {
				return 0, kafka.Refuse(kafka.InvalidRegularExpression, "%q is %v", shortened(is), err)
			}
			required = true
		case c.regexes[is] != nil:
			result = regexKnown
		}
	}
	ch.resolve(required)
	return result, nil
}

// resolve has the group's regular expressions resolved aside, if that is required, or topics were created since, or it was long ago.
func (ch *change) resolve(required bool) {
	c := ch.c
	if !required && len(c.regexReads) == 0 || c.resolving {
		return
	}
	last := c.lastResolved()
	soonest := c.refusedMs
	if last != nil {
		soonest = max(soonest, last.atMs)
	}
	if soonest > 0 && ch.now.UnixMilli() <= soonest+regexRefreshMin.Milliseconds() {
		return
	}
	subscribed := ch.regexReaders()
	required = required || len(subscribed) != len(c.regexes)
	if last != nil {
		required = required || last.version < ch.m.newTopicsAt || ch.now.UnixMilli() > last.atMs+ch.m.cfg.RegexRefresh.Milliseconds()
	} else {
		required = true
	}
	if !required || len(subscribed) == 0 {
		return
	}
	cluster, regexes, ms := ch.m.cluster, slices.Sorted(maps.Keys(subscribed)), ch.now.UnixMilli()
	ch.resolving = true
	ch.aside = append(ch.aside, Aside{Group: ch.id, Work: func(goOn func() bool) any { return resolveAll(cluster, regexes, ms, goOn) }})
}

// lastResolved is one of the regular expressions that were resolved: all are resolved together.
func (c *consumerGroup) lastResolved() *resolvedRegex {
	for _, regex := range slices.Sorted(maps.Keys(c.regexes)) {
		return c.regexes[regex]
	}
	return nil
}

// shortened is an expression in a message.
func shortened(regex string) string {
	if len(regex) > 100 {
		return regex[:100] + "..."
	}
	return regex
}

// resolveAll goes through the names of all topics.
func resolveAll(cluster Cluster, regexes []string, ms int64, goOn func() bool) map[string]*resolvedRegex {
	all := make(map[string]*resolvedRegex, len(regexes))
	compiled := make([]*regexp.Regexp, len(regexes))
	for i, regex := range regexes {
		all[regex] = &resolvedRegex{version: cluster.Version(), atMs: ms}
		compiled[i], _ = CompileRegex(regex) // one that an older or later version took for right matches nothing
	}
	for name := range cluster.TopicNames() {
		if !goOn() {
			return nil
		}
		for i, c := range compiled {
			if c != nil && c.MatchString(name) {
				r := all[regexes[i]]
				r.topics = append(r.topics, name)
			}
		}
	}
	for _, regex := range regexes {
		all[regex].topics = inOrder(all[regex].topics)
	}
	return all
}

// Finish takes what came of the work aside of a group.
func (m *Machine) Finish(now time.Time, groupID string, result any) Effects {
	g := m.groups[groupID]
	if g == nil || g.consumer == nil {
		return Effects{}
	}
	switch result := result.(type) {
	case assigned:
		return m.finishAssignment(now, g, &result)
	case map[string]*resolvedRegex:
		return m.finishRegexes(now, g, result)
	}
	return Effects{}
}

// mayGiveUp tells whether a member that reads by an expression new to the group is to have partitions, or will be when the target is made
// that is being made: it has read something else before. They are for others then, even if the expression matches nothing.
func (c *consumerGroup) mayGiveUp(regex string) bool {
	return c.assigning != nil || slices.ContainsFunc(c.ids(), func(id string) bool { return c.members[id].regex == regex && len(c.target[id]) > 0 })
}

func (m *Machine) finishRegexes(now time.Time, g *group, resolved map[string]*resolvedRegex) Effects {
	c, groupID := g.consumer, g.id
	c.resolving = false
	reads := make(map[string]readers, len(c.reads))
	for topic, r := range c.reads {
		reads[topic] = r
	}
	e, bump := Effects{}, false
	for _, regex := range slices.Sorted(maps.Keys(resolved)) {
		if c.regexReads[regex] == 0 {
			continue // nobody reads by it any more
		}
		was := c.regexes[regex]
		if was == nil {
			was = &resolvedRegex{}
			bump = bump || c.mayGiveUp(regex)
		}
		if !slices.Equal(was.topics, resolved[regex].topics) {
			bump = true
			c.countRegex(reads, was, -1)
			c.countRegex(reads, resolved[regex], 1)
		}
		e.Records = append(e.Records, regexRecord(groupID, regex, resolved[regex]))
	}
	hash := m.metadataHash(reads)
	bump = bump || hash != c.hash
	if bump {
		e.Records = append(e.Records, epochRecord(groupID, c.epoch+1, hash))
	}
	if len(e.Records) > 0 {
		e.settle = func(_ time.Time, refused kafka.Error) Effects {
			switch {
			case refused != kafka.None: // the largest cannot be written: too many topics match
				c.refusedMs = now.UnixMilli()
				m.note(RegexRefused, g, "", refused.Error()+": let them match fewer topics, or set max.message.bytes of __consumer_offsets higher")
			case bump:
				c.seen = m.learned
				m.note(Rebalancing, g, "", "")
			}
			return Effects{}
		}
	}
	return e
}
