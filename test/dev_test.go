package test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A node that can't start takes a development cluster with it: the others would wait for it without an end.
func TestDevEndsWhenANodeCanNotStart(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	occupied, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer occupied.Close()
	ctx, cancel := context.WithTimeout(t.Context(), atLast)
	defer cancel()
	dev := exec.CommandContext(ctx, binary(t), "dev", "--data", filepath.Join(t.TempDir(), "dev"), "--listen", fmt.Sprintf("127.0.0.1:%d", port))
	var out, said bytes.Buffer
	dev.Stdout, dev.Stderr = &out, &said
	err = dev.Run()
	if dev.ProcessState == nil || dev.ProcessState.ExitCode() != 1 || ctx.Err() != nil {
		t.Errorf("it ends with %v", err)
	}
	if out.Len() > 0 {
		t.Errorf("it says that it serves: %s", out.String())
	}
	for _, want := range []string{"node 1: raftsman: port in use", "node 1 ended: exit status 1"} {
		if strings.Count(said.String(), want) != 1 {
			t.Errorf("it says\n%s\nwant %q, once", said.String(), want)
		}
	}
}
