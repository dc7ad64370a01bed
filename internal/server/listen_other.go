//go:build !linux

package server

import (
	"context"
	"net"
)

// Listen opens a listening TCP socket.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", address)
}
