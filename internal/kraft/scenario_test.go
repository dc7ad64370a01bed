package kraft

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/transcript"
)

// TestScenarios runs testdata/*.txt, see [transcript.Run].
//
// Node 1 with directory A is looked at; a replica is written as 2B, without its directory as 2, and nobody as none. Its effects are done
// at once. A command is
//
//	voters 1A 2B ... [static|log]                formatted with them; or configured; or from a log that has records 0 and 1 of epoch 0
//	config auto-join | broker | bootstrap n2 n3 | host NAME | max-version N
//	log E N ...                                  N records of epoch E, before start
//	snapshot O-E                                 the log begins with it, before start; or node 1 makes it, after
//	saved epoch=E [leader=N] [voted=2B]          the quorum-state file
//	start | restart                              restart keeps what is flushed
//	tick MS                                      time passes
//	vote NAME from=2B epoch=E last=E/O [to=1A] [pre]
//	begin NAME from=2 epoch=E [to=1A] [hosts=n2]
//	end NAME from=2 epoch=E [preferred=3C,1A]
//	fetch NAME from=2B epoch=E at=O last=E [wait=MS] [hw=O]
//	fetch-snapshot NAME from=2B epoch=E id=O-E [at=P]
//	add NAME voter=4D [host=n4] [quick] | remove NAME voter=2B
//	update NAME voter=2B epoch=E [host=n2] [versions=0-1] | upgrade NAME level=N [validate]
//	answer KIND NODE key=value ...               to the last message of a kind to a node or host, see answer
//	fail KIND NODE | gone KIND NODE
//	append N                                     a leader's records
//	hold | flush                                 nothing is flushed from here on, until flush
//	refuse | slow MS                             the disk is full for the next append; or takes so long
//	resign | shutdown | describe
func TestScenarios(t *testing.T) { transcript.Run(t, beginScenario) }

func beginScenario(t *testing.T) (command func(string), outcome func() string) {
	s := newScenario(t)
	return s.run, s.outcome
}

// outcome returns what has come of the commands since it was asked before.
func (s *scenario) outcome() string {
	defer s.out.Reset()
	return s.out.String()
}

// scenario is node 1 with what is around it.
type scenario struct {
	t         *testing.T
	out       strings.Builder
	cfg       Config
	log       *simLog
	state     State
	formatted *Membership
	member    *Member
	nowMs     int64
	names     map[Ticket]string
	fetches   map[Ticket]*FetchRequest
	sent      []Message
	held      bool
	refuse    bool
	slowMs    int64
	image     Membership // of a snapshot that is downloaded
}

func newScenario(t *testing.T) *scenario {
	return &scenario{
		t: t, log: &simLog{}, state: NewState(), nowMs: 1000, names: map[Ticket]string{}, fetches: map[Ticket]*FetchRequest{},
		cfg: Config{
			ID: 1, Directory: directory("A"), Endpoints: hosts("n1"), MaxVersion: 1, Rand: rand.New(rand.NewPCG(1, 2)),
			ElectionTimeoutMs: 1000, FetchTimeoutMs: 2000, RequestTimeoutMs: 2000, RetryBackoffMs: 20,
		},
	}
}

func (s *scenario) print(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func directory(letter string) kafka.UUID {
	if letter == "" {
		return kafka.UUID{}
	}
	return kafka.UUID{letter[0]}
}

func hosts(list string) (endpoints []Endpoint) {
	if list == "" {
		return nil
	}
	for host := range strings.SplitSeq(list, ",") {
		endpoints = append(endpoints, Endpoint{"CONTROLLER", host, 9093})
	}
	return endpoints
}

func (s *scenario) number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatalf("%q is no number", text)
	}
	return n
}

