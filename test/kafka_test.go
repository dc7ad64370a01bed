package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// swapDir is a folder in which Raftsman and a real Apache Kafka take turns on one data directory and one address.
type swapDir struct {
	root string // of Kafka: server.properties, server.log
	data string
	port int
	args []string // of `raftsman serve` and `raftsman config export`, beside directory and address
	jvm  string   // more options of Kafka's JVM
}

func newSwapDir(t testing.TB, args ...string) swapDir {
	root := t.TempDir()
	return swapDir{root: root, data: filepath.Join(root, "data"), port: freePort(t), args: args}
}

func (d swapDir) addr() string { return fmt.Sprintf("127.0.0.1:%d", d.port) }

// raftsman starts Raftsman on the directory.
func (d swapDir) raftsman(t testing.TB) *process {
	t.Helper()
	return startBrokerAt(t, d.data, d.port, d.args...)
}

// launchBroker starts raftsman and does not wait.
func launchBroker(t testing.TB, dir string, port int, args ...string) *process {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	p := launchWith(t, addr, append([]string{"serve", "--data", dir, "--listen", addr}, args...)...)
	p.dir = dir
	return p
}

// launchWith starts raftsman with these arguments and does not wait.
func launchWith(t testing.TB, addr string, args ...string) *process {
	t.Helper()
	return startProcess(t, addr, exec.Command(binary(t), args...))
}

// kafka starts Apache Kafka on the directory, with the server.properties that Raftsman prints for it, and waits until it serves.
func (d swapDir) kafka(t testing.TB) *process {
	t.Helper()
	p := d.launchKafka(t)
	p.awaitServing(3 * time.Minute) // a JVM on a busy machine
	return p
}

// launchKafka starts Apache Kafka on the directory and does not wait.
func (d swapDir) launchKafka(t testing.TB) *process {
	t.Helper()
	args := append([]string{"config", "export", "--data", d.data, "--listen", d.addr()}, d.args...)
	properties := run(t, atLast, nil, binary(t), args...)
	write(t, filepath.Join(d.root, "server.properties"), properties)
	p := startKafka(t, d.addr(), d.root, d.jvm)
	p.dir = d.data
	return p
}

func (d swapDir) kafkaLog() string { return kafkaLog(d.root) }

// startKafka starts Apache Kafka with the server.properties of a folder, which gets its server.log, and does not wait.
func startKafka(t testing.TB, addr, root, jvm string) *process {
	t.Helper()
	command := exec.Command("kafka/kafka", "jvm", "-Xms256m -Xmx1g -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "+jvm+" -Dkafka.reference.dir="+root,
		"kafka.Kafka", filepath.Join(root, "server.properties"))
	settings, err := filepath.Abs("kafka/log4j2-server.xml")
	if err != nil {
		t.Fatal(err)
	}
	command.Env = append(os.Environ(), "LOG4J="+settings)
	p := startProcess(t, addr, command)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of Apache Kafka's server.log:\n%s", last(kafkaLog(root), 4000))
		}
	})
	return p
}

func kafkaLog(root string) string {
	content, _ := os.ReadFile(filepath.Join(root, "server.log"))
	return string(content)
}

// complaints are what DumpLogSegments prints, with exit code 0, when it does not like a file.
var complaints = regexp.MustCompile(`(?i)mismatch|out of order|not found in the log|non-consecutive|invalid bytes|isvalid: false|exception|could not|corrupt|missing`)

// dumpAll reads every file of a stopped broker's log directories with Apache Kafka's own tool, which must not find fault with one. It
// returns how many files of each kind there were.
func dumpAll(t testing.TB, dirs ...string) map[string]int {
	t.Helper()
	byDecoder, counts := map[string][]string{}, map[string]int{}
	sort := func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.Contains(name, "-delete/") {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		ext, decoder := filepath.Ext(name), ""
		switch {
		case ext == ".log" && info.Size() == 0:
			return nil // the tool has no word for an empty segment
		case ext == ".log" && strings.Contains(name, "/__consumer_offsets-"):
			decoder = "--offsets-decoder"
		case ext == ".log" && strings.Contains(name, "/__transaction_state-"):
			decoder = "--transaction-log-decoder"
		case (ext == ".log" || ext == ".checkpoint") && strings.Contains(name, "/__cluster_metadata-0/"):
			decoder = "--cluster-metadata-decoder"
		case ext == ".log" || ext == ".index" || ext == ".timeindex" || ext == ".snapshot" || ext == ".txnindex":
		default:
			return nil
		}
		counts[strings.TrimSpace(ext+" "+decoder)]++
		byDecoder[decoder] = append(byDecoder[decoder], name)
		return nil
	}
	for _, dir := range dirs {
		if err := filepath.WalkDir(dir, sort); err != nil {
			t.Fatal(err)
		}
	}
	for decoder, all := range byDecoder {
		for names := range slices.Chunk(all, 500) { // as many as one argument may name
			dump(t, decoder, names)
		}
	}
	return counts
}

// dump reads files with Kafka's tool.
func dump(t testing.TB, decoder string, names []string) {
	t.Helper()
	args := []string{"tool", "dump-log", "--deep-iteration", "--files", strings.Join(names, ",")}
	if decoder != "" {
		args = append(args, decoder)
	}
	out := run(t, 2*atLast, nil, "kafka/kafka", args...)
	for _, name := range names {
		if !strings.Contains(out, "Dumping "+name) {
			t.Errorf("dump-log says nothing of %s", name)
		}
	}
	if at := complaints.FindStringIndex(out); at != nil {
		t.Errorf("dump-log complains:\n%s", out[max(0, at[0]-1500):min(len(out), at[1]+500)])
	}
}
