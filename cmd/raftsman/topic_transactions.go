package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// openTransaction is the oldest transaction that has begun in a partition and not ended.
type openTransaction struct {
	ProducerID    int64  `json:"producerId"`
	StartOffset   int64  `json:"startOffset"`
	LastTimestamp string `json:"lastTimestamp"` // of its producer's newest record there
}

// findOpenTransactions looks for them in the partitions where readers of committed records do not come to the end. They are a
// comfort: nothing is said where no broker can tell.
func findOpenTransactions(ctx context.Context, adm *kadm.Client, views []topicView) error {
	var names []string
	for i := range views {
		names = append(names, views[i].Topic)
	}
	stable, err := adm.ListCommittedOffsets(ctx, names...)
	if err = unlessPartial(err); err != nil {
		return err
	}
	waiting := kadm.TopicsSet{}
	for i := range views {
		for _, p := range views[i].Partitions {
			if at := listed(stable, views[i].Topic, p.Partition); at >= 0 && at < p.EndOffset {
				waiting.Add(views[i].Topic, p.Partition)
			}
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	producers, err := adm.DescribeProducers(ctx, waiting)
	if err != nil {
		return ctx.Err()
	}
	for i := range views {
		for j := range views[i].Partitions {
			p := &views[i].Partitions[j]
			p.OpenTransaction = oldestOpen(producers[views[i].Topic].Partitions[p.Partition].ActiveProducers)
		}
	}
	return nil
}

func oldestOpen(producers kadm.DescribedProducers) *openTransaction {
	var oldest *openTransaction
	for _, p := range producers {
		if p.CurrentTxnStartOffset >= 0 && (oldest == nil || p.CurrentTxnStartOffset < oldest.StartOffset) {
			oldest = &openTransaction{
				ProducerID: p.ProducerID, StartOffset: p.CurrentTxnStartOffset, LastTimestamp: formatTime(time.UnixMilli(p.LastTimestamp)),
			}
		}
	}
	return oldest
}

// hint says what an open transaction means.
func (o *openTransaction) hint(partition int32) string {
	return fmt.Sprintf("partition %d has a transaction open since offset %d (producer %d, its last record is of %s): readers of committed "+
		"records wait there until it ends", partition, o.StartOffset, o.ProducerID, o.LastTimestamp)
}
