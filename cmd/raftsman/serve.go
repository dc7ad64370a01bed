package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/raftsman/raftsman/broker"
	"github.com/raftsman/raftsman/internal/config"
)

// How long a node may take to stop: in order, and at all, should the disk not answer.
const (
	orderlyLimit = 4 * time.Second
	stopLimit    = 5 * time.Second
	startLimit   = time.Second // that a start goes on for when it is to stop: most are over by then, and stop in order
)

// serveFlags are what `raftsman serve` is told beside the file.
type serveFlags struct {
	overrides []string
	data      string
	bootstrap bool
	listen    []string
	level     string
	format    string
}

func serveCommand(a *app) *cobra.Command {
	var flags serveFlags
	c := &cobra.Command{
		Use:   "serve [server.properties]",
		Short: "Run a broker",
		Long: `Run a broker.

With nothing given it serves on 127.0.0.1 and ::1, port 9092, and keeps its data in ./raftsman-data, which it formats when it is
new. Kafka's server.properties and the KAFKA_* variables of Kafka's image configure it; --override beats both.

SIGTERM, SIGINT and SIGHUP stop it in order, within 5 seconds; another signal half a second later, or after that, ends it at once. As a service of
systemd it may be of Type=notify.`,
		Example: `  raftsman serve
  raftsman serve --data /var/lib/raftsman --listen 0.0.0.0:9092
  raftsman serve server.properties --override log.retention.hours=24`,
		Args: wants(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			parsed, warnings, err := a.readConfig(args, flags)
			if err != nil {
				return err
			}
			return a.serve(c.Context(), parsed, warnings, flags)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&flags.overrides, "override", nil, "a setting that beats file and environment, as key=value; may be given again")
	f.StringVar(&flags.data, "data", "", "directory of the data (log.dirs)")
	f.StringArrayVar(&flags.listen, "listen", nil, "address to listen on, as HOST:PORT (listeners); may be given again")
	f.BoolVar(&flags.bootstrap, "bootstrap", false, "begin a new cluster, if this node is empty and nobody serves the other controllers yet (raftsman.cluster.bootstrap)")
	f.StringVar(&flags.level, "log-level", "info", "what is logged: debug, info, warn or error")
	f.StringVar(&flags.format, "log-format", "text", "form of the log: text or json")
	completeFlag(c, "log-level", "debug", "info", "warn", "error")
	completeFlag(c, "log-format", "text", "json")
	return c
}

// readConfig reads the file that args name, the environment and the flags.
func (a *app) readConfig(args []string, flags serveFlags) (*config.Broker, []config.Warning, error) {
	file, properties := "", ""
	if len(args) == 1 {
		file = args[0]
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, fmt.Errorf("read configuration: %w", err)
		}
		properties = string(content)
	}
	overrides := flags.overrides
	if flags.data != "" {
		if strings.Contains(flags.data, ",") {
			return nil, nil, usagef("--data %s: it takes one path, and no log directory can have a comma in its path: log.dirs separates paths with commas, "+
				"--override log.dirs=A,B names several", flags.data)
		}
		overrides = append(overrides, "log.dirs="+flags.data)
	}
	if flags.bootstrap {
		overrides = append(overrides, "raftsman.cluster.bootstrap=true")
	}
	if len(flags.listen) > 0 {
		listeners, err := listenersOf(flags.listen)
		if err != nil {
			return nil, nil, err
		}
		overrides = append(overrides, "listeners="+listeners)
	}
	parsed, warnings, err := config.ParseFile(file, properties, overrides, a.environ())
	return parsed, warnings, commandLineFaults(err, flags)
}

// commandLineFaults tells faults of a command line by the flag that was typed. Where the file and the environment are without
// fault, the command line is what is wrong.
func commandLineFaults(err error, flags serveFlags) error {
	faults := unjoin(err)
	texts, elsewhere := make(failures, 0, len(faults)), false
	for _, one := range faults {
		f, ok := errors.AsType[*config.Fault](one)
		switch {
		case !ok || f.Origin != config.OriginOverride && f.Name != config.OriginOverride:
			elsewhere = true
			texts = append(texts, one)
		case f.Name == "listeners" && len(flags.listen) > 0:
			texts = append(texts, fmt.Errorf("--listen %s: %s", strings.TrimPrefix(f.Value, "PLAINTEXT://"), f.Reason))
		case f.Name == "log.dirs" && flags.data != "":
			texts = append(texts, fmt.Errorf("--data %s: %s", flags.data, f.Reason))
		case f.Name == config.OriginOverride:
			texts = append(texts, fmt.Errorf("--override %s: %s", f.Value, f.Reason))
		case f.Name == "":
			texts = append(texts, fmt.Errorf("--override: %s", f.Reason))
		default:
			f.Origin = ""
			texts = append(texts, fmt.Errorf("--override %w", f))
		}
	}
	if err = texts.join(); err == nil || elsewhere {
		return err
	}
	return usagef("%w", err)
}

// environ returns the process's variables that configure a broker.
func (a *app) environ() []string {
	var variables []string
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "KAFKA_") || strings.HasPrefix(v, "CLUSTER_ID=") {
			variables = append(variables, v)
		}
	}
	return variables
}

