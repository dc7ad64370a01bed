package raw

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// FreePort returns a port of the loopback that nothing listened on a moment ago, nor on the one above it, and that no other caller
// was given. It lies below those that systems give to outgoing connections: a client that tries again and again to reach a broker
// that is down would get the broker's own port one day, and talk to itself.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 10_000 + 2*rand.IntN(10_000)
		if _, given := givenPorts.LoadOrStore(port, true); !given && listens(port) && listens(port+1) {
			return port
		}
	}
	t.Fatal("no two free ports in a row")
	return 0
}

// givenPorts are those that FreePort has returned, or found taken.
var givenPorts sync.Map

// listens tells whether one can listen on the port.
func listens(port int) bool {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err == nil {
		_ = listener.Close()
	}
	return err == nil
}
