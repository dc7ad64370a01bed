package meta

import (
	"slices"

	"github.com/raftsman/raftsman/internal/kafka"
)

// apply lets a broker see the metadata up to a state: it makes and deletes replicas, begins to lead and ends it.
func (w *world) apply(h *host, upTo int) {
	if !h.up || h.cut {
		return
	}
	h.replays = upTo
	im := w.states[upTo].im
	if !h.registered(im) {
		return // an older start of this broker may lead by it
	}
	had := map[partitionID]bool{}
	for t := range im.Topics() {
		for i := range t.Partitions {
			p, id := &t.Partitions[i], partitionID{t.ID, int32(i)}
			if slices.Contains(p.Replicas, h.id) {
				had[id] = true
				w.hold(h, p, id)
				w.lead(h, p, id)
			}
		}
	}
	for _, id := range h.partitions() {
		if !had[id] {
			delete(h.logs, id)
			delete(h.leads, id)
		}
	}
}

// hold makes the replica where there is none. One whose directory has failed since the start is not made again before the next one.
func (w *world) hold(h *host, p *Partition, id partitionID) {
	if h.logs[id] != nil {
		return
	}
	dir := p.Dirs[slices.Index(p.Replicas, h.id)]
	if slices.Contains(h.failed, dir) || slices.Contains(h.missing, id) {
		return
	}
	if !slices.Contains(h.dirs, dir) {
		working := slices.DeleteFunc(slices.Clone(h.dirs), func(dir kafka.UUID) bool { return slices.Contains(h.failed, dir) })
		dir = working[w.rand.IntN(len(working))]
		h.tellDir(w, id, dir)
	}
	h.logs[id] = &replicaLog{dir: dir}
}

func (h *host) tellDir(w *world, id partitionID, dir kafka.UUID) {
	cmd := AssignDirs{Broker: h.id, Epoch: h.epoch, Dirs: []DirAssignment{{ID: dir, Topics: []TopicIDPartitions{{ID: id.topic, Partitions: []int32{id.number}}}}}}
	w.network = append(w.network, func() {
		if entries, _, err := DecideAssignDirs(w.tip(), cmd, w.env); err == nil {
			w.append(entries, nil)
		}
	})
}

// lead begins, continues or ends a leadership.
func (w *world) lead(h *host, p *Partition, id partitionID) {
	l, log := h.leads[id], h.logs[id]
	switch {
	case p.Leader != h.id || log == nil:
		delete(h.leads, id)
	case l == nil || l.epoch < p.LeaderEpoch:
		w.checkLeader(h, p, id)
		h.leads[id] = &leadership{
			epoch: p.LeaderEpoch, partitionEpoch: p.PartitionEpoch, isr: p.ISR, recovering: p.Recovering,
			start: len(log.entries), followers: map[kafka.NodeID]follower{},
		}
	case l.partitionEpoch < p.PartitionEpoch:
		l.partitionEpoch, l.isr, l.wanted, l.recovering = p.PartitionEpoch, p.ISR, nil, p.Recovering
	}
	w.advance(h, id)
}

// checkLeader checks that a broker that begins to lead has all that was acknowledged.
func (w *world) checkLeader(h *host, p *Partition, id partitionID) {
	d := w.truth(id)
	if p.LeaderEpoch < d.epoch || p.LeaderEpoch < d.floor {
		return // it has not seen yet that another one leads
	}
	if d.epoch == p.LeaderEpoch && d.leader != h {
		w.fail("%v: brokers %d and %d lead in epoch %d", id, d.leader.id, h.id, p.LeaderEpoch)
	}
	d.epoch, d.leader = p.LeaderEpoch, h
	if log := h.logs[id].entries; len(log) < len(d.acked) || !slices.Equal(log[:len(d.acked)], d.acked) {
		w.fail("broker %d leads %v in epoch %d with %v, but acknowledged are %v: %+v", h.id, id, p.LeaderEpoch, log, d.acked, *p)
	}
}

