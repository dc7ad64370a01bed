package test

import (
	"strings"
	"testing"
	"time"
)

// awaitRefusal waits for the end of a start that must not succeed, and checks its exit code and that it says why.
func (p *process) awaitRefusal(limit time.Duration, says ...string) {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(limit):
		p.t.Fatalf("still running after %v, where the start had to be refused:\n%s", limit, p.log.tail(20))
	}
	if p.err == nil {
		p.t.Errorf("exit code 0 of a start that was refused:\n%s", p.log.tail(20))
	}
	for _, want := range says {
		if !strings.Contains(p.log.String(), want) {
			p.t.Errorf("it does not say %q:\n%s", want, p.log.tail(20))
		}
	}
}

func (p *process) checkAlive() {
	p.t.Helper()
	select {
	case <-p.exited:
		p.t.Fatalf("the broker ended: %v\n%s", p.err, p.log.tail(20))
	default:
	}
	p.awaitServing(atLast)
}

// TestOneBrokerPerDirectory starts each broker, Raftsman and Apache Kafka, on a directory that the other or its like has.
func TestOneBrokerPerDirectory(t *testing.T) {
	t.Parallel()
	d := newSwapDir(t)
	other := newSwapDir(t)
	other.data = d.data

	raftsman := d.raftsman(t)
	second := launchBroker(t, other.data, other.port)
	second.awaitRefusal(atLast, "log directory "+d.data+" is in use by another process", "stop that one first")
	if lines := strings.Count(strings.TrimSpace(second.log.String()), "\n") + 1; lines != 1 {
		t.Errorf("the refusal has %d lines:\n%s", lines, second.log.String())
	}
	kafka := other.launchKafka(t)
	kafka.awaitRefusal(3 * time.Minute)
	if want := "Failed to acquire lock on file .lock in " + d.data; !strings.Contains(other.kafkaLog(), want) {
		t.Errorf("Kafka's log does not say %q", want)
	}
	raftsman.checkAlive()
	raftsman.terminate()

	kafka = d.kafka(t)
	launchBroker(t, other.data, other.port).awaitRefusal(atLast, "log directory "+d.data+" is in use by another process, a broker of Raftsman or Kafka")
	kafka.checkAlive()
	kafka.terminate()

	// Neither refusal left anything that would hold a start back.
	d.raftsman(t).terminate()
}
