package api

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/peer"
	"github.com/raftsman/raftsman/internal/wire"
)

// Forward has another node, the active controller, answer a request of a client. A code of the envelope is returned as a kafka.Error.
type Forward func(ctx context.Context, to kraft.Node, e peer.Envelope) (response []byte, err error)

const (
	// forwardMax is how long a request waits for an active controller that answers it.
	forwardMax = 30 * time.Second
	// forwardAgainAfter is how long one waits before the active controller is looked for again.
	forwardAgainAfter = 20 * time.Millisecond
)

// handleOrForward answers a request that is the active controller's to answer: here, if this node is it. While there is none, or it is
// changing, the request waits. In the end the client hears of REQUEST_TIMED_OUT, as of Kafka's brokers, and may try again.
func (a *API) handleOrForward(e *entry, c call) {
	if a.Forward == nil {
		e.handle(a, c)
		return
	}
	var here *wire.Response
	local := c
	local.reply = func(r *wire.Response) { here = r }
	request := append(wire.AppendRequestHeader(nil, c.Key, c.Version, c.CorrelationID, c.ClientID), c.Body...)
	answer, err := a.atController(context.Background(), c.Peer, request, func() bool {
		e.handle(a, local)
		return here.Body == nil || !saysNotController(here.Body)
	})
	switch {
	case err == nil && answer == nil:
		c.reply(here)
	case err == nil:
		c.answerForwarded(answer)
	case errors.Is(err, kafka.NotController): // this node stops
		e.handle(a, c)
	case errors.Is(err, kafka.RequestTimedOut):
		local.reply = func(r *wire.Response) {
			if r.Body != nil {
				sayTimedOut(r.Body)
			}
			c.reply(r)
		}
		e.handle(a, local)
	default: // what the active controller thinks of the request ends the connection, as it would there
		a.Log.Warn("the active controller took no request for a client", "api", wire.KeyName(c.Key), "error", err)
		c.close()
	}
}

// atController lets here answer if this node is the active controller, which returns false if it was no more, and else has the active
// controller answer the request, header included. The answer is nil when it was given here. The error is kafka.RequestTimedOut when none has
// answered in time, and kafka.NotController when this node stops.
func (a *API) atController(ctx context.Context, client *wire.Peer, request []byte, here func() bool) (answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, forwardMax)
	defer cancel()
	envelope := peer.Envelope{Request: request, Principal: principalOf(client), Client: addressOf(client)}
	for {
		if a.Controller.IsActive() {
			if here() {
				return nil, nil
			}
		} else if leader, _, known := a.Controller.Leader(); known && leader.ID != a.NodeID {
			answer, err := a.Forward(ctx, leader, envelope)
			if err == nil || !triedAgain(err) {
				return answer, err
			}
		}
		select {
		case <-time.After(forwardAgainAfter):
		case <-ctx.Done():
			return nil, kafka.RequestTimedOut
		case <-a.stopping():
			return nil, kafka.NotController
		}
	}
}

// triedAgain tells whether a request that was not answered so may be sent again: nobody has begun to carry it out, or it is the kind that may
// be carried out twice, as all that are forwarded are.
func triedAgain(err error) bool {
	var code kafka.Error
	if !errors.As(err, &code) {
		return true
	}
	switch code {
	case kafka.NotController, kafka.BrokerNotAvailable, kafka.NetworkException, kafka.RequestTimedOut:
		return true
	}
	return false
}

// stopping is closed when the node stops; nil, which never is, where nobody tells.
func (a *API) stopping() <-chan struct{} { return a.Stopping }

func principalOf(client *wire.Peer) peer.Principal {
	kind, name, _ := strings.Cut(client.Principal, ":")
	return peer.Principal{Type: kind, Name: name}
}

func addressOf(client *wire.Peer) netip.Addr {
	if address := client.Remote.Addr().Unmap(); address.IsValid() {
		return address
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// answerForwarded sends an answer of the active controller's, whose header is the one that this node would write.
func (c call) answerForwarded(answer []byte) {
	header := wire.AppendResponseHeader(nil, c.Key, c.Version, c.CorrelationID)
	if len(answer) < len(header) {
		c.close()
		return
	}
	r := c.Response()
	r.Head = append(r.Head, answer[len(header):]...)
	c.reply(r)
}

// askController has the active controller answer a request that this node makes for a client. here answers it on this node.
func (a *API) askController(ctx context.Context, client *wire.Peer, clientID *string, request kmsg.Request, here func() bool) (kmsg.Response, error) {
	body := request.AppendTo(wire.AppendRequestHeader(nil, request.Key(), request.GetVersion(), 0, clientID))
	answer, err := a.atController(ctx, client, body, here)
	if err != nil || answer == nil {
		return nil, err
	}
	header := wire.AppendResponseHeader(nil, request.Key(), request.GetVersion(), 0)
	response := request.ResponseKind()
	if len(answer) < len(header) {
		return nil, kafka.UnknownServerError
	}
	if err := response.ReadFrom(answer[len(header):]); err != nil {
		return nil, err
	}
	return response, nil
}