// key reads 2B.
func (s *scenario) key(text string) ReplicaKey {
	if text == "none" || text == "" {
		return ReplicaKey{ID: kafka.NoNode}
	}
	id := strings.TrimRight(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	return ReplicaKey{kafka.NodeID(s.number(id)), directory(text[len(id):])}
}

func keyText(r ReplicaKey) string {
	switch {
	case r.ID == kafka.NoNode:
		return "none"
	case r.Directory.IsZero():
		return fmt.Sprint(r.ID)
	}
	return fmt.Sprintf("%d%c", r.ID, r.Directory[0])
}

func keysText(keys []ReplicaKey) string {
	var texts []string
	for _, k := range keys {
		texts = append(texts, keyText(k))
	}
	return strings.Join(texts, ",")
}

func nodeText(id kafka.NodeID) string { return keyText(ReplicaKey{ID: id}) }

func (s *scenario) voter(text string) Voter {
	k := s.key(text)
	return Voter{ID: k.ID, Directory: k.Directory, Endpoints: hosts(fmt.Sprintf("n%d", k.ID)), MaxVersion: 1}
}

func voterText(v Voter) string {
	text := keyText(v.key())
	if host := fmt.Sprintf("n%d", v.ID); len(v.Endpoints) != 1 || v.Endpoints[0].Host != host {
		text += "@" + hostsText(v.Endpoints)
	}
	if v.MinVersion != 0 || v.MaxVersion != 1 {
		text += fmt.Sprintf("(%d-%d)", v.MinVersion, v.MaxVersion)
	}
	return text
}

func hostsText(endpoints []Endpoint) string {
	var texts []string
	for _, e := range endpoints {
		texts = append(texts, e.Host)
	}
	return strings.Join(texts, ",")
}

// args are key=value, and words alone.
type args map[string]string

func parseArgs(words []string) args {
	a := args{}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		a[key] = value
	}
	return a
}

func (a args) has(key string) bool {
	_, ok := a[key]
	return ok
}

func (s *scenario) epoch(text string) kafka.Epoch { return kafka.Epoch(s.number(text)) }

func (s *scenario) offset(text string) kafka.Offset { return kafka.Offset(s.number(text)) }

// pair reads E/O or O-E.
func (s *scenario) pair(text, separator string) (int64, int64) {
	a, b, _ := strings.Cut(text, separator)
	return s.number(a), s.number(b)
}

func (s *scenario) snapshotID(text string) SnapshotID {
	end, epoch := s.pair(text, "-")
	return SnapshotID{kafka.Offset(end), kafka.Epoch(epoch)}
}

func (s *scenario) run(line string) {
	words := strings.Fields(line)
	switch words[0] {
	case "voters":
		s.voters(words[1:])
	case "config":
		s.config(words[1:])
	case "log":
		for i := 1; i+1 < len(words); i += 2 {
			s.put(s.epoch(words[i]), int(s.number(words[i+1])), nil)
		}
		s.log.flush()
	case "snapshot":
		s.snapshot(s.snapshotID(words[1]))
	case "saved":
		a := parseArgs(words[1:])
		voted := s.key(a["voted"])
		s.state = State{Epoch: s.epoch(a["epoch"]), Leader: s.key(a["leader"]).ID, Voted: voted.ID, VotedDirectory: voted.Directory}
	case "restart":
		s.log.batches = s.log.batches[:s.log.durable]
		s.log.index()
		s.start()
	case "start":
		s.start()
	case "tick":
		s.tick(s.number(words[1]))
	case "answer":
		s.answer(words[1], words[2], parseArgs(words[3:]))
	case "fail", "gone":
		m := s.message(words[1], words[2])
		event := s.member.Failed
		if words[0] == "gone" {
			event = s.member.Gone
		}
		s.do(event(s.nowMs, m.ID))
	case "append":
		s.append(int(s.number(words[1])), nil)
	case "hold":
		s.held = true
	case "flush":
		s.held = false
		s.flush()
	case "refuse":
		s.refuse = true
	case "slow":
		s.slowMs = s.number(words[1])
	case "resign":
		s.do(s.member.Resign(s.nowMs, s.member.Role().Epoch))
	case "shutdown":
		s.do(s.member.Shutdown(s.nowMs))
		s.print("done: %v", s.member.Done())
	case "done":
		s.print("done: %v", s.member.Done())
	case "describe":
		s.describe()
	default:
		s.request(words[0], words[1], parseArgs(words[2:]))
	}
}

