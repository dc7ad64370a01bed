// Command gen writes the Go of Kafka's own records from the message specifications inside Kafka's jars. It is run by
// `go generate` in internal/sysrecord. The folder with the jars is given by -libs or KAFKA_LIBS.
package main

import (
	"flag"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
)

// source is one generated file: the kinds of records that one log holds, and the jar that specifies them.
type source struct {
	file   string
	about  string
	jar    string
	folder string
	only   []string // all records of the folder when empty
}

var sources = []source{
	{"metadata.gen.go", "the records of __cluster_metadata", "kafka-metadata", "common/metadata/", nil},
	{"group.gen.go", "the records of __consumer_offsets", "kafka-group-coordinator", "common/message/", nil},
	{"transaction.gen.go", "the records of __transaction_state", "kafka-transaction-coordinator", "common/message/", nil},
	{"share.gen.go", "the records of __share_group_state", "kafka-share-coordinator", "common/message/", nil},
	{"control.gen.go", "the control records of logs and snapshots, and what members of a classic group tell each other", "kafka-clients", "common/message/", []string{
		"ConsumerProtocolAssignment", "ConsumerProtocolSubscription", "EndTxnMarker", "KRaftVersionRecord", "LeaderChangeMessage",
		"SnapshotFooterRecord", "SnapshotHeaderRecord", "VotersRecord",
	}},
	{"quorum.gen.go", "the quorum-state file", "kafka-raft", "common/message/", []string{"QuorumStateData"}},
}

func main() {
	libs := flag.String("libs", defaultLibs(), "folder with Kafka's jars")
	out := flag.String("out", ".", "folder to write to")
	flag.Parse()
	if err := generate(*libs, *out); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func defaultLibs() string {
	if dir := os.Getenv("KAFKA_LIBS"); dir != "" {
		return dir
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "apache-kafka-4.4.0", "libs")
}

func generate(libs, out string) error {
	for _, s := range sources {
		specs, err := readSpecs(libs, s)
		if err != nil {
			return err
		}
		text, err := emitFile(s, specs)
		if err != nil {
			return fmt.Errorf("%s: %w", s.file, err)
		}
		formatted, err := format.Source(text)
		if err != nil {
			return fmt.Errorf("%s: format: %w\n%s", s.file, err, text)
		}
		if err := os.WriteFile(filepath.Join(out, s.file), formatted, 0o666); err != nil {
			return err
		}
	}
	return nil
}