// listenersOf turns addresses into the value of listeners: one listener, or several with names of their own where hosts of one
// family repeat.
func listenersOf(addresses []string) (string, error) {
	var items []string
	for i, address := range addresses {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return "", usagef("--listen %s: HOST:PORT is wanted, as 0.0.0.0:9092", address)
		}
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		name := "PLAINTEXT"
		if i > 0 && len(addresses) > 2 {
			return "", usagef("--listen may be given twice, once for IPv4 and once for IPv6; for more, set listeners in a server.properties")
		}
		items = append(items, name+"://"+host+":"+port)
	}
	return strings.Join(items, ","), nil
}

// serve runs a node until a signal or its own end.
func (a *app) serve(ctx context.Context, parsed *config.Broker, warnings []config.Warning, flags serveFlags) error {
	level := new(slog.LevelVar)
	if err := level.UnmarshalText([]byte(flags.level)); err != nil {
		return usagef("--log-level %s: debug, info, warn or error is wanted", flags.level)
	}
	log, err := newLog(a.err, flags.format, level)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		log.Warn(w.String())
	}
	// Whoever reads the log may be gone before the broker: Ctrl+C ends `raftsman serve 2>&1 | tee log` as a whole. A write that fails
	// is no reason to end without a flush.
	signal.Ignore(syscall.SIGPIPE)
	go paceCollector(ctx) // ends with ctx; nothing rests on it
	began := time.Now()
	node, err := start(ctx, broker.Config{Parsed: parsed, Log: log, LogLevel: level})
	if err != nil {
		return err
	}
	log.Info("serving", "node", parsed.NodeID(), "cluster", node.ClusterID(), "listeners", node.Addrs(), "log.dirs", node.LogDirs(), "after", time.Since(began).Round(time.Millisecond))
	tell := func(state string) {
		if err := a.notify(state); err != nil {
			log.Warn(err.Error())
		}
	}
	tell("READY=1")
	a.greet(node)

	var cause error
	select {
	case <-ctx.Done():
	case <-node.Ended():
		cause = node.Err()
	}
	second := make(chan os.Signal, 1)
	signal.Notify(second, stopSignals()...) // before the log says that it stops: whoever reads that may send it
	defer signal.Stop(second)
	tell("STOPPING=1")
	if cause == nil {
		log.Info("stopping", "on", context.Cause(ctx))
	} else {
		log.Error("the node can't go on and stops", "error", cause)
	}
	stopped, cancel := context.WithTimeout(context.WithoutCancel(ctx), orderlyLimit)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- node.Close(stopped) }()
	giveUp := time.After(stopLimit)
	for {
		select {
		case err := <-done:
			if cause != nil {
				return cause
			}
			if err != nil {
				// Not wrapped: what ran out of time was not a request.
				return fmt.Errorf("stopped, but not in order: %v; what was not flushed is recovered at the next start", err) //nolint:errorlint // see above
			}
			log.Info("stopped", "clean", true)
			return nil
		case <-giveUp:
			return fmt.Errorf("stopped after %v without an end of the flushes: the disk does not answer; what was not flushed is recovered at the next start", stopLimit)
		case <-second:
			if !repeats(ctx) {
				return errors.New("stopped at the second signal; what was not flushed is recovered at the next start")
			}
		}
	}
}

// start starts a node. One that reads its metadata for long does not hold up a stop: nobody has been served, and the next start does it
// again.
func start(ctx context.Context, c broker.Config) (*broker.Node, error) {
	type result struct {
		node *broker.Node
		err  error
	}
	started := make(chan result, 1)
	go func() {
		node, err := broker.Start(context.WithoutCancel(ctx), c)
		started <- result{node, err}
	}()
	select {
	case r := <-started:
		return r.node, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-started:
		return r.node, r.err
	case <-time.After(startLimit):
		return nil, errors.New("stopped before it served; the next start begins again")
	}
}

// greet tells a person how to go on.
func (a *app) greet(node *broker.Node) {
	address := node.Addrs()[0].String()
	if host, port, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).IsUnspecified() {
		address = net.JoinHostPort("localhost", port)
	}
	fresh, export := "", ""
	if node.Fresh() {
		fresh = " (new)"
	}
	if _, port, err := net.SplitHostPort(address); err != nil || port != "9092" || !strings.HasPrefix(address, "127.0.0.1:") && !strings.HasPrefix(address, "localhost:") {
		export = "  export RAFTSMAN_BOOTSTRAP=" + address + "\n" // the commands look at localhost:9092 by themselves
	}
	fmt.Fprintf(a.out, `Raftsman serves Kafka's protocol on %[1]s, data in %[2]s%[3]s.

  bootstrap.servers=%[1]s
%[4]s  %[5]s topic create hello && echo hi | %[5]s produce hello && %[5]s consume hello --exit

Press Ctrl+C to stop.
`, address, strings.Join(node.LogDirs(), ", "), fresh, export, a.name)
}

func newLog(w io.Writer, format string, level slog.Leveler) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: level}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, usagef("--log-format %s: text or json is wanted", format)
}