func (s *scenario) voters(words []string) {
	m := Membership{Version: 1}
	kind := ""
	for _, word := range words {
		if word == "static" || word == "log" {
			kind = word
			continue
		}
		m.Voters = append(m.Voters, s.voter(word))
	}
	switch kind {
	case "static":
		s.cfg.StaticVoters = m.Voters
	case "log":
		s.put(0, 2, []Control{VersionChange{1}, VotersChange{m.Voters}})
		s.log.flush()
	default:
		s.formatted = &m
	}
}

func (s *scenario) config(words []string) {
	switch words[0] {
	case "auto-join":
		s.cfg.AutoJoin = true
	case "broker":
		s.cfg.Endpoints = nil
	case "host":
		s.cfg.Endpoints = hosts(words[1])
	case "max-version":
		s.cfg.MaxVersion = int16(s.number(words[1]))
	case "bootstrap":
		for _, host := range words[1:] {
			s.cfg.Bootstrap = append(s.cfg.Bootstrap, Endpoint{Host: host, Port: 9093})
		}
	}
}

func (s *scenario) start() {
	s.sent = nil
	s.member = NewMember(s.cfg, s.state, s.log.history(s.formatted), s.log)
	s.do(s.member.Start(s.nowMs))
}

// put puts a batch into the log.
func (s *scenario) put(epoch kafka.Epoch, records int, controls []Control) simBatch {
	end := s.log.EndOffset()
	b := simBatch{base: end, end: end + kafka.Offset(records), epoch: epoch, controls: controls}
	s.log.append(b)
	return b
}

func (s *scenario) append(records int, controls []Control) {
	if s.refuse {
		s.refuse = false
		s.print("append refused")
		s.do(s.member.Appended(s.nowMs))
		return
	}
	b := s.put(s.member.Role().Epoch, records, controls)
	s.print("append %d-%d%s", b.base, b.end, controlsText(controls))
	s.waitForDisk()
	s.do(s.member.Appended(s.nowMs, b.told()))
	s.flush()
}

func (s *scenario) waitForDisk() {
	s.nowMs += s.slowMs
	s.slowMs = 0
}

func controlsText(controls []Control) (text string) {
	for _, c := range controls {
		switch c := c.(type) {
		case LeaderChange:
			text += fmt.Sprintf(" leader %d of %s by %s", c.Leader, keysText(c.Voters), keysText(c.Granting))
		case VersionChange:
			text += fmt.Sprintf(" version %d", c.Level)
		case VotersChange:
			var voters []string
			for _, v := range c.Voters {
				voters = append(voters, voterText(v))
			}
			text += " voters " + strings.Join(voters, ",")
		}
	}
	return text
}

func (s *scenario) flush() {
	if s.held || s.log.durable == len(s.log.batches) {
		return
	}
	s.log.flush()
	s.do(s.member.Flushed(s.nowMs))
}

func (s *scenario) snapshot(id SnapshotID) {
	if s.member == nil {
		s.log.restore(id, *cmp.Or(s.formatted, &Membership{Version: 1}))
		return
	}
	m := s.member.MembershipBefore(id.End)
	s.log.snapshot(id, m, 1)
	s.member.Snapshotted()
	s.print("snapshot %d-%d%s", id.End, id.Epoch, controlsText([]Control{VersionChange{m.Version}, VotersChange{m.Voters}}))
}

