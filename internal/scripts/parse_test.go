package scripts

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestDurationsOfISO8601(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"P7D": 7 * 24 * time.Hour, "PT1H30M": 90 * time.Minute, "P1DT2H3M4.5S": 26*time.Hour + 3*time.Minute + 4500*time.Millisecond, "PT0S": 0, "p1w": 7 * 24 * time.Hour,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%s gave %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "P", "PT", "7D", "P7", "PT1D", "P1Y", "P999999999999D", "P1DT"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q gave %s, want an error", text, got)
		}
	}
}

func TestTimesWithoutAZoneAreUTC(t *testing.T) {
	for text, want := range map[string]string{
		"2026-01-02T03:04:05.678": "2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05.678+02:00": "2026-01-02T01:04:05.678Z",
		"2026-01-02T03:04:05.678-0130": "2026-01-02T04:34:05.678Z", "2026-01-02T03:04:05Z": "2026-01-02T03:04:05Z",
	} {
		got, err := parseDateTime(text)
		if err != nil || got.UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("%s gave %s, %v, want %s", text, got, err, want)
		}
	}
	if got, err := parseDateTime("yesterday"); err == nil {
		t.Errorf("yesterday gave %s", got)
	}
}

func TestNumbersAreWrittenAsJavaDoes(t *testing.T) {
	for n, want := range map[float64]string{
		0: "0.0", 1: "1.0", 0.5: "0.5", 1024: "1024.0", 9999999: "9999999.0", 1e7: "1.0E7", 12345678: "1.2345678E7", 1e-4: "1.0E-4", 1.5e21: "1.5E21", -2: "-2.0",
	} {
		if got := doubleText(n); got != want {
			t.Errorf("%g gave %s, want %s", n, got, want)
		}
	}
}

