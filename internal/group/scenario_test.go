package group

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/transcript"
)

// TestScenarios runs testdata/*.txt, see [transcript.Run].
//
// Every request has a name, by which its reply is found. Member ids read name#n: the client's or instance's name and the
// number of the id. A command is
//
//	config key=value ...                         session-min, session-max, delay, max, metadata, retention; of consumer groups
//	                                             session, beat, interval, consumers-max, migration
//	join NAME [id=] [instance=] [type=] [protocols=range:said,other:said] [topics=t,u] [owned=t.0.1] [session=] [rebalance=] [v=4]
//	sync NAME id= gen= [instance=] [type=] [protocol=] [assign=a#1:x,b#2:@t.0.1+u.0]
//	beat NAME id= gen= [instance=]
//	leave NAME a#1 instance=i a#1/i ...
//	commit NAME [id=] [gen=] [instance=] [retention=] [epoch=] [meta=] [v=9] t-0=5 u-1=7 ...
//	txn-commit NAME producer= [id=] [gen=] [instance=] [epoch=] [meta=] [v=6] t-0=5 u-1=7 ...
//	fetch NAME [stable] [as=MEMBER:EPOCH] [t-0 ...]                without partitions: all
//	describe NAME | list | delete NAME | delete-offsets NAME t-0 ...
//	hb NAME [id=] [epoch=] [instance=] [topics=t,u] [regex=] [rebalance=] [assignor=] [rack=] [has=t:0:1,u:0|has=] [v=1]
//	consumers NAME                               ConsumerGroupDescribe
//	topics t=3 u=0 ...                           topics as they are from now on; without partitions: deleted
//	kafka consumer|share|streams PART [name=] [epoch=] [topics=] [unsettled] [strange] [gone]      it is on the log
//	open PRODUCER t-0=5 | end PRODUCER commit|abort
//	tick 3s                                      time passes, timers fire
//	expire | topics-deleted t ...
//	refuse CODE                                  what is appended next is refused
//	reload                                       another machine reads the log
//
// and all take group=; without it the group is g.
func TestScenarios(t *testing.T) { transcript.Run(t, beginScenario) }

func runScenario(t *testing.T, file string) { transcript.File(t, file, beginScenario) }

func beginScenario(t *testing.T) (command func(string), outcome func() string) {
	s := newScenario(t)
	return s.run, s.outcome
}

// outcome returns what has come of the commands since it was asked before.
func (s *scenario) outcome() string {
	s.states()
	defer s.out.Reset()
	return s.out.String()
}

func always() bool { return true }

type scenario struct {
	t       *testing.T
	cfg     Config
	machine *Machine
	now     time.Time
	ids     uint64
	names   map[Ticket]string
	log     []func(*Machine)
	refuse  kafka.Error
	out     strings.Builder
	last    map[string]string // the state last printed of each group
	cluster *testCluster
}

var scenarioStart = time.UnixMilli(1_000_000)

func testConfig() Config {
	return Config{
		SessionTimeoutMin: 6 * time.Second, SessionTimeoutMax: 30 * time.Minute, MembersMax: 1000, OffsetMetadataMax: 4096,
		OffsetsRetention: 7 * 24 * time.Hour, NewMemberJoinTimeout: 5 * time.Minute, ConsumersMax: 1000,
		Assignors: []string{"uniform", "range"}, RegexRefresh: 10 * time.Minute, Migration: MigrationPolicy{Upgrade: true, Downgrade: true},
	}
}

func newScenario(t *testing.T) *scenario {
	s := &scenario{t: t, cfg: testConfig(), now: scenarioStart, names: map[Ticket]string{}, last: map[string]string{}}
	s.cluster = newTestCluster()
	s.machine = New(s.cfg, s.random)
	s.machine.Learn(s.cluster, nil, false)
	return s
}

// random makes the n-th member id end in n.
func (s *scenario) random(b []byte) {
	s.ids++
	clear(b)
	binary.BigEndian.PutUint64(b[8:], s.ids)
}

var (
	endsInNumber = regexp.MustCompile(`-\d+$`) // a partition: t-0=5 is no option

	shortID = regexp.MustCompile(`#(\d+)`)
	longID  = regexp.MustCompile(`-00000000-0000-4000-8000-([0-9a-f]{12})`)
)

func lengthen(s string) string {
	return shortID.ReplaceAllStringFunc(s, func(m string) string {
		n, _ := strconv.ParseUint(m[1:], 10, 32)
		return fmt.Sprintf("-00000000-0000-4000-8000-%012x", n)
	})
}

