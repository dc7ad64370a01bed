package test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/raftsman/raftsman/internal/raw"
)

// masks are what may differ between any two brokers, or two runs of one. They are applied in this order.
var masks = []struct {
	tool    string // of one tool only, or empty
	pattern *regexp.Regexp
	with    string            // in its place
	only    func(string) bool // whether to mask what was found, or nil
	why     string
}{
	{pattern: regexp.MustCompile(`^\s*(at \S+\(.*|\.\.\. \d+ more)$`), why: "where in the tool an error was thrown"},
	{pattern: regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), with: "UUID", why: "ids"},
	{pattern: regexp.MustCompile(`[A-Za-z0-9_-]+`), with: "ID", only: isID, why: "ids"},
	{pattern: regexp.MustCompile(`(console-consumer|perf-consumer)-\d+`), with: "$1-N", why: "ids"},
	{pattern: regexp.MustCompile(`adminclient-\d+`), with: "adminclient-N", why: "ids"},
	{pattern: regexp.MustCompile(`\b1\d{12}\b`), with: "NOW", only: isNow, why: "times of the present day"},
	{pattern: regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d([.,:]\d+)?`), with: "DATE", why: "times of the present day"},
	{pattern: regexp.MustCompile(`[ \t]{2,}|\t`), with: " ", why: "the width of columns"},
	{pattern: regexp.MustCompile(`-{4,}`), with: "----", why: "the width of columns"},
	{
		pattern: regexp.MustCompile(`(org\.apache\.kafka\.common\.(?:errors\.\w+|InvalidRecord)Exception: ).+`), with: "${1}MESSAGE",
		why: "the wording of an error that the broker explains; the kind of error is compared",
	},
	{
		pattern: regexp.MustCompile(`(Error while executing (?:topic|client metrics) command : ).+`), with: "${1}MESSAGE",
		why: "the wording of an error that the broker explains; the kind of error is compared",
	},
	{
		pattern: regexp.MustCompile(`(Unregister broker request for broker ID \d+ failed: |The update failed for all features).+`), with: "${1}MESSAGE",
		why: "the wording of an error that the broker explains; the kind of error is compared",
	},
	{tool: "metadata-quorum", pattern: regexp.MustCompile(`(HighWatermark: |^\d+ ID )\d+`), with: "${1}N", why: "how many records of metadata there were"},
	{tool: "metadata-quorum", pattern: regexp.MustCompile(`\d+ ms ago`), with: "N ms ago", why: "times of the present day"},
	{tool: "producer-perf", pattern: regexp.MustCompile(`\d+\.\d+|\d+ ms`), with: "N", why: "what was measured"},
	{tool: "consumer-perf", pattern: regexp.MustCompile(`-?\d+\.\d{4,}`), with: "N", why: "what was measured"},
	{tool: "consumer-perf", pattern: regexp.MustCompile(`, -?\d+, \d+, N, N$`), with: ", N, N, N, N", why: "what was measured"},
	{tool: "e2e-latency", pattern: regexp.MustCompile(`\d+\.\d+|(Percentiles: ).*`), with: "${1}N", why: "what was measured"},
	{tool: "verifiable-producer", pattern: regexp.MustCompile(`("avg_throughput":)[0-9.]+`), with: "${1}N", why: "what was measured"},
	{tool: "log-dirs", pattern: regexp.MustCompile(`("partition":"__consumer_offsets-\d+","size":)\d+`), with: "${1}N", why: "the sizes of internal topics"},
	{tool: "features", pattern: regexp.MustCompile(`Epoch: \d+`), with: "Epoch: N", why: "how many records of metadata there were"},
	{tool: "dump-log", pattern: regexp.MustCompile(`producerId: \d+`), with: "producerId: N", why: "ids"},
	{tool: "transactions", pattern: regexp.MustCompile(`^\d+ `), with: "N ", why: "ids"},
	{tool: "transactions", pattern: regexp.MustCompile(`^(N \S+ |\S+ 1 )\d+( \d+ (?:Empty|Ongoing|Prepare\w+|Complete\w+) | (?:Empty|Ongoing|Prepare\w+|Complete\w+)$)`), with: "${1}N$2", why: "ids"},
	{tool: "transactions", pattern: regexp.MustCompile(`(600000 NOW) \d+`), with: "$1 N", why: "times of the present day"},
	{tool: "transactions", pattern: regexp.MustCompile(`^(\S+ \d+ )\d+( .* 1600000000000 )\d+$`), with: "${1}N${2}N", why: "ids"},
	{tool: "dump-log", pattern: regexp.MustCompile(`crc: \d+`), with: "crc: N", why: "checksums, which cover the times"},
}

// unordered are lines in which a tool prints a set: its parts come in any order.
var unordered = regexp.MustCompile(`takes one of these options|requires one of the|Valid states are|deleted successfully|^\{"brokers"`)

// mask masks one line; an empty one is left out.
func mask(c *command, line string) string {
	for _, m := range masks {
		if m.tool != "" && m.tool != c.tool() {
			continue
		}
		if m.only == nil {
			line = m.pattern.ReplaceAllString(line, m.with)
			continue
		}
		line = m.pattern.ReplaceAllStringFunc(line, func(found string) string {
			if m.only(found) {
				return m.with
			}
			return found
		})
	}
	if unordered.MatchString(line) {
		parts := strings.FieldsFunc(strings.ReplaceAll(line, "},{", "} {"), func(r rune) bool { return strings.ContainsRune(" []", r) })
		for i, p := range parts {
			parts[i] = strings.Trim(p, ",")
		}
		slices.Sort(parts)
		line = strings.Join(parts, " ")
	}
	return line
}

// isID tells an id of 22 signs, in which small letters and capitals are mixed, from a word.
func isID(s string) bool {
	return len(s) == 22 && !strings.HasSuffix(s, "Exception") && strings.ToLower(s) != s && strings.ToUpper(s) != s
}

// isNow tells a time in milliseconds of this day from one that the transcript gives.
func isNow(s string) bool {
	ms, err := strconv.ParseInt(s, 10, 64)
	return err == nil && time.Since(time.UnixMilli(ms)).Abs() < 24*time.Hour
}

// toolDifference is a difference that stays: such lines of these commands are left out, on both sides.
type toolDifference struct {
	command string // a part of the command
	line    *regexp.Regexp
	why     string
	seen    bool
}

var toolDifferences = []*toolDifference{
	{
		command: "$ broker-api-versions", line: notServed(),
		why: "docs/compatibility.md lists the APIs that are not served yet; Kafka takes clients' metrics (71, 72) only where a plug-in does",
	},
	{
		command: "$ configs --describe --broker 1 --all", line: regexp.MustCompile(`^ (raftsman\.|controller\.quorum\.bootstrap\.servers=)`),
		why: "settings of this broker's own are listed too; a node that is the whole quorum needs not be told where its controller is",
	},
	{
		command: "$ configs --describe --broker-logger 1", line: regexp.MustCompile(`=INFO sensitive=false`),
		why: "Kafka's loggers are its classes; here there is one, root",
	},
	{
		command: "$ features describe", line: featuresNotServed(),
		why: "a feature is listed when all requests that it is about are served",
	},
	{
		command: "--cluster-metadata-decoder", line: regexp.MustCompile(`^(\||baseOffset)`),
		why: "the same commands leave other records of metadata: Kafka writes one that does nothing twice a second, and batches by its own rules. That it reads all of ours is compared",
	},
}

// notServed matches the lines of APIs that are not served yet, by the numbers of their keys, and those of clients' metrics.
func notServed() *regexp.Regexp {
	keys := []string{"71", "72"}
	for _, k := range raw.Keys {
		if k.Comes != "" {
			keys = append(keys, fmt.Sprint(int16(k.Key)))
		}
	}
	return regexp.MustCompile(`\((` + strings.Join(keys, "|") + `)\): `)
}

// featuresNotServed matches the lines of features that are not served yet.
func featuresNotServed() *regexp.Regexp {
	names := slices.DeleteFunc([]string{"share.version", "streams.version", "transaction.version"}, func(name string) bool { return slices.Contains(raw.ServedFeatures, name) })
	return regexp.MustCompile(`^Feature: (` + strings.Join(names, "|") + `) `)
}
