package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// newLiveSession returns a session whose commands reach a broker.
func newLiveSession(bootstrap string) *session {
	s := newSession()
	s.app.now = time.Now
	s.env[bootstrapVariable] = bootstrap
	return s
}

// must runs a command that has to succeed and returns what it printed.
func must(t *testing.T, bootstrap, stdin string, args ...string) string {
	t.Helper()
	s := newLiveSession(bootstrap)
	if code := s.runIn(t.Context(), stdin, args...); code != exitOK {
		t.Fatalf("`raftsman %s` ends with %d and says %s", strings.Join(args, " "), code, s.err.String())
	}
	return s.out.String()
}

// background is a command that runs until it ends or is interrupted.
type background struct {
	*session
	t         *testing.T
	line      string
	interrupt context.CancelFunc
	code      chan int
}

func (s *session) start(t *testing.T, stdin io.Reader, args ...string) *background {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	b := &background{session: s, t: t, line: strings.Join(args, " "), interrupt: interrupt, code: make(chan int, 1)}
	s.app.in = stdin
	go func() { b.code <- run(ctx, s.app, args) }()
	t.Cleanup(interrupt)
	return b
}

// end waits for the command and returns its exit code.
func (b *background) end() int {
	b.t.Helper()
	select {
	case code := <-b.code:
		return code
	case <-time.After(patience):
		b.t.Fatalf("`raftsman %s` does not end; printed %q, said %q", b.line, b.out.String(), b.err.String())
		return 0
	}
}

// patience is how long a test waits for what must come: far more than a busy machine needs.
const patience = time.Minute

// eventually waits until is holds.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func (b *background) shows(text string) {
	b.t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(b.out.String()+b.err.String(), text) {
		select {
		case <-tick.C:
		case <-deadline:
			b.t.Fatalf("`raftsman %s` does not show %q; printed %q, said %q", b.line, text, b.out.String(), b.err.String())
		}
	}
}

// topicFor makes a topic of the test's own.
func topicFor(t *testing.T, bootstrap string, partitions int) string {
	t.Helper()
	topic := fmt.Sprintf("%s-%x", strings.ToLower(t.Name()), time.Now().UnixNano())
	must(t, bootstrap, "", "topic", "create", topic, "-p", fmt.Sprint(partitions))
	t.Cleanup(func() {
		newLiveSession(bootstrap).run("topic", "delete", topic, "--yes")
	})
	return topic
}

func TestConsumeFollowsAndEndsInOrder(t *testing.T) {
	bootstrap := startBroker(t)
	topic := topicFor(t, bootstrap, 2)
	c := newLiveSession(bootstrap).start(t, nil, "consume", topic)
	for i := range 3 {
		value := fmt.Sprintf("value-%d", i)
		must(t, bootstrap, "", "produce", topic, value)
		c.shows(value + "\n")
	}
	c.interrupt()
	if code := c.end(); code != exitOK {
		t.Errorf("interrupted consume ends with %d, want %d: %s", code, exitOK, c.err.String())
	}
	if got, want := c.out.String(), "value-0\nvalue-1\nvalue-2\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestInterruptedGroupMemberCommitsWhatItPrinted(t *testing.T) {
	bootstrap := startBroker(t)
	topic := topicFor(t, bootstrap, 1)
	group := topic + "-group"
	must(t, bootstrap, "a\nb\nc\n", "produce", topic)
	c := newLiveSession(bootstrap).start(t, nil, "consume", topic, "-g", group)
	c.shows("c\n")
	c.interrupt()
	if code := c.end(); code != exitOK {
		t.Fatalf("ends with %d: %s", code, c.err.String())
	}
	must(t, bootstrap, "d\n", "produce", topic)
	if got := must(t, bootstrap, "", "consume", topic, "-g", group, "-e"); got != "d\n" {
		t.Errorf("the next member reads %q, want what was not printed before", got)
	}
}

