package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestWrongCommandLinesExitWithTwo(t *testing.T) {
	for _, line := range []string{
		"topik", "topic lst", "topic create", "topic create x -p 0", "topic create x -r 0", "topic create x -c nonsense", "topic list extra",
		"topic grow x", "topic list -o xml", "topic list --timeout 0s", "topic list -b a:0", "topic list --bogus",
		"produce", "produce t --acks 2", "produce t -z brotli", "produce t --acks 1 --idempotent", "produce t -K : -k x", "produce t v -f file",
		"produce t --json --whole", "produce t -p -2", "produce t --batch-bytes 5", "produce t x -H nonsense",
		"consume", "consume t --from middle", "consume t --since soon", "consume t --from 1 --since 1m", "consume t -e --until end",
		"consume t -g g -p 1", "consume t -n 0", "consume t -f %q", "consume t -f %v -o json", "consume t --isolation none",
		"consume t --instance i", "consume t --until 2999-01-01",
		"serve --data com,ma", "config export --data com,ma", "serve --listen :99999", "serve --listen here", "serve --override num.partitions=x",
		"serve --override x", "serve --override raftsman.durabilty=os",
		"group describe", "group reset g", "group reset g --to-earliest --to-latest", "group reset g --to-offset -1", "group reset g --to-latest -t a:x",
		"group reset g --to-datetime never", "group delete g",
		"config show topic", "config show user u", "config show broker x", "config set topic t nonsense", "config unset topic t",
		"config check", "config check a b", "config export a b", "config export -o json", "serve a b", "log verify", "log stats", "log dump",
		"cluster describe extra", "cluster health extra", "quota set x=1", "quota set --user u x", "quota set --user u x=-1", "quota unset --ip 1.2.3.4 --user u x",
		"quota set --default group x=1", "context use", "context set a.b -b x:1", "context set a", "config append topic t x", "config set brokers", "config show topic",
		"group delete-offsets g", "group list --type x", "group reset g --from-file /nowhere/at/all", "topic list --command-config /nowhere/at/all", "version extra",
		"txn list extra", "txn list --state ongoin", "txn list --longer-than soon", "txn list --pattern (", "txn list --producer-id x", "txn describe", "txn describe x -t a:0",
		"txn describe -t a:x", "txn find-hanging x", "txn find-hanging --longer-than soon", "txn abort", "txn abort x -t a:0", "txn abort -t a:0", "txn abort --start-offset 1",
		"topic reassign", "topic reassign t", "topic reassign t --brokers x", "topic reassign t --brokers 1,1", "topic reassign --brokers 1", "topic reassign t -r 0",
		"topic reassign t -r 2 --replicas 1,2", "topic reassign t --status --cancel", "topic reassign t --cancel --execute", "topic reassign t -r 2 --export --execute",
		"topic reassign t --from-file x", "topic reassign --from-file /nowhere/at/all", "topic reassign t:x -r 2", "topic reassign t -r 2 --throttle fast",
		"topic reassign t -r 2 --throttle 0", "topic reassign t -r 2 --at-once 0", "cluster drain", "cluster drain x", "cluster drain 1 2", "cluster drain 1 --throttle x",
		"rebalance x", "rebalance --slack 101", "rebalance -t :1", "rebalance --at-once -1",
		"txn abort -t a --start-offset 1", "txn abort -t a:0,1 --start-offset 1", "txn abort -t a:0 --start-offset -1",
	} {
		s := newSession()
		s.app.dial = func(...kgo.Opt) (*kgo.Client, error) {
			t.Errorf("`%s` went as far as connecting", line)
			return nil, errors.New("no network in this test")
		}
		if code := s.run(strings.Fields(line)...); code != exitUsage {
			t.Errorf("`%s` ends with %d, want %d", line, code, exitUsage)
		}
		said := s.err.String()
		if strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "raftsman: ") {
			t.Errorf("`%s` says %q, want one line", line, said)
		}
	}
}

func TestHelpIsThereForEveryCommand(t *testing.T) {
	for _, line := range []string{"", "--help", "topic", "consume --help", "help produce", "completion bash"} {
		s := newSession()
		if code := s.run(strings.Fields(line)...); code != exitOK || s.out.String() == "" || s.err.String() != "" {
			t.Errorf("`%s` ends with %d, prints %d bytes, and says %q", line, code, len(s.out.String()), s.err.String())
		}
	}
}

