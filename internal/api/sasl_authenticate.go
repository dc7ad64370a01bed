package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// saslAuthenticate refuses a login that no SaslHandshake could have begun: see saslHandshake.
func (a *API) saslAuthenticate(c call) {
	if !c.decode(kmsg.NewPtrSASLAuthenticateRequest()) {
		return
	}
	resp := kmsg.NewPtrSASLAuthenticateResponse()
	code, message := answerOf(kafka.Refuse(kafka.IllegalSaslState, "this listener asks nobody to log in: its protocol is PLAINTEXT"))
	resp.ErrorCode, resp.ErrorMessage = int16(code), message
	c.answer(resp)
}
