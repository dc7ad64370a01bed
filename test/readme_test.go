package test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// block is a fenced block of the README.
type block struct{ kind, file, text string }

var fence = regexp.MustCompile("(?ms)^```([a-z]+) ?([a-z_.]*)\n(.*?)^```$")

func readmeBlocks(t *testing.T) []block {
	t.Helper()
	content, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	for _, m := range fence.FindAllSubmatch(content, -1) {
		blocks = append(blocks, block{string(m[1]), string(m[2]), string(m[3])})
	}
	if fences := bytes.Count(content, []byte("\n```")); fences != 2*len(blocks) {
		t.Fatalf("the README has %d fence lines, %d blocks were understood", fences, len(blocks))
	}
	return blocks
}

// TestReadme does what the README says, block by block, in a fresh copy of the project: the commands in one shell, `make run` in
// another, the programs written to the files that they name.
func TestReadme(t *testing.T) {
	t.Parallel()
	project := filepath.Join(t.TempDir(), "raftsman")
	run(t, time.Minute, nil, "git", "clone", "-q", "..", project)
	configs := "XDG_CONFIG_HOME=" + t.TempDir() // where the tools keep contexts
	for _, b := range readmeBlocks(t) {
		switch command := strings.TrimSpace(b.text); {
		case b.kind == "sh" && command == "make run":
			if other, err := net.Dial("tcp", "127.0.0.1:9092"); err == nil {
				_ = other.Close()
				t.Fatal("something else serves 127.0.0.1:9092, where the README's broker is to be: stop it")
			}
			make := exec.Command("make", "run")
			make.Dir = project
			p := startProcess(t, "127.0.0.1:9092", make)
			p.awaitServing(5 * time.Minute)
		case b.kind == "sh" && strings.HasPrefix(command, "bin/raftsman dev "):
			dev := exec.Command("bash", "-c", "exec "+command)
			dev.Dir = project
			p := startProcess(t, "127.0.0.1:9292", dev)
			p.awaitServing(atLast)
			eventually(t, atLast, "all nodes serve", func() error {
				if !strings.Contains(p.log.String(), "3 nodes serve") {
					return errors.New(p.log.tail(10))
				}
				return nil
			})
		case b.kind == "sh" && command == "make test":
			ci, err := os.ReadFile("../.ci/run")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(ci), "exec "+command+"\n") {
				t.Errorf(".ci/run does not run the README's %q", command)
			}
		case b.kind == "sh":
			script := exec.Command("bash", "-euo", "pipefail", "-c", b.text)
			runIn(t, project, configs, script)
		case b.kind == "go":
			module := filepath.Join(t.TempDir(), "shop")
			write(t, filepath.Join(module, b.file), b.text)
			runIn(t, module, configs, exec.Command("bash", "-euo", "pipefail", "-c",
				"go mod init shop && go mod edit -replace github.com/raftsman/raftsman="+project+" && go mod tidy && go test ./..."))
		case b.file != "":
			write(t, filepath.Join(project, b.file), b.text)
		default:
			t.Errorf("a %s block that names no file: nothing runs it", b.kind)
		}
	}
}

func runIn(t *testing.T, dir, configs string, command *exec.Cmd) {
	t.Helper()
	command.Dir, command.Env = dir, append(os.Environ(), configs)
	timer := time.AfterFunc(5*time.Minute, func() { _ = command.Process.Kill() })
	defer timer.Stop()
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s\n%v\n%s", command, err, out)
	} else {
		t.Logf("%s\n%s", command.Args[len(command.Args)-1], out)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