// TestValuesOfFlagsAreToldInWords, not in those of the library that reads them.
func TestValuesOfFlagsAreToldInWords(t *testing.T) {
	for line, want := range map[string]string{
		"topic create x -p foo":         "-p foo is no whole number: see `raftsman topic create --help`",
		"topic create x -p 99999999999": "-p 99999999999 is too large a number: see `raftsman topic create --help`",
		"topic list --timeout foo":      "--timeout foo is no time: give 500ms, 30s or 5m, say: see `raftsman topic list --help`",
		"topic list --no-color=maybe":   "--no-color maybe is neither true nor false: see `raftsman topic list --help`",
		"consume t -p 1,x":              "-p 1,x is no whole number: see `raftsman consume --help`",
		"topic grow x -p 0":             "-p 0 cannot be: give how many partitions x has to have in all",
		"group list --state foo":        "--state foo is unknown: it is one of Stable, Empty, PreparingRebalance, CompletingRebalance, Dead, Assigning, Reconciling, NotReady",
		"txn list --state ongoin":       "--state ongoin is unknown: it is one of Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, PrepareEpochFence, Dead",
		"txn list --producer-id x":      "--producer-id x is no whole number: see `raftsman txn list --help`",
		"dev --nodes x":                 "--nodes x is no whole number: see `raftsman dev --help`",
		"dev --nodes 0":                 "--nodes 0: from 1 to 25 are possible",
		"dev --listen localhost":        "--listen localhost: HOST:PORT is wanted, as 127.0.0.1:9092",
		"dev --listen localhost:0":      "--listen localhost:0: the first of 6 ports is wanted, from 1 to 65530",
		"dev --listen localhost:65531":  "--listen localhost:65531: the first of 6 ports is wanted, from 1 to 65530",
		"dev --data a,b":                "--data a,b: a path with a comma can't hold log directories",
		"dev --override x":              "--override x: must be key=value",
		"help topics":                   "there is no `raftsman topics`: did you mean `raftsman topic`?",
		"help topic lst":                "there is no `raftsman topic lst`: did you mean `raftsman topic list`?",
	} {
		s := newSession()
		if code := s.run(strings.Fields(line)...); code != exitUsage || s.err.String() != "raftsman: "+want+"\n" {
			t.Errorf("`%s` ends with %d and says %q, want %d and %q", line, code, s.err.String(), exitUsage, want)
		}
	}
}

func TestNearMissesAreNamed(t *testing.T) {
	s := newSession()
	s.run("topic", "lst")
	if got, want := s.err.String(), "raftsman: there is no `raftsman topic lst`: did you mean `raftsman topic list`?\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestFaultsOfTheCommandLineNameTheFlag, whatever key it stands for.
func TestFaultsOfTheCommandLineNameTheFlag(t *testing.T) {
	for line, want := range map[string]string{
		"serve --listen :99999":                         `--listen :99999: port "99999" must be a number from 0 to 65535`,
		"serve --override num.partitions=0":             "--override num.partitions=0: must be at least 1",
		"serve --override nonsense":                     "--override nonsense: must be key=value",
		"serve --override raftsman.durabilty=os":        "--override: unknown key raftsman.durabilty; did you mean raftsman.durability?",
		"serve --data com,ma":                           "--data com,ma: it takes one path",
		"serve --override authorizer.class.name=a.B":    "--override authorizer.class.name=a.B: access rules are not enforced yet",
		"serve --override listeners=SSL://localhost:93": "--override listeners=SSL://localhost:93: listeners of protocol SSL are not served yet",
	} {
		s := newSession()
		if code := s.run(strings.Fields(line)...); code != exitUsage || !strings.HasPrefix(s.err.String(), "raftsman: "+want) {
			t.Errorf("`%s` ends with %d and says %q, want %d and %q", line, code, s.err.String(), exitUsage, want)
		}
	}
}

// TestCheckGoesThroughTheFileFromTopToEnd: warnings and errors together, as a person mends them.
func TestCheckGoesThroughTheFileFromTopToEnd(t *testing.T) {
	file := t.TempDir() + "/my.properties"
	writeFile(t, file, "num.partitions=0\nzzz=1\n=5\nlog.retention.ms=abc\naaa=1\nbroker.id=2\nnode.id=3\n")
	s := newSession()
	if code := s.run("config", "check", file); code != exitFailure {
		t.Errorf("ends with %d, want %d", code, exitFailure)
	}
	want := []string{
		"line 1: num.partitions=0: must be at least 1", "line 2: unknown key zzz", `line 3: there is no key before "=5"`,
		"line 4: log.retention.ms=abc: must be a whole number of 64 bits", "line 5: unknown key aaa", "line 6: broker.id=2: must equal node.id (3) or be left out",
	}
	if got, want := s.out.String(), file+": "+strings.Join(want, "\n"+file+": ")+"\n"; got != want {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
	for _, line := range []string{"serve", "config export"} { // with a line for each, too; what is unknown keeps neither from going on
		s = newSession()
		s.run(append(strings.Fields(line), file)...)
		faults := []string{want[0], want[3], want[5]}
		if got, want := s.err.String(), "raftsman: "+file+": "+strings.Join(faults, "\nraftsman: "+file+": ")+"\n"; got != want {
			t.Errorf("%s says\n%swant\n%s", line, got, want)
		}
	}
	s = newSession()
	code := s.run("serve", "--override", "num.partitions=0", "--override", "log.retention.ms=abc")
	if got := s.err.String(); code != exitUsage || strings.Count(got, "\nraftsman: --override log.retention.ms=abc") != 1 {
		t.Errorf("serve ends with %d and says\n%s", code, got)
	}
}

func TestVersionForms(t *testing.T) {
	s := newSession()
	if code := s.run("version"); code != exitOK || !strings.HasPrefix(s.out.String(), "raftsman ") {
		t.Errorf("version ends with %d and prints %q", code, s.out.String())
	}
	s = newSession()
	if code := s.run("version", "-o", "json"); code != exitOK || !strings.Contains(s.out.String(), `"go": "go1`) {
		t.Errorf("version -o json ends with %d and prints %q", code, s.out.String())
	}
	b := build{Version: "v1.0.0", Commit: "0123456789abcdef", Modified: true, Go: "go1.26", OS: "linux", Arch: "amd64"}
	if got, want := b.String(), "raftsman v1.0.0, commit 0123456789ab with changes, go1.26, linux/amd64"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNothingListensIsSaidAtOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	s := newSession()
	if code := s.run("topic", "list", "-b", address); code != exitFailure {
		t.Errorf("ends with %d, want %d", code, exitFailure)
	}
	want := "raftsman: nothing listens at " + address + ": start a broker with `raftsman serve`, or name another with -b\n"
	if got := s.err.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// strangers are servers of other protocols, by what they answer to anything.
func TestStrangersAreToldFromBrokers(t *testing.T) {
	for answer, want := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n\r\n": "does not answer as a Kafka broker",
		"\x15\x03\x01\x00\x02\x02\x16":     "does not answer as a Kafka broker",
		"":                                 "closed the connection: is it the plain listener of a Kafka broker?",
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				buffer := make([]byte, 1024)
				c.Read(buffer)
				fmt.Fprint(c, answer)
				c.Close()
			}
		}()
		s := newSession()
		if code := s.run("topic", "list", "-b", l.Addr().String()); code != exitFailure {
			t.Errorf("answer %q: ends with %d, want %d", answer, code, exitFailure)
		}
		if got := s.err.String(); !strings.Contains(got, want) || strings.Count(got, "\n") != 1 {
			t.Errorf("answer %q: said %q, want a line with %q", answer, got, want)
		}
		l.Close()
		<-served
	}
}

