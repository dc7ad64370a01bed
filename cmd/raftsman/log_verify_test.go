package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/brokertest"
)

func TestLogVerifyNamesFileAndByte(t *testing.T) {
	dir := filledDirectory(t)
	s := newSession()
	if code := s.run("log", "verify", dir); code != exitOK || !strings.Contains(s.out.String(), "nothing is damaged") {
		t.Fatalf("ends with %d, prints %q and says %q", code, s.out.String(), s.err.String())
	}
	segment := filepath.Join(dir, "orders-0", "00000000000000000000.log")
	content, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-1] ^= 0xff
	writeFile(t, segment, string(content))
	for _, name := range []string{dir, filepath.Dir(segment), segment} {
		s := newSession()
		if code := s.run("log", "verify", name, "-o", "json"); code != exitFailure {
			t.Errorf("%s: ends with %d, want %d", name, code, exitFailure)
		}
		var got verified
		if err := json.Unmarshal([]byte(s.out.String()), &got); err != nil {
			t.Fatalf("%v: %s", err, s.out.String())
		}
		if len(got.Damages) != 1 || got.Damages[0].File != segment || got.Damages[0].At >= int64(len(content)) || got.Running {
			t.Errorf("%s: %+v, want the one batch", name, got)
		}
		s = newSession()
		s.run("log", "verify", name)
		if want := fmt.Sprintf("%s at byte %d: ", segment, got.Damages[0].At); !strings.HasPrefix(s.out.String(), want) {
			t.Errorf("%s: prints %q, want %q", name, s.out.String(), want)
		}
	}
}

func TestLogVerifyBesideABroker(t *testing.T) {
	dir := t.TempDir()
	b := brokertest.Start(t, brokertest.Dir(dir))
	must(t, b.Addr(), "", "topic", "create", "orders", "-p", "1")
	must(t, b.Addr(), "", "produce", "orders", "first", "second")
	s := newSession()
	if code := s.run("log", "verify", dir); code != exitOK || !strings.Contains(s.err.String(), "A broker runs") {
		t.Errorf("ends with %d, prints %q and says %q", code, s.out.String(), s.err.String())
	}
}

func TestLogVerifyRefusesWhatIsNoLogDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{dir, filepath.Join(dir, "missing")} {
		s := newSession()
		if code := s.run("log", "verify", name); code != exitFailure || strings.Count(s.err.String(), "\n") != 1 {
			t.Errorf("%s: ends with %d and says %q", name, code, s.err.String())
		}
	}
}
