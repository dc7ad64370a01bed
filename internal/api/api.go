// Package api answers requests: one file per API key, named as the key. A handler decodes its request, checks what depends on
// the protocol's version, lets the package that owns the matter decide, and encodes the answer. It holds no state and takes no
// lock. What is served, and at which versions, is the one table in table.go; ApiVersions answers from it.
package api

import (
	"log/slog"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/coord"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/quorum"
	"github.com/raftsman/raftsman/internal/quota"
	"github.com/raftsman/raftsman/internal/replica"
	"github.com/raftsman/raftsman/internal/txn"
	"github.com/raftsman/raftsman/internal/wire"
)

// API hands requests to their handlers. Its fields are set before the first request and do not change.
type API struct {
	NodeID    kafka.NodeID
	Config    *config.Broker  // static: what the metadata sets comes on top
	ClusterID func() string   // read at each use: the id of a directory that is formatted at start comes late
	Features  func() Features // nil: none
	Quorum    *quorum.Node
	Replicas  *replica.Manager
	Fetches   *FetchSessions
	Coord     *coord.Coordinator
	Transact  Transact // Coord's
	// AskCoordinator is Transact for whom the coordinator of the transactional id is, on whichever broker; nil: it is here.
	AskCoordinator Transact
	Quotas         *Quotas // nil: nobody has any
	ClientMetrics  *ClientMetrics
	Log            *slog.Logger
	LogLevel       *slog.LevelVar  // what the process logs; changed by IncrementalAlterConfigs
	Controller     Controller      // this node's part in the quorum, of which it answers the others
	Forward        Forward         // nil: this node is the controller, and never another
	Heartbeats     *Heartbeats     // of the brokers that this node controls; nil: nobody wants to know
	Stopping       <-chan struct{} // closed when the node stops: what waits for other nodes gives up

	served, servedToControllers served
}

// Transact lets the coordinator of a transactional id decide a command. reply is called exactly once, from any goroutine, perhaps before
// Transact returns.
type Transact func(transactionalID string, cmd txn.Command, reply func(txn.Reply))

// New returns the API of one node; the caller fills the fields and then hands it to the server.
func New(log *slog.Logger) *API {
	return &API{Log: log, LogLevel: new(slog.LevelVar), served: index(table), servedToControllers: index(controllerTable)}
}

// Serves tells whether a request of that version gets an answer. ApiVersions does at any version: a client that asks at one we
// do not know is told which ones we do.
func (a *API) Serves(key, version int16) bool { return a.served.serves(key, version) }

// Carries tells whether a request carries records.
func (a *API) Carries(key int16) bool { return key == int16(kmsg.Produce) }

// Overlaps tells whether the next request of a connection may start before this one was answered, if it is of the same key. Produce
// does: its records are appended, in order, when Handle returns, and the answer follows when they are safe. So does OffsetCommit, which
// then stands in the line of its group; but not where its client may be told to wait.
func (a *API) Overlaps(key int16) bool {
	return key == int16(kmsg.Produce) || key == int16(kmsg.OffsetCommit) && a.Quotas.limits(quota.RequestTime) == nil
}

// Handle starts one request that Serves agreed to. The server calls it on the connection's goroutine, in request order; reply
// is called exactly once, on any goroutine, then or later.
func (a *API) Handle(req *wire.Request, reply func(*wire.Response)) {
	e := a.served.entry(req.Key)
	if a.Quotas.limits(quota.RequestTime) != nil {
		a.Quotas.handle(a, e, req, reply)
		return
	}
	a.start(e, call{Request: req, reply: reply, served: &a.served})
}

// start begins to answer a request of a client.
func (a *API) start(e *entry, c call) {
	if e.forwarded {
		a.handleOrForward(e, c)
		return
	}
	e.handle(a, c)
}

// call is one request on its way through a handler, and the way to answer it.
type call struct {
	*wire.Request
	reply  func(*wire.Response)
	timing *timing // nil while nobody has a quota of request time
	served *served // what the listener serves on which the request came
}

// decode reads the body into req, at the version of the call. When it returns false the connection is being closed, as Kafka
// does with a malformed request, and the handler returns.
func (c call) decode(req kmsg.Request) bool {
	if err := wire.DecodeKmsg(c.Request, req); err != nil {
		c.close()
		return false
	}
	return true
}

// answer sends resp, encoded at the version of the call, whatever version it says itself. The handler gives resp away.
func (c call) answer(resp kmsg.Response) { c.send(c.Version, resp, 0) }

// answerAt is answer with the layout of another version.
func (c call) answerAt(version int16, resp kmsg.Response) { c.send(version, resp, 0) }

// answerAfter is answer for a client that is to wait for that long because of what it has asked for.
func (c call) answerAfter(waitMs int32, resp kmsg.Response) { c.send(c.Version, resp, waitMs) }

func (c call) send(version int16, resp kmsg.Response, waitMs int32) {
	resp.SetVersion(version)
	if waitMs = c.throttle(waitMs); waitMs > 0 {
		if resp, ok := resp.(kmsg.SetThrottleResponse); ok {
			resp.SetThrottle(waitMs)
		}
	}
	r := c.Response()
	r.Body = resp
	c.reply(r)
}

// silence ends a call that gets no answer: a Produce with acks=0.
func (c call) silence() {
	r := c.Response()
	r.None = true
	c.reply(r)
}

// close ends the call and the connection without an answer.
func (c call) close() {
	r := c.Response()
	r.None, r.Close = true, true
	c.reply(r)
}
