package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// saslHandshake tells a client that wants to log in that no listener asks for it, as Kafka does on a PLAINTEXT listener: no
// mechanism is enabled, and the connection goes on. Such a client fails at once; were the connection closed, it would try again.
func (a *API) saslHandshake(c call) {
	if !c.decode(kmsg.NewPtrSASLHandshakeRequest()) {
		return
	}
	resp := kmsg.NewPtrSASLHandshakeResponse()
	resp.ErrorCode = int16(kafka.IllegalSaslState)
	c.answer(resp)
}
