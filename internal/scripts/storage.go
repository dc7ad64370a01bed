package scripts

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/raftsman/raftsman/internal/meta"
)

func storageScript() *script {
	return &script{
		instead: "raftsman serve",
		verbs:   []string{"random-uuid", "format", "info", "version-mapping", "feature-dependencies"},
		options: slices.Concat([]option{{name: "help"}}, values("config", "cluster-id", "initial-controllers"), flags("standalone", "ignore-formatted", "no-initial-controllers"),
			refuses("`raftsman serve`, which formats for Kafka "+KafkaVersion, value, "release-version", "feature", "add-scram")),
		short: map[string]string{
			"-t": "cluster-id", "-c": "config", "-r": "release-version", "-f": "feature", "-s": "standalone", "-g": "ignore-formatted",
			"-I": "initial-controllers", "-N": "no-initial-controllers", "-S": "add-scram",
		},
		run: runStorage,
	}
}

// format makes log directories ready. `raftsman serve` does so by itself; runbooks for Kafka have a step for it.
func (c *call) format() error {
	for _, option := range []struct{ name, letter string }{{"config", "c"}, {"cluster-id", "t"}} {
		if !c.opts.has(option.name) {
			return usagef("kafka-storage: error: argument --%s/-%s is required", option.name, option.letter)
		}
	}
	chosen := 0
	for _, option := range []string{"standalone", "initial-controllers", "no-initial-controllers"} {
		if c.opts.has(option) {
			chosen++
		}
	}
	if chosen > 1 {
		return usagef("kafka-storage: error: --standalone, --initial-controllers and --no-initial-controllers exclude each other")
	}
	f, err := c.env.Format(Format{
		File: c.opts.value("config"), ClusterID: c.opts.value("cluster-id"), Standalone: c.opts.has("standalone"),
		InitialControllers: c.opts.value("initial-controllers"), NoInitial: c.opts.has("no-initial-controllers"),
	})
	switch {
	case err != nil:
		return err
	case len(f.Before) > 0 && !c.opts.has("ignore-formatted"):
		return fmt.Errorf("Log directory %s is already formatted. Use --ignore-formatted to ignore this directory and format the others.", f.Before[0])
	case len(f.Made) == 0:
		c.print("All of the log directories are already formatted.\n")
		return nil
	}
	version := levelText("metadata.version", meta.LatestMetadataVersion)
	for _, dir := range f.Made {
		if dir != f.Metadata {
			c.print("Formatting data directory %s with metadata.version %s.\n", dir, version)
		}
	}
	c.print("Formatting %s %s with metadata.version %s.\n", f.Kind, f.Metadata, version)
	return nil
}

func runStorage(_ context.Context, c *call) error {
	switch c.verb {
	case "":
		return usagef("")
	case "random-uuid":
		c.print("%s\n", randomID())
		return nil
	case "format":
		return c.format()
	}
	return fmt.Errorf("%s is not served by this script: `raftsman log` looks into log directories", c.verb)
}

// randomID returns a version 4 UUID as Kafka writes one. It does not begin with a dash: that would be an option to the next command.
func randomID() string {
	for {
		var id [16]byte
		_, _ = rand.Read(id[:]) // which never fails
		id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
		if text := base64.RawURLEncoding.EncodeToString(id[:]); !strings.HasPrefix(text, "-") {
			return text
		}
	}
}
