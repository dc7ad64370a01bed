package raw

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// FreePort returns a port of the loopback that nothing listened on a moment ago, nor on the one above it, and that no other caller
// was given, in this process or in another that runs. It lies below those that systems give to outgoing connections: a client that
// tries again and again to reach a broker that is down would get the broker's own port one day, and talk to itself.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 10_000 + 2*rand.IntN(10_000)
		if reserve(port) && listens(port) && listens(port+1) {
			return port
		}
	}
	t.Fatal("no two free ports in a row")
	return 0
}

// reserve takes the UDP port of that number, which nothing here uses, for as long as the process runs: that is how another process
// sees that the port was given, also while the broker on it is down.
func reserve(port int) bool {
	socket, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", port))
	if err == nil {
		reserved.Store(port, socket)
	}
	return err == nil
}

// reserved are the sockets of reserve: one that nobody knows any more is closed.
var reserved sync.Map

// listens tells whether one can listen on the port.
func listens(port int) bool {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err == nil {
		_ = listener.Close()
	}
	return err == nil
}
