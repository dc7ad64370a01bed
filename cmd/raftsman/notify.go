package main

import (
	"fmt"
	"net"
)

// notifySocket is where systemd listens to a service of Type=notify (sd_notify(3)).
const notifySocket = "NOTIFY_SOCKET"

// notify tells systemd of a state of this service, READY=1 or STOPPING=1, if it is one.
func (a *app) notify(state string) error {
	path := a.getenv(notifySocket)
	if path == "" {
		return nil
	}
	conn, err := net.Dial("unixgram", path) // a name that begins with @ is in Linux's abstract namespace
	if err != nil {
		return fmt.Errorf("tell systemd %s: %w", state, err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("tell systemd %s: %w", state, err)
	}
	return nil
}