func TestColoursOnlyOnATerminalAndOnlyIfWanted(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(*session)
		want    bool
	}{
		{"terminal", func(*session) {}, true},
		{"pipe", func(s *session) { s.app.tty.out = false }, false},
		{"NO_COLOR", func(s *session) { s.env["NO_COLOR"] = "1" }, false},
		{"dumb", func(s *session) { s.env["TERM"] = "dumb" }, false},
		{"--no-color", func(s *session) { s.app.noColor = true }, false},
	} {
		s := newSession()
		s.app.tty = terminal{in: true, out: true, err: true, width: 80}
		c.prepare(s)
		if got := s.app.paint().on; got != c.want {
			t.Errorf("%s: colours %v, want %v", c.name, got, c.want)
		}
	}
}

func TestConfirmAsksOnATerminalOnly(t *testing.T) {
	for _, c := range []struct {
		name, typed string
		terminal    bool
		yes         bool
		want        error
	}{
		{"yes", "y\n", true, false, nil},
		{"YES", "YES\n", true, false, nil},
		{"no", "n\n", true, false, errDeclined},
		{"return", "\n", true, false, errDeclined},
		{"end of input", "", true, false, errDeclined},
		{"--yes", "", false, true, nil},
	} {
		s := newSession()
		s.app.in = strings.NewReader(c.typed)
		s.app.tty = terminal{in: c.terminal, err: c.terminal}
		if err := s.app.confirm(c.yes, "delete x?"); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	var usage *usageError
	if err := newSession().app.confirm(false, "delete x?"); !errors.As(err, &usage) {
		t.Errorf("without a terminal: %v, want a usage error", err)
	}
}

func TestProduceNamesAMissingFile(t *testing.T) {
	s := newSession()
	if code := s.run("produce", "t", "-f", "/nowhere/at/all"); code != exitFailure || !strings.Contains(s.err.String(), "/nowhere/at/all") {
		t.Errorf("ends with %d and says %q", code, s.err.String())
	}
}

func TestInterruptedCommandSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s := newSession()
	if code := s.runIn(ctx, "", "topic", "list", "-b", "127.0.0.1:9"); code != exitFailure {
		t.Errorf("ends with %d", code)
	}
	if got := s.err.String(); got != "raftsman: interrupted\n" {
		t.Errorf("said %q", got)
	}
}
