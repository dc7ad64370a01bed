package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

// devFlags are what `raftsman dev` is told.
type devFlags struct {
	nodes     int
	data      string
	listen    string
	overrides []string
}

func devCommand(a *app) *cobra.Command {
	flags := devFlags{}
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole cluster on this machine, to develop and try",
		Long: `Run a whole cluster on this machine, each node a process of its own.

Node 1 serves clients on the address of --listen, node 2 on the next port, and so on; the ports for controllers follow. Each node keeps its
data in a folder of its own below --data, from one run to the next. What the nodes say has the node's name in front. Ctrl+C ends all of them;
a node that is killed stays dead, the others go on.`,
		Example: `  raftsman dev --nodes 3
  raftsman dev --nodes 3 --data /tmp/cluster --listen 127.0.0.1:19092`,
		Args: wants(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return a.dev(c.Context(), flags) },
	}
	f := c.Flags()
	f.IntVar(&flags.nodes, "nodes", 3, "how many nodes")
	f.StringVar(&flags.data, "data", "raftsman-dev", "folder of the nodes' data")
	f.StringVar(&flags.listen, "listen", "127.0.0.1:9092", "address of the first node, as HOST:PORT")
	f.StringArrayVar(&flags.overrides, "override", nil, "a setting of all nodes, as key=value; may be given again")
	return c
}

// devNodesMax is more nodes than a machine is good for.
const devNodesMax = 25

// devNode is one process of the cluster.
type devNode struct {
	id       int
	client   string   // HOST:PORT
	settings []string // as key=value
}

// devNodes returns the nodes, and what each of them is told.
func devNodes(flags devFlags) ([]devNode, error) {
	if flags.nodes < 1 || flags.nodes > devNodesMax {
		return nil, usagef("--nodes %d: from 1 to %d are possible", flags.nodes, devNodesMax)
	}
	if strings.Contains(flags.data, ",") {
		return nil, usagef("--data %s: a path with a comma can't hold log directories", flags.data)
	}
	host, text, err := net.SplitHostPort(flags.listen)
	if err != nil || host == "" {
		return nil, usagef("--listen %s: HOST:PORT is wanted, as 127.0.0.1:9092", flags.listen)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if last := 65536 - uint64(2*flags.nodes); err != nil || port == 0 || port > last {
		return nil, usagef("--listen %s: the first of %d ports is wanted, from 1 to %d", flags.listen, 2*flags.nodes, last)
	}
	at := func(i int) string { return net.JoinHostPort(host, strconv.Itoa(int(port)+i)) }
	var controllers []string
	for i := range flags.nodes {
		controllers = append(controllers, at(flags.nodes+i))
	}
	var nodes []devNode
	for i := range flags.nodes {
		settings := []string{
			fmt.Sprintf("node.id=%d", i+1),
			fmt.Sprintf("listeners=PLAINTEXT://%s,CONTROLLER://%s", at(i), controllers[i]),
			"controller.quorum.bootstrap.servers=" + strings.Join(controllers, ","),
			"log.dirs=" + filepath.Join(flags.data, fmt.Sprintf("node-%d", i+1)),
		}
		if i == 0 {
			settings = append(settings, "raftsman.cluster.bootstrap=true")
		}
		nodes = append(nodes, devNode{id: i + 1, client: at(i), settings: append(settings, flags.overrides...)})
	}
	return nodes, nil
}

// dev runs the processes until ctx ends or none of them is left. One that ends before all of them serve takes the others with it: they may
// wait for it without an end.
func (a *app) dev(ctx context.Context, flags devFlags) error {
	nodes, err := devNodes(flags)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if _, _, err := a.readConfig(nil, serveFlags{overrides: n.settings}); err != nil {
			return err // told once, and not by each node
		}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program to run it as a node: %w", err)
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	var lines sync.Mutex // guards what the nodes say from each other
	serve, ended := make(chan struct{}, len(nodes)), make(chan error, len(nodes))
	for _, n := range nodes {
		go func() { // ends with running
			err := a.runNode(running, self, n, &lines, func() { serve <- struct{}{} })
			if err != nil {
				lines.Lock()
				a.note("node %d ended: %v", n.id, err)
				lines.Unlock()
			}
			ended <- err
		}()
	}
	var failed error
	for up, left := 0, len(nodes); left > 0; {
		select {
		case <-serve:
			if up++; up == len(nodes) {
				lines.Lock()
				a.greetCluster(nodes, flags.data)
				lines.Unlock()
			}
		case err := <-ended:
			left--
			if err != nil {
				failed = errReported
			}
			if up < len(nodes) {
				stop()
			}
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return failed
}

// greetCluster tells a person how to go on.
func (a *app) greetCluster(nodes []devNode, data string) {
	var servers []string
	for _, n := range nodes {
		servers = append(servers, n.client)
	}
	fmt.Fprintf(a.out, "%d nodes serve, data in %s.\n\n  bootstrap.servers=%s\n\nPress Ctrl+C to stop all of them.\n", len(nodes), data, strings.Join(servers, ","))
}

// runNode runs one node until it ends or ctx does, which is no error. It puts the node's name in front of what it says, and calls serves when
// it serves.
func (a *app) runNode(ctx context.Context, program string, n devNode, lines *sync.Mutex, serves func()) error {
	args := []string{"serve", "--log-level", "warn"}
	for _, s := range n.settings {
		args = append(args, "--override", s)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error {
		if cmd.Process.Signal(os.Interrupt) != nil { // where there are no signals
			return cmd.Process.Kill()
		}
		return nil
	}
	cmd.WaitDelay = stopLimit + time.Second
	cmd.Stdout = &greeting{heard: serves}
	said, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	a.relay(said, n.id, lines)
	if err := cmd.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

func (a *app) relay(said io.Reader, id int, lines *sync.Mutex) {
	for scan := bufio.NewScanner(said); scan.Scan(); {
		lines.Lock()
		a.note("node %d: %s", id, scan.Text())
		lines.Unlock()
	}
}

// greeting is where a node greets the person that has started it, which it does when it serves.
type greeting struct {
	once  sync.Once
	heard func()
}

func (g *greeting) Write(p []byte) (int, error) {
	g.once.Do(g.heard)
	return len(p), nil
}
