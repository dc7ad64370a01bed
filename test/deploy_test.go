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

	"gopkg.in/yaml.v3"
)

// composeFile is what is looked at in deploy/docker/compose.yaml. Merge keys are resolved as it is read.
type composeFile struct {
	Services map[string]composeService
	Volumes  map[string]any
}

type composeService struct {
	Hostname    string
	Ports       []string
	Volumes     []string
	Environment map[string]string
	Healthcheck struct{ Test []string }
}

// TestComposeFileStartsACluster starts what deploy/docker/compose.yaml says, without containers: each service's environment and command, with
// its name as an address of this machine and its ports as free ones. It can't say whether an image is built.
func TestComposeFileStartsACluster(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../deploy/docker/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file composeFile
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile("../deploy/docker/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`ENTRYPOINT ["/raftsman"]`, `CMD ["serve"]`, "VOLUME /data", "ENV KAFKA_LOG_DIRS=/data"} {
		if !strings.Contains(string(image), "\n"+line+"\n") {
			t.Fatalf("the image has no %s: this test starts it so", line)
		}
	}
	const nodes = 3
	if len(file.Services) != nodes || len(file.Volumes) != nodes {
		t.Fatalf("%d services and %d volumes; the file says three nodes", len(file.Services), len(file.Volumes))
	}

	port := freePort(t)
	here := map[string]string{":9092": fmt.Sprintf(":%d", port), ":9093": fmt.Sprintf(":%d", port+1)}
	for n := 1; n <= nodes; n++ {
		here[fmt.Sprintf("raftsman-%d", n)] = fmt.Sprintf("127.0.0.1%d", n)
		here[fmt.Sprintf(":%d9092", n)] = fmt.Sprintf(":%d", freePort(t))
	}
	var pairs []string
	for _, from := range []string{"raftsman-1", "raftsman-2", "raftsman-3", ":19092", ":29092", ":39092", ":9092", ":9093"} {
		pairs = append(pairs, from, here[from])
	}
	toHere := strings.NewReplacer(pairs...)

	var seeds []string
	var started []*process
	mounted := map[string]bool{}
	for n := 1; n <= nodes; n++ {
		name := fmt.Sprintf("raftsman-%d", n)
		s, ok := file.Services[name]
		if !ok || s.Hostname != name {
			t.Fatalf("service %s: %+v", name, s)
		}
		published := fmt.Sprintf("%d9092", n)
		if want := "127.0.0.1:" + published + ":" + published; !slices.Equal(s.Ports, []string{want}) || !strings.Contains(s.Environment["KAFKA_ADVERTISED_LISTENERS"], "HOST://localhost:"+published) {
			t.Errorf("%s publishes %v, and advertises %s", name, s.Ports, s.Environment["KAFKA_ADVERTISED_LISTENERS"])
		}
		volume, at, _ := strings.Cut(s.Volumes[0], ":")
		if _, declared := file.Volumes[volume]; !declared || mounted[volume] || at != s.Environment["KAFKA_LOG_DIRS"] || at != "/data" {
			t.Errorf("%s has its data in %s, and the volumes %v", name, s.Environment["KAFKA_LOG_DIRS"], s.Volumes)
		}
		mounted[volume] = true

		address := fmt.Sprintf("127.0.0.1%d", n)
		command := exec.Command(binary(t), "serve")
		command.Env = append(os.Environ(), "RAFTSMAN_BOOTSTRAP=")
		for key, value := range s.Environment {
			switch key {
			case "KAFKA_LOG_DIRS":
				value = t.TempDir()
			case "KAFKA_LISTENERS":
				value = strings.ReplaceAll(value, "HOST://:", "HOST://127.0.0.1:")
				value = strings.ReplaceAll(value, "://:", "://"+address+":")
			}
			command.Env = append(command.Env, key+"="+toHere.Replace(value))
		}
		command.Env = append(command.Env, "KAFKA_RAFTSMAN_CONFIG_STRICT=true")
		started = append(started, startProcess(t, toHere.Replace("raftsman-"+fmt.Sprint(n)+":9092"), command))
		seeds = append(seeds, toHere.Replace("localhost:"+published))
	}
	for _, p := range started {
		p.awaitServing(atLast)
	}
	bootstrap := strings.Join(seeds, ",")
	eventually(t, atLast, "three nodes are well", func() error {
		out, err := exec.Command(binary(t), "cluster", "health", "-b", bootstrap).Output()
		if err == nil && !strings.Contains(string(out), "3 brokers") {
			err = fmt.Errorf("of %s", out)
		}
		return err
	})
	run(t, atLast, nil, binary(t), "topic", "create", "orders", "-b", bootstrap)
	if got := run(t, atLast, nil, binary(t), "topic", "describe", "orders", "-b", bootstrap); !strings.Contains(got, "replication factor 3") {
		t.Errorf("a topic has %s", got)
	}
	run(t, atLast, nil, binary(t), "produce", "orders", "placed", "-b", bootstrap)
	if got := run(t, atLast, nil, binary(t), "consume", "orders", "-e", "-b", bootstrap); got != "placed\n" {
		t.Errorf("read %q", got)
	}
	for n := 1; n <= nodes; n++ {
		test := file.Services[fmt.Sprintf("raftsman-%d", n)].Healthcheck.Test
		if len(test) < 3 || test[0] != "CMD" || test[1] != "/raftsman" || !slices.Contains(test, fmt.Sprint(n)) {
			t.Fatalf("node %d is checked by %q", n, test)
		}
		var args []string
		for _, arg := range test[2:] {
			if arg == "localhost:9092" {
				arg = toHere.Replace(fmt.Sprintf("raftsman-%d:9092", n))
			}
			args = append(args, arg)
		}
		run(t, atLast, nil, binary(t), args...)
	}
	started[1].kill()
	if _, err := tryRun(atLast, nil, binary(t), "cluster", "api-versions", "--broker", "2", "-b", started[1].addr, "--timeout", "5s"); err == nil {
		t.Error("a node that is dead passes its check")
	}
}

// TestSystemdUnit checks the unit by systemd's own tool, and its configuration by the binary. It can't say whether systemd starts it.
func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../deploy/systemd/raftsman.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := string(text)
	const installed, config = "/usr/local/bin/raftsman", "/etc/raftsman/server.properties"
	if !strings.Contains(unit, "\nExecStart="+installed+" serve "+config+"\n") || !strings.Contains(unit, "\nType=notify\n") {
		t.Fatalf("it starts something else: %s", unit)
	}
	properties, err := os.ReadFile("../deploy/systemd/server.properties")
	if err != nil {
		t.Fatal(err)
	}
	state := regexp.MustCompile(`(?m)^StateDirectory=(.*)$`).FindStringSubmatch(unit)
	if state == nil || !strings.Contains(string(properties), "\nlog.dirs=/var/lib/"+state[1]+"\n") {
		t.Errorf("systemd makes %q for the data, and the configuration has it elsewhere: %s", state, properties)
	}
	run(t, atLast, nil, binary(t), "config", "check", "../deploy/systemd/server.properties")

	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Log("systemd-analyze is not here: what is above is all that is checked of the unit")
		return
	}
	copied := filepath.Join(t.TempDir(), "raftsman.service")
	write(t, copied, strings.ReplaceAll(unit, installed, binary(t)))
	if out, err := exec.Command("systemd-analyze", "verify", copied).CombinedOutput(); err != nil || strings.Contains(string(out), copied) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	if out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", copied).CombinedOutput(); err != nil {
		t.Errorf("its exposure is more than 2.0 of 10: %v\n%s", err, out)
	}
}
