package main

import (
	"bufio"
	"context"
	"errors"
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
	id     int
	client string // HOST:PORT
	args   []string
}

// devNodes returns the command line of each node.
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
	if last := port + uint64(2*flags.nodes); err != nil || port == 0 || last > 65536 {
		return nil, usagef("--listen %s: the port must leave room for %d more", flags.listen, 2*flags.nodes-1)
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
		args := []string{"serve", "--log-level", "warn"}
		for _, s := range append(settings, flags.overrides...) {
			args = append(args, "--override", s)
		}
		nodes = append(nodes, devNode{id: i + 1, client: at(i), args: args})
	}
	return nodes, nil
}

// dev runs the processes until ctx ends or none of them is left.
func (a *app) dev(ctx context.Context, flags devFlags) error {
	nodes, err := devNodes(flags)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program to run it as a node: %w", err)
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	var lines sync.Mutex // guards what the nodes say from each other
	var wg sync.WaitGroup
	failed := make([]error, len(nodes))
	var servers []string
	for i, n := range nodes {
		servers = append(servers, n.client)
		wg.Go(func() { failed[i] = a.runNode(running, self, n, &lines) })
	}
	up := make(chan struct{})
	go func() { // ends with running
		defer close(up)
		if awaitAll(running, servers) {
			lines.Lock()
			defer lines.Unlock()
			fmt.Fprintf(a.out, "%d nodes serve, data in %s.\n\n  bootstrap.servers=%s\n\nPress Ctrl+C to stop all of them.\n", len(nodes), flags.data, strings.Join(servers, ","))
		}
	}()
	wg.Wait()
	stop()
	<-up
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(failed...)
}

// runNode runs one node and puts its name in front of what it says.
func (a *app) runNode(ctx context.Context, program string, n devNode, lines *sync.Mutex) error {
	cmd := exec.CommandContext(ctx, program, n.args...)
	cmd.Cancel = func() error {
		if cmd.Process.Signal(os.Interrupt) != nil { // where there are no signals
			return cmd.Process.Kill()
		}
		return nil
	}
	cmd.WaitDelay = stopLimit + time.Second
	cmd.Env = os.Environ()
	said, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start node %d: %w", n.id, err)
	}
	a.relay(said, n.id, lines)
	if err := cmd.Wait(); err != nil && ctx.Err() == nil {
		a.note("node %d ended: %v", n.id, err)
		return fmt.Errorf("node %d: %w", n.id, err)
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

// awaitAll waits until all addresses take connections. It returns false when ctx ends before.
func awaitAll(ctx context.Context, addresses []string) bool {
	const again = 50 * time.Millisecond
	for _, address := range addresses {
		for {
			var d net.Dialer
			conn, err := d.DialContext(ctx, "tcp", address)
			if err == nil {
				_ = conn.Close()
				break
			}
			select {
			case <-time.After(again):
			case <-ctx.Done():
				return false
			}
		}
	}
	return true
}
