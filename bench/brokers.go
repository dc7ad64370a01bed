package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"
)

// broker is one of the two that are compared: a process, or a cluster of them.
type broker struct {
	name   string
	script string // starts Kafka; empty for Raftsman
	dir    string
	nodes  []*node
}

// node is a process of a broker.
type node struct {
	cpus    string // that it may use
	port    int
	dir     string
	script  string           // as the broker's
	command func() *exec.Cmd // starts Raftsman

	process *exec.Cmd
	pid     int // 0 while it does not run
}

// newRaftsman returns a broker of the binary, or so many that are one cluster. All are brokers and controllers.
func newRaftsman(o options, cpus string, count int) *broker {
	b := &broker{name: "raftsman", dir: filepath.Join(o.dir, fmt.Sprint("raftsman-", count))}
	port := o.port
	if count > 1 {
		port += 200
	}
	var controllers []string
	for i := range count {
		controllers = append(controllers, fmt.Sprintf("127.0.0.1:%d", port+10*i+1))
	}
	for i, controller := range controllers {
		n := &node{cpus: cpus, port: port + 10*i, dir: b.dir}
		if count > 1 {
			n.dir = filepath.Join(b.dir, strconv.Itoa(i+1))
		}
		n.command = func() *exec.Cmd {
			args := []string{"-c", cpus, o.raftsman, "serve", "--data", filepath.Join(n.dir, "data"), "--log-level", "warn"}
			if count == 1 {
				return exec.Command("taskset", append(args, "--listen", n.addr())...)
			}
			for _, setting := range []string{
				fmt.Sprint("node.id=", i+1), fmt.Sprintf("listeners=PLAINTEXT://%s,CONTROLLER://%s", n.addr(), controller),
				"controller.quorum.bootstrap.servers=" + strings.Join(controllers, ","), fmt.Sprint("raftsman.cluster.bootstrap=", i == 0),
			} {
				args = append(args, "--override", setting)
			}
			return exec.Command("taskset", args...)
		}
		b.nodes = append(b.nodes, n)
	}
	return b
}

// newKafka returns the same of Apache Kafka.
func newKafka(o options, cpus string, count int) *broker {
	b := &broker{name: "kafka", script: o.kafka, dir: filepath.Join(o.dir, fmt.Sprint("kafka-", count))}
	port := o.port + 100
	if count > 1 {
		port += 200
	}
	for i := range count {
		n := &node{cpus: cpus, port: port + 10*i, dir: b.dir, script: o.kafka}
		if count > 1 {
			n.dir = filepath.Join(b.dir, strconv.Itoa(i+1))
		}
		b.nodes = append(b.nodes, n)
	}
	return b
}

// node returns the one process of a broker that is no cluster.
func (b *broker) node() *node { return b.nodes[0] }

// start starts what does not run of the broker, and waits until it serves.
func (b *broker) start() error {
	for _, n := range b.nodes {
		if err := n.free(); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	if err := b.format(); err != nil {
		return err
	}
	for _, n := range b.nodes {
		if err := n.spawn(); err != nil {
			return err
		}
	}
	for _, n := range b.nodes {
		if err := n.await(); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return nil
}

// format makes the directories of a Kafka that never ran, and stops it again: what is measured later is a start alone.
func (b *broker) format() error {
	if b.script == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(b.nodes[0].dir, "server.properties")); err == nil {
		return nil
	}
	args := []string{"start", b.dir, strconv.Itoa(b.nodes[0].port)}
	if count := len(b.nodes); count > 1 {
		args = append([]string{"cluster"}, append(args[1:], strconv.Itoa(count))...)
	}
	if out, err := exec.Command(b.script, append(args, "log.retention.check.interval.ms=3600000")...).CombinedOutput(); err != nil {
		return fmt.Errorf("start Kafka: %w: %s", err, out)
	}
	for _, n := range b.nodes {
		if err := n.adopt(); err != nil {
			return err
		}
	}
	return nil
}

func (b *broker) stop() {
	for _, n := range b.nodes {
		n.signal(syscall.SIGTERM)
	}
	for _, n := range b.nodes {
		n.wait()
	}
}

func (n *node) addr() string { return fmt.Sprintf("127.0.0.1:%d", n.port) }

// free fails where another process has the port.
func (n *node) free() error {
	if n.pid != 0 {
		return nil
	}
	conn, err := net.Dial("tcp", n.addr())
	if err != nil {
		return nil
	}
	_ = conn.Close()
	return fmt.Errorf("somebody else serves on %s", n.addr())
}

// await waits until the node serves.
func (n *node) await() error {
	deadline := time.Now().Add(60 * time.Second)
	for {
		conn, err := net.Dial("tcp", n.addr())
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not served: %w", n.addr(), err)
		}
		time.Sleep(time.Millisecond)
	}
}

