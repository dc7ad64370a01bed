package test

import (
	"bufio"
	"context"
	"encoding/base64"
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

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/raftsman/raftsman/internal/raw"
)

// transcript is the list of commands that Kafka's tools are given, in test/kafka/tools.txt, which explains its form.
type transcript []*command

// command is one line of the transcript.
type command struct {
	line  int
	text  string
	verb  string         // $, sh, file, join, leave, produce, begin, end or hang
	until *regexp.Regexp // what the command must print in the end, or nil: then it is given once
	words []string
	stdin string
	sort  bool   // the lines come in any order
	save  string // the file that keeps what is printed
}

// tool is the name of the tool that the command runs, or empty.
func (c *command) tool() string {
	if c.verb != "$" && c.verb != "sh" {
		return ""
	}
	return c.words[0]
}

func readTranscript(t testing.TB) transcript {
	t.Helper()
	content, err := os.ReadFile("kafka/tools.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all transcript
	n := 0
	for line := range strings.Lines(string(content)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		c, err := parseCommand(line)
		if err != nil {
			t.Fatalf("kafka/tools.txt:%d: %v", n, err)
		}
		c.line = n
		all = append(all, c)
	}
	return all
}

func parseCommand(line string) (*command, error) {
	c := &command{text: line}
	words, err := shellWords(line)
	if err != nil {
		return nil, err
	}
	if words[0] == "until" && len(words) > 2 {
		if c.until, err = regexp.Compile(words[1]); err != nil {
			return nil, err
		}
		words = words[2:]
	}
	c.verb, words = words[0], words[1:]
	if !slices.Contains([]string{"$", "sh", "file", "join", "leave", "produce", "begin", "end", "hang"}, c.verb) || len(words) == 0 {
		return nil, fmt.Errorf("no command: %s", line)
	}
	for i := 0; i < len(words); i++ {
		switch words[i] {
		case "<<<":
			i++
			c.stdin = strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(words[i])
		case ">":
			i++
			c.save = words[i]
		case "|sort":
			c.sort = true
		default:
			c.words = append(c.words, words[i])
		}
	}
	return c, nil
}

// shellWords splits a line at spaces, but not within '…' or "…".
func shellWords(line string) (words []string, err error) {
	var word strings.Builder
	quote, inWord := rune(0), false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, inWord = r, true
		case quote == 0 && r == ' ':
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			inWord = true
			word.WriteRune(r)
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote is not closed: %s", line)
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// side is one of the two brokers, and the JVM that runs the tools against it.
type side struct {
	t       testing.TB
	name    string
	address string
	control string // of its controller
	data    string // its log directory
	work    string // folder of the files that the transcript names
	classes map[string]string

	transcript   strings.Builder        // what was asked and printed
	transactions map[string]*kgo.Client // by transactional id

	in  *bufio.Writer
	out *bufio.Reader
}

// newSide starts a JVM with test/kafka/Tools.java in it.
func newSide(t testing.TB, name, address, control, data string) *side {
	t.Helper()
	s := &side{t: t, name: name, address: address, control: control, data: data, work: t.TempDir(), classes: toolClasses(t)}
	jvm := exec.Command("kafka/kafka", "jvm", "-Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1", "kafka/Tools.java")
	jvm.Stderr = os.Stderr
	in, err := jvm.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := jvm.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := jvm.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		timer := time.AfterFunc(20*time.Second, func() { _ = jvm.Process.Kill() })
		defer timer.Stop()
		_ = jvm.Wait()
	})
	s.in, s.out = bufio.NewWriter(in), bufio.NewReaderSize(out, 1<<20)
	return s
}

