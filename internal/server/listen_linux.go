package server

import (
	"context"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Options of a listening socket that its connections inherit: setting them on each would be a system call each.
const (
	keepAliveIdleSeconds     = 15
	keepAliveIntervalSeconds = 15
	keepAliveProbes          = 9
)

// Listen opens a listening TCP socket whose connections have what they need from the start.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	config := net.ListenConfig{KeepAlive: -1, Control: setInherited} // -1: not again on each connection
	return config.Listen(ctx, "tcp", address)
}

func setInherited(_, _ string, raw syscall.RawConn) error {
	options := []struct{ level, name, value int }{
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepAliveIdleSeconds},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepAliveIntervalSeconds},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepAliveProbes},
	}
	var failed error
	err := raw.Control(func(fd uintptr) {
		for _, o := range options {
			if failed = unix.SetsockoptInt(int(fd), o.level, o.name, o.value); failed != nil {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return failed
}
