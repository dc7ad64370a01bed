package scripts

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/raw"
)

// record asks a real Kafka and its own scripts afresh, which takes some minutes: go test ./internal/scripts -record -timeout 30m
var record = flag.Bool("record", false, "write testdata from what Kafka's own scripts say to a Kafka")

// waits is how long a test waits for what must come: far more than a busy machine needs.
const waits = time.Minute

// TestScriptsSayWhatKafkasDo plays testdata, which holds command lines and what Kafka's scripts, from its jars, printed to a fresh
// Kafka, against a broker of ours with our scripts. In a transcript "$ " begins a command line, "< " its standard input, "! " a line
// on standard error, "exit N" an exit code other than 0, and "# " a comment.
//
// Before a command whose lines come in the order of a hash there is "# In any order.": they are sorted. Before one that hands on what
// the broker said there is "# In the broker's words.": these are our own, and left out.
//
// Besides scripts there are commands of the test:
//
//	file NAME                       writes the input to a file, FILES/NAME
//	produce TOPIC P V...            writes records with the times of 2026-01-01T00:00:00Z and one, two, ... seconds later
//	join PROTOCOL GROUP TOPIC [ID]  has a member, a static one if it has an id, of a protocol (classic, consumer) read the topic until
//	                                `leave`, with which all leave
//	transaction ID TOPIC P V...     writes records in the transaction of a transactional id, and leaves it open
//	commit ID                       ends it
//	hang ID TOPIC P                 leaves a transaction open in a partition that its coordinator does not know to be part of it
func TestScriptsSayWhatKafkasDo(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p := &player{t: t, files: t.TempDir()}
			p.run = p.ours
			if *record {
				p.broker, p.run = startKafka(t), p.kafkas
				if err := os.WriteFile(file, []byte(p.play(string(text))), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Parallel()
			p.broker = brokertest.Start(t).Addr()
			compare(t, file, string(text), p.play(string(text)))
		})
	}
}

// player runs the commands of one transcript.
type player struct {
	t       *testing.T
	broker  string
	files   string
	run     func(stdin string, words []string) (stdout, stderr string, code int)
	members []*kgo.Client

	transactions map[string]*kgo.Client // by transactional id
}

// play runs the commands of a transcript and returns it with what they print now.
func (p *player) play(transcript string) string {
	p.t.Helper()
	defer p.leave()
	var now strings.Builder
	anyOrder, ofBroker := false, false // about the lines that the next command prints
	lines := strings.Split(strings.TrimRight(transcript, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		switch line := lines[i]; {
		case strings.HasPrefix(line, "# "):
			now.WriteString(line + "\n")
			anyOrder, ofBroker = anyOrder || line == "# In any order.", ofBroker || line == "# In the broker's words."
		case strings.HasPrefix(line, "$ "):
			fmt.Fprintln(&now, line)
			var input strings.Builder
			for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "<") {
				i++
				fmt.Fprintln(&now, lines[i])
				input.WriteString(strings.TrimPrefix(strings.TrimPrefix(lines[i], "<"), " ") + "\n")
			}
			printed := p.command(strings.Fields(strings.TrimPrefix(line, "$ ")), input.String())
			if anyOrder {
				printed = strings.Join(slices.Sorted(strings.Lines(printed)), "")
			}
			if ofBroker {
				printed = brokersWords.ReplaceAllString(printed, "$1…")
			}
			anyOrder, ofBroker = false, false
			now.WriteString(printed + "\n")
		}
	}
	return strings.TrimRight(now.String(), "\n") + "\n"
}

func (p *player) command(words []string, stdin string) string {
	p.t.Helper()
	switch words[0] {
	case "file":
		if err := os.WriteFile(filepath.Join(p.files, words[1]), []byte(stdin), 0o644); err != nil {
			p.t.Fatal(err)
		}
		return ""
	case "produce":
		p.produce(words[1], words[2], words[3:])
		return ""
	case "join":
		p.join(words[1:])
		return ""
	case "leave":
		p.leave()
		return ""
	case "transaction":
		p.transact(words[1], words[2], words[3], words[4:])
		return ""
	case "commit":
		if err := p.transactions[words[1]].EndTransaction(p.t.Context(), kgo.TryCommit); err != nil {
			p.t.Fatal(err)
		}
		return ""
	case "hang":
		raw.Dial(p.t, p.broker).Hang(words[1], words[2], partitionOf(p.t, words[3]))
		return ""
	}
	for i := range words {
		words[i] = strings.NewReplacer("BROKER", p.broker, "FILES", p.files).Replace(words[i])
	}
	stdout, stderr, code := p.run(stdin, words)
	var b strings.Builder
	b.WriteString(p.mask(stdout))
	for line := range strings.Lines(p.mask(besideResult(stderr, stdout))) {
		b.WriteString("! " + line)
	}
	if code != 0 {
		fmt.Fprintf(&b, "exit %d\n", code)
	}
	return b.String()
}