// tick lets time pass, as long as something is due.
func (s *scenario) tick(ms int64) {
	until := s.nowMs + ms
	for s.member.Deadline() <= until {
		before := s.nowMs
		s.nowMs = max(s.nowMs, s.member.Deadline())
		mark := s.out.Len()
		s.do(s.member.Tick(s.nowMs))
		if s.out.Len() > mark {
			text := s.out.String()
			s.out.Reset()
			fmt.Fprintf(&s.out, "%safter %d ms:\n%s", text[:mark], s.nowMs-until+ms, text[mark:])
		}
		if s.nowMs == before {
			s.t.Fatal("time stands still")
		}
	}
	s.nowMs = until
}

// do does effects.
func (s *scenario) do(e Effects) {
	if e.Warn != "" {
		s.print("warn: %s", e.Warn)
	}
	if e.Persist != nil {
		s.state = *e.Persist
		s.print("persist epoch %d leader %s voted %s", e.Persist.Epoch, nodeText(e.Persist.Leader), keyText(ReplicaKey{e.Persist.Voted, e.Persist.VotedDirectory}))
	}
	if e.Truncate != nil {
		s.print("truncate to %d", *e.Truncate)
		s.log.truncate(*e.Truncate)
		s.do(s.member.Truncated(s.nowMs))
	}
	if e.Chunk != nil {
		s.chunk(e.Chunk)
	}
	if len(e.Append) > 0 {
		s.follow(string(e.Append))
	}
	if len(e.Controls) > 0 {
		s.append(len(e.Controls), e.Controls)
	}
	if e.Role != nil {
		s.print("%s", roleText(*e.Role))
	}
	if e.HighWatermark != nil {
		s.print("high watermark %d", *e.HighWatermark)
	}
	for _, a := range e.Answers {
		s.print("reply %s: %s", s.names[a.Ticket], responseText(a.Response))
	}
	for _, m := range e.Send {
		s.sent = append(s.sent, m)
		to := nodeText(m.To.ID)
		if m.To.ID == kafka.NoNode {
			to = m.To.Endpoint.Host
		} else if m.To.Endpoint.Host != fmt.Sprintf("n%d", m.To.ID) {
			to += "@" + m.To.Endpoint.Host
		}
		s.print("send %s: %s", to, requestText(m.Request))
	}
}

func roleText(r Role) string {
	text := fmt.Sprintf("%v of epoch %d", r.Kind, r.Epoch)
	if r.Leader != kafka.NoNode && r.Kind != Leader {
		text += fmt.Sprintf(", leader %d", r.Leader)
		if len(r.Endpoints) == 0 {
			text += " somewhere"
		}
	}
	if r.Kind == Leader {
		text += fmt.Sprintf(" from %d", r.EpochStart)
	}
	if !r.Voter {
		text += ", observer"
	}
	return text
}

func (s *scenario) chunk(c *Chunk) {
	s.print("snapshot %d-%d: %d bytes at %d, last %v", c.Snapshot.End, c.Snapshot.Epoch, len(c.Bytes), c.Position, c.Last)
	switch {
	case !c.Last:
	case s.refuse:
		s.refuse = false
		s.do(s.member.SnapshotRefused(s.nowMs, c.Snapshot))
	default:
		s.log.restore(c.Snapshot, s.image)
		s.do(s.member.Restored(s.nowMs, c.Snapshot, s.image))
	}
}

// follow appends what a leader has sent: E N ..., or voters.
func (s *scenario) follow(records string) {
	if s.refuse {
		s.refuse = false
		s.do(s.member.Appended(s.nowMs))
		return
	}
	var told []Batch
	for part := range strings.SplitSeq(records, ",") {
		epoch, what, _ := strings.Cut(part, ":")
		var controls []Control
		var count int
		if voters, is := strings.CutPrefix(what, "voters-"); is {
			change := VotersChange{}
			for v := range strings.SplitSeq(voters, "-") {
				change.Voters = append(change.Voters, s.voter(v))
			}
			controls, count = []Control{VersionChange{1}, change}, 2
		} else {
			count = int(s.number(what))
		}
		b := s.put(s.epoch(epoch), count, controls)
		told = append(told, b.told())
		s.print("append %d-%d of epoch %d%s", b.base, b.end, b.epoch, controlsText(controls))
	}
	s.waitForDisk()
	s.do(s.member.Appended(s.nowMs, told...))
	s.flush()
}

