package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// update rewrites the expected outputs instead of comparing with them: go test ./cmd/raftsman -update
var update = flag.Bool("update", false, "rewrite testdata and docs/cli.md")

// testNow is the present of tests that reach no broker.
var testNow = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

// output is a buffer that commands may write to from several goroutines.
type output struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// session runs command lines as a person would, and keeps what they print.
type session struct {
	app      *app
	out, err output
	env      map[string]string
}

func newSession() *session {
	s := &session{env: map[string]string{}}
	s.app = &app{
		name: "raftsman", in: strings.NewReader(""), out: &s.out, err: &s.err,
		getenv: func(name string) string { return s.env[name] },
		now:    func() time.Time { return testNow },
		dial:   kgo.NewClient,
	}
	return s
}

func (s *session) run(args ...string) int { return s.runIn(context.Background(), "", args...) }

func (s *session) runIn(ctx context.Context, stdin string, args ...string) int {
	s.app.in = strings.NewReader(stdin)
	return run(ctx, s.app, args)
}

// golden compares got with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	compareFile(t, path, got)
}

func compareFile(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		g, w := at(gotLines, i), at(wantLines, i)
		if g != w {
			t.Errorf("%s is not what comes out now (go test ./cmd/raftsman -update rewrites it); line %d\ngot  %s\nwant %s", path, i+1, g, w)
			return
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}
