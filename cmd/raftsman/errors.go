package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The exit codes, as the help of `raftsman` documents them.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2

	exitUnreachable = 2 // of `cluster health`
)

// exitError ends a command with an exit code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// errDeclined ends a command whose question was not answered with yes.
var errDeclined = errors.New("nothing was done")

// errReported ends a command that has already said what went wrong.
var errReported = errors.New("reported")

// usageError is a command line that cannot be right, whatever the cluster holds.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// connectionRefusedOnWindows is WSAECONNREFUSED, which is not what the syscall package calls ECONNREFUSED there.
const connectionRefusedOnWindows = syscall.Errno(10061)

// unreachableError is that none of the seeds could be talked to.
type unreachableError struct {
	seeds string
	err   error
}

func (e *unreachableError) Unwrap() error { return e.err }

func (e *unreachableError) Error() string {
	var dns *net.DNSError
	var firstRead *kgo.ErrFirstReadEOF
	var timeout net.Error
	switch {
	case errors.Is(e.err, syscall.ECONNREFUSED), errors.Is(e.err, connectionRefusedOnWindows):
		return fmt.Sprintf("nothing listens at %s: start a broker with `raftsman serve`, or name another with -b", e.seeds)
	case errors.As(e.err, &dns):
		return fmt.Sprintf("there is no host %s: name a broker with -b host:port or %s", dns.Name, bootstrapVariable)
	case errors.As(e.err, &firstRead), errors.Is(e.err, io.EOF), errors.Is(e.err, syscall.ECONNRESET), errors.Is(e.err, io.ErrUnexpectedEOF):
		return fmt.Sprintf("%s closed the connection: is it the plain listener of a Kafka broker?", e.seeds)
	case errors.Is(e.err, context.DeadlineExceeded), errors.Is(e.err, os.ErrDeadlineExceeded), errors.As(e.err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("%s does not answer: is the address right and no firewall between? --timeout waits longer", e.seeds)
	}
	reason, _, _ := strings.Cut(e.err.Error(), ";")
	return fmt.Sprintf("%s does not answer as a Kafka broker (%s): is it the plain listener of one, not HTTP or TLS?", e.seeds, reason)
}

// refusedError is a broker's answer to one item of a request: an error code and maybe a sentence.
type refusedError struct {
	what    string // what was wanted: "create topic orders"
	err     error
	message string
}

// refused returns nil when err is nil.
func refused(what string, err error, message string) error {
	if err == nil {
		return nil
	}
	return &refusedError{what: what, err: err, message: message}
}

func (e *refusedError) Unwrap() error { return e.err }

func (e *refusedError) Error() string {
	var code *kerr.Error
	if !errors.As(e.err, &code) {
		return e.what + ": " + e.err.Error()
	}
	text := e.message
	if text == "" {
		text = code.Description
	}
	text = strings.TrimRight(strings.TrimSpace(text), ".")
	if next := nextStep(code); next != "" {
		return fmt.Sprintf("%s: %s (%s): %s", e.what, text, code.Message, next)
	}
	return fmt.Sprintf("%s: %s (%s)", e.what, text, code.Message)
}

// nextStep says what to do about an error code, where that is known.
func nextStep(code *kerr.Error) string {
	switch {
	case errors.Is(code, kerr.UnknownTopicOrPartition), errors.Is(code, kerr.UnknownTopicID):
		return "`raftsman topic list` shows the topics there are"
	case errors.Is(code, kerr.TopicAlreadyExists):
		return "--if-not-exists takes it as it is"
	case errors.Is(code, kerr.InvalidReplicationFactor):
		return "`raftsman cluster describe` shows how many brokers there are"
	case errors.Is(code, kerr.InvalidConfig):
		return "`raftsman config show` shows names and values"
	case errors.Is(code, kerr.NonEmptyGroup), errors.Is(code, kerr.UnknownMemberID), errors.Is(code, kerr.GroupSubscribedToTopic):
		return "stop the group's members first, `raftsman group describe` names them"
	case errors.Is(code, kerr.GroupIDNotFound):
		return "`raftsman group list` shows the groups there are"
	case errors.Is(code, kerr.MessageTooLarge), errors.Is(code, kerr.RecordListTooLarge):
		return "raise the topic's max.message.bytes, or send less at once"
	case errors.Is(code, kerr.NotEnoughReplicas), errors.Is(code, kerr.NotEnoughReplicasAfterAppend):
		return "too few replicas are in sync, `raftsman topic describe` shows which"
	case errors.Is(code, kerr.LeaderNotAvailable), errors.Is(code, kerr.KafkaStorageError):
		return "`raftsman cluster describe` shows which brokers and disks are there"
	case errors.Is(code, kerr.TopicAuthorizationFailed), errors.Is(code, kerr.GroupAuthorizationFailed), errors.Is(code, kerr.ClusterAuthorizationFailed):
		return "ask the cluster's operator for the right to do this"
	case errors.Is(code, kerr.UnsupportedVersion):
		return "this cluster is too old for it, `raftsman cluster api-versions` shows what it serves"
	}
	return ""
}

// explain turns an error into the one line that a person gets, or nothing if all has been said.
func (a *app) explain(err error) string {
	var code *kerr.Error
	var told *refusedError
	var unreachable *unreachableError
	switch {
	case errors.Is(err, errReported):
		return ""
	case errors.As(err, &unreachable):
		return oneLine(unreachable.Error())
	case errors.As(err, &told):
		return oneLine(err.Error())
	case errors.As(err, &code):
		return oneLine(refused("the broker refuses", code, "").Error())
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %s: `raftsman cluster describe` shows whether the brokers are there, --timeout waits longer", a.timeout)
	case errors.Is(err, context.Canceled):
		return "interrupted"
	}
	return oneLine(err.Error())
}

// oneLine joins lines, and escapes what a terminal would act on: broker messages hold names that others chose.
func oneLine(text string) string {
	return printable(strings.Join(strings.Fields(text), " "))
}

// failures are the refused items of one command, or the faults of one configuration: each is told on a line of its own.
type failures []error

func (f failures) Error() string   { return errors.Join(f...).Error() }
func (f failures) Unwrap() []error { return f }

// join returns nil for no failures.
func (f failures) join() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// tell returns the lines that explain err.
func (a *app) tell(err error) []string {
	var several failures
	if !errors.As(err, &several) {
		several = failures{err}
	}
	var lines []string
	for _, one := range several {
		if text := a.explain(one); text != "" {
			lines = append(lines, text)
		}
	}
	return lines
}
