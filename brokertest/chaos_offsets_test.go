package brokertest_test

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// keeper commits offsets of a group without members, deletes them and deletes the group. It is alone with its group, so that it
// knows what must be there: one value, or several where an answer did not come. -1 stands for no offset.
type keeper struct {
	*worker
	group  string
	topic  *topic
	values map[place][]int64
}

func (k *worker) keepOffsets(group string, t *topic) {
	o := &keeper{worker: k, group: group, topic: t, values: map[place][]int64{}}
	for o.running() {
		at := t.place(o.r.Int32N(min(2, t.partitions.Load())))
		switch o.r.IntN(10) {
		case 0:
			o.deleteOffset(at)
		case 1:
			o.deleteGroup()
		case 2, 3, 4, 5:
			o.check()
		default:
			o.commit(at, o.r.Int64N(1_000_000))
		}
		o.pause(10 * time.Millisecond)
	}
	// The last word, with the broker as it is in the end.
	o.ctx = o.verifyContext()
	o.check()
	o.hangUp()
}

func (o *keeper) possible(at place) []int64 {
	if v := o.values[at]; len(v) > 0 {
		return v
	}
	return []int64{-1}
}

// settled notes the outcome of a change: code 0, another one, or none.
func (o *keeper) settled(what string, at place, value int64, code int16, ok bool, none ...int16) {
	switch {
	case !ok || code == kerr.RequestTimedOut.Code || code == kerr.CoordinatorNotAvailable.Code || code == kerr.NotCoordinator.Code:
		o.values[at] = append(slices.Clone(o.possible(at)), value)
	case code == 0:
		o.values[at] = []int64{value}
	case slices.Contains(none, code) || retryCoordinator(code):
	default:
		o.unexpected(what, code)
		o.values[at] = append(slices.Clone(o.possible(at)), value)
	}
}

func (o *keeper) commit(at place, value int64) {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version = 2 + int16(o.r.IntN(9))
	req.Group, req.Generation, req.RetentionTimeMillis = o.group, -1, -1
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID = o.topic.name, o.topic.id
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset = at.index, value
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, ok := o.ask(req)
	code := int16(0)
	if ok {
		code = resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
	}
	o.settled("OffsetCommit", at, value, code, ok)
}

func (o *keeper) deleteOffset(at place) {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = o.group
	rt := kmsg.NewOffsetDeleteRequestTopic()
	rt.Topic = o.topic.name
	rp := kmsg.NewOffsetDeleteRequestTopicPartition()
	rp.Partition = at.index
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, ok := o.ask(req)
	code := int16(0)
	if ok {
		r := resp.(*kmsg.OffsetDeleteResponse)
		if code = r.ErrorCode; code == 0 {
			code = r.Topics[0].Partitions[0].ErrorCode
		}
	}
	o.settled("OffsetDelete", at, -1, code, ok, kerr.GroupIDNotFound.Code)
}

func (o *keeper) deleteGroup() {
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Version = int16(o.r.IntN(3))
	req.Groups = []string{o.group}
	resp, ok := o.ask(req)
	code := int16(0)
	if ok {
		code = resp.(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode
	}
	for _, at := range slices.Collect(keysOf(o.values)) {
		o.settled("DeleteGroups", at, -1, code, ok, kerr.GroupIDNotFound.Code)
		if ok && code == kerr.GroupIDNotFound.Code && !slices.Contains(o.possible(at), -1) {
			o.fault("%s: group %s is not found, and has committed offset %v", o.name, o.group, o.values[at])
		}
	}
}

func keysOf[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (o *keeper) check() {
	found, ok := o.committed(o.group, []*topic{o.topic})
	if !ok {
		return
	}
	for at := range o.values {
		value := int64(-1)
		if v, ok := found[at]; ok {
			value = v
		}
		if !slices.Contains(o.possible(at), value) {
			o.fault("%s: group %s has offset %d of %s, want one of %v", o.name, o.group, value, at, o.possible(at))
		}
		o.values[at] = []int64{value}
	}
	for at, value := range found {
		if _, ok := o.values[at]; !ok && value >= 0 {
			o.fault("%s: group %s has offset %d of %s, which nobody committed", o.name, o.group, value, at)
		}
	}
}

// describes checks how the broker describes a group after all that happened. It may only be unknown if it has no offsets.
func (k *worker) describes(group string, topics []*topic) {
	found, ok := k.committed(group, topics)
	if !ok {
		return
	}
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version = 5
	req.Groups = []string{group}
	resp, ok := k.ask(req)
	if !ok {
		return
	}
	g := resp.(*kmsg.DescribeGroupsResponse).Groups[0]
	states := []string{"Empty", "Stable", "PreparingRebalance", "CompletingRebalance"}
	if len(found) == 0 {
		states = append(states, "Dead")
	}
	if g.ErrorCode != 0 || !slices.Contains(states, g.State) {
		k.fault("%s: group %s with %d committed offsets is described as %q, error %d", k.name, group, len(found), g.State, g.ErrorCode)
	}
}
