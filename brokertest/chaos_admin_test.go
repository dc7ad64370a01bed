package brokertest_test

import (
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// createTopic creates one that stays, before the disturbances begin.
func (w *world) createTopic(name string, partitions int32, configs ...string) *topic {
	w.Helper()
	k := w.newWorker("create", w.ctx)
	defer k.hangUp()
	t := &topic{name: name}
	resp, ok := k.ask(createRequest(7, name, partitions, configs...))
	if !ok || resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode != 0 {
		w.Fatalf("create %s: %+v", name, resp)
	}
	t.id = resp.(*kmsg.CreateTopicsResponse).Topics[0].TopicID
	t.partitions.Store(partitions)
	return t
}

func createRequest(version int16, name string, partitions int32, configs ...string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = version, 50_000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, 1
	for i := 0; i < len(configs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = configs[i], kmsg.StringPtr(configs[i+1])
		rt.Configs = append(rt.Configs, c)
	}
	req.Topics = append(req.Topics, rt)
	return req
}

// knobs are the settings that an administrator turns while clients write and read. The first value is harmless.
var knobs = []struct {
	name   string
	values []string
}{
	{"max.message.bytes", []string{"1048588", "1500"}},
	{"message.timestamp.type", []string{"CreateTime", "LogAppendTime"}},
	{"compression.type", []string{"producer", "zstd", "uncompressed", "gzip"}},
	{"segment.ms", []string{"604800000", "60"}},
	{"segment.bytes", []string{"1073741824", "1048576"}},
	{"index.interval.bytes", []string{"4096", "0", "1"}},
	{"message.timestamp.before.max.ms", []string{"9223372036854775807", "50"}},
	{"flush.messages", []string{"9223372036854775807", "1"}},
}

// administer changes one topic that stays: its settings, its partitions, its start.
func (k *worker) administer(t *topic) {
	set := map[string][]string{} // the values that a setting may have: none that are known, or several where an answer did not come
	for k.running() {
		switch k.r.IntN(10) {
		case 0:
			k.grow(t)
		case 1, 2, 3:
			if t.trims {
				k.deleteRecords(t)
			}
		default:
			k.turn(t, set)
		}
		k.pause(40 * time.Millisecond)
	}
}

func (k *worker) grow(t *topic) {
	had := t.partitions.Load()
	if had >= 6 {
		return
	}
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version, req.TimeoutMillis = int16(k.r.IntN(4)), 50_000
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = t.name, had+1
	req.Topics = append(req.Topics, rt)
	if t.expires {
		k.ledger.expiring(t.place(had))
	}
	resp, ok := k.ask(req)
	if !ok {
		return
	}
	switch code := resp.(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode; code {
	case 0, kerr.InvalidPartitions.Code: // there already, from a request that was not answered
		t.partitions.Store(had + 1)
	default:
		k.unexpected("CreatePartitions", code)
	}
}

func (k *worker) deleteRecords(t *topic) {
	at := t.place(k.r.Int32N(t.partitions.Load()))
	before := k.ledger.marks(at)
	to := before.start + k.r.Int64N(max(before.high-before.start, 0)/4+1)
	k.ledger.deleting(at, to)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version, req.TimeoutMillis = int16(k.r.IntN(3)), 50_000
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = t.name
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Partition, rp.Offset = at.index, to
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, ok := k.ask(req)
	if !ok {
		return
	}
	p := resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		k.unexpected(fmt.Sprintf("DeleteRecords of partition %d of %s to %d", at.index, t.name, to), p.ErrorCode)
		return
	}
	if p.LowWatermark < to {
		k.fault("%s: DeleteRecords to %d answered %d", k.name, to, p.LowWatermark)
	}
	k.ledger.promised(at, p.LowWatermark)
	k.ledger.told(k.name+" (DeleteRecords)", at, before, marks{high: -1, start: p.LowWatermark, epoch: -1})
}

// turn changes a setting and checks that it is what was set last.
func (k *worker) turn(t *topic, set map[string][]string) {
	knob := knobs[k.r.IntN(len(knobs))]
	if value, ok := k.setting(t.name, knob.name); ok && len(set[knob.name]) > 0 {
		if !contains(set[knob.name], value) {
			k.fault("%s: %s of %s is %s, want one of %v", k.name, knob.name, t.name, value, set[knob.name])
		}
	}
	value := knob.values[0]
	if k.r.IntN(3) == 0 {
		value = knob.values[k.r.IntN(len(knob.values))]
	}
	if k.alter(t.name, knob.name, value) {
		set[knob.name] = []string{value}
	} else if len(set[knob.name]) > 0 {
		set[knob.name] = append(set[knob.name], value)
	}
}

func contains(values []string, value string) bool {
	for _, v := range values {
		if v == value {
			return true
		}
	}
	return false
}

func (k *worker) alter(topic, name, value string) bool {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = int16(k.r.IntN(2))
	rr := kmsg.NewIncrementalAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = name, kmsg.StringPtr(value)
	rr.Configs = append(rr.Configs, c)
	req.Resources = append(req.Resources, rr)
	resp, ok := k.ask(req)
	if !ok {
		return false
	}
	r := resp.(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
	if r.ErrorCode != 0 {
		k.unexpected(fmt.Sprintf("set %s=%s", name, value), r.ErrorCode)
		return false
	}
	return true
}

func (k *worker) setting(topic, name string) (string, bool) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 1 + int16(k.r.IntN(4))
	rr := kmsg.NewDescribeConfigsRequestResource()
	rr.ResourceType, rr.ResourceName, rr.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, []string{name}
	req.Resources = append(req.Resources, rr)
	resp, ok := k.ask(req)
	if !ok {
		return "", false
	}
	r := resp.(*kmsg.DescribeConfigsResponse).Resources[0]
	if r.ErrorCode != 0 || len(r.Configs) != 1 || r.Configs[0].Value == nil {
		k.unexpected("DescribeConfigs", r.ErrorCode)
		return "", false
	}
	return *r.Configs[0].Value, true
}

// churn creates, fills, grows and deletes topics of one name, and holds the broker to what it acknowledged.
func (k *worker) churn(name string) {
	for round := 0; k.running(); round++ {
		if t := k.churnCreate(name); t != nil {
			k.churnOffset(t)
			k.churnUse(t, round)
			k.churnDelete(t)
		}
		k.pause(20 * time.Millisecond)
	}
}

// churnCreate creates the topic; nil if that did not work out.
func (k *worker) churnCreate(name string) *topic {
	partitions := 1 + k.r.Int32N(3)
	for k.running() {
		resp, ok := k.ask(createRequest(2+int16(k.r.IntN(6)), name, partitions, "retention.bytes", strconv.Itoa(1_000_000+k.r.IntN(100))))
		if !ok {
			continue
		}
		switch code := resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; code {
		case 0, kerr.TopicAlreadyExists.Code: // from a request that was not answered
			if t := k.lookTopic(name); t != nil {
				if got := t.partitions.Load(); got != partitions {
					k.fault("%s: created %d partitions of %s, and there are %d", k.name, partitions, name, got)
				}
				return t
			}
		default:
			k.unexpected("CreateTopics", code)
		}
	}
	return nil
}

// lookTopic finds a topic that exists; nil without an answer.
func (k *worker) lookTopic(name string) *topic {
	for k.running() {
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 12
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, rt)
		resp, ok := k.ask(req)
		if !ok {
			continue
		}
		got := resp.(*kmsg.MetadataResponse).Topics[0]
		if got.ErrorCode != 0 {
			k.unexpected(fmt.Sprintf("Metadata of %s, which was created", name), got.ErrorCode)
			return nil
		}
		t := &topic{name: name, id: got.TopicID}
		t.partitions.Store(int32(len(got.Partitions)))
		return t
	}
	return nil
}

