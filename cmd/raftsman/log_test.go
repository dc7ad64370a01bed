package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/brokertest"
)

// filledDirectory returns a log directory with a topic, a group's commits and metadata in it, of a broker that has ended.
func filledDirectory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	b := brokertest.Start(t, brokertest.Dir(dir))
	must(t, b.Addr(), "", "topic", "create", "orders", "-p", "1")
	must(t, b.Addr(), "", "produce", "orders", "--key", "eu", "-H", "a=1", "first", "second")
	must(t, b.Addr(), "", "consume", "orders", "-g", "billing", "-e")
	b.Close()
	return dir
}

func dumpOf(t *testing.T, args ...string) string {
	t.Helper()
	s := newSession()
	if code := s.run(append([]string{"log", "dump"}, args...)...); code != exitOK {
		t.Fatalf("`raftsman log dump %s` ends with %d and says %s", strings.Join(args, " "), code, s.err.String())
	}
	return s.out.String()
}

func TestLogDumpPrintsEveryFileOfADirectory(t *testing.T) {
	dir := filledDirectory(t)
	printed := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == ".lock" {
			return err
		}
		printed++
		if got := dumpOf(t, path, "--records"); !strings.HasPrefix(got, path+" (") {
			t.Errorf("%s prints %q", path, got)
		}
		for line := range strings.Lines(dumpOf(t, path, "--records", "-o", "json")) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s prints %q, which is no JSON", path, line)
			}
		}
		return nil
	})
	if err != nil || printed == 0 {
		t.Fatalf("%d files printed, %v", printed, err)
	}
}

func TestLogDumpDecodesTheBrokersOwnRecords(t *testing.T) {
	dir := filledDirectory(t)
	if got := dumpOf(t, filepath.Join(dir, "orders-0"), "-r"); !strings.Contains(got, `key "eu"  value "second"  header "a"="1"`) {
		t.Errorf("the topic prints %s", got)
	}
	if got := dumpOf(t, filepath.Join(dir, "__cluster_metadata-0"), "-r"); !strings.Contains(got, `TopicRecord {"name":"orders"`) {
		t.Errorf("the metadata prints %s", got)
	}
	partitions, err := filepath.Glob(filepath.Join(dir, "__consumer_offsets-*"))
	if err != nil || len(partitions) == 0 {
		t.Fatalf("no partitions of __consumer_offsets: %v", err)
	}
	var all strings.Builder
	for _, p := range partitions {
		all.WriteString(dumpOf(t, p, "-r"))
	}
	for _, want := range []string{`OffsetCommit {"group":"billing","topic":"orders","partition":0} {"offset":2,`, `GroupMetadata {"group":"billing"}`} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("the offsets print %s, want %s in it", all.String(), want)
		}
	}
}

func TestLogDumpTellsDamage(t *testing.T) {
	dir := filledDirectory(t)
	segment := filepath.Join(dir, "orders-0", "00000000000000000000.log")
	content, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-1] ^= 0xff
	damaged := filepath.Join(t.TempDir(), filepath.Base(segment))
	writeFile(t, damaged, string(content))
	s := newSession()
	if code := s.run("log", "dump", damaged); code != exitFailure {
		t.Errorf("ends with %d, want %d", code, exitFailure)
	}
	if want := "raftsman: " + damaged + ": 1 batch is damaged: take the file from a replica or a backup\n"; s.err.String() != want {
		t.Errorf("said %q, want %q", s.err.String(), want)
	}
	if !strings.Contains(s.out.String(), "DAMAGED") {
		t.Errorf("printed %q", s.out.String())
	}
}

func TestLogDumpRefusesWhatIsNoFileOfALog(t *testing.T) {
	dir := t.TempDir()
	stranger := filepath.Join(dir, "notes.txt")
	writeFile(t, stranger, "hello")
	for _, name := range []string{stranger, dir, filepath.Join(dir, "missing")} {
		s := newSession()
		if code := s.run("log", "dump", name); code != exitFailure || strings.Count(s.err.String(), "\n") != 1 {
			t.Errorf("%s: ends with %d and says %q", name, code, s.err.String())
		}
	}
}
