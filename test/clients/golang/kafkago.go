package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

type kafkaGo struct{ bootstrap []string }

func (k kafkaGo) create(ctx context.Context, topic string, partitions int) error {
	conn, err := kafka.DialContext(ctx, "tcp", k.bootstrap[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	controller, err := conn.Controller()
	if err != nil {
		return err
	}
	admin, err := kafka.DialContext(ctx, "tcp", net.JoinHostPort(controller.Host, strconv.Itoa(controller.Port)))
	if err != nil {
		return err
	}
	defer admin.Close()
	return admin.CreateTopics(kafka.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1})
}

var kafkaGoCodecs = map[string]kafka.Compression{"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}

func (k kafkaGo) produce(ctx context.Context, topic, codec string, records []keyValue) error {
	var failed error
	var once sync.Mutex
	writer := &kafka.Writer{
		Addr: kafka.TCP(k.bootstrap...), Topic: topic, Balancer: kafka.Murmur2Balancer{}, RequiredAcks: kafka.RequireAll,
		Compression: kafkaGoCodecs[codec], BatchTimeout: 5 * time.Millisecond,
		ReadTimeout: time.Minute, WriteTimeout: time.Minute, // its producer is not idempotent: what is sent again is there twice
		Completion: func(messages []kafka.Message, err error) {
			once.Lock()
			defer once.Unlock()
			failed = errors.Join(failed, err)
			for _, message := range messages {
				printRecord(message.Key, nil, message.Partition, message.Offset)
			}
		},
	}
	messages := make([]kafka.Message, 0, len(records))
	for _, r := range records {
		messages = append(messages, kafka.Message{Key: r.key, Value: r.value})
	}
	err := writer.WriteMessages(ctx, messages...)
	return errors.Join(err, writer.Close(), failed)
}

func (k kafkaGo) consume(ctx context.Context, group, topic string, count int) error {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: k.bootstrap, GroupID: group, Topic: topic, StartOffset: kafka.FirstOffset, MaxWait: 200 * time.Millisecond,
		SessionTimeout: sessionTimeout(count), HeartbeatInterval: 500 * time.Millisecond, JoinGroupBackoff: 500 * time.Millisecond,
	})
	for seen := 0; count == 0 || seen < count; seen++ {
		message, err := reader.FetchMessage(ctx)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return errors.Join(err, reader.Close())
		}
		printRecord(message.Key, message.Value, message.Partition, message.Offset)
		switch err := reader.CommitMessages(ctx, message); {
		case err == nil || ctx.Err() != nil:
		case count == 0: // the broker is away, or the group went on without this member, which joins again by itself
			fmt.Fprintln(os.Stderr, "commit:", err)
		default:
			return errors.Join(err, reader.Close())
		}
	}
	return reader.Close()
}

func (k kafkaGo) write(ctx context.Context, topic, codec string, records []keyValue) error {
	writer := &kafka.Writer{
		Addr: kafka.TCP(k.bootstrap...), Topic: topic, Compression: kafkaGoCodecs[codec], RequiredAcks: kafka.RequireAll,
		BatchTimeout: 5 * time.Millisecond,
	}
	messages := make([]kafka.Message, 0, len(records))
	for _, r := range records {
		message := kafka.Message{Key: r.key, Value: r.value}
		for _, h := range r.headers {
			message.Headers = append(message.Headers, kafka.Header{Key: h.name, Value: h.value})
		}
		messages = append(messages, message)
	}
	return errors.Join(writer.WriteMessages(ctx, messages...), writer.Close())
}

func (k kafkaGo) read(ctx context.Context, group, topic string, count int) error {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: k.bootstrap, GroupID: group, Topic: topic, StartOffset: kafka.FirstOffset,
		MaxWait: 200 * time.Millisecond,
	})
	for range count {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return errors.Join(err, reader.Close())
		}
		told := keyValue{key: message.Key, value: message.Value}
		for _, h := range message.Headers {
			told.headers = append(told.headers, header{h.Key, h.Value})
		}
		told.tell()
	}
	return reader.Close()
}
