package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// library is one of the clients under test: how its program is run, and what it cannot do.
type library struct {
	name         string
	command      []string
	codecs       []string
	noReports    bool     // the program does not print where a produced record went
	tellsNothing bool     // nor which partitions it owns
	unable       []string // odd records that it cannot write or read, whatever the broker
}

var everyCodec = []string{"none", "gzip", "snappy", "lz4", "zstd"}

func libraries(t testing.TB) []library {
	t.Helper()
	deps, err := filepath.Abs(".deps")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(deps, "golang")); err != nil {
		t.Fatalf("the clients are not installed: run `make clients` (%v)", err)
	}
	python := func(script string) []string { return []string{deps + "/python/bin/python", "clients/python/" + script} }
	golang := func(name string) []string { return []string{deps + "/golang", name} }
	return []library{
		{name: "kafkajs", command: []string{"node", "clients/kafkajs/client.js"}, codecs: everyCodec, unable: []string{"null header"}},
		{name: "platformatic", command: []string{"node", "clients/platformatic/client.mjs"}, codecs: everyCodec[:4]}, // zstd asks for Node.js 22
		{name: "java", command: []string{"java", "-XX:TieredStopAtLevel=1", "-cp", deps + "/java/*", "Client"}, codecs: everyCodec},
		{name: "confluent-kafka", command: python("confluent.py"), codecs: everyCodec},
		{name: "kafka-python", command: python("kafkapython.py"), codecs: everyCodec, unable: []string{"both null", "null header"}},
		{name: "aiokafka", command: python("aio.py"), codecs: everyCodec, unable: []string{"both null"}},
		{name: "franz-go", command: golang("franz"), codecs: everyCodec},
		{name: "sarama", command: golang("sarama"), codecs: everyCodec},
		{name: "kafka-go", command: golang("kafkago"), codecs: everyCodec, unable: []string{"empty", "empty header"}, tellsNothing: true},
		{name: "kcat", command: []string{"clients/kcat.sh"}, codecs: everyCodec, noReports: true, tellsNothing: true, unable: []string{"both null", "empty", "binary", "null header"}},
	}
}

// report is a line that a client program prints.
type report struct {
	Key       *string `json:"key"`
	Value     *string `json:"value"`
	Partition int     `json:"partition"`
	Offset    int64   `json:"offset"`
	Assigned  []int   `json:"assigned"`
}

// with is the library with another environment.
func (l library) with(env ...string) library {
	l.command = slices.Concat([]string{"env"}, env, l.command)
	return l
}

func (l library) run(t testing.TB, bootstrap string, args ...string) []report {
	t.Helper()
	return reports(t, l.output(t, bootstrap, args...))
}

func (l library) output(t testing.TB, bootstrap string, args ...string) string {
	t.Helper()
	command := append(slices.Clone(l.command), args...)
	return run(t, atLast, []string{"BOOTSTRAP=" + bootstrap}, command[0], command[1:]...)
}

// reports parses the record lines and drops those of assignments.
func reports(t testing.TB, output string) []report {
	t.Helper()
	var all []report
	lines(strings.NewReader(output), func(text string) {
		var r report
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatalf("client printed %q: %v", text, err)
		}
		if r.Assigned == nil {
			all = append(all, r)
		}
	})
	return all
}

// TestClients has every client create a topic, produce with keys and without, read it all in a group, go on where the group
// stopped, and read it again in another group; and write and read records that try the format: see odd.
func TestClients(t *testing.T) {
	t.Parallel()
	broker := target(t)
	for _, lib := range libraries(t) {
		t.Run(lib.name, func(t *testing.T) {
			t.Parallel()
			topic := fmt.Sprintf("client-%s-%d", lib.name, os.Getpid())
			lib.run(t, broker, "create", topic, "3")
			const keyed, keys, bare, more = 60, 7, 5, 10
			sent := lib.run(t, broker, "produce", topic, "none", "0", fmt.Sprint(keyed), fmt.Sprint(keys))
			placed := map[string]int{}
			for _, r := range sent {
				placed[*r.Key] = r.Partition
			}
			if len(sent) != keyed && !lib.noReports {
				t.Fatalf("%d records acknowledged, want %d", len(sent), keyed)
			}
			lib.run(t, broker, "produce", topic, "none", fmt.Sprint(keyed), fmt.Sprint(bare), "0")
			got := lib.run(t, broker, "consume", topic+"-group", topic, fmt.Sprint(keyed+bare))
			checkAll(t, got, 0, keyed+bare, keys, keyed)
			checkPlaces(t, got, placed)

			lib.run(t, broker, "produce", topic, "gzip", fmt.Sprint(keyed+bare), fmt.Sprint(more), fmt.Sprint(keys))
			resumed := lib.run(t, broker, "consume", topic+"-group", topic, fmt.Sprint(more))
			checkAll(t, resumed, keyed+bare, more, keys, keyed+bare+more)
			replay := lib.run(t, broker, "consume", topic+"-again", topic, fmt.Sprint(keyed+bare+more))
			if len(replay) != keyed+bare+more {
				t.Errorf("a second group replayed %d records, want %d", len(replay), keyed+bare+more)
			}
			lib.checkOdd(t, broker)
		})
	}
}

