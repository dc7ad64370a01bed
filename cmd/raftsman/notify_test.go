package main

import (
	"net"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// A service of Type=notify says when it serves, so that what needs it starts then, and that it stops.
func TestServeTellsSystemdWhenItServesAndWhenItStops(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no datagrams between processes there, and no systemd")
	}
	socket := filepath.Join(t.TempDir(), "notify")
	listener, err := net.ListenPacket("unixgram", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	told := func() string {
		t.Helper()
		if err := listener.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		n, _, err := listener.ReadFrom(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	s := newSession()
	s.env[notifySocket] = socket
	node := s.start(t, nil, "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0")
	if got := told(); got != "READY=1" {
		t.Errorf("told %q", got)
	}
	node.shows("serves Kafka's protocol on ")
	node.interrupt()
	if got := told(); got != "STOPPING=1" {
		t.Errorf("told %q", got)
	}
	if code := node.end(); code != exitOK {
		t.Errorf("ends with %d: %s", code, node.err.String())
	}
}

// Nobody listens: the broker goes on.
func TestServeGoesOnWithoutSystemd(t *testing.T) {
	s := newSession()
	s.env[notifySocket] = filepath.Join(t.TempDir(), "nobody")
	node := s.start(t, nil, "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0")
	node.shows("tell systemd READY=1")
	node.shows("serves Kafka's protocol on ")
	node.interrupt()
	if code := node.end(); code != exitOK {
		t.Errorf("ends with %d: %s", code, node.err.String())
	}
}
