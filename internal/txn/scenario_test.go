package txn

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/transcript"
)

// TestScenarios runs testdata/*.txt, see [transcript.Run].
//
// Every request has a name, by which its reply is found. A producer reads id/epoch. A command is
//
//	config key=value ...                         timeout-max, expiration, two-phase
//	level N                                      the finalised transaction.version, 2 at first
//	init NAME [timeout=] [expected=P/E] [two-phase] [keep]
//	add NAME as=P/E [v=0|2] t-0 u-1 ... | verify NAME as=P/E t-0 ...
//	commit NAME as=P/E [v=0|2] | abort NAME as=P/E [v=0|2]
//	describe NAME | list
//	marked N [t-0 ...]                           of the Marker with that number; without partitions: all that it names
//	hold | settle [CODE]                         what is appended next stays open until settle
//	refuse CODE                                  what is appended next is refused
//	record STATE P/E [prev=] [next=] [timeout=] [v=] [protocol=] t-0 ...      it is on the log
//	tick 3s | timeouts | expire
//	reload                                       another machine reads the log
//
// and all take id=; without it the transactional id is x.
func TestScenarios(t *testing.T) { transcript.Run(t, beginScenario) }

func runScenario(t *testing.T, file string) { transcript.File(t, file, beginScenario) }

func beginScenario(t *testing.T) (command func(string), outcome func() string) {
	s := newScenario(t)
	return s.run, s.outcome
}

// outcome returns what has come of the commands since it was asked before.
func (s *scenario) outcome() string {
	defer s.out.Reset()
	return s.out.String()
}

type scenario struct {
	t       *testing.T
	cfg     Config
	machine *Machine
	level   int16
	now     time.Time
	fresh   kafka.ProducerID
	names   map[Ticket]string
	log     []*Record
	marks   map[uint64]Marker
	refuse  kafka.Error
	hold    bool
	held    []Effects
	out     strings.Builder
}

// scenarioStart is not zero, so that a time that nobody has set is seen.
var scenarioStart = time.UnixMilli(1_000_000)

func testConfig() Config {
	return Config{TimeoutMax: 15 * time.Minute, IDExpiration: 7 * 24 * time.Hour}
}

func newScenario(t *testing.T) *scenario {
	s := &scenario{t: t, cfg: testConfig(), level: 2, now: scenarioStart, fresh: 1000, names: map[Ticket]string{}, marks: map[uint64]Marker{}}
	s.machine = New(s.cfg, 7)
	return s
}

func (s *scenario) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// line is one command, taken apart.
type line struct {
	verb, name string
	options    map[string]string
	rest       []string
}

var option = regexp.MustCompile(`^([a-z-]+)=(.*)$`)

func parse(text string) line {
	fields := strings.Fields(text)
	l := line{verb: fields[0], options: map[string]string{}}
	for _, f := range fields[1:] {
		if m := option.FindStringSubmatch(f); m != nil {
			l.options[m[1]] = m[2]
		} else if l.name == "" {
			l.name = f
		} else {
			l.rest = append(l.rest, f)
		}
	}
	return l
}

func (l line) option(name, otherwise string) string {
	if v, ok := l.options[name]; ok {
		return v
	}
	return otherwise
}

// flag takes a word out of what is left.
func (l *line) flag(word string) bool {
	for i, f := range l.rest {
		if f == word {
			l.rest = append(l.rest[:i:i], l.rest[i+1:]...)
			return true
		}
	}
	return false
}

func (s *scenario) number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *scenario) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *scenario) producer(text string) ID {
	id, epoch, ok := strings.Cut(text, "/")
	if !ok {
		return NoID
	}
	return ID{Producer: kafka.ProducerID(s.number(id)), Epoch: kafka.ProducerEpoch(s.number(epoch))}
}

func (s *scenario) partitions(fields []string) []kafka.TopicPartition {
	var list []kafka.TopicPartition
	for _, f := range fields {
		topic, p, _ := strings.Cut(f, "-")
		list = append(list, kafka.TopicPartition{Topic: topic, Partition: int32(s.number(p))})
	}
	return list
}