// spawn starts the process, unless it runs, and returns at once.
func (n *node) spawn() error {
	if n.pid != 0 {
		return nil
	}
	if n.script != "" {
		if out, err := exec.Command(n.script, "spawn", n.dir).CombinedOutput(); err != nil {
			return fmt.Errorf("start Kafka: %w: %s", err, out)
		}
		return n.adopt()
	}
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(n.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	n.process = n.command()
	n.process.Stdout, n.process.Stderr = log, log
	if err := n.process.Start(); err != nil {
		return err
	}
	n.pid = n.process.Process.Pid
	return nil
}

// adopt takes over the Kafka that the script has started.
func (n *node) adopt() error {
	pid, err := os.ReadFile(filepath.Join(n.dir, "pid"))
	if err != nil {
		return err
	}
	if n.pid, err = strconv.Atoi(strings.TrimSpace(string(pid))); err != nil {
		return err
	}
	return exec.Command("taskset", "-a", "-p", "-c", n.cpus, strconv.Itoa(n.pid)).Run()
}

// signal sends it to the process, if it runs.
func (n *node) signal(s syscall.Signal) {
	if n.pid != 0 {
		_ = syscall.Kill(n.pid, s)
	}
}

// wait waits until the process has gone.
func (n *node) wait() {
	if n.process != nil {
		_ = n.process.Wait()
	}
	for i := 0; i < 3000 && n.pid != 0 && syscall.Kill(n.pid, 0) == nil; i++ {
		time.Sleep(10 * time.Millisecond)
	}
	n.pid, n.process = 0, nil
}

// usage is what a broker has used so far.
type usage struct {
	cpu     time.Duration // all its processes
	machine time.Duration // all processors, all processes
	written int64         // bytes to the devices, all processes
	at      time.Time
}

func (b *broker) usage() (usage, error) {
	u := usage{at: time.Now()}
	for _, n := range b.nodes {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.pid))
		if err != nil {
			return u, err
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		u.cpu += ticks(fields[11]) + ticks(fields[12])
	}
	machine, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, err
	}
	first, _, _ := strings.Cut(string(machine), "\n")
	for i, field := range strings.Fields(first)[1:] {
		if i < 3 || i == 5 || i == 6 { // user, nice, system, irq, softirq
			u.machine += ticks(field)
		}
	}
	disks, err := os.ReadFile("/proc/diskstats")
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(disks)) {
		if f := strings.Fields(line); len(f) > 9 && !strings.HasPrefix(f[2], "loop") {
			sectors, _ := strconv.ParseInt(f[9], 10, 64)
			u.written += sectors * 512
		}
	}
	return u, nil
}

// memory returns the resident bytes of all processes.
func (b *broker) memory() (total int64, err error) {
	for _, n := range b.nodes {
		bytes, err := n.memory()
		if err != nil {
			return 0, err
		}
		total += bytes
	}
	return total, nil
}

func (n *node) memory() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("no VmRSS in the process's status")
}

func ticks(field string) time.Duration {
	n, _ := strconv.ParseInt(field, 10, 64)
	return time.Duration(n) * 10 * time.Millisecond // USER_HZ is 100 on Linux
}

// ownCPU is what this process has used so far.
func ownCPU() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // fails for no process of one's own
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// pinSelf binds this process to one processor.
func pinSelf(cpu string) error {
	n, err := strconv.Atoi(cpu)
	if err != nil {
		return err
	}
	var set unix.CPUSet
	set.Set(n)
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, task := range tasks {
		id, _ := strconv.Atoi(task.Name())
		if err := unix.SchedSetaffinity(id, &set); err != nil {
			return err
		}
	}
	return nil
}

func (b *broker) client(opts ...kgo.Opt) (*kgo.Client, error) {
	var seeds []string
	for _, n := range b.nodes {
		seeds = append(seeds, n.addr())
	}
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(seeds...)}, opts...)...)
}

func ctxFor(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 3*time.Minute)
}
