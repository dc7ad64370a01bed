package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// initProducerId gives a producer the id under which it is idempotent (key 22). A producer that asks again gets another one:
// without a transactional id nothing is remembered of it.
//
// A transactional id is refused with UNSUPPORTED_VERSION while there is no transaction coordinator: clients take it for final
// and say so, where codes about a missing coordinator would make them ask again until they time out.
func (a *API) initProducerId(c call) {
	req := kmsg.NewPtrInitProducerIDRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = int64(kafka.NoProducer), -1
	id, err := a.initProducer(req)
	if err != nil {
		code, _ := kafka.Answer(err)
		resp.ErrorCode = int16(code)
	} else {
		resp.ProducerID, resp.ProducerEpoch = int64(id), 0
	}
	c.answer(resp)
}

func (a *API) initProducer(req *kmsg.InitProducerIDRequest) (kafka.ProducerID, error) {
	switch {
	case (req.ProducerID == -1) != (req.ProducerEpoch == -1), req.TransactionalID != nil && *req.TransactionalID == "":
		return kafka.NoProducer, kafka.InvalidRequest
	case req.TransactionalID != nil:
		return kafka.NoProducer, kafka.UnsupportedVersion
	}
	id, err := a.Quorum.NextProducerID(context.Background())
	if err != nil {
		a.Log.Warn("take a block of producer ids", "error", err)
		return kafka.NoProducer, kafka.CoordinatorLoadInProgress // as Kafka says while it waits for a block
	}
	return id, nil
}
