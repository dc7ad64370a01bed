package dump

import (
	"fmt"
	"strings"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/producer"
)

// timeText is a timestamp of records, which may be anything.
func timeText(ms int64) string {
	if ms < 0 {
		return fmt.Sprint(ms)
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// Index is an entry of an .index file.
type Index struct {
	Offset   kafka.Offset `json:"offset"`
	Position int64        `json:"position"`
}

// Text is the entry as a line.
func (e Index) Text() string { return fmt.Sprintf("offset %d  at %d", e.Offset, e.Position) }

// Time is an entry of a .timeindex file.
type Time struct {
	TimestampMs int64        `json:"timestampMs"`
	Time        string       `json:"time"`
	Offset      kafka.Offset `json:"offset"`
}

func newTime(e commitlog.TimeEntry) Entry {
	return Time{e.TimestampMs, timeText(e.TimestampMs), e.Offset}
}

// Text is the entry as a line.
func (e Time) Text() string {
	return fmt.Sprintf("time %s (%d)  offset %d", e.Time, e.TimestampMs, e.Offset)
}

// Aborted is an entry of a .txnindex file.
type Aborted struct {
	ProducerID  kafka.ProducerID `json:"producerId"`
	FirstOffset kafka.Offset     `json:"firstOffset"`
	LastOffset  kafka.Offset     `json:"lastOffset"`
	LastStable  kafka.Offset     `json:"lastStableOffset"`
}

// Text is the entry as a line.
func (e Aborted) Text() string {
	return fmt.Sprintf("producer %d  aborted offsets %d to %d  last stable offset %d", e.ProducerID, e.FirstOffset, e.LastOffset, e.LastStable)
}

// Epoch is a line of leader-epoch-checkpoint.
type Epoch struct {
	Epoch kafka.Epoch  `json:"epoch"`
	Start kafka.Offset `json:"startOffset"`
}

// Text is the entry as a line.
func (e Epoch) Text() string { return fmt.Sprintf("epoch %d  from offset %d", e.Epoch, e.Start) }

// Offset is a line of a directory's checkpoint file.
type Offset struct {
	Topic     string       `json:"topic"`
	Partition int32        `json:"partition"`
	Offset    kafka.Offset `json:"offset"`
}

// Text is the entry as a line.
func (e Offset) Text() string { return fmt.Sprintf("%s-%d  offset %d", e.Topic, e.Partition, e.Offset) }

// Producer is a producer in a .snapshot file.
type Producer struct {
	ID               kafka.ProducerID    `json:"producerId"`
	Epoch            kafka.ProducerEpoch `json:"producerEpoch"`
	LastSequence     kafka.Sequence      `json:"lastSequence"`
	LastTimestampMs  int64               `json:"lastTimestampMs"`
	LastTime         string              `json:"lastTime"`
	CoordinatorEpoch int32               `json:"coordinatorEpoch"`
	TxnStart         kafka.Offset        `json:"currentTransactionFirstOffset"`
}

func newProducer(p producer.Producer) Entry {
	return Producer{p.ID, p.Epoch, p.LastSequence, p.LastTimestampMs, timeText(p.LastTimestampMs), p.CoordinatorEpoch, p.TxnStartOffset}
}

// Text is the entry as a line.
func (e Producer) Text() string {
	text := fmt.Sprintf("producer %d/%d  last sequence %d  time %s", e.ID, e.Epoch, e.LastSequence, e.LastTime)
	if e.CoordinatorEpoch >= 0 {
		text += fmt.Sprintf("  coordinator epoch %d", e.CoordinatorEpoch)
	}
	if e.TxnStart >= 0 {
		text += fmt.Sprintf("  transaction open since offset %d", e.TxnStart)
	}
	return text
}

// Directory is meta.properties.
type Directory struct {
	ClusterID   string       `json:"clusterId"`
	NodeID      kafka.NodeID `json:"nodeId"`
	DirectoryID string       `json:"directoryId"`
}

// Text is a line per property.
func (e Directory) Text() string {
	return fmt.Sprintf("cluster.id %s\nnode.id %d\ndirectory.id %s", e.ClusterID, e.NodeID, e.DirectoryID)
}

// Topic is partition.metadata.
type Topic struct {
	ID string `json:"topicId"`
}

// Text is the entry as a line.
func (e Topic) Text() string { return "topic id " + e.ID }

// Clean is .kafka_cleanshutdown.
type Clean struct {
	BrokerEpoch kafka.BrokerEpoch `json:"brokerEpoch"`
}

// Text is the entry as a line.
func (e Clean) Text() string { return fmt.Sprintf("broker epoch %d", e.BrokerEpoch) }

// Raw is a file that is text already.
type Raw struct {
	Content string `json:"content"`
}

// Text is the content.
func (e Raw) Text() string { return strings.TrimRight(e.Content, "\n") }
