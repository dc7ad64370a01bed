package group

import (
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
)

// txnCommit is TxnOffsetCommit. Unlike OffsetCommit it is no sign of life of a member: a producer sends it, which may have outlived it.
func (m *Machine) txnCommit(now time.Time, ticket Ticket, groupID string, g *group, c *TxnCommit) Effects {
	if code := checkCommit(g, c.committer()); code != kafka.None {
		return reply(ticket, c.Fail(code))
	}
	answer, e := &CommitReply{}, Effects{Txn: c}
	for i := range c.Topics {
		t := &c.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if m.tooLarge(p.Metadata) {
				answer.Codes = append(answer.Codes, kafka.OffsetMetadataTooLarge)
				continue
			}
			answer.Codes = append(answer.Codes, kafka.None)
			value := p.value(t.ID, now.UnixMilli(), -1)
			e.Records = append(e.Records, &OffsetRecord{Group: groupID, Topic: t.Topic, Partition: p.Partition, Value: &value})
		}
	}
	return e.answered(ticket, answer, c)
}
