package server

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"
)

// accept takes connections from one listener until the server stops.
func (s *Server) accept(l Listener, room <-chan struct{}) {
	const pauseMax = time.Second
	pause := time.Duration(0)
	for s.awaitRoom(l, room) {
		nc, err := l.Accept()
		if err == nil {
			pause = 0
			s.pace(l)
			for !s.welcome(nc, l) { // another listener was faster, or the limit is another one now
				if !s.awaitRoom(l, room) {
					_ = nc.Close()
					return
				}
			}
			continue
		}
		if s.isStopping() || errors.Is(err, net.ErrClosed) {
			return
		}
		// Out of file descriptors, most likely: what is open goes on being served.
		s.fullLimit.log(s.config.Log, slog.LevelError, "accept failed", "listener", l.Name, "error", err)
		pause = min(max(2*pause, 5*time.Millisecond), pauseMax)
		select {
		case <-time.After(pause):
		case <-s.stopping:
		}
	}
}

// pace waits as long as connections that come to the listener too fast have to. Those to other listeners go on.
func (s *Server) pace(l Listener) {
	if s.config.Pace == nil {
		return
	}
	wait := s.config.Pace(l.Name)
	if wait <= 0 {
		return
	}
	s.fullLimit.log(s.config.Log, slog.LevelWarn, "max.connection.creation.rate reached: new connections wait", "listener", l.Name)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.stopping:
	}
}

func (s *Server) isStopping() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}

// awaitRoom waits until another connection to the listener is allowed; room gets a value when one may be. It returns false when the
// server stops.
func (s *Server) awaitRoom(l Listener, room <-chan struct{}) bool {
	for said := false; ; said = true {
		name, limit := s.fullFor(l)
		if name == "" {
			return !s.isStopping()
		}
		if !said {
			s.fullLimit.log(s.config.Log, slog.LevelWarn, name+" reached: new connections wait", "listener", l.Name, "limit", limit)
		}
		select {
		case <-room:
		case <-s.stopping:
			return false
		}
	}
}

// fullFor names the limit that keeps the listener from another connection, if one does.
func (s *Server) fullFor(l Listener) (name string, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fullNow(l)
}

// fullNow is fullFor for who holds mu.
func (s *Server) fullNow(l Listener) (name string, limit int) {
	limits := s.limits.Load()
	if limit := limits.Connections; limit != 0 && s.metrics.Connections.Value() >= int64(limit) {
		return "max.connections", limit
	}
	if own, limited := limits.ByListener[l.Name]; limited && s.perListener[l.Name] >= own {
		return "listener.name." + strings.ToLower(l.Name) + ".max.connections", own
	}
	return "", 0
}

// welcome starts serving a connection, or closes it when its address has too many. It returns false when there is no room for it yet.
func (s *Server) welcome(nc net.Conn, l Listener) bool {
	c := newConn(s, nc, l.Name)
	ip := c.peer.Remote.Addr()
	s.mu.Lock()
	switch limit, limited := s.limitOf(ip); {
	case s.stopped:
		s.mu.Unlock()
		_ = nc.Close()
		return true
	case limited && s.perIP[ip] >= limit:
		s.mu.Unlock()
		s.metrics.ConnectionsRefused.Inc()
		_ = nc.Close()
		s.fullLimit.log(s.config.Log, slog.LevelWarn, "connection refused: max.connections.per.ip", "address", ip, "limit", limit)
		return true
	}
	if name, _ := s.fullNow(l); name != "" {
		s.mu.Unlock()
		return false
	}
	serve := c.serve
	if refused := s.admit(ip); refused > 0 {
		if s.turnedAway == turnedAwayMax {
			s.mu.Unlock()
			_ = nc.Close()
			return true
		}
		s.turnedAway++
		serve = func() { c.turnAway(refused) }
	}
	s.conns[c] = struct{}{}
	s.perIP[ip]++
	s.perListener[l.Name]++
	s.metrics.Connections.Add(1)
	s.metrics.ConnectionsAccepted.Inc()
	s.serving.Go(serve)
	s.mu.Unlock()
	return true
}

func (s *Server) admit(ip netip.Addr) (refusedFor time.Duration) {
	if s.config.Admit == nil || !ip.IsValid() {
		return 0
	}
	return s.config.Admit(ip)
}

// turnedAwayMax is how many connections are kept waiting to be closed; more are closed at once, or they would take the places of
// those that are served.
const turnedAwayMax = 1000

// turnAway keeps a connection waiting that came too soon after others from its address, and closes it: a client that tries again
// at once would come even sooner.
func (c *conn) turnAway(after time.Duration) {
	s := c.server
	defer s.farewell(c)
	defer func() {
		c.close()
		s.mu.Lock()
		s.turnedAway--
		s.mu.Unlock()
	}()
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.done:
	case <-s.stopping:
	}
}

func (s *Server) limitOf(ip netip.Addr) (limit int, limited bool) {
	limits := s.limits.Load()
	if limit, ok := limits.ByIP[ip]; ok {
		return limit, true
	}
	return limits.PerIP, limits.PerIP != 0
}

// farewell forgets a connection that has ended.
func (s *Server) farewell(c *conn) {
	ip := c.peer.Remote.Addr()
	s.mu.Lock()
	delete(s.conns, c)
	s.perListener[c.peer.Listener]--
	if s.perIP[ip]--; s.perIP[ip] == 0 {
		delete(s.perIP, ip)
	}
	s.mu.Unlock()
	if s.config.Gone != nil {
		s.config.Gone(c.peer.ConnID)
	}
	s.metrics.Connections.Add(-1)
	s.tellRoom()
}

// tellRoom lets the accepts that wait look again whether another connection is allowed.
func (s *Server) tellRoom() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, room := range s.rooms {
		select {
		case room <- struct{}{}:
		default:
		}
	}
}

// tune sets the options of a socket.
func (s *Server) tune(nc net.Conn) {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return
	}
	// An error here means that the connection is gone; reading will tell. TCP_NODELAY is set by package net.
	if n := s.config.SendBufferBytes; n > 0 {
		_ = tcp.SetWriteBuffer(n)
	}
	if n := s.config.ReceiveBufferBytes; n > 0 {
		_ = tcp.SetReadBuffer(n)
	}
}

// addrPort returns the zero value for addresses that have no IP.
func addrPort(a net.Addr) netip.AddrPort {
	if tcp, ok := a.(*net.TCPAddr); ok {
		ap := tcp.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	if a == nil {
		return netip.AddrPort{}
	}
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.AddrPort{}
	}
	return ap
}
