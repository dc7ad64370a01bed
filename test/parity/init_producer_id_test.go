package parity

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

func (c *conversation) initProducerIDs() {
	for _, v := range raw.VersionsOf(kmsg.InitProducerID) {
		for _, ask := range []struct {
			id      int64
			epoch   int16
			timeout int32
			tx      *string
		}{{-1, -1, 60_000, nil}, {5, 0, 60_000, nil}, {5, -1, 60_000, nil}, {-1, 0, 60_000, nil}, {-1, -1, -1, nil}, {-2, -2, 0, nil}, {-1, -1, 60_000, new("")}, {-1, -1, 60_000, new("tx")}} {
			req := raw.At(v, kmsg.NewPtrInitProducerIDRequest())
			req.ProducerID, req.ProducerEpoch, req.TransactionTimeoutMillis, req.TransactionalID = ask.id, ask.epoch, ask.timeout, ask.tx
			name := fmt.Sprintf("id %d, epoch %d, timeout %d", ask.id, ask.epoch, ask.timeout)
			if ask.tx != nil {
				name += fmt.Sprintf(", transactional %q", *ask.tx)
			}
			c.add(name, req)
		}
	}
}
