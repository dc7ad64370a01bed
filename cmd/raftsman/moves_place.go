package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/plan"
)

// placement is where the replicas of a cluster are, as a plan needs it: partitions that are on their way count as being there.
type placement struct {
	plan.Cluster
	underWay []underWay // by topic and partition
}

// underWay is a partition that is on its way to other brokers.
type underWay struct {
	topicPartition
	target           []kafka.NodeID // the replicas that it will have
	adding, removing []kafka.NodeID
}

func compareTopicPartitions(x, y topicPartition) int {
	return cmp.Or(cmp.Compare(x.topic, y.topic), cmp.Compare(x.partition, y.partition))
}

// partitionOf returns a partition, nil if there is none.
func (p *placement) partitionOf(tp topicPartition) *plan.Partition {
	for i := range p.Partitions {
		if q := &p.Partitions[i]; q.Topic == tp.topic && q.Number == tp.partition {
			return q
		}
	}
	return nil
}

// broker returns a broker that is registered, nil if there is none.
func (p *placement) broker(id kafka.NodeID) *plan.Broker {
	for i := range p.Brokers {
		if p.Brokers[i].ID == id {
			return &p.Brokers[i]
		}
	}
	return nil
}

// up returns the brokers in service.
func (p *placement) up() (ids []kafka.NodeID) {
	for _, b := range p.Brokers {
		if !b.Down {
			ids = append(ids, b.ID)
		}
	}
	return ids
}

func readPlacement(ctx context.Context, cl *kgo.Client, adm *kadm.Client) (*placement, error) {
	meta, err := adm.Metadata(ctx)
	if err != nil {
		return nil, err
	}
	p := &placement{}
	if p.Brokers, err = readBrokers(ctx, cl, meta.Brokers); err != nil {
		return nil, err
	}
	sizes, cordoned, err := readSizes(ctx, cl, nil)
	if err != nil {
		return nil, err
	}
	for i := range p.Brokers {
		p.Brokers[i].Cordoned = cordoned[p.Brokers[i].ID]
	}
	if p.underWay, err = readUnderWay(ctx, cl, nil); err != nil {
		return nil, err
	}
	for _, t := range meta.Topics.Sorted() {
		for _, d := range t.Partitions.Sorted() {
			q := plan.Partition{Topic: t.Topic, Number: d.Partition, Replicas: nodeIDs(d.Replicas), ISR: nodeIDs(d.ISR), Leader: kafka.NodeID(d.Leader)}
			tp := topicPartition{t.Topic, d.Partition}
			q.Bytes = sizes.of(tp, q.ISR)
			if i, found := slices.BinarySearchFunc(p.underWay, tp, underWay.compare); found {
				q.Replicas = p.underWay[i].target
			}
			p.Partitions = append(p.Partitions, q)
		}
	}
	return p, nil
}

func (u underWay) compare(tp topicPartition) int { return compareTopicPartitions(u.topicPartition, tp) }

// adds tells whether a broker gets a replica that it has not had.
func (u *underWay) adds(broker int32) bool { return slices.Contains(u.adding, kafka.NodeID(broker)) }

// readBrokers returns all that are registered: those in service, and as far as the cluster tells of them those that are not.
func readBrokers(ctx context.Context, cl *kgo.Client, inService kadm.BrokerDetails) ([]plan.Broker, error) {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeFencedBrokers = true
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, refused("describe the cluster", err, message(resp.ErrorMessage))
	}
	var brokers []plan.Broker
	for _, b := range resp.Brokers {
		here := slices.ContainsFunc(inService, func(d kadm.BrokerDetail) bool { return d.NodeID == b.NodeID })
		brokers = append(brokers, plan.Broker{ID: kafka.NodeID(b.NodeID), Rack: message(b.Rack), Down: b.IsFenced || !here})
	}
	slices.SortFunc(brokers, func(x, y plan.Broker) int { return cmp.Compare(x.ID, y.ID) })
	return brokers, nil
}

