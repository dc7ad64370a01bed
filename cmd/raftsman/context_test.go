package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// contextSession returns a session whose contexts are in a folder of the test's own.
func contextSession(t *testing.T) *session {
	t.Helper()
	s := newSession()
	s.env["XDG_CONFIG_HOME"] = t.TempDir()
	s.app.dial = func(...kgo.Opt) (*kgo.Client, error) { return nil, errors.New("not today") }
	return s
}

func TestContextsAreSetUsedListedAndDeleted(t *testing.T) {
	s := contextSession(t)
	for _, step := range []struct {
		line, out, err string
		code           int
	}{
		{"context list", "", "there are no contexts: `raftsman context set NAME -b host:port` makes one\n", exitOK},
		{"context set prod -b a:1,b:2 client.id=shop", "set prod: a:1,b:2\n", "", exitOK},
		{"context set dev -b here retires=1", "set dev: here\n", "retires is no setting of a Kafka client: it has no effect\n", exitOK},
		{"context set dev retires=", "set dev: here\n", "", exitOK},
		{"context use prdo", "", "raftsman: there is no context prdo: did you mean prod?\n", exitFailure},
		{"context use prod", "uses prod: a:1,b:2\n", "", exitOK},
		{"context list", "CONTEXT  BROKERS  SETTINGS\ndev      here\nprod     a:1,b:2  client.id=shop  current\n", "", exitOK},
		{"context set prod security.protocol=SASL_SSL", "", "raftsman: security.protocol: SASL_SSL is not supported yet: only PLAINTEXT is, so name a listener of that kind\n", exitUsage},
		{"context delete prod", "deleted prod\n", "", exitOK},
		{"context list -o json", "[\n  {\n    \"context\": \"dev\",\n    \"current\": false,\n    \"properties\": {\n      \"bootstrap.servers\": \"here\"\n    }\n  }\n]\n", "", exitOK},
	} {
		s.out, s.err = output{}, output{}
		code := s.run(strings.Fields(step.line)...)
		if code != step.code || s.out.String() != step.out || s.err.String() != step.err {
			t.Errorf("`%s` ends with %d, prints %q and says %q; want %d, %q and %q", step.line, code, s.out.String(), s.err.String(), step.code, step.out, step.err)
		}
	}
	info, err := os.Stat(filepath.Join(s.env["XDG_CONFIG_HOME"], "raftsman", "config"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v; want one that only its owner reads", info, err)
	}
}

// TestBrokersComeFromWhatIsSaidClosest: the flag, then --command-config, --context, the environment, the current context, localhost.
func TestBrokersComeFromWhatIsSaidClosest(t *testing.T) {
	s := contextSession(t)
	file := filepath.Join(t.TempDir(), "client.properties")
	writeFile(t, file, "bootstrap.servers=file:1\nclient.id=filed\n")
	empty := filepath.Join(t.TempDir(), "empty.properties")
	writeFile(t, empty, "client.id=filed\n")
	for _, line := range []string{"context set one -b one:1 client.id=first", "context set two -b two:1", "context use one"} {
		if code := s.run(strings.Fields(line)...); code != exitOK {
			t.Fatalf("`%s` says %s", line, s.err.String())
		}
	}
	for _, at := range []struct{ flags, bootstrapEnv, contextEnv, servers, client string }{
		{"", "", "", "one:1", "first"},
		{"", "", "two", "two:1", ""},
		{"", "env:1", "", "env:1", ""},
		{"", "env:1", "two", "env:1", ""},
		{"--context two", "env:1", "", "two:1", ""},
		{"--context two", "", "one", "two:1", ""},
		{"--context one --command-config " + file, "env:1", "", "file:1", "filed"},
		{"--command-config " + empty, "", "", "one:1", "filed"},
		{"--command-config " + file + " -b flag:1", "env:1", "two", "flag:1", "filed"},
		{"-b flag:1", "", "", "flag:1", ""},
	} {
		s.env[bootstrapVariable], s.env[contextVariable] = at.bootstrapEnv, at.contextEnv
		s.run(append([]string{"topic", "list"}, strings.Fields(at.flags)...)...)
		got, err := s.app.clientSettings()
		if err != nil || got.Servers != at.servers || got.ClientID != at.client {
			t.Errorf("%+v: asks %q as %q, %v", at, got.Servers, got.ClientID, err)
		}
	}
	s.env = map[string]string{}
	s.run("topic", "list")
	if got, err := s.app.clientSettings(); err != nil || got.Servers != defaultBootstrap {
		t.Errorf("with nothing said it asks %q, %v", got.Servers, err)
	}
}

func TestAFileOfContextsThatIsNoneIsTold(t *testing.T) {
	s := contextSession(t)
	path := filepath.Join(s.env["XDG_CONFIG_HOME"], "raftsman", "config")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, "contexts: []\n")
	if code := s.run("topic", "list"); code != exitFailure || !strings.Contains(s.err.String(), path+": line 1: contexts is neither current-context nor context.NAME.KEY") {
		t.Errorf("ends with %d and says %q", code, s.err.String())
	}
	s.err = output{}
	if code := s.run("version"); code != exitOK || s.err.String() != "" {
		t.Errorf("version, which asks no broker, ends with %d and says %q", code, s.err.String())
	}
}
