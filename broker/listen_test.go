package broker

import (
	"net"
	"testing"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/vfs"
)

// TestConnectionsLeaveFilesToTheDisk: whatever max.connections says, clients that only connect do not take the descriptors without which
// nothing can be flushed.
func TestConnectionsLeaveFilesToTheDisk(t *testing.T) {
	for _, files := range []int{256, 1024, 4096, 1 << 20} {
		if left := files - openSegmentsMax(files) - openConnectionsMax(files); left < files/8 {
			t.Errorf("of %d files %d are left for what is open for a moment", files, left)
		}
	}
	for setting, most := range map[string]int{"2147483647": openConnectionsMax(vfs.OpenFilesMax()), "7": 7, "0": -1} {
		b, err := config.NewBroker(map[string]string{"node.id": "1", "max.connections": setting})
		if err != nil {
			t.Fatal(err)
		}
		if got := connectionLimits(b).Connections; got != most {
			t.Errorf("max.connections=%s: %d connections, want %d", setting, got, most)
		}
	}
}

// TestAHostThatDoesNotExistIsNamed, with what to name instead.
func TestAHostThatDoesNotExistIsNamed(t *testing.T) {
	err := listenError("nohost.invalid:1", "--listen HOST:PORT", &net.OpError{Op: "listen", Err: &net.DNSError{Err: "no such host", Name: "nohost.invalid", Server: "192.0.2.1:53"}})
	want := "listen on nohost.invalid:1: there is no host nohost.invalid; name an address of this machine, or 0.0.0.0 for all (--listen HOST:PORT)"
	if err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}