func TestValuesWithCommasStandInBrackets(t *testing.T) {
	if got, want := splitOutside("a=1,b=[x,y],c=,d=]"), []string{"a=1", "b=[x,y]", "c=", "d=]"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRulesForPartitions(t *testing.T) {
	for rule, want := range map[string][]int32{
		"orders": {0, 1, 2, 3, 4}, "orders:2": {2}, "orders:1-3": {1, 2}, "orders:3-": {3, 4}, "orders:-2": {0, 1}, ":4": {4}, "or.*:0": {0}, "other": nil, "orders:": {0, 1, 2, 3, 4},
	} {
		matches, err := readRule(rule)
		if err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
		var got []int32
		for p := range int32(5) {
			if matches("orders", p) {
				got = append(got, p)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s matches %v, want %v", rule, got, want)
		}
	}
	for _, rule := range []string{"orders:x", "orders:1-x", "(:1"} {
		if _, err := readRule(rule); err == nil {
			t.Errorf("%s is taken", rule)
		}
	}
}

func TestLinesBecomeRecords(t *testing.T) {
	for _, c := range []struct{ properties, line, record, err string }{
		{"", "a\tb", "nil a\tb", ""},
		{"parse.key=true", "a\tb\tc", "a b\tc", ""},
		{"parse.key=true", "ab", "", "No key separator found on line number 7: 'ab'"},
		{"parse.key=true ignore.error=true", "ab", "nil ab", ""},
		{"parse.key=true key.separator=: null.marker=-", "-:-", "nil nil", ""},
		{"parse.headers=true parse.key=true", "h:1,i:2\tk\tv", "k v h=1 i=2", ""},
		{"parse.headers=true headers.delimiter=| headers.separator=; headers.key.separator==", "h=1;i=2|v", "nil v h=1 i=2", ""},
		{"parse.headers=true", "v", "", "No header delimiter found on line number 7: 'v'"},
		{"parse.headers=true", "h\tv", "", "No header key separator found in pair 'h' on line number 7"},
	} {
		properties, err := pairs(strings.Fields(c.properties))
		if err != nil {
			t.Fatal(err)
		}
		r, err := newLineReader(properties)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.read(c.line, 7)
		if c.err != "" {
			if err == nil || err.Error() != javaError+c.err {
				t.Errorf("%s: %q gave %v, want %s", c.properties, c.line, err, c.err)
			}
			continue
		}
		if err != nil || recordText(got) != c.record {
			t.Errorf("%s: %q gave %s, %v, want %s", c.properties, c.line, recordText(got), err, c.record)
		}
	}
	if _, err := newLineReader(map[string]string{"parse.kye": "true"}); err == nil {
		t.Error("a property that does not exist is taken")
	}
}

func recordText(r *kgo.Record) string {
	if r == nil {
		return ""
	}
	parts := []string{nilOr(r.Key), nilOr(r.Value)}
	for _, h := range r.Headers {
		parts = append(parts, h.Key+"="+nilOr(h.Value))
	}
	return strings.Join(parts, " ")
}

func nilOr(b []byte) string {
	if b == nil {
		return "nil"
	}
	return string(b)
}

func TestRecordsAreFormatted(t *testing.T) {
	r := &kgo.Record{Key: []byte("k"), Value: []byte{0, 0, 0, 0, 0, 0, 1, 0}, Partition: 3, Offset: 9, Timestamp: time.UnixMilli(1700000000000)}
	for properties, want := range map[string]string{
		"value.deserializer=org.apache.kafka.common.serialization.LongDeserializer":   "256\n",
		"print.value=false print.key=true print.headers=true print.offset=true":       "Offset:9\tNO_HEADERS\tk\n",
		"print.value=false print.timestamp=true print.partition=TRUE key.separator=;": "CreateTime:1700000000000;Partition:3\n",
		"print.value=false print.key=true line.separator=|":                           "k|",
	} {
		given, err := pairs(strings.Fields(properties))
		if err != nil {
			t.Fatal(err)
		}
		f, err := newFormatter(given)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := f.format(r); err != nil || got != want {
			t.Errorf("%s gave %q, %v, want %q", properties, got, err, want)
		}
	}
	for _, properties := range []map[string]string{{"print.kye": "true"}, {"value.deserializer": "org.example.Mine"}} {
		if _, err := newFormatter(properties); err == nil {
			t.Errorf("%v is taken", properties)
		}
	}
	f, err := newFormatter(map[string]string{"value.deserializer": "IntegerDeserializer"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.format(r); err == nil {
		t.Errorf("eight bytes pass for an integer: %q", got)
	}
}

// TestWhatIsNotServedIsRefusedByName, without a connection, and with raftsman's own command.
func TestWhatIsNotServedIsRefusedByName(t *testing.T) {
	for line, want := range map[string]string{
		"kafka-topics.sh --bootstrap-server x:1 --describe --topic-id a": "--topic-id is not served by this script: use `raftsman topic describe`",
		"kafka-topics.sh --bootstrap-controller x:1 --list":              "--bootstrap-controller is not served by this script: use --bootstrap-server with the address of a broker",
		"kafka-topics.sh --bootstrap-server x:1 --list --partitions":     "Option partitions requires an argument",
		"kafka-topics.sh list":       "list is not a recognized argument",
		"kafka-topics.sh --list=yes": "Option list takes no value",
		"kafka-console-consumer.sh --topic a --formatter org.example.Mine":                        "--formatter org.example.Mine is a class of Java",
		"kafka-console-consumer.sh --topic a --partition 0 --offset middle":                       "The provided offset value 'middle' is incorrect",
		"kafka-console-producer.sh --topic a --compression-codec brotli":                          "compression codec brotli is unknown",
		"kafka-console-producer.sh --topic a --command-property security.protocol=SSL":            "security.protocol: SSL is not supported yet",
		"kafka-features.sh upgrade --feature group.version=1":                                     "upgrade is not served by this script, only describe is",
		"kafka-metadata-quorum.sh add-controller":                                                 "add-controller is not served by this script: use `raftsman cluster add-voter`",
		"kafka-transactions.sh --bootstrap-server x:1":                                            "too few arguments",
		"kafka-transactions.sh --bootstrap-server x:1 describe":                                   "argument --transactional-id is required",
		"kafka-transactions.sh --bootstrap-server x:1 list --topic a":                             "unrecognized arguments: '--topic'",
		"kafka-transactions.sh --bootstrap-server x:1 list --duration-filter soon":                "Cannot parse argument 'soon' of option duration-filter",
		"kafka-transactions.sh --bootstrap-server x:1 abort --topic a --partition 0":              "must be identified either with --start-offset",
		"kafka-metadata-quorum.sh describe --status --replication":                                "Only one of --status or --replication should be specified",
		"kafka-metadata-quorum.sh remove-controller -i 1":                                         "argument --controller-directory-id is required",
		"kafka-metadata-quorum.sh remove-controller -i x -d xxxxxxxxxxxxxxxxxxxxxQ":               "could not convert 'x' to Integer",
		"kafka-metadata-quorum.sh describe":                                                       "One of --status or --replication must be specified",
		"kafka-storage.sh format -t x":                                                            "argument --config/-c is required",
		"kafka-storage.sh format -t x -c f --feature group.version=0":                             "--feature is not served by this script: use `raftsman serve`",
		"kafka-storage.sh format -q x":                                                            "-q is not a recognized argument",
		"kafka-storage.sh info -c f":                                                              "info is not served by this script",
		"kafka-cluster.sh unregister":                                                             "argument --id/-i is required",
		"kafka-cluster.sh unregister --id three":                                                  "could not convert 'three' to Integer",
		"kafka-leader-election.sh --topic a":                                                      `Missing required argument "[election-type]"`,
		"kafka-configs.sh --describe --entity-type broker-loggers --entity-name 1":                "--entity-type broker-loggers is not served by this script: use `raftsman serve --log-level`",
		"kafka-consumer-groups.sh --reset-offsets --group a --topic b --by-duration 1h --dry-run": `"1h" is no duration`,
	} {
		var out, told bytes.Buffer
		words := strings.Fields(line)
		code := Run(t.Context(), words[0], words[1:], Env{In: strings.NewReader(""), Out: &out, Err: &told, Now: time.Now, Dial: func(...kgo.Opt) (*kgo.Client, error) {
			t.Errorf("`%s` went as far as connecting", line)
			return nil, errors.New("no network in this test")
		}})
		if code != 1 || !strings.Contains(told.String(), want) {
			t.Errorf("`%s` ends with %d and says %q, want 1 and %q", line, code, told.String(), want)
		}
	}
}

func TestNamesOfScripts(t *testing.T) {
	for path, want := range map[string]string{
		"kafka-topics.sh": "kafka-topics", "/opt/kafka/bin/kafka-topics": "kafka-topics", "kafka-configs.bat": "kafka-configs", "raftsman": "", "kafka-acls.sh": "",
	} {
		if got := Name(path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
}