func TestMembersShareAndTakeOver(t *testing.T) {
	bootstrap := startBroker(t)
	topic := topicFor(t, bootstrap, 2)
	group := topic + "-group"
	var members []*background
	for range 3 {
		members = append(members, newLiveSession(bootstrap).start(t, nil, "consume", topic, "-g", group, "-f", `%p:%v\n`))
	}
	eventually(t, "three members, one without a partition", func() bool {
		d := newLiveSession(bootstrap)
		d.run("group", "describe", group)
		text := d.out.String()
		return strings.Contains(text, "state Stable") && strings.Contains(text, "3 members") && strings.Contains(text, "has no partition")
	})
	if got := newLiveSession(bootstrap); got.run("group", "reset", group, "--to-latest", "-t", topic, "--execute") != exitFailure || !strings.Contains(got.err.String(), "is in use: it has 3 members") {
		t.Errorf("moving the offsets of a group with members was not refused by name: %s", got.err.String())
	}
	d := newLiveSession(bootstrap)
	if d.run("group", "describe", group); !strings.Contains(d.out.String(), "3 members, nothing committed") {
		t.Errorf("before anything is committed, group describe prints %s", d.out.String())
	}
	if got := newLiveSession(bootstrap); got.run("group", "reset", group, "--to-earliest", "--execute") != exitFailure || !strings.Contains(got.err.String(), "is in use") {
		t.Errorf("a group in use that has committed nothing is said to have committed nothing only: %s", got.err.String())
	}
	for _, m := range members[1:] {
		m.interrupt()
		if code := m.end(); code != exitOK {
			t.Errorf("member ends with %d: %s", code, m.err.String())
		}
	}
	must(t, bootstrap, "", "produce", topic, "-p", "0", "x")
	must(t, bootstrap, "", "produce", topic, "-p", "1", "y")
	members[0].shows("0:x\n")
	members[0].shows("1:y\n")
	members[0].interrupt()
	members[0].end()
}

func TestInterruptedProduceTellsWhatWasAcknowledged(t *testing.T) {
	bootstrap := startBroker(t)
	topic := topicFor(t, bootstrap, 1)
	in, out := io.Pipe()
	p := newLiveSession(bootstrap).start(t, in, "produce", topic)
	fmt.Fprintln(out, "one")
	eventually(t, "the record is there", func() bool { return must(t, bootstrap, "", "consume", topic, "-e") == "one\n" })
	p.interrupt()
	if code := p.end(); code != exitFailure {
		t.Errorf("ends with %d, want %d", code, exitFailure)
	}
	if got, want := p.out.String(), "1 record acknowledged: "+topic+" partition 0, offset 0\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	if got := p.err.String(); got != "raftsman: interrupted\n" {
		t.Errorf("said %q", got)
	}
	out.Close()
}

func TestTypedRecordsGoOutAtOnce(t *testing.T) {
	bootstrap := startBroker(t)
	topic := topicFor(t, bootstrap, 1)
	in, out := io.Pipe()
	s := newLiveSession(bootstrap)
	s.app.noColor = true
	s.app.tty = terminal{in: true, err: true}
	p := s.start(t, in, "produce", topic)
	p.shows("each line you type is a record")
	fmt.Fprintln(out, "one")
	eventually(t, "the record is there", func() bool { return must(t, bootstrap, "", "consume", topic, "-e") == "one\n" })
	p.interrupt()
	if code := p.end(); code != exitOK {
		t.Errorf("ends with %d, want %d: an interrupt ends typing", code, exitOK)
	}
	out.Close()
}

// swallowing lets everything through to the broker but Produce requests.
type swallowing struct {
	net.Conn
	swallowed *atomic.Int32
}

func (c swallowing) Write(p []byte) (int, error) {
	const produceKey = 0
	if len(p) >= 6 && binary.BigEndian.Uint16(p[4:]) == produceKey {
		c.swallowed.Add(1)
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func TestProduceGivesUpWhenNobodyAcknowledges(t *testing.T) {
	bootstrap := startBroker(t)
	topic := topicFor(t, bootstrap, 1)
	var swallowed atomic.Int32
	var s *session
	for timeout := time.Second; swallowed.Load() == 0; timeout *= 2 { // until it is enough for a Produce to be sent
		s = newLiveSession(bootstrap)
		s.app.dial = func(opts ...kgo.Opt) (*kgo.Client, error) {
			return kgo.NewClient(append(opts, kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, host)
				return swallowing{conn, &swallowed}, err
			}))...)
		}
		if code := s.runIn(t.Context(), "one\n", "produce", topic, "--timeout", timeout.String()); code != exitFailure {
			t.Errorf("ends with %d, want %d", code, exitFailure)
		}
		if timeout > patience {
			t.Fatal("no Produce was sent")
		}
	}
	if got, want := s.out.String(), "0 of 1 record acknowledged\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	if !strings.Contains(s.err.String(), "no acknowledgement in time") {
		t.Errorf("said %q", s.err.String())
	}
}

