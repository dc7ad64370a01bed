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
		options: slices.Concat([]option{{name: "help"}}, values("config", "cluster-id"), flags("standalone", "ignore-formatted"),
			refuses("`raftsman serve`, which formats for Kafka "+KafkaVersion+" and one node", value, "release-version", "feature", "initial-controllers", "add-scram"),
			refuses("`raftsman serve`, which formats for one node", nothing, "no-initial-controllers")),
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
	f, err := c.env.Format(c.opts.value("config"), c.opts.value("cluster-id"))
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
	c.print("Formatting dynamic metadata voter directory %s with metadata.version %s.\n", f.Metadata, version)
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
