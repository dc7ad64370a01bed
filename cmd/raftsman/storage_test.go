package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestLogDirectoriesAreFormatted(t *testing.T) {
	dir := t.TempDir()
	file, data := filepath.Join(dir, "server.properties"), filepath.Join(dir, "data")
	writeFile(t, file, "node.id=1\ncontroller.quorum.bootstrap.servers=127.0.0.1:9093,127.0.0.1:9193\n"+
		"listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\nlog.dirs="+data+"\n")
	say := func(code int, want string, args ...string) string {
		t.Helper()
		s := newSession()
		if got := s.run(append([]string{"storage", "format", "-c", file}, args...)...); got != code || !strings.Contains(s.err.String(), want) {
			t.Errorf("storage format %v ends with %d and says %q, want %d and %q", args, got, s.err.String(), code, want)
		}
		return s.out.String()
	}
	const (
		id, another = "MkU3OEVBNTcwNTJENDM2Qk", "MkU3OEVBNTcwNTJENDM2QQ"
		first       = "1@127.0.0.1:9093:JEXY6aqzQY-32P5TStzaFg"
	)
	say(exitUsage, "are needed")
	const exclude = "--standalone, --initial-controllers and --no-initial-controllers exclude each other"
	say(exitUsage, exclude, "-t", id, "-s", "-N")
	say(exitUsage, exclude, "-t", id, "-s", "-I", first)
	say(exitUsage, exclude, "-t", id, "-N", "-I", first)
	say(exitFailure, "you must specify one of the following", "-t", id)
	say(exitFailure, "initial controller 1 comes twice", "-t", id, "-I", first+","+first)

	var made formattedDirs
	if err := json.Unmarshal([]byte(say(exitOK, "", "-t", id, "-I", first, "-o", "json")), &made); err != nil ||
		made.ClusterID != id || !slices.Equal(made.Formatted, []string{data}) {
		t.Errorf("formatted %+v, %v, want %s for %s", made, err, data, id)
	}
	say(exitFailure, "is formatted already: --ignore-formatted passes over that", "-t", id, "-I", first)
	say(exitOK, "", "-t", id, "-I", first, "-g")
	say(exitFailure, "belong to cluster "+id+", not to "+another, "-t", another, "-I", first, "-g")
}

func TestIDsAreMade(t *testing.T) {
	s := newSession()
	var id string
	if code := s.run("storage", "random-uuid", "-o", "json"); code != exitOK || json.Unmarshal([]byte(s.out.String()), &id) != nil || len(id) != 22 {
		t.Errorf("storage random-uuid ends with %d and prints %s", code, s.out.String())
	}
}
