package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// streamWithFranz is the steady producer with franz-go; see ../python/client.py for what it does and prints.
func streamWithFranz(ctx context.Context, bootstrap []string, topic string, partitions int, name string, rate int) error {
	const waiting = 20
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MaxBufferedRecords(waiting), kgo.ProducerLinger(2*time.Millisecond), kgo.StopProducerOnDataLossDetected(),
		kgo.ProduceRequestTimeout(4*time.Second), kgo.RequestTimeoutOverhead(time.Second))
	if err != nil {
		return err
	}
	defer cl.Close()
	pace := time.NewTicker(time.Second / time.Duration(rate))
	defer pace.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		partition := n % partitions
		value := fmt.Appendf(nil, "%s/%d/%d", name, partition, n/partitions)
		cl.Produce(context.Background(), &kgo.Record{Partition: int32(partition), Value: value}, func(r *kgo.Record, err error) {
			if err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", r.Value, err)
				os.Exit(1)
			}
			printRecord(nil, r.Value, int(r.Partition), r.Offset)
		})
		<-pace.C
	}
	return cl.Flush(context.Background())
}
