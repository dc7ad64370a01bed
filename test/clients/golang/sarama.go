package main

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"os"
	"time"

	"github.com/IBM/sarama"
)

type saramaClient struct{ bootstrap []string }

func (s saramaClient) config(count int) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V4_1_0_0
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	config.Producer.Partitioner = sarama.NewCustomHashPartitioner(func() hash.Hash32 { return new(murmur2) })
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Interval = 200 * time.Millisecond
	config.Consumer.Group.Session.Timeout = sessionTimeout(count)
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	return config
}

func (s saramaClient) create(_ context.Context, topic string, partitions int) error {
	admin, err := sarama.NewClusterAdmin(s.bootstrap, s.config(0))
	if err != nil {
		return err
	}
	err = admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1}, false)
	return errors.Join(err, admin.Close())
}

var saramaCodecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

func (s saramaClient) produce(_ context.Context, topic, codec string, records []keyValue) error {
	config := s.config(0)
	config.Producer.Compression = saramaCodecs[codec]
	producer, err := sarama.NewSyncProducer(s.bootstrap, config)
	if err != nil {
		return err
	}
	messages := make([]*sarama.ProducerMessage, 0, len(records))
	for _, r := range records {
		message := &sarama.ProducerMessage{Topic: topic, Value: sarama.ByteEncoder(r.value)}
		if r.key != nil {
			message.Key = sarama.ByteEncoder(r.key)
		}
		messages = append(messages, message)
	}
	if err := producer.SendMessages(messages); err != nil {
		return errors.Join(err, producer.Close())
	}
	for i, message := range messages {
		printRecord(records[i].key, nil, int(message.Partition), message.Offset)
	}
	return producer.Close()
}

func (s saramaClient) consume(ctx context.Context, group, topic string, count int) error {
	consumer, err := sarama.NewConsumerGroup(s.bootstrap, group, s.config(count))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	records := make(chan struct{})
	go func() {
		for seen := 1; ; seen++ {
			select {
			case <-records:
			case <-ctx.Done():
				return
			}
			if seen == count {
				stop()
				return
			}
		}
	}()
	for ctx.Err() == nil {
		switch err := consumer.Consume(ctx, []string{topic}, saramaHandler{topic, records}); {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, sarama.ErrRebalanceInProgress) || errors.Is(err, sarama.ErrIllegalGeneration) || errors.Is(err, sarama.ErrUnknownMemberId):
			fmt.Fprintln(os.Stderr, "consume:", err) // the group went on without this member: join again
		case count == 0: // the broker is away
			fmt.Fprintln(os.Stderr, "consume:", err)
			time.Sleep(200 * time.Millisecond)
		default:
			return errors.Join(err, consumer.Close())
		}
	}
	return consumer.Close()
}

type saramaHandler struct {
	topic string
	seen  chan<- struct{}
}

func (h saramaHandler) Setup(session sarama.ConsumerGroupSession) error {
	partitions := []int{}
	for _, p := range session.Claims()[h.topic] {
		partitions = append(partitions, int(p))
	}
	printAssigned(partitions)
	return nil
}

func (h saramaHandler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h saramaHandler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			printRecord(message.Key, message.Value, int(message.Partition), message.Offset)
			session.MarkMessage(message, "")
			select {
			case h.seen <- struct{}{}:
			case <-session.Context().Done():
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func (s saramaClient) write(_ context.Context, topic, codec string, records []keyValue) error {
	config := sarama.NewConfig()
	config.Version = sarama.V4_1_0_0
	config.Producer.Return.Successes = true
	config.Producer.Compression = saramaCodecs[codec]
	producer, err := sarama.NewSyncProducer(s.bootstrap, config)
	if err != nil {
		return err
	}
	for _, r := range records {
		message := &sarama.ProducerMessage{Topic: topic}
		if r.key != nil {
			message.Key = sarama.ByteEncoder(r.key)
		}
		if r.value != nil {
			message.Value = sarama.ByteEncoder(r.value)
		}
		for _, h := range r.headers {
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(h.name), Value: h.value})
		}
		if _, _, err := producer.SendMessage(message); err != nil {
			return errors.Join(err, producer.Close())
		}
	}
	return producer.Close()
}

func (s saramaClient) read(ctx context.Context, group, topic string, count int) error {
	config := sarama.NewConfig()
	config.Version = sarama.V4_1_0_0
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	consumer, err := sarama.NewConsumerGroup(s.bootstrap, group, config)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	return errors.Join(consumer.Consume(ctx, []string{topic}, saramaReader{count, stop}), consumer.Close())
}

// saramaReader tells the records of one partition.
type saramaReader struct {
	count int
	stop  context.CancelFunc
}

func (saramaReader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (saramaReader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r saramaReader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		told := keyValue{key: message.Key, value: message.Value}
		for _, h := range message.Headers {
			told.headers = append(told.headers, header{string(h.Key), h.Value})
		}
		told.tell()
		session.MarkMessage(message, "")
		if r.count--; r.count == 0 {
			r.stop()
		}
	}
	return nil
}

// murmur2 is the hash with which Java's client places keys; sarama's own default is another.
type murmur2 struct{ data []byte }

func (m *murmur2) Write(p []byte) (int, error) { m.data = append(m.data, p...); return len(p), nil }
func (m *murmur2) Reset()                      { m.data = m.data[:0] }
func (m *murmur2) Size() int                   { return 4 }
func (m *murmur2) BlockSize() int              { return 4 }
func (m *murmur2) Sum(b []byte) []byte {
	h := m.Sum32()
	return append(b, byte(h>>24), byte(h>>16), byte(h>>8), byte(h))
}

func (m *murmur2) Sum32() uint32 {
	const mix = 0x5bd1e995
	data, h := m.data, uint32(0x9747b28c)^uint32(len(m.data))
	for ; len(data) >= 4; data = data[4:] {
		k := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16 | uint32(data[3])<<24
		k *= mix
		k ^= k >> 24
		h = h*mix ^ k*mix
	}
	for i := len(data) - 1; i >= 0; i-- {
		h ^= uint32(data[i]) << (8 * i)
	}
	if len(data) > 0 {
		h *= mix
	}
	h ^= h >> 13
	h *= mix
	return (h ^ h>>15) & 0x7fffffff
}