// Scripts of Java tell the places of an exception, wrap one in another, and log it.
var (
	javaPlace     = regexp.MustCompile(`^(\t+at |\t+\.\.\. |\t*Suppressed: |Caused by: |ERROR |[a-z]\w*(\.\w+)+Exception$)`)
	javaWrap      = regexp.MustCompile(`^java\.util\.concurrent\.ExecutionException: `)
	javaException = regexp.MustCompile(`^[a-z]\w*(?:\.\w+)+(?:Exception|Error): (.+)`)
)

// besideResult takes away what is no part of the comparison: the table of options that is shown to those who gave wrong ones, the
// places of exceptions, and exceptions that say nothing, or again what was said, blank lines, and warnings and hints, which we have words of
// our own for. What is told beside a result is compared.
func besideResult(stderr, stdout string) string {
	var b strings.Builder
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "Option  ") || strings.HasPrefix(line, "usage: ") {
			break
		}
		if strings.TrimSpace(line) != "" && !javaPlace.MatchString(strings.TrimSuffix(line, "\n")) && !strings.HasPrefix(line, "WARN: ") && !strings.Contains(line, "(KIP-848) is production-ready") {
			line = javaWrap.ReplaceAllString(line, "")
			if again := javaException.FindStringSubmatch(line); again == nil || !strings.Contains(stdout+b.String(), again[1]) {
				b.WriteString(line)
			}
		}
	}
	return b.String()
}

// brokersWords are what a script hands on.
var brokersWords = regexp.MustCompile(`(?m)^(Error while executing topic command : |Error completing leader election .*Exception: |! Failed to [^:\n]*: |! org\.apache\.kafka\.common\.errors\.\w+: ).*`)

// masks take away what differs from run to run and from cluster to cluster.
var masks = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "UUID"},
	{regexp.MustCompile(`member-[A-Za-z0-9_-]{22}\b`), "member-ID"},
	{regexp.MustCompile(`(^|[\s:])[A-Za-z0-9_-]{22}(?:==)?($|[\s:.])`), "${1}ID${2}"},
	{regexp.MustCompile(`127\.0\.0\.1(:| +)\d{4,5}\b`), "ADDRESS"},
	{regexp.MustCompile(`CreateTime:\d{13}`), "CreateTime:MS"},
	{regexp.MustCompile(`(__consumer_offsets:\d+:)\d+`), "${1}N"},
	{regexp.MustCompile(`"logDir":"[^"]*"`), `"logDir":"DIR"`},
	{regexp.MustCompile(`(?m)^\t[A-Za-z]+\(\d+\): .*\n`), ""},                                  // what is served differs
	{regexp.MustCompile(`(?m)^Feature: (eligible|kraft|share|streams|transaction)\..*\n`), ""}, // and so do features
	{regexp.MustCompile(`(Epoch: |HighWatermark: +|LeaderEpoch: +|MaxFollowerLagTimeMs: +)\d+`), "${1}N"},
	{regexp.MustCompile(`\t\d+ *\t0 *\t\d{13} *\t\d{13} *\tLeader`), "\tN\t0\tMS\tMS\tLeader"},
	{regexp.MustCompile(`\t\d+ *\t0 *\t\d+ ms ago *\t\d+ ms ago *\tLeader`), "\tN\t0\tN ms ago\tN ms ago\tLeader"},
	{regexp.MustCompile(`"directoryId": "[^"]*"`), `"directoryId": "ID"`},
	{regexp.MustCompile(`\b1[7-9]\d{11}\b`), "MS"},
	{regexp.MustCompile(`(\t600000 *\tMS *\t)\d+`), "${1}MS"},                     // of an open transaction, since when, and how long
	{regexp.MustCompile(`(\t1600000000000\t)\d+`), "${1}MIN"},                     // how long one hangs
	{regexp.MustCompile(`,min\.insync\.replicas=1|min\.insync\.replicas=1,`), ""}, // which stands where the broker's hash has it
	{regexp.MustCompile(` {2,}`), " "},
	{regexp.MustCompile(`(?m)[ \t]+$`), ""},
}

// hashed is what a script lists in the order of a hash within a line.
var hashed = regexp.MustCompile(`(?m)(?:takes one of these options: |one of the following scenarios: \[|Valid states are: )([\w-]+(?:, [\w-]+)*|\[[\w-]+\](?:, \[[\w-]+\])*)`)

