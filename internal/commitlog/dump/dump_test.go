package dump

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/vfs"
)

var update = flag.Bool("update", false, "write what was printed to the golden files")

const kafkaDir = "../testdata/kafka"

// TestTextOfWhatKafkaWrote compares with golden files, which were compared with Kafka's own dump-log by eye.
func TestTextOfWhatKafkaWrote(t *testing.T) {
	var out bytes.Buffer
	for _, name := range []string{
		"fixture-0/00000000000000000020.log", "fixture-0/00000000000000000020.index", "fixture-0/00000000000000000020.timeindex",
		"fixture-0/00000000000000000020.snapshot", "fixture-0/leader-epoch-checkpoint", "fixture-0/partition.metadata",
		"txns-0/00000000000000000000.log", "txns-0/00000000000000000000.txnindex", "meta.properties", ".kafka_cleanshutdown",
		"cleaner-offset-checkpoint",
	} {
		if err := Text(&out, vfs.OS(), filepath.Join(kafkaDir, name), Options{Deep: true}); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "kafka.txt", out.Bytes())
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test ./internal/commitlog/dump -update rewrites it); got\n%s", path, got)
	}
}

func TestJSONHasALinePerEntry(t *testing.T) {
	entries, err := filepath.Glob(kafkaDir + "/*-0/*")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, name := range entries {
		var out bytes.Buffer
		if err := JSON(&out, vfs.OS(), name, Options{Deep: true}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for line := range strings.Lines(out.String()) {
			var v struct {
				File, Kind string
				Entry      map[string]any
			}
			if err := json.Unmarshal([]byte(line), &v); err != nil || v.File != name || v.Kind == "" || len(v.Entry) == 0 {
				t.Fatalf("%s: line %q: %v", name, line, err)
			}
			lines++
		}
	}
	if lines < 80 {
		t.Errorf("%d lines of all files", lines)
	}
}

func TestDamageIsShownAndEndsWhereNothingCanBeRead(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(kafkaDir, "fixture-0/00000000000000000020.log"))
	if err != nil {
		t.Fatal(err)
	}
	content[100] ^= 1
	fs := vfs.NewMemory()
	name := "/00000000000000000020.log"
	if err := vfs.WriteFile(fs, name, append(content, 1, 2, 3)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = Text(&out, fs, name, Options{})
	var corrupt *commitlog.CorruptError
	if !errors.As(err, &corrupt) || corrupt.At != int64(len(content)) {
		t.Errorf("error %v, want damage at %d", err, len(content))
	}
	if n := strings.Count(out.String(), "\n"); n != 6 || !strings.Contains(out.String(), "DAMAGED: malformed batch: crc") {
		t.Errorf("printed\n%s", out.String())
	}
}

func TestOtherFilesAreRefused(t *testing.T) {
	for _, name := range []string{"/x.txt", "/00.txt", "/.lock", "/server.properties"} {
		if err := Text(new(bytes.Buffer), vfs.NewMemory(), name, Options{}); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