// advance moves the high watermark: what is below it is acknowledged.
func (w *world) advance(h *host, id partitionID) {
	l, log := h.leads[id], h.logs[id]
	if l == nil {
		return
	}
	t, _ := w.states[h.replays].im.TopicByID(id.topic)
	p := &t.Partitions[id.number]
	if len(l.isr) < min(w.states[h.replays].im.minISR(t.Name, &w.env), len(p.Replicas)) {
		return
	}
	hw := log.told(h)
	for _, other := range append(slices.Clone(l.isr), l.wanted...) {
		if other != h.id {
			hw = min(hw, l.followers[other].end)
		}
	}
	l.hw = max(l.hw, hw)
	d := w.truth(id)
	if l.hw <= len(d.acked) || l.epoch < d.floor {
		return
	}
	fresh := log.entries[len(d.acked):l.hw]
	w.count.acknowledged += len(fresh)
	if !slices.Equal(log.entries[:len(d.acked)], d.acked) {
		w.fail("%v: broker %d acknowledges %v in epoch %d after %v", id, h.id, log.entries[:l.hw], l.epoch, d.acked)
	}
	d.acked = append(d.acked, fresh...)
	if newer := d.leader; l.epoch < d.epoch && newer.leads[id] != nil && newer.leads[id].epoch == d.epoch {
		if has := newer.logs[id].entries; len(has) < len(d.acked) || !slices.Equal(has[:len(d.acked)], d.acked) {
			w.fail("%v: broker %d acknowledges in epoch %d what broker %d does not have, which leads in epoch %d", id, h.id, l.epoch, newer.id, d.epoch)
		}
	}
}

// told is how far a broker says that it has the log.
func (l *replicaLog) told(h *host) int {
	if h.durable {
		return l.flushed
	}
	return len(l.entries)
}

// led returns a partition that the broker leads, by its own knowledge.
func (w *world) led(h *host) (partitionID, *leadership) {
	ids := slices.DeleteFunc(h.partitions(), func(id partitionID) bool { return h.leads[id] == nil })
	if !h.up || len(ids) == 0 {
		return partitionID{}, nil
	}
	id := ids[w.rand.IntN(len(ids))]
	return id, h.leads[id]
}

func (w *world) produce(h *host) {
	id, l := w.led(h)
	if l == nil {
		return
	}
	log := h.logs[id]
	for range 1 + w.rand.IntN(2) {
		log.entries = append(log.entries, written{l.epoch, w.rand.Int()})
	}
	w.advance(h, id)
}

func (w *world) flush(h *host) {
	for _, id := range h.partitions() {
		if w.chance(2) {
			h.logs[id].flushed = len(h.logs[id].entries)
			w.advance(h, id)
		}
	}
}

// fetch lets a broker follow the leaders that it knows: it tells each how far it has got, cuts off what the leader does not have, and
// takes some more.
func (w *world) fetch(h *host) {
	im := w.states[h.replays].im
	if !h.up || !h.registered(im) {
		return
	}
	for _, id := range h.partitions() {
		t, ok := im.TopicByID(id.topic)
		if !ok {
			continue
		}
		p := &t.Partitions[id.number]
		if p.Leader == kafka.NoNode || p.Leader == h.id {
			continue
		}
		from := w.host(p.Leader)
		l := from.leads[id]
		if !from.up || l == nil || l.epoch != p.LeaderEpoch || !w.well && w.chance(5) {
			continue
		}
		mine, theirs := h.logs[id], from.logs[id].entries
		same := 0
		for same < min(len(mine.entries), len(theirs)) && mine.entries[same] == theirs[same] {
			same++
		}
		mine.entries = mine.entries[:same]
		mine.flushed = min(mine.flushed, same)
		l.followers[h.id] = follower{mine.told(h), h.epoch}
		w.advance(from, id)
		upTo := len(theirs)
		if !w.well {
			upTo = same + w.rand.IntN(len(theirs)-same+1)
		}
		mine.entries = append(mine.entries, theirs[same:upTo]...)
	}
}

