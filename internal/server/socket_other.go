//go:build !linux

package server

import (
	"errors"
	"net"
)

// errNoSendfile says that ranges of files are copied.
var errNoSendfile = errors.New("no sendfile here")

// socket is empty where only net.Conn's own methods are used.
type socket struct{}

func (*socket) init(*conn) {}

func (*socket) canSend() bool { return false }

func (*socket) sendMore([]byte) error { return errNoSendfile }

func (*socket) sendFile(uintptr, int64, int) (int, error) { return 0, errNoSendfile }

// peerGone is not known here: the next write tells.
func peerGone(net.Conn) bool { return false }