func requestKind(r Request) string {
	switch r := r.(type) {
	case *VoteRequest:
		if r.PreVote {
			return "prevote"
		}
		return "vote"
	case *BeginQuorumEpochRequest:
		return "begin"
	case *EndQuorumEpochRequest:
		return "end"
	case *FetchRequest:
		return "fetch"
	case *FetchSnapshotRequest:
		return "fetch-snapshot"
	case *AddVoterRequest:
		return "add"
	case *RemoveVoterRequest:
		return "remove"
	case *UpdateVoterRequest:
		return "update"
	}
	return "versions"
}

func requestText(r Request) string {
	kind := requestKind(r)
	switch r := r.(type) {
	case *VoteRequest:
		return fmt.Sprintf("%s from %s to %s epoch %d last %d/%d", kind, keyText(r.Candidate), keyText(r.Voter), r.Epoch, r.LastEpoch, r.End)
	case *BeginQuorumEpochRequest:
		return fmt.Sprintf("%s epoch %d leader %d@%s to %s", kind, r.Epoch, r.Leader, hostsText(r.Endpoints), keyText(r.Voter))
	case *EndQuorumEpochRequest:
		return fmt.Sprintf("%s epoch %d preferred %s", kind, r.Epoch, keysText(r.Preferred))
	case *FetchRequest:
		return fmt.Sprintf("%s from %s epoch %d at %d last %d high watermark %d", kind, keyText(r.Replica), r.Epoch, r.Offset, r.LastEpoch, r.HighWatermark)
	case *FetchSnapshotRequest:
		return fmt.Sprintf("%s %d-%d epoch %d at %d", kind, r.Snapshot.End, r.Snapshot.Epoch, r.Epoch, r.Position)
	case *AddVoterRequest:
		return fmt.Sprintf("%s %s, committed %v", kind, voterText(r.Voter), r.AckWhenCommitted)
	case *RemoveVoterRequest:
		return fmt.Sprintf("%s %s", kind, keyText(r.Voter))
	case *UpdateVoterRequest:
		return fmt.Sprintf("%s %s epoch %d", kind, voterText(r.Voter), r.Epoch)
	}
	return kind
}

func currentText(c Current) string {
	text := fmt.Sprintf("epoch %d leader %s", c.Epoch, nodeText(c.Leader))
	if len(c.Endpoints) > 0 {
		text += "@" + hostsText(c.Endpoints)
	}
	return text
}

func codeText(code kafka.Error) string {
	if code == kafka.None {
		return "ok"
	}
	return code.Error()
}

func responseText(r Response) string {
	message := func(code kafka.Error, text string) string {
		if text == "" {
			return codeText(code)
		}
		return codeText(code) + " " + text
	}
	switch r := r.(type) {
	case *VoteResponse:
		verdict := map[bool]string{true: "granted", false: "refused"}[r.Granted]
		if r.Error != kafka.None {
			verdict = codeText(r.Error)
		}
		return verdict + ", " + currentText(r.Current)
	case *BeginQuorumEpochResponse:
		return codeText(r.Error) + ", " + currentText(r.Current)
	case *EndQuorumEpochResponse:
		return codeText(r.Error) + ", " + currentText(r.Current)
	case *UpdateVoterResponse:
		return codeText(r.Error) + ", " + currentText(r.Current)
	case *FetchResponse:
		text := fmt.Sprintf("%s, %s, high watermark %d, log from %d", codeText(r.Error), currentText(r.Current), r.HighWatermark, r.LogStart)
		switch {
		case r.Diverging != nil:
			text += fmt.Sprintf(", diverging %d/%d", r.Diverging.Epoch, r.Diverging.End)
		case r.Snapshot != nil:
			text += fmt.Sprintf(", snapshot %d-%d", r.Snapshot.End, r.Snapshot.Epoch)
		case r.Error == kafka.None:
			text += fmt.Sprintf(" to %d", r.End)
		}
		return text
	case *FetchSnapshotResponse:
		return fmt.Sprintf("%s, %s", codeText(r.Error), currentText(r.Current))
	case *AddVoterResponse:
		return message(r.Error, r.Message)
	case *RemoveVoterResponse:
		return message(r.Error, r.Message)
	case *UpgradeResponse:
		return message(r.Error, r.Message)
	}
	return fmt.Sprintf("%+v", r)
}

