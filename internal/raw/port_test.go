package raw

import (
	"net"
	"runtime"
	"testing"
)

// A port that was given is given to nobody else, whether something listens on it or not.
func TestAPortIsGivenOnce(t *testing.T) {
	given := map[int]bool{}
	for i := range 200 {
		if i == 100 {
			runtime.GC()
			runtime.GC() // that they are held, not forgotten
		}
		port := FreePort(t)
		if given[port] {
			t.Fatalf("port %d was given twice", port)
		}
		given[port] = true
	}
	for port := range given {
		if reserve(port) {
			t.Errorf("another process would be given port %d too", port)
		}
	}
	socket, err := net.ListenPacket("udp", "127.0.0.1:0") // as another process has it
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if reserve(socket.LocalAddr().(*net.UDPAddr).Port) {
		t.Error("what another process holds was given")
	}
}
