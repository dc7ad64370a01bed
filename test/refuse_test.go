package test

import (
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestStartsThatAreRefused: a start that can't be says what to do in one line, ends with a code other than 0, and touches nothing.
func TestStartsThatAreRefused(t *testing.T) {
	t.Parallel()
	occupied, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer occupied.Close()

	// formatted makes a directory in which a broker has run.
	formatted := func(t *testing.T, args ...string) string {
		dir := filepath.Join(t.TempDir(), "data")
		p := startBroker(t, dir, args...)
		createTopic(t, p.addr, "kept", 1)
		if code, err := produceOne(dialRaw(t, p.addr), "kept", 0, -1); err != nil || code != 0 {
			t.Fatal(code, err)
		}
		p.terminate()
		return dir
	}
	type attempt struct {
		watched string // what must stay as it is
		args    []string
		env     []string
		nobody  bool // run as a user who may write nowhere
		says    []string
	}
	for name, prepare := range map[string]func(t *testing.T) attempt{
		"a directory that can't be written": func(t *testing.T) attempt {
			dir := t.TempDir()
			return attempt{
				watched: dir, args: []string{"--data", filepath.Join(dir, "data")}, nobody: true,
				says: []string{dir, "permission denied", "--data"},
			}
		},
		"a formatted directory that can't be written": func(t *testing.T) attempt {
			dir := formatted(t)
			return attempt{watched: dir, args: []string{"--data", dir}, nobody: true, says: []string{dir, "permission denied", "--data"}}
		},
		"a directory of other files": func(t *testing.T) attempt {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "holiday.jpg"), "sea and sand")
			write(t, filepath.Join(dir, "letters", "1.txt"), "Dear Ann")
			return attempt{watched: dir, args: []string{"--data", dir}, says: []string{dir, "not a log directory", "empty or new"}}
		},
		"a file in place of the directory": func(t *testing.T) attempt {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "data"), "a file")
			return attempt{watched: dir, args: []string{"--data", filepath.Join(dir, "data")}, says: []string{filepath.Join(dir, "data"), "not a directory"}}
		},
		"a directory under a file": func(t *testing.T) attempt {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "file"), "a file")
			return attempt{watched: dir, args: []string{"--data", filepath.Join(dir, "file", "data")}, says: []string{filepath.Join(dir, "file"), "not a directory"}}
		},
		"a meta.properties that is none": func(t *testing.T) attempt {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "meta.properties"), "\x00\x01\x02")
			return attempt{watched: dir, args: []string{"--data", dir}, says: []string{filepath.Join(dir, "meta.properties")}}
		},
		"another node's directory": func(t *testing.T) attempt {
			dir := formatted(t)
			return attempt{
				watched: dir, args: []string{"--data", dir, "--override", "node.id=7"},
				says: []string{dir, "belongs to node 1", "node.id is 7", "node.id=1"},
			}
		},
		"directories of two clusters": func(t *testing.T) attempt {
			parent := t.TempDir()
			a, b := filepath.Join(parent, "a"), filepath.Join(parent, "b")
			for from, to := range map[string]string{formatted(t): a, formatted(t): b} {
				if err := os.Rename(from, to); err != nil {
					t.Fatal(err)
				}
			}
			return attempt{watched: parent, args: []string{"--override", "log.dirs=" + a + "," + b}, says: []string{a, b, "cluster"}}
		},
		"a new directory beside a formatted one": func(t *testing.T) attempt {
			dir := formatted(t)
			blank := filepath.Join(filepath.Dir(dir), "blank")
			return attempt{watched: filepath.Dir(dir), args: []string{"--override", "log.dirs=" + dir + "," + blank}, says: []string{blank, "not formatted", "mounted"}}
		},
		"a port in use": func(t *testing.T) attempt {
			dir := formatted(t)
			return attempt{
				watched: dir, args: []string{"--data", dir, "--listen", occupied.Addr().String()},
				says: []string{occupied.Addr().String(), "port in use", "--listen"},
			}
		},
		"a port in use for HTTP": func(t *testing.T) attempt {
			dir := formatted(t)
			return attempt{
				watched: dir, args: []string{"--data", dir, "--override", "raftsman.http.listener=" + occupied.Addr().String()},
				says: []string{occupied.Addr().String(), "port in use", "raftsman.http.listener"},
			}
		},
		"a port in use and a new directory": func(t *testing.T) attempt {
			dir := t.TempDir()
			return attempt{
				watched: dir, args: []string{"--data", filepath.Join(dir, "data"), "--listen", occupied.Addr().String()},
				says: []string{occupied.Addr().String(), "port in use", "--listen"},
			}
		},
		"an address that is not this machine's": func(t *testing.T) attempt {
			dir := formatted(t)
			return attempt{watched: dir, args: []string{"--data", dir, "--listen", "192.0.2.1:9092"}, says: []string{"192.0.2.1:9092", "--listen"}}
		},
		"a setting of the wrong kind": func(t *testing.T) attempt {
			dir := t.TempDir()
			return attempt{watched: dir, args: []string{"--data", filepath.Join(dir, "data"), "--override", "num.partitions=many"}, says: []string{"num.partitions", "many"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := prepare(t)
			before := treeOf(t, a.watched)
			port := freePort(t)
			args := append([]string{"serve", "--listen", fmt.Sprint("127.0.0.1:", port)}, a.args...)
			if strings.Contains(strings.Join(a.args, " "), "--listen") {
				args = append([]string{"serve"}, a.args...)
			}
			command := exec.Command(binary(t), args...)
			command.Env = append(os.Environ(), a.env...)
			p := launchAs(t, a.nobody, a.watched, command)
			p.awaitRefusal(atLast, a.says...)
			if said := strings.TrimSpace(p.log.String()); strings.Count(said, "\n") > 0 {
				t.Errorf("it says more than one line:\n%s", said)
			} else {
				t.Log(said)
			}
			if after := treeOf(t, a.watched); !maps.Equal(before, after) {
				t.Errorf("files were touched:\nbefore %q\nafter  %q", before, after)
			}
		})
	}
}

// launchAs starts the command, as nobody if so wanted; who is not root takes the rights to the folder from itself.
func launchAs(t *testing.T, nobody bool, folder string, command *exec.Cmd) *process {
	t.Helper()
	var credential *syscall.Credential
	if nobody {
		if os.Getuid() == 0 {
			credential = &syscall.Credential{Uid: 65534, Gid: 65534}
			command.Path = forEveryone(t, command.Path)
			for parent := filepath.Dir(folder); parent != os.TempDir() && parent != "/"; parent = filepath.Dir(parent) {
				if err := os.Chmod(parent, 0o755); err != nil { // as the testing package makes them, nobody may even look
					t.Fatal(err)
				}
			}
		} else {
			err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
				if err == nil {
					err = os.Chmod(path, 0o555)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", folder).Run() })
		}
	}
	return startProcessAs(t, credential, "", command)
}

// forEveryone puts a copy of the binary where any user can run it.
func forEveryone(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "raftsman-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	to := filepath.Join(dir, "raftsman")
	if err := os.WriteFile(to, content, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir, to} {
		if err := os.Chmod(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return to
}