func (s *scenario) request(what, name string, a args) {
	var r Request
	switch what {
	case "vote":
		epoch, end := s.pair(a["last"], "/")
		r = &VoteRequest{
			Epoch: s.epoch(a["epoch"]), Candidate: s.key(a["from"]), Voter: s.key(a["to"]), LastEpoch: kafka.Epoch(epoch), End: kafka.Offset(end), PreVote: a.has("pre"),
		}
	case "begin":
		r = &BeginQuorumEpochRequest{Leader: s.key(a["from"]).ID, Epoch: s.epoch(a["epoch"]), Voter: s.key(a["to"]), Endpoints: hosts(a["hosts"])}
	case "end":
		var preferred []ReplicaKey
		if a["preferred"] != "" {
			for k := range strings.SplitSeq(a["preferred"], ",") {
				preferred = append(preferred, s.key(k))
			}
		}
		r = &EndQuorumEpochRequest{Leader: s.key(a["from"]).ID, Epoch: s.epoch(a["epoch"]), Preferred: preferred, Endpoints: hosts(a["hosts"])}
	case "fetch":
		f := &FetchRequest{
			Replica: s.key(a["from"]), Epoch: s.epoch(a["epoch"]), Offset: s.offset(a["at"]), LastEpoch: s.epoch(a["last"]), MaxBytes: 1, HighWatermark: math.MaxInt64,
		}
		if a.has("wait") {
			f.MaxWaitMs = int32(s.number(a["wait"]))
		}
		if a.has("hw") {
			f.HighWatermark = s.offset(a["hw"])
		}
		r = f
	case "fetch-snapshot":
		f := &FetchSnapshotRequest{Replica: s.key(a["from"]), Epoch: s.epoch(a["epoch"]), Snapshot: s.snapshotID(a["id"])}
		if a.has("at") {
			f.Position = s.number(a["at"])
		}
		r = f
	case "add":
		v := s.key(a["voter"])
		voter := Voter{ID: v.ID, Directory: v.Directory, Endpoints: hosts(cmp.Or(a["host"], fmt.Sprintf("n%d", v.ID)))}
		if a.has("listener") {
			voter.Endpoints[0].Name = a["listener"]
		}
		r = &AddVoterRequest{Voter: voter, AckWhenCommitted: !a.has("quick")}
	case "remove":
		r = &RemoveVoterRequest{Voter: s.key(a["voter"])}
	case "update":
		v := s.voter(a["voter"])
		if a.has("host") {
			v.Endpoints = hosts(a["host"])
		}
		if a.has("versions") {
			low, high := s.pair(a["versions"], "-")
			v.MinVersion, v.MaxVersion = int16(low), int16(high)
		}
		r = &UpdateVoterRequest{Epoch: s.epoch(a["epoch"]), Voter: v}
	case "upgrade":
		r = &UpgradeRequest{Level: int16(s.number(a["level"])), ValidateOnly: a.has("validate")}
	default:
		s.t.Fatalf("unknown command %q", what)
	}
	ticket := Ticket(len(s.names) + 1)
	s.names[ticket] = name
	s.do(s.member.Handle(s.nowMs, ticket, r))
}