// replicaSizes are the bytes of replicas, by broker; future replicas are none.
type replicaSizes map[kafka.NodeID]map[topicPartition]int64

// of returns the size of the largest replica on some brokers: 0 where none of them tells.
func (s replicaSizes) of(tp topicPartition, on []kafka.NodeID) (bytes int64) {
	for _, id := range on {
		bytes = max(bytes, s[id][tp])
	}
	return bytes
}

// sizesPatience is how long a broker may take to say what it has: one that has just died is tried again and again.
const sizesPatience = 5 * time.Second

// readSizes asks the brokers in service for their log directories, and which have all of theirs cordoned. What a broker that does not
// answer has is unknown, and is no error. Topics nil are all.
func readSizes(ctx context.Context, cl *kgo.Client, topics []topicPartition) (replicaSizes, map[kafka.NodeID]bool, error) {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	for _, tp := range topics {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != tp.topic {
			t := kmsg.NewDescribeLogDirsRequestTopic()
			t.Topic = tp.topic
			req.Topics = append(req.Topics, t)
		}
		last := &req.Topics[len(req.Topics)-1]
		last.Partitions = append(last.Partitions, tp.partition)
	}
	sizes, cordoned := replicaSizes{}, map[kafka.NodeID]bool{}
	asking, cancel := context.WithTimeout(ctx, sizesPatience)
	defer cancel()
	for _, shard := range cl.RequestSharded(asking, req) {
		if shard.Err != nil {
			continue
		}
		id := kafka.NodeID(shard.Meta.NodeID)
		of, open, online := map[topicPartition]int64{}, 0, 0
		for _, dir := range shard.Resp.(*kmsg.DescribeLogDirsResponse).Dirs {
			if dir.ErrorCode != 0 {
				continue
			}
			online++
			if !dir.IsCordoned {
				open++
			}
			for _, t := range dir.Topics {
				for _, part := range t.Partitions {
					if !part.IsFuture {
						of[topicPartition{t.Topic, part.Partition}] = part.Size
					}
				}
			}
		}
		sizes[id], cordoned[id] = of, online > 0 && open == 0
	}
	return sizes, cordoned, ctx.Err()
}

// readUnderWay lists what is on its way, in order; of nil all.
func readUnderWay(ctx context.Context, cl *kgo.Client, of []topicPartition) ([]underWay, error) {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	for _, tp := range of {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != tp.topic {
			t := kmsg.NewListPartitionReassignmentsRequestTopic()
			t.Topic = tp.topic
			req.Topics = append(req.Topics, t)
		}
		last := &req.Topics[len(req.Topics)-1]
		last.Partitions = append(last.Partitions, tp.partition)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, refused("list what is on its way", err, message(resp.ErrorMessage))
	}
	var list []underWay
	for _, t := range resp.Topics {
		for _, r := range t.Partitions {
			u := underWay{topicPartition: topicPartition{t.Topic, r.Partition}, adding: nodeIDs(r.AddingReplicas), removing: nodeIDs(r.RemovingReplicas)}
			u.target = slices.DeleteFunc(nodeIDs(r.Replicas), func(id kafka.NodeID) bool { return slices.Contains(u.removing, id) })
			list = append(list, u)
		}
	}
	slices.SortFunc(list, func(x, y underWay) int { return compareTopicPartitions(x.topicPartition, y.topicPartition) })
	return list, nil
}

func nodeIDs(numbers []int32) []kafka.NodeID {
	ids := make([]kafka.NodeID, len(numbers))
	for i, n := range numbers {
		ids[i] = kafka.NodeID(n)
	}
	return ids
}

func numbersOf(ids []kafka.NodeID) []int32 {
	numbers := make([]int32, len(ids))
	for i, id := range ids {
		numbers[i] = int32(id)
	}
	return numbers
}