func shorten(s string) string {
	return longID.ReplaceAllStringFunc(s, func(m string) string {
		n, _ := strconv.ParseUint(m[len(m)-12:], 16, 64)
		return fmt.Sprintf("#%d", n)
	})
}

func (s *scenario) printf(format string, args ...any) {
	s.out.WriteString(shorten(fmt.Sprintf(format, args...)) + "\n")
}

// line is one command, taken apart.
type line struct {
	verb, name string
	options    map[string]string
	rest       []string
}

func (s *scenario) parse(text string) line {
	fields := strings.Fields(lengthen(text))
	l := line{verb: fields[0], options: map[string]string{}}
	for _, f := range fields[1:] {
		key, value, ok := strings.Cut(f, "=")
		switch {
		case ok && !endsInNumber.MatchString(key):
			l.options[key] = value
		case l.name == "":
			l.name = f
		default:
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

func (l line) pointer(name string) *string {
	if v, ok := l.options[name]; ok {
		return &v
	}
	return nil
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

func (s *scenario) millis(text string) int32 { return int32(s.duration(text) / time.Millisecond) }

func (s *scenario) run(text string) {
	l := s.parse(text)
	switch l.verb {
	case "config":
		s.configure(l)
	case "tick":
		s.tick(s.duration(l.name))
	case "expire":
		s.do(s.machine.Expire(s.now))
	case "topics-deleted":
		s.do(s.machine.TopicsDeleted(append(l.rest, l.name)))
	case "list":
		for _, g := range s.machine.List() {
			s.printf("listed %s: %v type=%q%s", g.Group, g.State, g.ProtocolType, otherType(g.Type))
		}
	case "refuse":
		s.refuse = kafka.Error(s.number(l.name))
	case "reload":
		s.reload()
	case "open":
		for _, r := range s.offsets(append(l.rest, "")) {
			producer := kafka.ProducerID(s.number(l.name))
			s.replay(func(m *Machine) { m.ApplyOpen(producer, r) })
		}
	case "topics":
		s.topics(l)
	case "kafka":
		r := s.kafkaRecord(l)
		s.replay(func(m *Machine) { m.Apply(r) })
	case "end":
		producer, commit := kafka.ProducerID(s.number(l.name)), l.rest[0] == "commit"
		s.replay(func(m *Machine) { m.EndTransaction(producer, commit) })
	default:
		ticket := Ticket(len(s.names) + 1)
		s.names[ticket] = l.name
		s.do(s.machine.Handle(s.now, ticket, l.option("group", "g"), s.command(l)))
	}
}

func (s *scenario) configure(l line) {
	for key, value := range l.options {
		switch key {
		case "session-min":
			s.cfg.SessionTimeoutMin = s.duration(value)
		case "session-max":
			s.cfg.SessionTimeoutMax = s.duration(value)
		case "delay":
			s.cfg.InitialRebalanceDelay = s.duration(value)
		case "retention":
			s.cfg.OffsetsRetention = s.duration(value)
		case "max":
			s.cfg.MembersMax = int(s.number(value))
		case "session":
			s.cluster.settings.SessionTimeout = s.duration(value)
		case "beat":
			s.cluster.settings.HeartbeatInterval = s.duration(value)
		case "interval":
			s.cluster.settings.AssignmentInterval = s.duration(value)
		case "consumers-max":
			s.cfg.ConsumersMax = int(s.number(value))
		case "migration":
			s.cfg.Migration = MigrationPolicy{Upgrade: strings.Contains(value, "up"), Downgrade: strings.Contains(value, "down")}
		case "metadata":
			s.cfg.OffsetMetadataMax = int(s.number(value))
		default:
			s.t.Fatalf("unknown setting %s", key)
		}
	}
	s.machine.cfg = s.cfg
}

// tick lets time pass: every timer fires at its own time.
func (s *scenario) tick(d time.Duration) {
	end := s.now.Add(d)
	for {
		next, ok := s.machine.Next()
		if !ok || next.After(end) {
			break
		}
		if next.After(s.now) {
			s.now = next
		}
		if e, fired := s.machine.Tick(s.now); fired {
			s.do(e)
		}
	}
	s.now = end
}

func (s *scenario) replay(change func(*Machine)) {
	s.log = append(s.log, change)
	change(s.machine)
}

func (s *scenario) do(e Effects) {
	refused := kafka.None
	if len(e.Records) > 0 {
		refused, s.refuse = s.refuse, kafka.None
	}
	for _, r := range e.Records {
		s.record(r)
		if e.Txn != nil {
			s.printf("  in the transaction of %d", e.Txn.ProducerID)
		}
		switch {
		case refused != kafka.None:
		case e.Txn != nil:
			s.replay(func(m *Machine) { m.ApplyOpen(e.Txn.ProducerID, r) })
		default:
			s.replay(func(m *Machine) { m.Apply(r) })
		}
	}
	if refused != kafka.None {
		s.printf("refused: %v", refused)
	}
	for _, sent := range e.Replies {
		s.reply(sent)
	}
	for _, aside := range e.Aside {
		s.do(s.machine.Finish(s.now, aside.Group, aside.Work(always)))
	}
	if len(e.Records) > 0 {
		s.do(s.machine.Settle(s.now, e, refused))
	}
	s.tick(0)
}

func (s *scenario) reload() {
	s.machine = New(s.cfg, s.random)
	for _, change := range s.log {
		change(s.machine)
	}
	s.machine.Learn(s.cluster, nil, false)
	s.do(s.machine.Loaded(s.now))
}

func (s *scenario) command(l line) Command {
	switch l.verb {
	case "join":
		return s.join(l)
	case "sync":
		c := &Sync{
			Generation: int32(s.number(l.option("gen", "-1"))), MemberID: l.option("id", ""), InstanceID: l.pointer("instance"),
			ProtocolType: l.pointer("type"), Protocol: l.pointer("protocol"),
		}
		for _, a := range split(l.option("assign", "")) {
			id, given, _ := strings.Cut(a, ":")
			c.Assignments = append(c.Assignments, Assignment{MemberID: id, Bytes: consumerGiven(given)})
		}
		return c
	case "beat":
		return &Heartbeat{
			Generation: int32(s.number(l.option("gen", "-1"))), MemberID: l.option("id", ""), InstanceID: l.pointer("instance"),
		}
	case "leave":
		c := &Leave{}
		for _, who := range l.rest {
			id, instance, static := strings.Cut(who, "/")
			leaving := Leaving{MemberID: id}
			if static {
				leaving.InstanceID = &instance
			}
			c.Members = append(c.Members, leaving)
		}
		return c
	case "commit":
		return s.commit(l)
	case "txn-commit":
		c := s.commit(l)
		txn := &TxnCommit{
			ProducerID: kafka.ProducerID(s.number(l.option("producer", ""))), Generation: c.Generation, MemberID: c.MemberID,
			InstanceID: c.InstanceID, UnknownGroup: kafka.GroupIdNotFound, StaleEpoch: kafka.StaleMemberEpoch, Topics: c.Topics,
		}
		if s.number(l.option("v", "6")) < 6 {
			txn.UnknownGroup, txn.StaleEpoch = kafka.IllegalGeneration, kafka.IllegalGeneration
		}
		return txn
	case "fetch":
		stable := slices.Contains(l.rest, "stable")
		partitions := slices.DeleteFunc(l.rest, func(f string) bool { return f == "stable" })
		return &Fetch{Member: s.fetchMember(l), Topics: s.partitions(partitions), RequireStable: stable}
	case "hb":
		return s.beat(l)
	case "consumers":
		return &ConsumerDescribe{}
	case "describe":
		return &Describe{}
	case "delete":
		return &Delete{}
	case "delete-offsets":
		return &DeleteOffsets{Topics: s.partitions(l.rest)}
	}
	s.t.Fatalf("unknown command %q", l.verb)
	return nil
}

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

func (s *scenario) join(l line) *Join {
	version := s.number(l.option("v", "9"))
	c := &Join{
		MemberID: l.option("id", ""), InstanceID: l.pointer("instance"), ClientID: l.option("client", l.name),
		ClientHost: "/10.0.0.1", ProtocolType: l.option("type", "consumer"),
		SessionTimeoutMs: s.millis(l.option("session", "10s")), RebalanceTimeoutMs: s.millis(l.option("rebalance", "60s")),
		MemberIDRequired: version >= 4, CanSkipAssignment: version >= 9,
	}
	for _, p := range split(l.option("protocols", "range:"+l.name)) {
		if name, said, ok := strings.Cut(p, ":"); ok {
			c.Protocols = append(c.Protocols, Protocol{Name: name, Metadata: []byte(said)})
		}
	}
	if topics, ok := l.options["topics"]; ok {
		c.Protocols = []Protocol{{Name: "range", Metadata: subscription(l.option("owned", ""), split(topics)...)}}
	}
	return c
}

// subscription is a consumer's metadata, version 1. owned is written t.0.1+u.0.
func subscription(owned string, topics ...string) []byte {
	b := []byte{0, 1}
	b = binary.BigEndian.AppendUint32(b, uint32(len(topics)))
	for _, t := range topics {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(t))), t...)
	}
	b = append(b, 0xff, 0xff, 0xff, 0xff)
	if owned == "" {
		return append(b, 0, 0, 0, 0)
	}
	given := consumerGiven("@" + owned)
	return append(b, given[2:len(given)-4]...)
}

func (s *scenario) partition(text string) kafka.TopicPartition {
	i := strings.LastIndexByte(text, '-')
	return kafka.TopicPartition{Topic: text[:i], Partition: int32(s.number(text[i+1:]))}
}

func (s *scenario) partitions(list []string) []FetchTopic {
	var topics []FetchTopic
	for _, text := range list {
		tp := s.partition(text)
		if n := len(topics); n == 0 || topics[n-1].Topic != tp.Topic {
			topics = append(topics, FetchTopic{Topic: tp.Topic})
		}
		last := &topics[len(topics)-1]
		last.Partitions = append(last.Partitions, tp.Partition)
	}
	return topics
}

func (s *scenario) offsets(list []string) []*OffsetRecord {
	var records []*OffsetRecord
	for _, text := range list {
		if name, offset, ok := strings.Cut(text, "="); ok {
			tp := s.partition(name)
			records = append(records, &OffsetRecord{
				Group: "g", Topic: tp.Topic, Partition: tp.Partition,
				Value: &OffsetValue{Offset: kafka.Offset(s.number(offset)), LeaderEpoch: -1, CommittedMs: s.now.UnixMilli(), ExpiresMs: -1},
			})
		}
	}
	return records
}

func (s *scenario) commit(l line) *Commit {
	c := &Commit{
		Generation: int32(s.number(l.option("gen", "-1"))), MemberID: l.option("id", ""), InstanceID: l.pointer("instance"),
		UnknownGroup: kafka.GroupIdNotFound, RetentionMs: -1,
	}
	if s.number(l.option("v", "9")) < 9 {
		c.UnknownGroup, c.WithoutEpochs = kafka.IllegalGeneration, true
	}
	if retention, ok := l.options["retention"]; ok {
		c.RetentionMs = s.duration(retention).Milliseconds()
	}
	for _, r := range s.offsets(l.rest) {
		if n := len(c.Topics); n == 0 || c.Topics[n-1].Topic != r.Topic {
			c.Topics = append(c.Topics, CommitTopic{Topic: r.Topic, ID: s.cluster.ids[r.Topic]})
		}
		last := &c.Topics[len(c.Topics)-1]
		last.Partitions = append(last.Partitions, CommitPartition{
			Partition: r.Partition, Offset: r.Value.Offset, LeaderEpoch: kafka.Epoch(s.number(l.option("epoch", "-1"))),
			Metadata: l.pointer("meta"),
		})
	}
	return c
}

func (s *scenario) record(r Record) {
	switch r := r.(type) {
	case *OffsetRecord:
		if r.Value == nil {
			s.printf("write %s: forget %s-%d", r.Group, r.Topic, r.Partition)
			return
		}
		more := ""
		if r.Value.ExpiresMs >= 0 {
			more = fmt.Sprintf(" expires=%v", time.UnixMilli(r.Value.ExpiresMs).Sub(scenarioStart))
		}
		s.printf("write %s: %s-%d at %d epoch %d %q%s", r.Group, r.Topic, r.Partition, r.Value.Offset, r.Value.LeaderEpoch,
			r.Value.Metadata, more)
	case *GroupRecord:
		if r.Value == nil {
			s.printf("write %s: deleted", r.Group)
			return
		}
		v := r.Value
		s.printf("write %s: generation %d %s/%s leader=%s since=%v", r.Group, v.Generation, v.ProtocolType, text(v.Protocol),
			text(v.Leader), time.UnixMilli(v.SinceMs).Sub(scenarioStart))
		for _, m := range v.Members {
			s.printf("  member %s%s session=%dms rebalance=%dms said=%s given=%s", m.MemberID, static(m.InstanceID),
				m.SessionTimeoutMs, m.RebalanceTimeoutMs, said(m.Subscription), given(m.Assignment))
		}
	case *ForeignRecord:
		s.printForeign(r)
	case *ConsumerRecord:
		s.printConsumer(r)
	}
}

// said prints metadata: a consumer's by its topics.
func said(b []byte) string {
	if list, ok := subscribedTopics(b); ok && b[0] == 0 {
		topics := map[string]bool{}
		addTopics(list, topics)
		return fmt.Sprint(slices.Sorted(maps.Keys(topics)))
	}
	return string(bytes.ToValidUTF8(b, []byte("?")))
}

func text(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

func static(instance *string) string {
	if instance == nil {
		return ""
	}
	return "/" + *instance
}

func outcome(code kafka.Error) string {
	if code == kafka.None {
		return "ok"
	}
	return code.Error()
}

func (s *scenario) reply(sent Sent) {
	name, ok := s.names[sent.Ticket]
	if !ok {
		s.t.Fatalf("ticket %d answered twice or never asked", sent.Ticket)
	}
	delete(s.names, sent.Ticket)
	s.names[sent.Ticket+1<<32] = name // keeps the count of tickets
	switch r := sent.Reply.(type) {
	case *JoinReply:
		if r.Code != kafka.None {
			s.printf("reply %s: %v id=%s", name, r.Code, r.MemberID)
			return
		}
		line := fmt.Sprintf("reply %s: joined id=%s generation=%d %s/%s leader=%s", name, r.MemberID, r.Generation,
			text(r.ProtocolType), text(r.Protocol), r.Leader)
		if r.SkipAssignment {
			line += " skip-assignment"
		}
		for _, m := range r.Members {
			line += fmt.Sprintf(" %s%s:%s", m.MemberID, static(m.InstanceID), said(m.Metadata))
		}
		s.printf("%s", line)
	case *SyncReply:
		if r.Code != kafka.None {
			s.printf("reply %s: %v", name, r.Code)
			return
		}
		s.printf("reply %s: synced %s/%s given=%s", name, text(r.ProtocolType), text(r.Protocol), given(r.Assignment))
	case *HeartbeatReply:
		s.printf("reply %s: %s", name, outcome(r.Code))
	case *LeaveReply:
		line := fmt.Sprintf("reply %s: %s", name, outcome(r.Code))
		for _, m := range r.Members {
			line += fmt.Sprintf(" %s%s=%s", m.MemberID, static(m.InstanceID), outcome(m.Code))
		}
		s.printf("%s", line)
	case *ConsumerHeartbeatReply:
		s.printBeat(name, r)
	case *ConsumerDescribeReply:
		s.printConsumers(name, r)
	case *CommitReply:
		s.printf("reply %s: %s", name, codes(r.Code, r.Codes))
	case *DeleteOffsetsReply:
		s.printf("reply %s: %s", name, codes(r.Code, r.Codes))
	case *DeleteReply:
		s.printf("%s", strings.TrimRight(fmt.Sprintf("reply %s: %s %s", name, outcome(r.Code), r.Reason), " "))
	case *FetchReply:
		line := fmt.Sprintf("reply %s: %s", name, outcome(r.Code))
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				line += fmt.Sprintf(" %s-%d=%d", t.Topic, p.Partition, p.Offset)
				if p.LeaderEpoch != -1 || p.Metadata != "" {
					line += fmt.Sprintf("/%d/%q", p.LeaderEpoch, p.Metadata)
				}
				if p.Code != kafka.None {
					line += "/" + p.Code.Error()
				}
			}
		}
		s.printf("%s", line)
	case *DescribeReply:
		line := fmt.Sprintf("reply %s: %s found=%v %v %s/%s", name, outcome(r.Code), r.Found, r.State, r.ProtocolType, r.Protocol)
		if r.NotClassic {
			line += " not classic"
		}
		for _, m := range r.Members {
			line += fmt.Sprintf(" %s%s(%s %s said=%s given=%s)", m.MemberID, static(m.InstanceID), m.ClientID, m.ClientHost,
				said(m.Metadata), given(m.Assignment))
		}
		s.printf("%s", line)
	}
}

func codes(all kafka.Error, each []kafka.Error) string {
	line := outcome(all)
	for _, c := range each {
		line += " " + outcome(c)
	}
	return line
}

// states prints what groups have become in this block.
func (s *scenario) states() {
	present := map[string]string{}
	for _, g := range s.machine.List() {
		var members []string
		for _, m := range s.machine.groups[g.Group].members {
			members = append(members, m.id)
		}
		generation := s.machine.groups[g.Group].generation
		if c := s.machine.groups[g.Group].consumer; c != nil {
			generation, members = c.epoch, c.ids()
		}
		present[g.Group] = strings.TrimRight(fmt.Sprintf("%v generation %d %s", g.State, generation,
			strings.Join(members, " ")), " ") + otherType(g.Type)
		if present[g.Group] != s.last[g.Group] {
			s.printf("now %s: %s", g.Group, present[g.Group])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.last)) {
		if present[name] == "" {
			s.printf("now %s: gone", name)
		}
	}
	s.last = present
}