// message is the last that was sent of a kind, to a node or a host.
func (s *scenario) message(kind, to string) Message {
	for _, m := range slices.Backward(s.sent) {
		if requestKind(m.Request) == kind && (nodeText(m.To.ID) == to || m.To.ID == kafka.NoNode && m.To.Endpoint.Host == to) {
			return m
		}
	}
	s.t.Fatalf("no %s was sent to %s", kind, to)
	return Message{}
}

// answer takes error=CODE, epoch=E, leader=N, hosts=n2; and granted; or records=E:N,E:N high=O diverging=E/O snapshot=O-E; or id=O-E size=N
// bytes=N at=P voters=1A-2B; or versions=0-1. Without an epoch it is the message's.
func (s *scenario) answer(kind, to string, a args) {
	m := s.message(kind, to)
	code := kafka.None
	if a.has("error") {
		code = s.code(a["error"])
	}
	current := Current{Leader: s.key(a["leader"]).ID, Epoch: s.member.Role().Epoch, Endpoints: hosts(a["hosts"])}
	if a.has("epoch") {
		current.Epoch = s.epoch(a["epoch"])
	}
	var r Response
	switch request := m.Request.(type) {
	case *VoteRequest:
		r = &VoteResponse{Error: code, Current: current, Granted: a.has("granted")}
	case *BeginQuorumEpochRequest:
		r = &BeginQuorumEpochResponse{Error: code, Current: current}
	case *EndQuorumEpochRequest:
		r = &EndQuorumEpochResponse{Error: code, Current: current}
	case *FetchRequest:
		f := &FetchResponse{Error: code, Current: current, HighWatermark: kafka.NoOffset, Records: []byte(a["records"])}
		if a.has("high") {
			f.HighWatermark = s.offset(a["high"])
		}
		if a.has("diverging") {
			epoch, end := s.pair(a["diverging"], "/")
			f.Diverging = &EpochEnd{kafka.Epoch(epoch), kafka.Offset(end)}
		}
		if a.has("snapshot") {
			id := s.snapshotID(a["snapshot"])
			f.Snapshot = &id
		}
		r = f
	case *FetchSnapshotRequest:
		f := &FetchSnapshotResponse{Error: code, Current: current, Snapshot: request.Snapshot, Position: request.Position}
		if code == kafka.None {
			f.Size, f.Bytes = s.number(a["size"]), make([]byte, s.number(a["bytes"]))
		}
		s.image = Membership{Version: 1}
		for v := range strings.SplitSeq(a["voters"], "-") {
			if v != "" {
				s.image.Voters = append(s.image.Voters, s.voter(v))
			}
		}
		r = f
	case *AddVoterRequest:
		r = &AddVoterResponse{Error: code}
	case *RemoveVoterRequest:
		r = &RemoveVoterResponse{Error: code}
	case *UpdateVoterRequest:
		r = &UpdateVoterResponse{Error: code, Current: current}
	case *VersionsRequest:
		v := &VersionsResponse{Error: code}
		if a.has("versions") {
			low, high := s.pair(a["versions"], "-")
			v.MinVersion, v.MaxVersion = int16(low), int16(high)
		}
		r = v
	}
	s.do(s.member.Answered(s.nowMs, m.ID, r))
}

func (s *scenario) code(name string) kafka.Error {
	for code := kafka.Error(-1); code < 200; code++ {
		if code.Name() == name {
			return code
		}
	}
	s.t.Fatalf("unknown code %q", name)
	return kafka.None
}

func (s *scenario) describe() {
	status, leads := s.member.Describe(s.nowMs)
	if !leads {
		s.print("not the leader")
		return
	}
	s.print("leader %d epoch %d high watermark %d", status.Leader, status.Epoch, status.HighWatermark)
	for _, kind := range slices.Sorted(maps.Keys(map[string]bool{"voter": true, "observer": true})) {
		list := status.Voters
		if kind == "observer" {
			list = status.Observers
		}
		for _, r := range list {
			s.print("%s %s end %d fetched %d caught up %d", kind, keyText(r.Replica), r.End, r.LastFetchMs, r.LastCaughtMs)
		}
	}
}
