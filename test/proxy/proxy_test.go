package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// server answers every request with its correlation id, and tells what came, on which connection.
type server struct {
	net.Listener
	came chan arrival
}

type arrival struct {
	connection int
	key        int16
	id         int32
}

func serve(t *testing.T) server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := server{listener, make(chan arrival, 100)}
	var running sync.WaitGroup
	running.Go(func() {
		for n := 1; ; n++ {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer func() { _ = c.Close() }()
				for {
					frame, err := readFrame(c)
					if err != nil {
						return
					}
					s.came <- arrival{n, parse(frame).Key, correlation(frame, 8)}
					if _, err := c.Write(append([]byte{0, 0, 0, 4}, frame[8:12]...)); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	return s
}

func (s server) next(t *testing.T) arrival {
	t.Helper()
	select {
	case a := <-s.came:
		return a
	case <-time.After(time.Minute):
		t.Fatal("nothing comes")
		return arrival{}
	}
}

func frameOf(id int32, req kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, id)
}

func endTxn(id int32) []byte {
	req := kmsg.NewPtrEndTxnRequest()
	req.Version = 5
	return frameOf(id, req)
}

// TestEachFaultBefallsARequest sends EndTxn twice on one connection, of which the first meets a fault.
func TestEachFaultBefallsARequest(t *testing.T) {
	const after = 50 * time.Millisecond
	for fault := None; fault <= Late; fault++ {
		t.Run(fault.String(), func(t *testing.T) {
			s := serve(t)
			n := 0
			p, err := Start("127.0.0.1:0", s.Addr().String(), func(Request) Choice {
				if n++; n == 1 {
					return Choice{fault, after}
				}
				return Choice{}
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Close)
			p.Faults(true)
			began := time.Now()
			client, err := net.Dial("tcp", p.Addr())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			if err := client.SetDeadline(began.Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := client.Write(endTxn(7)); err != nil {
				t.Fatal(err)
			}
			answer, ended := readFrame(client)
			answered := ended == nil && correlation(answer, 4) == 7
			closed := errors.Is(ended, io.EOF)
			if lost := fault == DropRequest || fault == DropAnswer || fault == Late; answered == lost || closed != lost {
				t.Errorf("answered %v, closed %v", answered, closed)
			}
			var came []arrival
			if fault != DropRequest {
				came = append(came, s.next(t))
			}
			switch fault {
			case Duplicate, Repeat:
				if fault == Repeat && len(s.came) == 0 {
					t.Error("answered before the second came")
				}
				came = append(came, s.next(t))
				if came[0].connection == came[1].connection || came[0].id != came[1].id {
					t.Errorf("came %v", came)
				}
			default:
			}
			if took := time.Since(began); took < after && (fault == Delay || fault == Duplicate || fault == Late) {
				t.Errorf("all came within %v", took)
			}
			if fault == Late && came[0].connection == 1 {
				t.Error("the late request came on the client's connection")
			}
			if answered {
				if _, err := client.Write(endTxn(8)); err != nil {
					t.Fatal(err)
				}
				if answer, err := readFrame(client); err != nil || correlation(answer, 4) != 8 {
					t.Errorf("the request behind it: %v", err)
				}
				if a := s.next(t); a.id != 8 || a.connection != 1 {
					t.Errorf("came %v", a)
				}
			}
			if p.Counts()[Count{EndTxn, fault}] == 0 {
				t.Errorf("counted %v", p.Counts())
			}
		})
	}
}

// TestWhatIsDelayedEndsWithItsConnection: a request waits, and the connection is ended by the client, or as the answer to the one before is
// lost. It never comes then: the client may have sent it again by now, and gone on.
func TestWhatIsDelayedEndsWithItsConnection(t *testing.T) {
	for _, by := range []string{"client", "lost answer"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			s, asked := serve(t), false
			p, err := Start("127.0.0.1:0", s.Addr().String(), func(r Request) Choice {
				if r.Key == TxnOffsetCommit {
					return Choice{Delay, 2 * time.Second}
				}
				if first := !asked; first && by == "lost answer" {
					asked = true
					return Choice{DropAnswer, 0}
				}
				return Choice{}
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Close)
			p.Faults(true)
			client, err := net.Dial("tcp", p.Addr())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			commit := kmsg.NewPtrTxnOffsetCommitRequest()
			commit.Version = 3
			if _, err := client.Write(append(endTxn(1), frameOf(2, commit)...)); err != nil {
				t.Fatal(err)
			}
			if a := s.next(t); a.id != 1 {
				t.Fatalf("came %v", a)
			}
			if by == "client" {
				_ = client.Close()
			} else if _, err := readFrame(client); !errors.Is(err, io.EOF) {
				t.Fatalf("the connection ends with %v", err)
			}
			other, err := net.Dial("tcp", p.Addr()) // what comes on it comes after what is delayed
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = other.Close() })
			time.Sleep(2500 * time.Millisecond) // the time that is under test
			if _, err := other.Write(endTxn(3)); err != nil {
				t.Fatal(err)
			}
			if a := s.next(t); a.id != 3 {
				t.Errorf("came %v, after the connection had ended", a)
			}
		})
	}
}

func TestOnlyTransactionsMeetFaults(t *testing.T) {
	id := "id"
	of := func(version int16, transactionalID *string) []byte {
		req := kmsg.NewPtrProduceRequest()
		req.Version, req.TransactionID = version, transactionalID
		return frameOf(1, req)
	}
	for version := int16(3); version <= 13; version++ {
		if got, want := parse(of(version, &id)), (Request{Produce, version, true}); got != want {
			t.Errorf("version %d with a transactional id: %+v", version, got)
		}
		if parse(of(version, nil)).Transactional {
			t.Errorf("version %d without a transactional id is taken for transactional", version)
		}
	}
	if parse(frameOf(1, kmsg.NewPtrMetadataRequest())).Transactional || parse([]byte{0, 0, 0, 4, 0, 0, 0, 26}).Transactional {
		t.Error("what is not of a transaction is taken for it")
	}
	if !parse(endTxn(1)).Transactional {
		t.Error("EndTxn is not taken for transactional")
	}
}

// TestTheSeedChoosesAllFaults: the same seed chooses the same, every kind meets every fault, and what the old flow can't bear is
// spared it.
func TestTheSeedChoosesAllFaults(t *testing.T) {
	one, other := Random(7), Random(7)
	counts := map[Count]int{}
	for range 200 {
		for _, key := range Kinds() {
			for _, version := range []int16{4, 5} {
				r := Request{key, version, true}
				choice := one(r)
				if again := other(r); again != choice {
					t.Fatalf("%v and %v", choice, again)
				}
				if old := version < 5 && (key == EndTxn || key == TxnOffsetCommit); old && (choice.Fault == Duplicate || choice.Fault == Late) {
					t.Errorf("%+v meets %v", r, choice)
				}
				counts[Count{key, choice.Fault}]++
			}
		}
	}
	told := Describe(counts, func(key int16) string { return kmsg.NameForKey(key) })
	for line := range strings.Lines(told) {
		for _, fault := range []Fault{None, Delay, DropRequest, DropAnswer, Duplicate, Late} {
			if !strings.Contains(line, fault.String()) {
				t.Errorf("no %v: %s", fault, line)
			}
		}
	}
}

func TestCloseForgetsWhatIsLate(t *testing.T) {
	s := serve(t)
	p, err := Start("127.0.0.1:0", s.Addr().String(), func(Request) Choice { return Choice{Late, time.Hour} })
	if err != nil {
		t.Fatal(err)
	}
	p.Faults(true)
	client, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if _, err := client.Write(endTxn(7)); err != nil {
		t.Fatal(err)
	}
	if _, err := readFrame(client); !errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the connection did not end: %v", err)
	}
	p.Close()
	if len(s.came) > 0 {
		t.Errorf("came %v", <-s.came)
	}
}

func TestRefuseAndAccept(t *testing.T) {
	s := serve(t)
	p, err := Start("127.0.0.1:0", s.Addr().String(), Random(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	for range 3 {
		p.Refuse()
		if c, err := net.Dial("tcp", p.Addr()); err == nil {
			_ = c.Close()
			t.Fatal("connected")
		}
		if err := p.Accept(); err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(endTxn(7)); err != nil {
			t.Fatal(err)
		}
		if a := s.next(t); a.id != 7 {
			t.Errorf("came %v", a)
		}
		_ = c.Close()
	}
}