// churnOffset commits an offset in a topic that is new: nothing may be left of the topics that had its name before.
func (k *worker) churnOffset(t *topic) {
	o := &keeper{worker: k, group: "of " + t.name, topic: t, values: map[place][]int64{t.place(0): {-1}}}
	o.check()
	o.commit(t.place(0), o.r.Int64N(1000))
	o.check()
}

// churnUse writes to a topic and reads it.
func (k *worker) churnUse(t *topic, round int) {
	p := &pen{worker: k, acks: -1, idempotent: true, numbers: map[place]int{}}
	base := k.name
	k.name = fmt.Sprintf("%s#%d", base, round)
	defer func() { k.name = base }()
	e := &eye{worker: k, topics: []*topic{t}, positions: map[place]int64{}, epoch: -1}
	for range 1 + k.r.IntN(6) {
		if !p.running() {
			return
		}
		switch k.r.IntN(4) {
		case 0:
			if k.r.IntN(2) == 0 {
				k.grow(t)
			}
		case 1:
			e.fetch()
		default:
			if !p.identify() {
				continue
			}
			window := []*batch{p.batch(t, p.r.Int32N(t.partitions.Load())), p.batch(t, p.r.Int32N(t.partitions.Load()))}
			for len(window) > 0 && p.running() {
				window = p.deliver(window)
			}
		}
	}
	e.fetch()
}

