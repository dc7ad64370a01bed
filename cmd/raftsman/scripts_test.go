package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/raw"
)

func TestScriptsAreLinkedAndDoWhatTheyAreCalled(t *testing.T) {
	bootstrap := startBroker(t)
	topic := topicFor(t, bootstrap, 1)
	dir := t.TempDir()
	s := newSession()
	if code := s.run("scripts", "link", dir); code != exitOK {
		t.Fatalf("link ends with %d and says %s", code, s.err.String())
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	for _, script := range scriptNames() {
		for _, name := range linkNames(script) {
			if !slices.Contains(names, name) {
				t.Errorf("there is no %s among %v", name, names)
			}
		}
	}
	s = newSession()
	code, is := asScript(t.Context(), s.app, filepath.Join(dir, "kafka-topics.sh"), []string{"--bootstrap-server", bootstrap, "--list"})
	if !is || code != exitOK || !slices.Contains(strings.Fields(s.out.String()), topic) {
		t.Errorf("kafka-topics.sh --list (a script: %t) ends with %d, prints %q and says %q", is, code, s.out.String(), s.err.String())
	}
	if _, is := asScript(t.Context(), s.app, "/usr/bin/raftsman", nil); is {
		t.Error("raftsman passes for a script")
	}
	if again := must(t, bootstrap, "", "scripts", "link", dir); again != "made 0 links in "+dir+"\n" {
		t.Errorf("linked again it prints %q", again)
	}
	other := t.TempDir()
	writeFile(t, filepath.Join(other, linkNames("kafka-configs")[0]), "mine")
	s = newSession()
	if code := s.run("scripts", "link", other); code != exitFailure || !strings.Contains(s.err.String(), "is there already") {
		t.Errorf("over somebody's file link ends with %d and says %q", code, s.err.String())
	}
}

func TestScriptsRunByName(t *testing.T) {
	bootstrap := startBroker(t)
	topic := topicFor(t, bootstrap, 2)
	if got, want := must(t, bootstrap, "", "scripts", "run", "kafka-get-offsets.sh", "--bootstrap-server", bootstrap, "--topic", topic), topic+":0:0\n"+topic+":1:0\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	for line, want := range map[string]struct {
		code int
		said string
	}{
		"scripts run kafka-acls.sh --list":                           {exitUsage, "there is no script kafka-acls.sh here"},
		"scripts run":                                                {exitUsage, "something is missing"},
		"scripts run kafka-topics --zookeeper z --list":              {1, "zookeeper is not a recognized option"},
		"scripts run kafka-topics --bootstrap-controller c:1 --list": {1, "--bootstrap-controller is not served by this script: use --bootstrap-server with the address of a broker"},
		"scripts run kafka-server-start -daemon a.properties":        {1, "-daemon is not served"},
		"scripts run kafka-server-start":                             {1, "usage: kafka-server-start server.properties"},
		"scripts run kafka-server-start /nowhere/at/all":             {1, "/nowhere/at/all"},
	} {
		s := newSession()
		if code := s.run(strings.Fields(line)...); code != want.code || !strings.Contains(s.err.String(), want.said) {
			t.Errorf("`%s` ends with %d and says %q, want %d and %q", line, code, s.err.String(), want.code, want.said)
		}
	}
}

// TestDirectoriesAreFormattedAsByKafkasScript, and a broker starts in them with that cluster id.
func TestDirectoriesAreFormattedAsByKafkasScript(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "server.properties")
	port := raw.FreePort(t)
	data, second := filepath.Join(dir, "data"), filepath.Join(dir, "second")
	writeFile(t, file, fmt.Sprintf("process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=127.0.0.1:%d\n"+
		"listeners=PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d\nlog.dirs=%s,%s\n", port+1, port, port+1, data, second))
	const id = "MkU3OEVBNTcwNTJENDM2Qk"
	for _, step := range []struct {
		line, out, err string
		code           int
	}{
		{"format -t " + id + " -c " + file + " --standalone", "Formatting data directory " + second + " with metadata.version 4.4-IV2.\n" +
			"Formatting dynamic metadata voter directory " + data + " with metadata.version 4.4-IV2.\n", "", exitOK},
		{"format -t " + id + " -c " + file, "", "Log directory " + data + " is already formatted. Use --ignore-formatted to ignore this directory and format the others.\n", 1},
		{"format -t " + id + " -c " + file + " --ignore-formatted", "All of the log directories are already formatted.\n", "", exitOK},
	} {
		s := newSession()
		code, _ := asScript(t.Context(), s.app, "kafka-storage.sh", strings.Fields(step.line))
		if code != step.code || s.out.String() != step.out || s.err.String() != step.err {
			t.Errorf("kafka-storage.sh %s ends with %d, prints %q and says %q; want %d, %q and %q", step.line, code, s.out.String(), s.err.String(), step.code, step.out, step.err)
		}
	}
	for _, path := range []string{data, second} {
		if text, err := os.ReadFile(filepath.Join(path, "meta.properties")); err != nil || !strings.Contains(string(text), "cluster.id="+id) {
			t.Errorf("%s: %v, %s", path, err, text)
		}
	}
	started := newSession()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan int, 1)
	go func() {
		code, _ := asScript(ctx, started.app, "kafka-server-start.sh", []string{file})
		ended <- code
	}()
	bootstrap := fmt.Sprintf("127.0.0.1:%d", port)
	var told string
	eventually(t, "the broker to serve", func() bool {
		s := newLiveSession(bootstrap)
		served := s.run("cluster", "describe", "-o", "json") == exitOK
		told = s.out.String()
		return served
	})
	if !strings.Contains(told, `"clusterId": "`+id+`"`) {
		t.Errorf("the broker that was started is of another cluster than %s: %s", id, told)
	}
	stop()
	if code := <-ended; code != exitOK {
		t.Errorf("the broker ends with %d and says %s", code, started.err.String())
	}
}