func TestConsumeTellsAnOutageOnceAndItsEnd(t *testing.T) {
	bootstrap := startBroker(t)
	topic := topicFor(t, bootstrap, 1)
	var cut atomic.Bool
	var refused atomic.Int32
	conns := make(chan net.Conn, 100)
	s := newLiveSession(bootstrap)
	s.app.dial = func(opts ...kgo.Opt) (*kgo.Client, error) {
		return kgo.NewClient(append(opts, kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }), kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
			if cut.Load() {
				refused.Add(1)
				return nil, errors.New("cut off")
			}
			conn, err := (&net.Dialer{}).DialContext(ctx, network, host)
			if err == nil {
				conns <- conn
			}
			if cut.Load() {
				return nil, errors.Join(err, errors.New("cut off"))
			}
			return conn, err
		}))...)
	}
	c := s.start(t, nil, "consume", topic)
	must(t, bootstrap, "", "produce", topic, "before")
	c.shows("before\n")
	cut.Store(true)
	for len(conns) > 0 {
		(<-conns).Close()
	}
	c.shows("no connection to the broker at ")
	eventually(t, "some more attempts", func() bool { return refused.Load() >= 5 })
	if n := strings.Count(c.err.String(), "no connection"); n != 1 {
		t.Errorf("the outage was told %d times: %s", n, c.err.String())
	}
	cut.Store(false)
	c.shows("connected again")
	must(t, bootstrap, "", "produce", topic, "after")
	c.shows("after\n")
	c.interrupt()
	c.end()
}

func TestShellCompletionOffersWhatTheClusterHas(t *testing.T) {
	bootstrap := startBroker(t)
	topic := topicFor(t, bootstrap, 1)
	for _, line := range []string{"topic describe", "topic delete", "topic grow", "produce", "consume", "config show topic"} {
		args := append(append([]string{"__complete"}, strings.Fields(line)...), "")
		if got := must(t, bootstrap, "", args...); !strings.Contains(got, topic+"\n") {
			t.Errorf("`raftsman %s <tab>` offers %q, want %s among it", line, got, topic)
		}
	}
	if got := must(t, bootstrap, "", "__complete", "config", "get", "topic", topic, ""); !strings.Contains(got, "retention.ms\n") {
		t.Errorf("`raftsman config show topic %s <tab>` offers %q", topic, got)
	}
}

func TestClusterDescribeTellsTheBrokerAndItsDirectory(t *testing.T) {
	bootstrap := startBroker(t)
	text := must(t, bootstrap, "", "cluster", "describe")
	for _, want := range []string{"cluster ", ", 1 broker, controller 1", "LOG DIRECTORY", "metadata.version"} {
		if !strings.Contains(text, want) {
			t.Errorf("cluster describe prints %q, want %q in it", text, want)
		}
	}
	if got := must(t, bootstrap, "", "cluster", "api-versions"); !strings.Contains(got, "Produce") || !strings.Contains(got, "Fetch") {
		t.Errorf("api-versions prints %q", got)
	}
	if got := must(t, bootstrap, "", "cluster", "describe", "-o", "json"); !strings.Contains(got, `"clusterId": "`) {
		t.Errorf("cluster describe -o json prints %q", got)
	}
}

func TestLinesFromAFileAndWholeFiles(t *testing.T) {
	bootstrap := startBroker(t)
	topic := topicFor(t, bootstrap, 1)
	must(t, bootstrap, "a\nb\n", "produce", topic, "--whole")
	if got := must(t, bootstrap, "", "consume", topic, "-e", "-f", "<%v>"); got != "<a\nb\n>" {
		t.Errorf("read %q", got)
	}
	file := t.TempDir() + "/lines"
	writeFile(t, file, "1\n2\n3")
	must(t, bootstrap, "", "produce", topic, "-f", file)
	if got := must(t, bootstrap, "", "consume", topic, "-e", "--from", "1"); got != "1\n2\n3\n" {
		t.Errorf("read %q", got)
	}
}

func TestTooLargeRecordIsRefusedByName(t *testing.T) {
	bootstrap := startBroker(t)
	topic := topicFor(t, bootstrap, 1)
	must(t, bootstrap, "", "config", "set", "topic", topic, "max.message.bytes=2000")
	s := newLiveSession(bootstrap)
	if code := s.runIn(t.Context(), strings.Repeat("x", 3000), "produce", topic); code != exitFailure || !strings.Contains(s.err.String(), "max.message.bytes") {
		t.Errorf("ends with %d and says %q", code, s.err.String())
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
