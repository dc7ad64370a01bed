// Command bench puts the same load on Raftsman and on Apache Kafka in one run and prints ratios. Both brokers run side by side,
// on one processor; the load comes from this process, on another. For each row Kafka is warmed with the same load first, then
// the brokers take turns, A B A B, and the medians are compared. Absolute figures depend on the machine, ratios much less.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

type options struct {
	raftsman, kafka string
	results, page   string
	runs            int
	warm            time.Duration
	rows            string
	scale           float64
	dir             string
	alone           bool
	port            int
}

func main() {
	var o options
	flag.StringVar(&o.raftsman, "raftsman", "bin/raftsman", "the binary to measure")
	flag.StringVar(&o.kafka, "kafka", "test/kafka/kafka", "the script that starts Apache Kafka")
	flag.StringVar(&o.results, "results", "bench/results", "folder for the figures")
	flag.StringVar(&o.page, "page", "docs/benchmarks.md", "page to write the table to; empty: none")
	flag.IntVar(&o.runs, "runs", 5, "how often each broker takes its turn")
	flag.DurationVar(&o.warm, "warm", 60*time.Second, "how long Kafka is warmed for each row")
	flag.StringVar(&o.rows, "rows", "", "only rows whose names begin so, with commas; empty: all but many")
	flag.Float64Var(&o.scale, "scale", 1, "how much load a turn has")
	flag.StringVar(&o.dir, "dir", "", "folder for the brokers' data; empty: a new one")
	flag.BoolVar(&o.alone, "alone", false, "only Raftsman, to try something; writes no figures")
	flag.IntVar(&o.port, "port", 19392, "the first of up to 400 that the brokers have")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.dir == "" {
		dir, err := os.MkdirTemp("", "raftsman-bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.dir = dir
	}
	// The load has one processor, the brokers have the rest.
	cpus := runtime.NumCPU()
	brokerCPUs, ownCPU := fmt.Sprintf("0-%d", max(cpus-2, 0)), fmt.Sprint(cpus-1)
	if err := pinSelf(ownCPU); err != nil {
		return err
	}
	brokers := map[int][]*broker{}
	for _, count := range []int{1, 3} {
		brokers[count] = []*broker{newRaftsman(o, brokerCPUs, count), newKafka(o, brokerCPUs, count)}
		if o.alone {
			brokers[count] = brokers[count][:1]
		}
		for _, b := range brokers[count] {
			defer b.stop()
		}
	}
	report := newReport(o)
	for _, r := range rows {
		if !wanted(o.rows, r) {
			continue
		}
		for count, others := range brokers {
			for _, b := range others {
				if count != max(r.nodes, 1) {
					b.stop()
				}
			}
		}
		if err := measure(ctx, o, r, brokers[max(r.nodes, 1)], report); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	if o.alone {
		return nil
	}
	return report.write(o)
}

func wanted(only string, r row) bool {
	return only == "" && !r.asked || only != "" && slices.ContainsFunc(strings.Split(only, ","), func(prefix string) bool { return strings.HasPrefix(r.name, prefix) })
}

// measure runs one row: warm, then turns. Raftsman is the first of the brokers.
func measure(ctx context.Context, o options, r row, brokers []*broker, report *report) error {
	if !r.cold {
		for _, b := range brokers {
			if err := warm(ctx, o, r, b); err != nil {
				return fmt.Errorf("%s: %w", b.name, err)
			}
		}
	}
	turns := brokers
	if r.alone {
		turns = brokers[:1]
	}
	for i := range o.runs {
		for _, b := range turns {
			fmt.Fprintf(os.Stderr, "\r\033[K%s: turn %d of %d, %s", r.name, i+1, o.runs, b.name)
			if r.cold {
				for _, b := range brokers {
					b.stop()
				}
			}
			if err := settle(); err != nil {
				return err
			}
			figures, err := r.turn(ctx, b, o.scale)
			if err != nil {
				return fmt.Errorf("%s: %w", b.name, err)
			}
			report.add(r, b.name, figures)
		}
	}
	fmt.Fprint(os.Stderr, "\r\033[K")
	report.print(r)
	return nil
}

// settle gives the broker that comes next the machine as the one before found it. What that one left has reached the device, so
// nothing of it is written back meanwhile. And the memory that the page cache will take has been touched: where a host gives a
// virtual machine its memory at the first touch, that costs seconds of CPU per gigabyte, to whoever happens to be the first.
func settle() error {
	time.Sleep(time.Second) // until deleted files are gone
	unix.Sync()
	touched, err := unix.Mmap(-1, 0, 6<<30, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("6 GiB of memory for a turn: %w", err)
	}
	return unix.Munmap(touched)
}

// warm starts the broker, unless it runs, and puts the load on it: long on Kafka, whose JVM compiles meanwhile.
func warm(ctx context.Context, o options, r row, b *broker) error {
	if err := b.start(); err != nil {
		return err
	}
	if b.script == "" {
		_, err := r.turn(ctx, b, o.scale/4)
		return err
	}
	for until := time.Now().Add(o.warm); time.Now().Before(until); {
		fmt.Fprintf(os.Stderr, "\r\033[K%s: warming Kafka, %s left", r.name, time.Until(until).Round(time.Second))
		if _, err := r.turn(ctx, b, o.scale); err != nil {
			return err
		}
	}
	return nil
}
