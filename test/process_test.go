// Package test holds what needs real processes: the shipped binary under clients as their users write them, beside a real
// Apache Kafka, killed, traced and restarted. `make test` prepares it; `go test ./...` in this folder runs it, with RAFTSMAN_BIN
// naming the binary and RAFTSMAN_SOAK=1 asking for full durations.
package test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/raftsman/raftsman/internal/raw"
)

// TestMain has every Apache Kafka, and each of its tools, start as soon as they can: see kafka/kafka.
func TestMain(m *testing.M) {
	if err := os.Setenv("QUICK_JVM", "1"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// binary is the raftsman under test.
func binary(t testing.TB) string {
	t.Helper()
	path := os.Getenv("RAFTSMAN_BIN")
	if path == "" {
		path = "../bin/raftsman"
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("no binary to test: %v; run `make build` first", err)
	}
	return path
}

// atLast is how long a test waits for what must happen, on a machine however slow. What is fast enough is another question.
const atLast = 2 * time.Minute

// A broker promises to end within stopLimit of SIGTERM, by a clock of its own: stopSeen is when a test must have seen it, on a
// machine on which everything takes its time.
const (
	stopLimit = 5 * time.Second
	stopSeen  = 2 * stopLimit
)

// soak tells whether full durations and counts are asked for.
func soak() bool { return os.Getenv("RAFTSMAN_SOAK") == "1" }

func freePort(t testing.TB) int {
	t.Helper()
	return raw.FreePort(t)
}

// process is a broker that runs beside the test.
type process struct {
	t       testing.TB
	command *exec.Cmd
	addr    string
	dir     string
	exited  chan struct{}
	err     error // of Wait, once exited is closed
	log     *logBuffer
}

// startBroker starts raftsman on dir and waits until it serves. It is killed when the test ends, its log shown on failure.
func startBroker(t testing.TB, dir string, args ...string) *process {
	t.Helper()
	return startBrokerAt(t, dir, freePort(t), args...)
}

func startBrokerAt(t testing.TB, dir string, port int, args ...string) *process {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	args = append(serveArgs(dir, addr), args...)
	p := startProcess(t, addr, exec.Command(binary(t), args...))
	p.dir = dir
	p.awaitServing(atLast)
	return p
}

// serveArgs are the arguments for a directory, or for several with commas between them.
func serveArgs(dirs, addr string) []string {
	if strings.Contains(dirs, ",") {
		return []string{"serve", "--override", "log.dirs=" + dirs, "--listen", addr}
	}
	return []string{"serve", "--data", dirs, "--listen", addr}
}

func startProcess(t testing.TB, addr string, command *exec.Cmd) *process {
	t.Helper()
	return startProcessAs(t, nil, addr, command)
}

// startProcessAs starts a command as another user, or with nil as this one.
func startProcessAs(t testing.TB, user *syscall.Credential, addr string, command *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, command: command, addr: addr, exited: make(chan struct{}), log: &logBuffer{}}
	if command.Stderr == nil {
		command.Stderr = p.log
	} else {
		command.Stderr = io.MultiWriter(command.Stderr, p.log)
	}
	if command.Stdout == nil {
		command.Stdout = p.log
	}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: user}
	if err := command.Start(); err != nil {
		t.Fatalf("start %s: %v", command, err)
	}
	go func() {
		p.err = command.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("log of %s:\n%s", filepath.Base(command.Path), p.log.tail(60))
		}
	})
	return p
}

// awaitServing waits until the broker answers a client.
func (p *process) awaitServing(limit time.Duration) {
	p.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.addr), kgo.RetryTimeout(10*time.Second), kgo.RequestRetries(0))
	if err != nil {
		p.t.Fatal(err)
	}
	defer cl.Close()
	eventually(p.t, limit, "the broker on "+p.addr+" serves", func() error {
		select {
		case <-p.exited:
			p.t.Fatalf("the broker ended while it started: %v\n%s", p.err, p.log.tail(40))
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return cl.Ping(ctx)
	})
}

// kill ends the process as kill -9 does, and waits until it is gone.
func (p *process) kill() {
	select {
	case <-p.exited:
	default:
		_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL)
		<-p.exited
	}
}

// terminate sends SIGTERM, waits for the end, and returns how long that took.
func (p *process) terminate() time.Duration {
	p.t.Helper()
	began := time.Now()
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
	select {
	case <-p.exited:
	case <-time.After(atLast):
		p.t.Fatalf("the process did not end within %v of SIGTERM:\n%s", atLast, p.log.tail(40))
	}
	return time.Since(began)
}

// eventually runs check until it returns nil, and fails the test with its last error after limit.
func eventually(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s: %v", limit, what, err)
		}
		<-tick.C
	}
}

// logBuffer keeps what a process writes.
type logBuffer struct {
	mu   sync.Mutex // guards data
	data bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}

func (b *logBuffer) tail(lines int) string {
	all := strings.Split(strings.TrimSpace(b.String()), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// run runs a command to its end within limit and returns its standard output, failing the test on any other end.
func run(t testing.TB, limit time.Duration, env []string, name string, args ...string) string {
	t.Helper()
	out, err := tryRun(limit, env, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return out
}

func tryRun(limit time.Duration, env []string, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.Env = append(os.Environ(), env...)
	command.WaitDelay = time.Second
	var out, failure bytes.Buffer
	command.Stdout, command.Stderr = &out, &failure
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("not ended within %v: %w", limit, err)
		}
		return out.String(), fmt.Errorf("%w\nstdout ends: %s\nstderr ends: %s", err, last(out.String(), 500), last(failure.String(), 3000))
	}
	return out.String(), nil
}

func last(text string, size int) string { return text[max(0, len(text)-size):] }

// lines calls each for every line of r until its end.
func lines(r io.Reader, each func(string)) {
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		each(scanner.Text())
	}
}