// checkPlaces checks that every key was read from the partition that its producer was told, and that Java's client takes.
func checkPlaces(t testing.TB, got []report, placed map[string]int) {
	t.Helper()
	wrong := map[string]bool{}
	for _, r := range got {
		if r.Key == nil || *r.Key == "" || wrong[*r.Key] {
			continue
		}
		if want, known := placed[*r.Key]; known && want != r.Partition {
			t.Errorf("key %s was acknowledged in partition %d and read from %d", *r.Key, want, r.Partition)
			wrong[*r.Key] = true
		}
		if want := javaPartition(*r.Key, 3); want != r.Partition {
			t.Errorf("key %s is in partition %d, Java's client places it in %d", *r.Key, r.Partition, want)
			wrong[*r.Key] = true
		}
	}
}

// target is the broker that the client tests talk to: a Raftsman of their own, or what RAFTSMAN_TEST_BOOTSTRAP names, to try
// the tests themselves against Apache Kafka.
func target(t testing.TB) string {
	t.Helper()
	if other := os.Getenv("RAFTSMAN_TEST_BOOTSTRAP"); other != "" {
		return other
	}
	return startBroker(t, t.TempDir(), "--override", "num.partitions=3").addr
}

// checkAll checks that the reports hold value-first … value-(first+count-1) once each, offsets rise in each partition, and the
// values of each key rise: order per key.
func checkAll(t testing.TB, got []report, first, count, keys, keyedEnd int) {
	t.Helper()
	if len(got) != count {
		t.Fatalf("read %d records, want %d", len(got), count)
	}
	seen := map[int]bool{}
	lastOffset, lastOfKey := map[int]int64{}, map[string]int{}
	for _, r := range got {
		var n int
		if _, err := fmt.Sscanf(*r.Value, "value-%d", &n); err != nil || n < first || n >= first+count || seen[n] {
			t.Fatalf("read %q: twice, or never sent", *r.Value)
		}
		seen[n] = true
		if previous, ok := lastOffset[r.Partition]; ok && r.Offset <= previous {
			t.Errorf("partition %d: offset %d after %d", r.Partition, r.Offset, previous)
		}
		lastOffset[r.Partition] = r.Offset
		if n >= keyedEnd {
			continue
		}
		if want := fmt.Sprintf("key-%d", n%keys); r.Key == nil || *r.Key != want {
			t.Errorf("value-%d has another key than %s", n, want)
			continue
		}
		if previous, ok := lastOfKey[*r.Key]; ok && n < previous {
			t.Errorf("key %s: value-%d after value-%d", *r.Key, n, previous)
		}
		lastOfKey[*r.Key] = n
	}
}

// javaPartition is where Java's client places a key: murmur2 of the bytes, positive, modulo the partitions.
func javaPartition(key string, partitions int) int {
	const mix = 0x5bd1e995
	data, h := []byte(key), uint32(0x9747b28c)^uint32(len(key))
	for ; len(data) >= 4; data = data[4:] {
		k := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16 | uint32(data[3])<<24
		k *= mix
		k ^= k >> 24
		h = h*mix ^ k*mix
	}
	for i := len(data) - 1; i >= 0; i-- {
		h ^= uint32(data[i]) << (8 * i)
	}
	if len(data) > 0 {
		h *= mix
	}
	h ^= h >> 13
	h *= mix
	return int((h^h>>15)&0x7fffffff) % partitions
}
