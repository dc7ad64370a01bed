package test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// launchDoomed starts the broker such that it is killed at the n-th of some system calls of one of its threads.
func launchDoomed(t testing.TB, dir string, port int, calls string, n int) *process {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	return startProcess(t, addr, exec.Command("strace", "-f", "-qqq", "-o", os.DevNull, "-e", "trace="+calls,
		"-e", fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", calls, n), binary(t), "serve", "--data", dir, "--listen", addr))
}

// TestKilledInTheMiddleOfAFirstStart kills the first start of a broker at one system call after the other, and as soon as one
// file after the other is there. Whatever it leaves of a new directory, the next start serves from it, and from then on the
// cluster stays the same.
func TestKilledInTheMiddleOfAFirstStart(t *testing.T) {
	t.Parallel()
	starts, served := 0, 0
	try := func(what string, die func(dir string) *process) {
		dir := filepath.Join(t.TempDir(), "data")
		p := die(dir)
		starts++
		if strings.Contains(p.log.String(), "msg=serving") {
			served++
		}
		startAfterDeath(t, what, dir)
	}
	times := 8
	if soak() {
		times = 40
	}
	for _, calls := range []string{"mkdirat", "openat", "pwrite64,write", "fdatasync,fsync,syncfs", "renameat,renameat2", "unlinkat,ftruncate"} {
		for n := 1; n <= times; n++ {
			try(fmt.Sprintf("killed at %s %d", calls, n), func(dir string) *process {
				p := launchDoomed(t, dir, freePort(t), calls, n)
				eventually(t, atLast, "the first start dies or serves", func() error {
					select {
					case <-p.exited:
						return nil
					default:
					}
					if !strings.Contains(p.log.String(), "msg=serving") {
						return errors.New(p.log.tail(5))
					}
					return nil
				})
				p.kill()
				return p
			})
		}
	}
	metadata := "__cluster_metadata-0"
	for _, file := range []string{
		".", metadata, metadata + "/00000000000000000000-0000000000.checkpoint.part", metadata + "/00000000000000000000-0000000000.checkpoint",
		"meta.properties.tmp", "meta.properties", ".lock", metadata + "/partition.metadata", metadata + "/00000000000000000000.log", metadata + "/quorum-state",
	} {
		try("killed when there was "+file, func(dir string) *process {
			p := launchBroker(t, dir, freePort(t))
			for began := time.Now(); time.Since(began) < atLast; {
				if _, err := os.Lstat(filepath.Join(dir, file)); err == nil || strings.Contains(p.log.String(), "msg=serving") {
					break
				}
			}
			p.kill()
			return p
		})
	}
	t.Logf("%d first starts were killed, %d of them after they served", starts, served)
}

// startAfterDeath starts a broker on what is there, twice, and has it serve.
func startAfterDeath(t testing.TB, what, dir string) {
	t.Helper()
	var cluster string
	for round := range 2 {
		p := startBroker(t, dir)
		is := must(kadm.NewClient(crashClient(t, p.addr)).Metadata(t.Context()))(t).Cluster
		if round == 1 && is != cluster {
			t.Errorf("%s: cluster %s, was %s", what, is, cluster)
		}
		cluster = is
		if round == 0 {
			createTopic(t, p.addr, "first", 1)
		}
		if code, err := produceOne(dialRaw(t, p.addr), "first", 0, -1); err != nil || code != 0 {
			t.Fatalf("%s: produce: code %d, %v", what, code, err)
		}
		if got := len(readTopic(t, p.addr, "first")[0]); got != round+1 {
			t.Errorf("%s: %d records, want %d", what, got, round+1)
		}
		p.kill()
	}
}