func (s *scenario) run(text string) {
	l := parse(text)
	switch l.verb {
	case "config":
		s.cfg.TimeoutMax = s.duration(l.option("timeout-max", s.cfg.TimeoutMax.String()))
		s.cfg.IDExpiration = s.duration(l.option("expiration", s.cfg.IDExpiration.String()))
		s.cfg.TwoPhaseCommit = l.option("two-phase", "false") == "true"
		s.machine.cfg = s.cfg
	case "level":
		s.level = int16(s.number(l.name))
	case "list":
		for _, e := range s.machine.List() {
			s.printf("listed %s: %v %d since %s updated %s", e.TransactionalID, e.State, e.Producer, clock(e.StartMs), clock(e.UpdatedMs))
		}
	case "marked":
		s.marked(l)
	case "hold":
		s.hold = true
	case "settle":
		s.settle(kafka.Error(s.number("0" + l.name)))
	case "refuse":
		s.refuse = kafka.Error(s.number(l.name))
	case "record":
		s.append(s.record(l))
	case "tick":
		s.now = s.now.Add(s.duration(l.name))
	case "timeouts":
		s.machine.SetProtocol(s.level)
		s.repeat(s.machine.AbortTimedOut)
	case "expire":
		s.repeat(s.machine.Expire)
	case "reload":
		s.held, s.hold = nil, false
		s.machine = New(s.cfg, 8)
		for _, r := range s.log {
			s.machine.Apply(r)
		}
		s.machine.SetProtocol(s.level)
		s.do(s.machine.Loaded(s.now))
	default:
		ticket := Ticket(len(s.names) + 1)
		s.names[ticket] = l.name
		s.handle(ticket, l.option("id", "x"), s.command(l))
	}
}

func (s *scenario) repeat(call func(time.Time) (Effects, bool)) {
	for range 100 {
		e, more := call(s.now)
		if !more {
			return
		}
		s.do(e)
	}
	s.t.Fatal("it never ends")
}

func (s *scenario) handle(ticket Ticket, id string, cmd Command) {
	s.machine.SetProtocol(s.level)
	e := s.machine.Handle(s.now, ticket, id, cmd)
	if !e.NeedsID {
		s.do(e)
		return
	}
	switch cmd := cmd.(type) {
	case *InitProducer:
		cmd.Fresh = s.fresh
	case *End:
		cmd.Fresh = s.fresh
	}
	s.fresh++
	s.do(s.machine.Handle(s.now, ticket, id, cmd))
}

func (s *scenario) command(l line) Command {
	as := s.producer(l.option("as", ""))
	protocol := int16(s.number(l.option("v", "2")))
	switch l.verb {
	case "init":
		return &InitProducer{
			TimeoutMs: int32(s.duration(l.option("timeout", "60s")) / time.Millisecond), Expected: s.producer(l.option("expected", "")),
			TwoPhaseCommit: l.flag("two-phase"), KeepPrepared: l.flag("keep"), Fresh: kafka.NoProducer,
		}
	case "add", "verify":
		return &AddPartitions{ID: as, Protocol: protocol, Partitions: s.partitions(l.rest), VerifyOnly: l.verb == "verify"}
	case "commit", "abort":
		return &End{ID: as, Protocol: protocol, Commit: l.verb == "commit", Fresh: kafka.NoProducer}
	case "describe":
		return &Describe{}
	}
	s.t.Fatalf("unknown command %q", l.verb)
	return nil
}

func (s *scenario) marked(l line) {
	n := uint64(s.number(l.name))
	m, done := s.marks[n], s.partitions(l.rest)
	if len(l.rest) == 0 {
		done = m.Partitions
	}
	s.machine.SetProtocol(s.level)
	s.do(s.machine.Marked(s.now, m.TransactionalID, n, done))
}

