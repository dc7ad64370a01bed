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

// broker is one of the two that are compared.
type broker struct {
	name    string
	cpus    string // that it may use
	port    int
	dir     string
	script  string           // starts Kafka; empty for Raftsman
	command func() *exec.Cmd // starts Raftsman

	process *exec.Cmd
	pid     int
}

func (b *broker) addr() string { return fmt.Sprintf("127.0.0.1:%d", b.port) }

// start starts the broker unless it runs, and waits until it serves.
func (b *broker) start() error {
	if b.pid != 0 {
		return nil
	}
	if conn, err := net.Dial("tcp", b.addr()); err == nil {
		_ = conn.Close()
		return fmt.Errorf("somebody else serves on %s, where %s should", b.addr(), b.name)
	}
	if err := b.spawn(); err != nil {
		return err
	}
	deadline := time.Now().Add(60 * time.Second)
	for {
		conn, err := net.Dial("tcp", b.addr())
		if err == nil {
			_ = conn.Close()
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not serve: %w", b.name, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// spawn starts the process and returns at once.
func (b *broker) spawn() error {
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	if b.script == "" {
		log, err := os.OpenFile(filepath.Join(b.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer log.Close()
		b.process = b.command()
		b.process.Stdout, b.process.Stderr = log, log
		if err := b.process.Start(); err != nil {
			return err
		}
		b.pid = b.process.Process.Pid
		return nil
	}
	if _, err := os.Stat(filepath.Join(b.dir, "server.properties")); err != nil {
		// The first start formats the directory; what is measured later is the start alone.
		if out, err := exec.Command(b.script, "start", b.dir, strconv.Itoa(b.port), "log.retention.check.interval.ms=3600000").CombinedOutput(); err != nil {
			return fmt.Errorf("start Kafka: %w: %s", err, out)
		}
	} else if out, err := exec.Command(b.script, "spawn", b.dir).CombinedOutput(); err != nil {
		return fmt.Errorf("start Kafka: %w: %s", err, out)
	}
	pid, err := os.ReadFile(filepath.Join(b.dir, "pid"))
	if err != nil {
		return err
	}
	if b.pid, err = strconv.Atoi(strings.TrimSpace(string(pid))); err != nil {
		return err
	}
	return exec.Command("taskset", "-a", "-p", "-c", b.cpus, strconv.Itoa(b.pid)).Run()
}

func (b *broker) stop() {
	if b.pid == 0 {
		return
	}
	_ = syscall.Kill(b.pid, syscall.SIGTERM)
	if b.process != nil {
		_ = b.process.Wait()
	}
	for i := 0; i < 3000 && syscall.Kill(b.pid, 0) == nil; i++ {
		time.Sleep(10 * time.Millisecond)
	}
	b.pid, b.process = 0, nil
}

// usage is what a process has used so far.
type usage struct {
	cpu     time.Duration
	machine time.Duration // all processors, all processes
	written int64         // bytes to the devices, all processes
	at      time.Time
}

func (b *broker) usage() (usage, error) {
	u := usage{at: time.Now()}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.pid))
	if err != nil {
		return u, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	u.cpu = ticks(fields[11]) + ticks(fields[12])
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

// memory returns the resident bytes of the process.
func (b *broker) memory() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.pid))
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
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.addr())}, opts...)...)
}

func ctxFor(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 3*time.Minute)
}
