package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const cleanMarker = ".kafka_cleanshutdown"

func createTopic(t testing.TB, addr, topic string, partitions int32) {
	t.Helper()
	if r := must(kadm.NewClient(crashClient(t, addr)).CreateTopic(t.Context(), partitions, 1, nil, topic))(t); r.Err != nil {
		t.Fatal(r.Err)
	}
}

// topicID of a topic that is there.
func topicID(t testing.TB, addr, topic string) [16]byte {
	t.Helper()
	return must(kadm.NewClient(crashClient(t, addr)).ListTopics(t.Context(), topic))(t)[topic].ID
}

// fetchRequest asks for partition 0 from its beginning, and may wait for a minute.
func (c *rawConn) fetchRequest(id [16]byte) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.SessionEpoch = 13, 60_000, 1, -1
	topic := kmsg.NewFetchRequestTopic()
	topic.TopicID = id
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.PartitionMaxBytes, partition.CurrentLeaderEpoch = 1<<20, -1
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	return req
}

func joinRequest(group string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 3, group, "consumer", 60_000, 60_000
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = "range", []byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 0}
	req.Protocols = append(req.Protocols, protocol)
	return req
}

// form makes a group of one member.
func (c *rawConn) form(group string) {
	c.t.Helper()
	find := kmsg.NewPtrFindCoordinatorRequest() // which creates the group's topic
	find.Version, find.CoordinatorKey = 2, group
	eventually(c.t, atLast, "the group has a coordinator", func() error {
		return kerr.ErrorForCode(ask[*kmsg.FindCoordinatorResponse](c, find, atLast).ErrorCode)
	})
	var joined *kmsg.JoinGroupResponse
	req := joinRequest(group)
	eventually(c.t, atLast, "a first member joins", func() error {
		joined = ask[*kmsg.JoinGroupResponse](c, req, atLast)
		return kerr.ErrorForCode(joined.ErrorCode)
	})
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group, sync.Generation, sync.MemberID = 3, group, joined.Generation, joined.MemberID
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: joined.MemberID, MemberAssignment: []byte{0, 1}}}
	if code := ask[*kmsg.SyncGroupResponse](c, sync, atLast).ErrorCode; code != 0 {
		c.t.Fatal(kerr.ErrorForCode(code))
	}
}

// TestStopWithEverythingBusy ends a broker in order while a fetch and a JoinGroup are parked and producers send without pause.
func TestStopWithEverythingBusy(t *testing.T) {
	p := startBroker(t, t.TempDir())
	createTopic(t, p.addr, "quiet", 1)
	createTopic(t, p.addr, "busy", 3)

	fetcher := dialRaw(t, p.addr)
	first, second := dialRaw(t, p.addr), dialRaw(t, p.addr)
	first.form("parked")
	fetch := fetcher.fetchRequest(topicID(t, p.addr, "quiet"))
	fetcher.send(fetch)
	join := joinRequest("parked")
	second.send(join) // waits for the first member to come again

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var producers sync.WaitGroup
	defer producers.Wait()
	var mu sync.Mutex // guards acked
	acked := map[place]string{}
	enough := make(chan struct{})
	for producer := range 4 {
		cl := crashClient(t, p.addr, kgo.DefaultProduceTopic("busy"), kgo.RecordRetries(1<<20), kgo.ProducerLinger(0))
		producers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				cl.Produce(ctx, kgo.StringRecord(fmt.Sprintf("%d/%d", producer, n)), func(r *kgo.Record, err error) {
					if err != nil {
						return
					}
					mu.Lock()
					defer mu.Unlock()
					acked[place{r.Partition, r.Offset}] = string(r.Value)
					if len(acked) == 10_000 {
						close(enough)
					}
				})
			}
		})
	}
	<-enough
	took := p.terminate()
	t.Logf("stopped within %v", took)
	if took > stopSeen {
		t.Errorf("SIGTERM took %v, want at most %v", took, stopLimit)
	}
	if p.err != nil {
		t.Errorf("exit: %v, want code 0", p.err)
	}
	if _, err := os.Stat(filepath.Join(p.dir, cleanMarker)); err != nil {
		t.Errorf("no clean-shutdown marker: %v", err)
	}
	if resp, err := receive[*kmsg.FetchResponse](fetcher, fetch, atLast); err != nil {
		t.Errorf("the parked fetch was not answered: %v", err)
	} else if code := fetchCode(resp); code != kerr.NotLeaderForPartition.Code && code != 0 {
		t.Errorf("the parked fetch was answered %v", kerr.ErrorForCode(code))
	}
	if resp, err := receive[*kmsg.JoinGroupResponse](second, join, atLast); err != nil {
		t.Errorf("the parked JoinGroup was not answered: %v", err)
	} else if resp.ErrorCode != kerr.NotCoordinator.Code {
		t.Errorf("the parked JoinGroup was answered %v, want NOT_COORDINATOR", kerr.ErrorForCode(resp.ErrorCode))
	}
	stop()
	producers.Wait()

	again := startBroker(t, p.dir)
	if strings.Contains(again.log.String(), "recover") {
		t.Errorf("recovery after a stop in order:\n%s", again.log.tail(20))
	}
	if _, err := os.Stat(filepath.Join(p.dir, cleanMarker)); err == nil {
		t.Error("the clean-shutdown marker is still there while the broker runs")
	}
	log := readTopic(t, again.addr, "busy")
	mu.Lock() // producers that were stopped may still be told how their last records ended
	defer mu.Unlock()
	for at, v := range acked {
		if values := log[at.partition]; at.offset >= int64(len(values)) || values[at.offset] != v {
			t.Fatalf("%q was acknowledged at partition %d, offset %d and is not there", v, at.partition, at.offset)
		}
	}
	t.Logf("%d records acknowledged, all there", len(acked))
}