func (p *player) mask(text string) string {
	text = strings.ReplaceAll(text, p.files, "FILES")
	for _, found := range hashed.FindAllStringSubmatch(text, -1) {
		list := strings.Split(found[1], ", ")
		slices.Sort(list)
		text = strings.ReplaceAll(text, found[1], strings.Join(list, ", "))
	}
	for _, m := range masks {
		text = m.pattern.ReplaceAllString(text, m.with)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}

// ours runs one of our scripts.
func (p *player) ours(stdin string, words []string) (string, string, int) {
	ctx, cancel := context.WithTimeout(p.t.Context(), waits)
	defer cancel()
	var stdout, stderr bytes.Buffer
	code := Run(ctx, words[0], words[1:], Env{
		In: strings.NewReader(stdin), Out: &stdout, Err: &stderr, Now: time.Now, Dial: kgo.NewClient,
	})
	return stdout.String(), stderr.String(), code
}

const kafkaScript = "../../test/kafka/kafka"

// kafkas runs one of Kafka's own.
func (p *player) kafkas(stdin string, words []string) (string, string, int) {
	tool := strings.TrimSuffix(strings.TrimPrefix(words[0], "kafka-"), ".sh")
	command := exec.Command(kafkaScript, append([]string{"tool", tool}, words[1:]...)...)
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return stdout.String(), stderr.String(), command.ProcessState.ExitCode()
}

func startKafka(t *testing.T) string {
	t.Helper()
	port := raw.FreePort(t)
	dir := t.TempDir()
	if out, err := exec.Command(kafkaScript, "start", dir, strconv.Itoa(port)).CombinedOutput(); err != nil {
		t.Fatalf("start Kafka: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command(kafkaScript, "stop", dir).CombinedOutput(); err != nil {
			t.Errorf("stop Kafka: %v\n%s", err, out)
		}
	})
	return fmt.Sprintf("127.0.0.1:%d", port)
}

func (p *player) client(opts ...kgo.Opt) *kgo.Client {
	p.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(p.broker), kgo.ClientID("member")}, opts...)...)
	if err != nil {
		p.t.Fatal(err)
	}
	return cl
}

func (p *player) produce(topic, partition string, values []string) {
	p.t.Helper()
	cl := p.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(1))
	defer cl.Close()
	p.send(cl, topic, partitionOf(p.t, partition), values)
}

func partitionOf(t *testing.T, text string) int32 {
	t.Helper()
	number, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int32(number)
}

// transact writes records in the open transaction of an id, or begins one.
func (p *player) transact(id, topic, partition string, values []string) {
	p.t.Helper()
	cl := p.transactions[id]
	if cl == nil {
		cl = p.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(id), kgo.TransactionTimeout(10*time.Minute))
		p.t.Cleanup(cl.Close)
		if p.transactions == nil {
			p.transactions = map[string]*kgo.Client{}
		}
		p.transactions[id] = cl
		if err := cl.BeginTransaction(); err != nil {
			p.t.Fatal(err)
		}
	}
	p.send(cl, topic, partitionOf(p.t, partition), values)
}

func (p *player) send(cl *kgo.Client, topic string, partition int32, values []string) {
	p.t.Helper()
	for i, value := range values {
		at := time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC)
		r := &kgo.Record{Topic: topic, Partition: partition, Timestamp: at, Value: []byte(value)}
		if err := cl.ProduceSync(p.t.Context(), r).FirstErr(); err != nil {
			p.t.Fatal(err)
		}
	}
}

// join takes PROTOCOL, GROUP, TOPIC and perhaps the ID of a static member.
func (p *player) join(words []string) {
	p.t.Helper()
	protocol, group := words[0], words[1]
	ctx := p.t.Context()
	opts := []kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(words[2]), kgo.Balancers(kgo.RangeBalancer()), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	if protocol == "consumer" {
		ctx = context.WithValue(ctx, "opt_in_kafka_next_gen_balancer_beta", true) //nolint:staticcheck // the client's own name for it
	}
	if len(words) > 3 {
		opts = append(opts, kgo.InstanceID(words[3]))
	}
	member := p.client(append(opts, kgo.WithContext(ctx))...)
	p.members = append(p.members, member)
	polling, stop := context.WithTimeout(p.t.Context(), waits)
	defer stop()
	if fetches := member.PollFetches(polling); fetches.Err() != nil {
		p.t.Fatal(fetches.Err())
	}
	adm := kadm.NewClient(member)
	for {
		listed, err := adm.ListGroups(polling)
		if err != nil {
			p.t.Fatal(err)
		}
		if g := listed[group]; g.State == "Stable" && g.GroupType == protocol {
			return
		}
	}
}

func (p *player) leave() {
	for _, member := range p.members {
		member.Close()
	}
	p.members = nil
}

// compare tells which commands print something else than what was recorded.
func compare(t *testing.T, file, want, got string) {
	t.Helper()
	wants, gots := strings.Split(want, "\n$ "), strings.Split(got, "\n$ ")
	if len(wants) != len(gots) {
		t.Fatalf("%s: %d commands were played, of %d", file, len(gots), len(wants))
	}
	for i := range wants {
		if strings.TrimSpace(wants[i]) != strings.TrimSpace(gots[i]) {
			t.Errorf("%s:\nKafka's: %s\nours:    %s", file, wants[i], gots[i])
		}
	}
}