// wish lets a leader ask for another in-sync set: without those that lag, with those that have caught up. It asks again for what it was
// not answered.
func (w *world) wish(h *host) {
	id, l := w.led(h)
	if l == nil || h.cut {
		return
	}
	im := w.states[h.replays].im
	t, _ := im.TopicByID(id.topic)
	p := &t.Partitions[id.number]
	if l.wanted == nil {
		l.wanted = w.wantedISR(h, l, p, id, im)
	}
	alter := PartitionAlteration{Index: id.number, LeaderEpoch: l.epoch, PartitionEpoch: l.partitionEpoch}
	for _, member := range l.wanted {
		epoch := h.epoch
		if member != h.id {
			epoch = l.followers[member].epoch
			if b, ok := im.Broker(member); ok && slices.Contains(l.isr, member) && epoch == 0 {
				epoch = b.Epoch // it has not fetched from this leader yet
			}
		}
		alter.ISR = append(alter.ISR, ISRMember{member, epoch})
	}
	incarnation := h.incarnation
	cmd := AlterPartition{Broker: h.id, Epoch: h.epoch, Topics: []AlterPartitionTopic{{ID: id.topic, Partitions: []PartitionAlteration{alter}}}}
	w.network = append(w.network, func() {
		entries, result, err := DecideAlterPartition(w.tip(), cmd, w.env)
		if err != nil {
			w.count.refused++
			return
		}
		w.append(entries, func() {
			w.network = append(w.network, func() {
				if h.up && h.incarnation == incarnation && h.leads[id] == l {
					w.answered(h, id, l, result.Topics[0].Partitions[0])
				}
			})
		})
	})
}

// wantedISR is what the leader may ask for.
func (w *world) wantedISR(h *host, l *leadership, p *Partition, id partitionID, im *Image) []kafka.NodeID {
	if l.recovering {
		return []kafka.NodeID{h.id}
	}
	wanted := []kafka.NodeID{}
	end := len(h.logs[id].entries)
	for _, member := range p.Replicas {
		f := l.followers[member]
		b, ok := im.Broker(member)
		switch {
		case member == h.id:
			wanted = append(wanted, member)
		case slices.Contains(l.isr, member):
			if f.end >= end || w.well || !w.chance(3) {
				wanted = append(wanted, member)
			}
		case ok && b.inService() && b.Epoch == f.epoch && f.end >= l.hw && f.end >= l.start:
			wanted = append(wanted, member)
		}
	}
	return wanted
}

// answered is what a leader does with the answer.
func (w *world) answered(h *host, id partitionID, l *leadership, r AlteredPartition) {
	switch {
	case r.Err == kafka.IneligibleReplica:
		l.wanted = nil
		w.count.refused++
	case r.Err != kafka.None:
		w.count.refused++ // it waits for the metadata
	case r.LeaderEpoch == l.epoch && r.PartitionEpoch > l.partitionEpoch:
		l.partitionEpoch, l.isr, l.wanted, l.recovering = r.PartitionEpoch, r.ISR, nil, r.RecoveryState == Recovering
		w.count.altered++
		w.advance(h, id)
	case r.PartitionEpoch == l.partitionEpoch:
		l.wanted = nil
	}
}

// everybody does all that brokers do by themselves.
func (w *world) everybody() {
	w.commit(len(w.states) - 1)
	for _, h := range w.hosts {
		w.apply(h, w.committed)
		w.heartbeat(h)
		w.fetch(h)
		w.flush(h)
		if !w.well {
			w.produce(h)
		}
	}
}

// calm makes everything well, and checks that it is.
func (w *world) calm() {
	w.step, w.well = "at the end", true
	for _, h := range w.hosts {
		h.cut = false
		if h.failed != nil || h.stopping { // neither of them gets well again
			w.kill(h)
		}
	}
	for round := range 80 {
		if w.t.Failed() {
			return
		}
		w.pass(1000)
		for _, h := range w.hosts {
			if !h.up {
				w.start(h)
			}
		}
		w.everybody()
		for _, h := range w.hosts {
			for range 4 {
				w.wish(h)
			}
		}
		for len(w.network) > 0 {
			message := w.network[0]
			w.network = w.network[1:]
			message()
			w.commit(len(w.states) - 1)
		}
		if round%10 == 9 {
			entries, _ := DecideElections(w.tip(), w.env)
			w.append(entries, nil)
		}
	}
	for t := range w.tip().Topics() {
		for i, p := range t.Partitions {
			switch lost := len(p.ISR)+len(p.ELR) == 0; {
			case lost && w.durable && !w.rough, !lost && p.Leader == kafka.NoNode:
				w.fail("%s-%d is not led: %+v", t.Name, i, p)
			case !lost && (len(p.ISR) != len(p.Replicas) || len(p.ELR) > 0 || p.Reassigning() || p.Recovering):
				w.fail("%s-%d has not settled: %+v", t.Name, i, p)
			}
		}
	}
}