// toolClasses are the main classes by the names of the tools, as test/kafka/kafka has them.
func toolClasses(t testing.TB) map[string]string {
	t.Helper()
	script, err := os.ReadFile("kafka/kafka")
	if err != nil {
		t.Fatal(err)
	}
	classes := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^  \[([a-z0-9-]+)\]=(\S+)$`).FindAllStringSubmatch(string(script), -1) {
		classes[m[1]] = m[2]
	}
	return classes
}

// ask gives the JVM a command and returns the exit status and what was printed.
func (s *side) ask(words ...string) (status int, printed string, err error) {
	for i, w := range words {
		if i > 0 {
			_ = s.in.WriteByte(' ')
		}
		_, _ = s.in.WriteString(base64.StdEncoding.EncodeToString([]byte(w)))
	}
	_ = s.in.WriteByte('\n')
	if err := s.in.Flush(); err != nil {
		return 0, "", err
	}
	type answered struct {
		line string
		err  error
	}
	answers := make(chan answered, 1)
	go func() {
		line, err := s.out.ReadString('\n')
		answers <- answered{line, err}
	}()
	var a answered
	select {
	case a = <-answers:
	case <-time.After(atLast):
		return 0, "", fmt.Errorf("no end within %v", atLast)
	}
	if a.err != nil {
		return 0, "", fmt.Errorf("the JVM of the tools ended: %w", a.err)
	}
	code, text, _ := strings.Cut(strings.TrimSpace(a.line), " ")
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return 0, "", err
	}
	status, err = strconv.Atoi(code)
	return status, string(raw), err
}

// addressFirst are the tools that want the address before their subcommand, addressless those that want none.
var (
	addressFirst = []string{"features", "metadata-quorum", "transactions"}
	addressless  = []string{"dump-log"}
)

// arguments are the words of a command with its places filled in, and the broker's address where it is not given.
func (s *side) arguments(c *command) []string {
	words := make([]string, len(c.words))
	fill := strings.NewReplacer("{addr}", s.address, "{controller}", s.control, "{data}", s.data, "{dir}", s.work)
	for i, w := range c.words {
		words[i] = fill.Replace(w)
	}
	name := c.tool()
	if name == "" || slices.Contains(addressless, name) || strings.Contains(c.text, "{addr}") || strings.Contains(c.text, "{controller}") {
		return words
	}
	given := []string{"--bootstrap-server", s.address}
	if slices.Contains(addressFirst, name) {
		return slices.Concat(words[:1], given, words[1:])
	}
	return append(words, given...)
}

// run gives a command, again and again where it says until when, and returns the lines printed, masked.
func (s *side) run(c *command) (lines []string, err error) {
	deadline := time.Now().Add(atLast)
	for {
		status, printed, err := s.once(c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		if c.until == nil || c.until.MatchString(printed) {
			return s.masked(c, status, printed), nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s: not within %v; printed last:\n%s", s.name, atLast, printed)
		}
	}
}

func (s *side) once(c *command) (status int, printed string, err error) {
	words := s.arguments(c)
	switch c.verb {
	case "file":
		return 0, "", os.WriteFile(filepath.Join(s.work, words[0]), []byte(strings.ReplaceAll(c.stdin, "{data}", s.data)), 0o600)
	case "join":
		return s.ask(slices.Concat([]string{"join"}, words, []string{"bootstrap.servers=" + s.address})...)
	case "leave":
		return s.ask("leave", words[0])
	case "produce":
		return s.ask(slices.Concat([]string{"produce", s.address}, words)...)
	case "begin", "end", "hang":
		return 0, "", s.transact(c.verb, words)
	case "sh":
		return s.script(c, words)
	}
	class, ok := s.classes[words[0]]
	if !ok {
		return 0, "", fmt.Errorf("test/kafka/kafka knows no tool %s", words[0])
	}
	status, printed, err = s.ask(slices.Concat([]string{"run", class, c.stdin}, words[1:])...)
	if err == nil && c.save != "" {
		err = os.WriteFile(filepath.Join(s.work, c.save), []byte(printed), 0o600)
	}
	return status, printed, err
}

// transact begins, goes on with or ends a transaction, or leaves one of which the coordinator does not know.
func (s *side) transact(verb string, words []string) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), atLast)
	defer cancel()
	id := words[0]
	cl := s.transactions[id]
	if verb == "end" {
		return cl.EndTransaction(ctx, kgo.TransactionEndTry(words[1] == "commit"))
	}
	partition, err := strconv.ParseInt(words[2], 10, 32)
	if err != nil {
		return err
	}
	if verb == "hang" {
		raw.Dial(s.t, s.address).Hang(id, words[1], int32(partition))
		return nil
	}
	if cl == nil {
		cl = crashClient(s.t, s.address, kgo.TransactionalID(id), kgo.TransactionTimeout(10*time.Minute), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if s.transactions == nil {
			s.transactions = map[string]*kgo.Client{}
		}
		s.transactions[id] = cl
		if err := cl.BeginTransaction(); err != nil {
			return err
		}
	}
	return cl.ProduceSync(ctx, &kgo.Record{Topic: words[1], Partition: int32(partition), Value: []byte(id)}).FirstErr()
}

// script runs a tool in a JVM of its own.
func (s *side) script(c *command, words []string) (status int, printed string, err error) {
	tool := exec.Command("kafka/kafka", append([]string{"tool"}, words...)...)
	tool.Stdin = strings.NewReader(c.stdin)
	timer := time.AfterFunc(atLast, func() { _ = tool.Process.Kill() })
	defer timer.Stop()
	out, err := tool.CombinedOutput()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		return 0, "", err
	}
	return tool.ProcessState.ExitCode(), string(out), nil
}

// masked are the lines that a tool printed, with what must differ between two brokers masked, and last the exit status.
func (s *side) masked(c *command, status int, printed string) (lines []string) {
	_, port, _ := strings.Cut(s.address, ":")
	_, controlPort, _ := strings.Cut(s.control, ":")
	printed = strings.NewReplacer(s.data, "DATA", s.work, "WORK", s.address, "ADDRESS", s.control, "CONTROLLER", "}{", "}\n{", "}ERROR", "}\nERROR").Replace(printed)
	printed = regexp.MustCompile(`\b(`+port+`|`+controlPort+`)\b`).ReplaceAllString(printed, "PORT") // and no part of another number
	for line := range strings.Lines(printed) {
		line = mask(c, strings.TrimRight(line, " \t\r\n"))
		if line != "" {
			lines = append(lines, line)
		}
	}
	if c.sort {
		slices.Sort(lines)
	}
	return append(lines, fmt.Sprintf("[exit %d]", status))
}