func fetchCode(resp *kmsg.FetchResponse) int16 {
	for _, topic := range resp.Topics {
		for _, partition := range topic.Partitions {
			if partition.ErrorCode != 0 {
				return partition.ErrorCode
			}
		}
	}
	return resp.ErrorCode
}

// stall has a client ask for more than the sockets hold and read nothing of it.
func stall(t testing.TB, addr string) {
	t.Helper()
	createTopic(t, addr, "large", 1)
	cl := crashClient(t, addr, kgo.DefaultProduceTopic("large"), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for range 45 {
		if err := cl.ProduceSync(t.Context(), kgo.SliceRecord(make([]byte, 900_000))).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	c := dialRaw(t, addr)
	if err := c.Conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	req := c.fetchRequest(topicID(t, addr, "large"))
	req.MinBytes, req.MaxBytes, req.Topics[0].Partitions[0].PartitionMaxBytes = 40_000_000, 1<<30, 1<<30
	c.send(req)
	if err := c.SetReadDeadline(time.Now().Add(atLast)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
}

// TestStopDoesNotWaitForAPeerThatReadsNothing: such a connection costs neither the 5 seconds nor the clean-shutdown marker.
func TestStopDoesNotWaitForAPeerThatReadsNothing(t *testing.T) {
	p := startBroker(t, t.TempDir())
	stall(t, p.addr)
	took := p.terminate()
	if took > stopSeen || p.err != nil {
		t.Errorf("SIGTERM took %v, exit: %v; want at most %v and code 0", took, p.err, stopLimit)
	}
	if _, err := os.Stat(filepath.Join(p.dir, cleanMarker)); err != nil {
		t.Errorf("no clean-shutdown marker: %v", err)
	}
	t.Logf("stopped within %v", took)
}

// TestStopWhileStarting sends SIGTERM to a broker that takes seconds to start, as its disk is slow.
func TestStopWhileStarting(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"a new directory", "after a crash"} {
		t.Run(state, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if state == "after a crash" {
				p := startBroker(t, dir)
				createTopic(t, p.addr, "many", 100)
				p.kill()
			}
			trace := filepath.Join(t.TempDir(), "trace.txt")
			p := launchStrace(t, dir, freePort(t), "-o", trace, "-e", "trace=fdatasync,fsync,syncfs",
				"-e", "inject=fdatasync,fsync,syncfs:delay_enter=400000")
			eventually(t, atLast, "a first flush is over", func() error {
				content, err := os.ReadFile(trace)
				if err == nil && !strings.Contains(string(content), "= 0 (DELAYED)") {
					err = errors.New("none yet")
				}
				return err
			})
			p.signal(syscall.SIGTERM)
			began := time.Now()
			select {
			case <-p.exited:
				t.Logf("ended within %v: %v", time.Since(began).Round(time.Millisecond), p.err)
			case <-time.After(stopSeen):
				t.Fatalf("still running %v after SIGTERM:\n%s", stopSeen, p.log.tail(10))
			}
			startAfterDeath(t, state, dir)
		})
	}
}

// TestStopGivesUpOnADiskThatDoesNotAnswer: with a flush that hangs, SIGTERM still ends the broker, and says that it was not in order.
func TestStopGivesUpOnADiskThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startBroker(t, dir)
	createTopic(t, p.addr, "hangs", 1)
	p.terminate()
	segment := filepath.Join(dir, "hangs-0", "00000000000000000000.log")
	p = straceBroker(t, dir, freePort(t), "-P", segment, "-e", "trace=fdatasync", "-e", "inject=fdatasync:delay_enter=20000000")
	cl := crashClient(t, p.addr, kgo.DefaultProduceTopic("hangs"))
	result := make(chan error, 1)
	cl.Produce(t.Context(), kgo.StringRecord("never acknowledged"), func(_ *kgo.Record, err error) { result <- err })
	eventually(t, atLast, "the record is written and its flush hangs", func() error {
		info, err := os.Stat(segment)
		if err == nil && info.Size() == 0 {
			err = errors.New("empty")
		}
		return err
	})
	// strace holds the process until the call that it delays is over: what counts is when the broker has said its last.
	p.signal(syscall.SIGTERM)
	eventually(t, stopSeen, "the broker gives up", func() error {
		if !strings.Contains(p.log.String(), "the disk does not answer") {
			return errors.New(p.log.tail(3))
		}
		return nil
	})
	p.awaitRefusal(atLast)
	if _, err := os.Stat(filepath.Join(dir, cleanMarker)); err == nil {
		t.Error("a clean-shutdown marker, though a flush did not end")
	}
	select {
	case err := <-result:
		if err == nil {
			t.Error("the record was acknowledged, though its flush had not ended")
		}
	default:
	}
}

