package parity

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

// logins asks a listener for a login that it does not have.
func (c *conversation) logins() {
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "", "none such"} {
		for _, v := range raw.VersionsOf(kmsg.SASLHandshake) {
			req := raw.At(v, kmsg.NewPtrSASLHandshakeRequest())
			req.Mechanism = mechanism
			c.add(fmt.Sprintf("mechanism %q", mechanism), req)
		}
		for _, v := range raw.VersionsOf(kmsg.SASLAuthenticate) {
			req := raw.At(v, kmsg.NewPtrSASLAuthenticateRequest())
			req.SASLAuthBytes = []byte("\x00user\x00password")
			c.add(fmt.Sprintf("after mechanism %q", mechanism), req)
		}
	}
}
