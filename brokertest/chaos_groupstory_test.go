package brokertest_test

import "strings"

// groupStory is what is known of one group.
type groupStory struct {
	committed map[place]int64 // the greatest acknowledged commit since the last reset
	// owners are who owns what in each generation, as SyncGroup told.
	owners     map[int32]map[place]string
	generation int32 // the greatest one in which somebody was told its partitions
	leaders    map[int32]string
	instances  map[string]string // the member ids of static members
}

func (l *ledger) group(name string) *groupStory {
	g := l.groups[name]
	if g == nil {
		g = &groupStory{committed: map[place]int64{}, owners: map[int32]map[place]string{}, leaders: map[int32]string{}, instances: map[string]string{}}
		l.groups[name] = g
	}
	return g
}

// commitFloor is what an OffsetFetch that is sent after this call must find at least.
func (l *ledger) commitFloor(group string, p place) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.group(group).committed[p]; ok {
		return at
	}
	return -1
}

// committed is told of an acknowledged commit, or of one that was found.
func (l *ledger) committed(group string, p place, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.group(group)
	if at, ok := g.committed[p]; !ok || offset > at {
		g.committed[p] = offset
	}
}

// foundCommit is told what an OffsetFetch found, and the floor from when it was sent.
func (l *ledger) foundCommit(who, group string, p place, floor, offset int64) {
	if offset < floor {
		l.mu.Lock()
		l.fault("%s: group %s has committed offset %d of %s, and had %d before", who, group, offset, p, floor)
		l.mu.Unlock()
	}
	if offset >= 0 {
		l.committed(group, p, offset)
	}
}

// names is told the instance id of a member: static members that come back get another id and are who they were.
func (l *ledger) names(group, member string, instance *string) {
	if instance == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.group(group).instances[member] = *instance
}

// who is a member's instance id, or its own. Others may hear of the new id of a static member whose own answer was lost: it begins with
// the instance id, as Kafka makes them.
func (g *groupStory) who(member string) string {
	if instance, ok := g.instances[member]; ok {
		return instance
	}
	for _, instance := range g.instances {
		if rest, ok := strings.CutPrefix(member, instance+"-"); ok && len(rest) == uuidLength {
			return instance
		}
	}
	return member
}

const uuidLength = 36

// leads is told who was made leader of a generation.
func (l *ledger) leads(group string, generation int32, member string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.group(group)
	member = g.who(member)
	if other, ok := g.leaders[generation]; ok && other != member && g.owners[generation] != nil {
		l.fault("group %s, generation %d: leaders are %s and %s", group, generation, other, member)
	}
	g.leaders[generation] = member
}

// latestGeneration is the one that a commit sent after this call may not be older than.
func (l *ledger) latestGeneration(group string) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.group(group).generation
}

// owns is told what SyncGroup gave to a member.
func (l *ledger) owns(group string, generation int32, member string, places []place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.group(group)
	member = g.who(member)
	if g.owners[generation] == nil {
		g.owners[generation] = map[place]string{}
	}
	for _, p := range places {
		if other, ok := g.owners[generation][p]; ok && other != member {
			l.fault("group %s, generation %d: %s belongs to %s and to %s", group, generation, p, other, member)
		}
		g.owners[generation][p] = member
	}
	g.generation = max(g.generation, generation)
}

// commitAccepted is told of a commit that was accepted from a member of a generation, and the latest one when it was sent.
func (l *ledger) commitAccepted(group, member string, generation, latest int32) {
	if generation < latest {
		l.mu.Lock()
		l.fault("group %s accepted a commit of %s in generation %d, after generation %d had begun", group, member, generation, latest)
		l.mu.Unlock()
	}
}