// churnDelete deletes a topic, by name or id, until it is gone, and checks that its id is not served any more.
func (k *worker) churnDelete(t *topic) {
	for k.running() {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version, req.TimeoutMillis = 1+int16(k.r.IntN(6)), 50_000
		rt := kmsg.NewDeleteTopicsRequestTopic()
		if k.r.IntN(2) == 0 {
			rt.TopicID = t.id
		} else {
			rt.Topic = kmsg.StringPtr(t.name)
		}
		if rt.Topic == nil {
			req.Version = 6
		}
		req.Topics = append(req.Topics, rt)
		req.TopicNames = []string{t.name}
		resp, ok := k.ask(req)
		if !ok {
			continue
		}
		switch code := resp.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode; code {
		case 0, kerr.UnknownTopicID.Code, kerr.UnknownTopicOrPartition.Code:
			k.isGone(t)
			return
		default:
			k.unexpected("DeleteTopics", code)
		}
	}
}

// isGone checks that nothing is written to a deleted topic, nor read.
func (k *worker) isGone(t *topic) {
	p := &pen{worker: k, acks: int16(k.r.IntN(2)*2 - 1), numbers: map[place]int{t.place(0): k.r.IntN(1 << 30)}}
	base := k.name
	k.name = fmt.Sprintf("%s#ghost%d", base, k.r.IntN(1<<30))
	b := p.batch(t, 0)
	k.name = base
	req := p.request(b)
	req.Version = 13
	code, _, ok := k.outcome(k.send(req))
	if ok && code != kerr.UnknownTopicID.Code {
		k.unexpected(fmt.Sprintf("Produce to %s after it was deleted was not refused with UNKNOWN_TOPIC_ID", t.name), code)
		if code == 0 {
			k.fault("%s: a record went to topic %s, which is deleted", k.name, t.name)
		}
	}
	e := &eye{worker: k, topics: []*topic{t}, positions: map[place]int64{}, epoch: -1}
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version, fetch.MaxBytes = 13, 1000
	rt := kmsg.NewFetchRequestTopic()
	rt.TopicID = t.id
	rt.Partitions = append(rt.Partitions, kmsg.NewFetchRequestTopicPartition())
	fetch.Topics = append(fetch.Topics, rt)
	if resp, ok := e.ask(fetch); ok {
		switch code := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode; code {
		case kerr.UnknownTopicID.Code:
		case 0:
			k.fault("%s: Fetch of %s answered after it was deleted", k.name, t.name)
		default: // a broker that is being killed may have the deletion on its disk, and do nothing about it any more
			k.unexpected("Fetch of "+t.name+" after it was deleted", code)
		}
	}
}
