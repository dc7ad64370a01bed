package broker

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/raftsman/raftsman/internal/server"
	"github.com/raftsman/raftsman/internal/telemetry"
)

// httpListener answers HTTP where raftsman.http.listener says so. It answers from the beginning of a start to the end of a stop, so
// that one sees that the node lives while it recovers.
type httpListener struct {
	socket net.Listener
	server http.Server
	has    *telemetry.Telemetry
	conns  atomic.Int64
	done   chan struct{}
}

// Limits of the HTTP listener. Connections are not kept: whoever scrapes comes each few seconds, and waits 10 s as a rule, on a machine
// without a free processor too.
const (
	httpConnsMax   = 128
	httpHeadMax    = 8 << 10
	httpHeadWait   = 10 * time.Second
	httpWriteWait  = 10 * time.Second
	httpCloseGrace = 500 * time.Millisecond
)

// listenHTTP opens the socket, where one is wanted, and begins to answer.
func (n *Node) listenHTTP() error {
	address := n.config.String("raftsman.http.listener")
	if address == "" {
		return nil
	}
	socket, err := server.Listen(context.Background(), address)
	if err != nil {
		return listenError(address, "raftsman.http.listener=HOST:PORT", err)
	}
	l := &httpListener{socket: socket, has: telemetry.New(time.Now()), done: make(chan struct{})}
	l.server = http.Server{
		Handler: l.has, ReadHeaderTimeout: httpHeadWait, ReadTimeout: httpHeadWait, WriteTimeout: httpWriteWait, MaxHeaderBytes: httpHeadMax,
		ErrorLog: slog.NewLogLogger(n.log.Handler(), slog.LevelDebug), ConnState: l.limit,
	}
	l.server.SetKeepAlivesEnabled(false)
	go func() {
		defer close(l.done)
		if err := l.server.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			n.log.Error("HTTP is not answered any more", "error", err)
		}
	}()
	n.log.Info("answers HTTP", "listener", socket.Addr().String(), "paths", "/metrics /healthz /readyz")
	n.http = l
	return nil
}

// limit closes connections beyond the limit before anything of them is read.
func (l *httpListener) limit(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if l.conns.Add(1) > httpConnsMax {
			_ = c.Close()
		}
	case http.StateClosed, http.StateHijacked:
		l.conns.Add(-1)
	}
}

// serving tells the listener that the node serves.
func (l *httpListener) serving(n *Node) {
	if l != nil {
		l.has.Serves(&telemetry.Sources{
			NodeID: n.config.NodeID(), Image: n.quorum.Image, Server: n.server, Replicas: n.replicas, Coord: n.coord,
			FetchSessions: n.fetches.Sessions, Throttled: n.quotas.Throttled(), Clients: n.clientMetrics.Observe, Forwarded: n.forwarded(),
		})
	}
}

// stopping tells it that the node does not serve any more.
func (l *httpListener) stopping() {
	if l != nil {
		l.has.Serves(nil)
	}
}

// failed tells it that the node can't go on.
func (l *httpListener) failed(cause error) {
	if l != nil {
		l.has.Fail(cause.Error())
	}
}

// close ends it, after what is being answered.
func (l *httpListener) close() {
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), httpCloseGrace)
	defer cancel()
	if l.server.Shutdown(ctx) != nil {
		_ = l.server.Close()
	}
	<-l.done
}

// HTTPAddr returns where the node answers HTTP, nil if it does nowhere.
func (n *Node) HTTPAddr() net.Addr {
	if n.http == nil {
		return nil
	}
	return n.http.socket.Addr()
}