func (s *scenario) record(l line) *Record {
	id := s.producer(l.rest[0])
	v := &Value{
		ID: id, Previous: kafka.ProducerID(s.number(l.option("prev", fmt.Sprint(int64(id.Producer))))), Next: kafka.ProducerID(s.number(l.option("next", "-1"))),
		TimeoutMs: int32(s.duration(l.option("timeout", "60s")) / time.Millisecond), Partitions: s.partitions(l.rest[1:]),
		UpdatedMs: s.now.UnixMilli(), StartMs: s.now.UnixMilli(), Protocol: int16(s.number(l.option("protocol", "2"))), Version: 1,
	}
	for v.State.String() != l.name {
		v.State++
	}
	return &Record{TransactionalID: l.option("id", "x"), Value: v}
}

func (s *scenario) append(r *Record) {
	s.log = append(s.log, r)
	s.machine.Apply(r)
}

func (s *scenario) do(e Effects) {
	for _, r := range e.Records {
		s.printf("write %s: %s", r.TransactionalID, describeValue(r.Value))
	}
	for _, sent := range e.Replies {
		s.reply(sent)
	}
	for _, m := range e.Markers {
		s.marks[m.Attempt] = m
		s.printf("mark %d %s: %s %s coordinator %d protocol %d%s", m.Attempt, m.TransactionalID, m.ID, map[bool]string{true: "commit", false: "abort"}[m.Commit],
			m.CoordinatorEpoch, m.Protocol, list(m.Partitions))
	}
	if len(e.Records) == 0 {
		return
	}
	s.held = append(s.held, e)
	if !s.hold {
		refused := s.refuse
		s.refuse = kafka.None
		s.settle(refused)
	}
}

// settle ends what is open, in the order in which it was appended.
func (s *scenario) settle(refused kafka.Error) {
	held := s.held
	s.held, s.hold = nil, false
	if refused != kafka.None {
		s.printf("refused: %v", refused)
	}
	for _, e := range held {
		for _, r := range e.Records {
			if refused == kafka.None {
				s.append(r)
			}
		}
		s.do(s.machine.Settle(s.now, e, refused))
	}
}

func (s *scenario) reply(sent Sent) {
	name := s.names[sent.Ticket]
	switch r := sent.Reply.(type) {
	case *InitProducerReply:
		s.printf("reply %s: %s", name, answer(r.Code, r.ID))
	case *EndReply:
		s.printf("reply %s: %s", name, answer(r.Code, r.ID))
	case *AddPartitionsReply:
		text := answer(r.Code, NoID)
		for _, code := range r.Codes {
			text += " " + answer(code, NoID)
		}
		s.printf("reply %s: %s", name, text)
	case *DescribeReply:
		if r.Code != kafka.None {
			s.printf("reply %s: %v", name, r.Code)
			return
		}
		s.printf("reply %s: %v %s timeout %v since %s%s", name, r.State, r.ID, time.Duration(r.TimeoutMs)*time.Millisecond, clock(r.StartMs), list(r.Partitions))
	}
}

func (id ID) String() string {
	if id == NoID {
		return "nobody"
	}
	return fmt.Sprintf("%d/%d", id.Producer, id.Epoch)
}

func answer(code kafka.Error, id ID) string {
	switch {
	case code != kafka.None:
		return fmt.Sprint(code)
	case id == NoID:
		return "ok"
	}
	return "ok " + id.String()
}

func describeValue(v *Value) string {
	if v == nil {
		return "gone"
	}
	text := fmt.Sprintf("%v %s", v.State, v.ID)
	if v.Previous != v.ID.Producer {
		text += fmt.Sprintf(" prev=%d", v.Previous)
	}
	if v.Next != kafka.NoProducer {
		text += fmt.Sprintf(" next=%d", v.Next)
	}
	return text + fmt.Sprintf(" timeout=%v since %s protocol=%d v=%d%s", time.Duration(v.TimeoutMs)*time.Millisecond, clock(v.StartMs), v.Protocol, v.Version, list(v.Partitions))
}

func clock(ms int64) string {
	if ms == -1 {
		return "never"
	}
	return (time.Duration(ms-scenarioStart.UnixMilli()) * time.Millisecond).String()
}

func list(partitions []kafka.TopicPartition) string {
	text := ""
	for _, tp := range partitions {
		text += " " + tp.String()
	}
	return text
}
