package peer

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
)

// Principal is who has sent a request that is forwarded.
type Principal struct {
	Type, Name string
}

// Envelope is a request that a broker has the active controller answer for a client (KIP-590).
type Envelope struct {
	Request   []byte // header and body
	Principal Principal
	Client    netip.Addr
}

// Forward sends an envelope and returns the answer to what is in it, header and body. A code of the envelope itself is returned as a
// kafka.Error.
func (q *Quorum) Forward(ctx context.Context, to kraft.Node, e Envelope) ([]byte, error) {
	m := kmsg.NewPtrEnvelopeRequest()
	m.RequestData, m.RequestPrincipal, m.ClientHostAddress = e.Request, e.Principal.encode(), e.Client.AsSlice()
	decoded, err := q.others.client(address(to.Endpoint), forwardLine).Do(ctx, m, 0)
	if err != nil {
		return nil, err
	}
	response := decoded.(*kmsg.EnvelopeResponse)
	if response.ErrorCode != 0 {
		return nil, kafka.Error(response.ErrorCode)
	}
	return response.ResponseData, nil
}

// encode returns the principal as Kafka's default builder has it: behind its version.
func (p Principal) encode() []byte {
	return (&kmsg.DefaultPrincipalData{Type: p.Type, Name: p.Name}).AppendTo(nil)
}

// ReadPrincipal is the way back from an envelope's principal.
func ReadPrincipal(b []byte) (Principal, error) {
	var data kmsg.DefaultPrincipalData
	if err := data.ReadFrom(b); err != nil || data.Version != 0 {
		return Principal{}, fmt.Errorf("a principal of version %d that can't be read: %w", data.Version, err)
	}
	return Principal{Type: data.Type, Name: data.Name}, nil
}
