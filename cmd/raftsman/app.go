package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/term"
)

const (
	bootstrapVariable = "RAFTSMAN_BOOTSTRAP"
	defaultBootstrap  = "localhost:9092"
	defaultPort       = "9092"
)

// app is the world as the commands see it: where they read and write, what they know of the terminal, and how they reach a
// broker. main gives them the process's own, tests give them buffers. Commands touch nothing of the process but through it.
type app struct {
	name   string // the command as it was typed
	in     io.Reader
	out    io.Writer // results
	err    io.Writer // everything said about the work: progress, notes, errors
	tty    terminal
	getenv func(string) string
	now    func() time.Time
	dial   func(...kgo.Opt) (*kgo.Client, error)

	// The flags that every command has.
	bootstrap     string // "" where no flag says it
	context       string
	commandConfig string
	output        string
	noColor       bool
	timeout       time.Duration
	timeoutGiven  bool

	toldUnknown bool // the unknown settings of the connection were named
}

// terminal tells which of the three streams a person is looking at, and how wide the window is (0: unknown).
type terminal struct {
	in, out, err bool
	width        int
}

// newApp returns the app of this process.
func newApp() *app {
	a := &app{
		name:   os.Args[0],
		in:     os.Stdin,
		out:    os.Stdout,
		err:    os.Stderr,
		getenv: os.Getenv,
		now:    time.Now,
		dial:   kgo.NewClient,
	}
	a.tty = terminal{in: isTerminal(os.Stdin), out: isTerminal(os.Stdout), err: isTerminal(os.Stderr)}
	for _, f := range []*os.File{os.Stderr, os.Stdout} {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			a.tty.width = width
		}
	}
	return a
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// json tells whether the result is wanted for programs.
func (a *app) json() bool { return a.output == "json" }

// paint returns the colours for results, and for what is said on standard error.
func (a *app) paint() paint    { return paint{on: a.tty.out && a.colours()} }
func (a *app) paintErr() paint { return paint{on: a.tty.err && a.colours()} }

// width is how wide tables may be, 0 for no limit: only what goes to a terminal is made to fit.
func (a *app) width() int {
	if !a.tty.out {
		return 0
	}
	return a.tty.width
}

func (a *app) colours() bool {
	return !a.noColor && a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb"
}

// note writes a line to standard error: for people, never part of the result.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.err, format+"\n", args...)
}

// writeJSON writes one document, indented.
func (a *app) writeJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// seeds reads addresses to bootstrap from; a host without a port means Kafka's usual one.
func seeds(servers string) ([]string, error) {
	var seeds []string
	for seed := range strings.SplitSeq(servers, ",") {
		seed = strings.TrimSpace(seed)
		if seed == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(seed); err != nil {
			seed = net.JoinHostPort(strings.Trim(seed, "[]"), defaultPort)
		}
		_, port, err := net.SplitHostPort(seed)
		if err != nil {
			return nil, usagef("%q is not an address: give -b host:port, several with commas", seed)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, usagef("%q has no port between 1 and 65535: give -b host:port, several with commas", seed)
		}
		seeds = append(seeds, seed)
	}
	if len(seeds) == 0 {
		return nil, usagef("no broker is named: give -b host:port or set %s", bootstrapVariable)
	}
	return seeds, nil
}

// connect returns a client of the cluster after one broker has answered, so that a wrong address is told at once and not
// after the client's own retries. The caller closes it.
func (a *app) connect(ctx context.Context, opts ...kgo.Opt) (*kgo.Client, error) {
	settings, err := a.clientSettings()
	if err != nil {
		return nil, err
	}
	seeds, err := seeds(settings.Servers)
	if err != nil {
		return nil, err
	}
	if settings.APITimeout > 0 && !a.timeoutGiven {
		a.timeout = settings.APITimeout
	}
	base := []kgo.Opt{
		kgo.SeedBrokers(seeds...),
		kgo.ClientID("raftsman-cli"),
		kgo.SoftwareNameAndVersion("raftsman-cli", softwareVersion(readBuild().Version)),
		kgo.DialTimeout(min(a.timeout, 10*time.Second)),
		kgo.RetryTimeout(a.timeout),
		kgo.DisableClientMetrics(),
	}
	base = append(base, settings.Opts()...)
	cl, err := a.dial(append(base, opts...)...)
	if err != nil {
		return nil, usagef("%w", err)
	}
	pinging, cancel := context.WithTimeout(ctx, min(a.timeout, 10*time.Second))
	defer cancel()
	if err := cl.Ping(pinging); err != nil {
		cl.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &unreachableError{seeds: strings.Join(seeds, ","), err: err}
	}
	return cl, nil
}

// admin runs fn with an admin client. The context that fn gets ends after --timeout.
func (a *app) admin(ctx context.Context, fn func(context.Context, *kadm.Client) error) error {
	return a.reach(ctx, func(ctx context.Context, _ *kgo.Client, adm *kadm.Client) error { return fn(ctx, adm) })
}

// reach is admin for those who also send requests of their own.
func (a *app) reach(ctx context.Context, fn func(context.Context, *kgo.Client, *kadm.Client) error) error {
	return a.operate(ctx, func(ctx context.Context, cl *kgo.Client, adm *kadm.Client) error {
		ctx, cancel := context.WithTimeout(ctx, a.timeout)
		defer cancel()
		return fn(ctx, cl, adm)
	})
}

// operate is reach for what may take hours: --timeout bounds each request, not all of them.
func (a *app) operate(ctx context.Context, fn func(context.Context, *kgo.Client, *kadm.Client) error) error {
	// What is read here is to be as it is now, not as it was before the command's own change.
	cl, err := a.connect(ctx, kgo.MetadataMinAge(settlePause))
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	adm.SetTimeoutMillis(int32(min(a.timeout, time.Hour).Milliseconds()))
	return fn(ctx, cl, adm)
}

// confirm asks before something is lost. Without a terminal to ask on, only yes (the flag --yes) will do.
func (a *app) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	if !a.tty.in || !a.tty.err {
		return usagef("%s there is no terminal to ask on: add --yes to go ahead", question)
	}
	fmt.Fprintf(a.err, "%s [y/N] ", question)
	answer, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil && answer == "" {
		return errDeclined
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errDeclined
}