// awaitStopping waits until the broker says that it stops.
func (p *process) awaitStopping() {
	p.t.Helper()
	eventually(p.t, atLast, "the broker says that it stops", func() error {
		if !strings.Contains(p.log.String(), "msg=stopping") {
			return errors.New(p.log.tail(3))
		}
		return nil
	})
}

// TestSecondSignalStopsAtOnce gives a broker that waits for a peer a second signal.
func TestSecondSignalStopsAtOnce(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			p := startBroker(t, t.TempDir())
			stall(t, p.addr)
			p.signal(signal)
			p.awaitStopping()
			began := time.Now()
			for ended := false; !ended; { // what comes within half a second of the first signal is one with it
				if err := p.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
					t.Fatal(err)
				}
				select {
				case <-p.exited:
					ended = true
				case <-time.After(50 * time.Millisecond):
				}
			}
			p.awaitRefusal(atLast, "stopped at the second signal")
			t.Logf("ended %v after the first repeat: %v", time.Since(began), p.err)
			if _, err := os.Stat(filepath.Join(p.dir, cleanMarker)); err == nil {
				t.Error("a clean-shutdown marker, though the stop was cut short")
			}
			again := startBroker(t, p.dir)
			if got := len(readTopic(t, again.addr, "large")[0]); got != 45 {
				t.Errorf("%d records after the next start, 45 were acknowledged", got)
			}
		})
	}
}

// TestRepeatedSignalStopsInOrder: GNU timeout signals its child and then the child's group, a terminal that is closed everybody in
// it. Meanwhile the broker waits for a peer that reads nothing.
func TestRepeatedSignalStopsInOrder(t *testing.T) {
	signals := make(chan os.Signal, 1) // under nohup this process would hand on that SIGHUP is ignored
	signal.Notify(signals, syscall.SIGHUP)
	defer signal.Stop(signals)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			p := startBroker(t, t.TempDir())
			stall(t, p.addr)
			p.signal(signal)
			p.awaitStopping()
			p.signal(signal)
			select {
			case <-p.exited:
			case <-time.After(atLast):
				t.Fatalf("it does not end:\n%s", p.log.tail(10))
			}
			if p.err != nil {
				t.Errorf("exit: %v, want code 0", p.err)
			}
			if _, err := os.Stat(filepath.Join(p.dir, cleanMarker)); err != nil {
				t.Errorf("no clean-shutdown marker: %v", err)
			}
		})
	}
}

// TestStopInOrderWithoutAReaderOfTheLog: Ctrl+C ends `raftsman serve 2>&1 | tee log` as a whole, tee first.
func TestStopInOrderWithoutAReaderOfTheLog(t *testing.T) {
	t.Parallel()
	dir, port := t.TempDir(), freePort(t)
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(binary(t), "serve", "--data", dir, "--listen", addr)
	command.Stdout, command.Stderr = write, write
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, command: command, addr: addr, dir: dir, exited: make(chan struct{}), log: &logBuffer{}}
	go func() {
		p.err = command.Wait()
		close(p.exited)
	}()
	t.Cleanup(p.kill)
	p.awaitServing(atLast)
	if err := errors.Join(read.Close(), write.Close()); err != nil {
		t.Fatal(err)
	}
	p.terminate()
	if p.err != nil {
		t.Errorf("exit: %v, want code 0", p.err)
	}
	if _, err := os.Stat(filepath.Join(dir, cleanMarker)); err != nil {
		t.Errorf("no clean-shutdown marker: %v", err)
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.command.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// straceBroker starts raftsman under strace, which looks on from the side: the broker is the process that gets signals. All
// paths must be absolute.
func straceBroker(t testing.TB, dir string, port int, options ...string) *process {
	t.Helper()
	p := launchStrace(t, dir, port, options...)
	p.awaitServing(atLast)
	return p
}

func launchStrace(t testing.TB, dir string, port int, options ...string) *process {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	args := append([]string{"-D", "-f", "-qqq", "-o", filepath.Join(t.TempDir(), "strace.txt")}, options...)
	args = append(append(args, binary(t)), serveArgs(dir, addr)...)
	p := startProcess(t, addr, exec.Command("strace", args...))
	p.dir = dir
	return p
}
