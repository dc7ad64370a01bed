package meta

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

var rewrite = flag.Bool("rewrite", false, "write what the scenarios in testdata give as what they want")

// TestScenarios runs the transcripts in testdata: commands, a line of four dashes, and what they answer and append. With
// -rewrite the answers are written anew, to be reviewed as a diff.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			s := newScenario(t)
			for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
				commands, want, _ := strings.Cut(block, "\n----")
				want = strings.TrimPrefix(want, "\n")
				got := s.run(commands)
				if got != want && !*rewrite {
					t.Errorf("%s\ngot\n%s\nwant\n%s", commands, got, want)
				}
				fmt.Fprintf(&out, "%s\n----\n%s\n\n", commands, got)
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(strings.TrimSpace(out.String())+"\n"), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// scenario is an image that commands change.
type scenario struct {
	t   *testing.T
	im  *Image
	env Env
	out strings.Builder

	live  *Liveness // from the command "controller" on
	nowMs int64
}

func newScenario(t *testing.T) *scenario {
	s := &scenario{t: t, im: NewImage("cluster"), env: testEnv()}
	s.apply(Bootstrap())
	return s
}

// testEnv counts ids up from 1.
func testEnv() Env {
	ids := byte(0)
	return Env{
		Random: rand.New(rand.NewPCG(1, 2)), Partitions: 2, ReplicationFactor: 1, Configs: fewConfigs{},
		NewID: func() kafka.UUID {
			ids++
			return kafka.UUID{15: ids}
		},
	}
}

// fewConfigs knows retention.ms, a number, and cleanup.policy, a list.
type fewConfigs struct{}

func (fewConfigs) Validate(_ Resource, changed []string, all map[string]string) error {
	for _, name := range changed {
		value, set := all[name]
		if _, err := strconv.Atoi(value); set && strings.HasSuffix(name, ".ms") && err != nil {
			return kafka.Refuse(kafka.InvalidConfig, "%s=%s is no number", name, value)
		}
	}
	return nil
}

func (fewConfigs) ListDefault(_ ResourceType, name string) (string, bool) {
	return "delete", name == "cleanup.policy"
}

func (s *scenario) apply(entries []Entry) {
	s.t.Helper()
	u := s.im.Update()
	for _, e := range entries {
		if err := u.Apply(e); err != nil {
			s.t.Fatal(err)
		}
	}
	s.im = u.Image(s.im.Offset()+kafka.Offset(len(entries)), 1, 1000)
}

func (s *scenario) run(commands string) string {
	s.out.Reset()
	for line := range strings.SplitSeq(commands, "\n") {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		do, known := scenarioCommands[name]
		switch {
		case strings.HasPrefix(name, "#") || name == "":
		case !known:
			s.t.Fatalf("unknown command %q", line)
		default:
			do(s, strings.Fields(rest))
		}
	}
	return strings.TrimSuffix(s.out.String(), "\n")
}

func (s *scenario) p(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// took prints and applies what was decided.
func (s *scenario) took(entries []Entry) {
	for _, e := range entries {
		body, err := json.Marshal(e.Record)
		if err != nil {
			s.t.Fatal(err)
		}
		if _, many := e.Record.(*sysrecord.PartitionRecord); many {
			r := e.Record.(*sysrecord.PartitionRecord)
			body = fmt.Appendf(nil, "%d replicas=%v isr=%v leader=%d epoch=%d", r.PartitionID, r.Replicas, r.ISR, r.Leader, r.LeaderEpoch)
		}
		s.p("  %s v%d %s", e.Record.RecordName(), e.Version, body)
	}
	s.apply(entries)
}

// brief prints and applies what was decided, of each record what it changes.
func (s *scenario) brief(entries []Entry) {
	for _, e := range entries {
		switch r := e.Record.(type) {
		case *sysrecord.PartitionChangeRecord:
			t, _ := s.im.TopicByID(r.TopicID)
			line := fmt.Sprintf("  %s-%d", t.Name, r.PartitionID)
			add := func(name string, changed bool, value any) {
				if changed {
					line += fmt.Sprintf(" %s=%v", name, value)
				}
			}
			add("replicas", r.Replicas != nil, r.Replicas)
			add("adding", r.AddingReplicas != nil, r.AddingReplicas)
			add("removing", r.RemovingReplicas != nil, r.RemovingReplicas)
			add("isr", r.ISR != nil, r.ISR)
			add("leader", r.Leader != leaderUnchanged, r.Leader)
			add("elr", r.EligibleLeaderReplicas != nil, r.EligibleLeaderReplicas)
			add("last", r.LastKnownELR != nil, r.LastKnownELR)
			add("recovery", r.LeaderRecoveryState >= 0, r.LeaderRecoveryState)
			if r.Directories != nil {
				line += " dirs="
				for i, dir := range r.Directories {
					line += strings.Repeat(" ", min(1, i)) + testDirName(dir)
				}
			}
			s.p("%s", line)
		case *sysrecord.RegisterBrokerRecord:
			s.p("  broker %d registered, epoch %d, fenced %v, v%d", r.BrokerID, r.BrokerEpoch, r.Fenced, e.Version)
		case *sysrecord.BrokerRegistrationChangeRecord:
			line := fmt.Sprintf("  broker %d", r.BrokerID)
			for _, change := range []struct {
				what string
				is   bool
			}{{"fenced", r.Fenced > 0}, {"in service", r.Fenced < 0}, {"stopping", r.InControlledShutdown > 0}} {
				if change.is {
					line += " " + change.what
				}
			}
			for _, dir := range r.LogDirs {
				line += " has " + testDirName(dir)
			}
			for _, dir := range r.CordonedLogDirs {
				line += " cordoned " + testDirName(dir)
			}
			s.p("%s, v%d", line, e.Version)
		default:
			body, err := json.Marshal(r)
			if err != nil {
				s.t.Fatal(err)
			}
			s.p("  %s v%d %s", e.Record.RecordName(), e.Version, body)
		}
	}
	s.apply(entries)
}

// testRegistration is a broker's with one log directory of its own, at the latest levels.
func testRegistration(id kafka.NodeID) Registration {
	return Registration{
		ID: id, Incarnation: kafka.UUID{0: 1, 15: byte(id)}, PreviousEpoch: NoBrokerEpoch, Features: SupportedFeatures(),
		LogDirs: []kafka.UUID{{0: byte(id)}},
	}
}

// testDirs reads directories' numbers: 0 is no directory, 101 and 102 stand for Kafka's ids of unassigned and lost ones.
func testDirs(text string) []kafka.UUID {
	dirs := []kafka.UUID{}
	for _, n := range nodes(text) {
		if n > 100 {
			dirs = append(dirs, kafka.UUID{15: byte(n - 100)})
		} else {
			dirs = append(dirs, kafka.UUID{0: byte(n)})
		}
	}
	return dirs
}

func testDirName(dir kafka.UUID) string {
	if dir[0] == 0 && dir[15] > 0 {
		return strconv.Itoa(int(dir[15]) + 100)
	}
	return strconv.Itoa(int(dir[0]))
}

func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}

// options splits words into plain ones and key=value.
func options(words []string) (plain []string, set map[string]string) {
	set = map[string]string{}
	for _, w := range words {
		if key, value, ok := strings.Cut(w, "="); ok {
			set[key] = value
		} else {
			plain = append(plain, w)
		}
	}
	return plain, set
}

func number32(set map[string]string, key string, otherwise int32) int32 {
	text, ok := set[key]
	delete(set, key)
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return int32(n)
}

func nodes(text string) []kafka.NodeID {
	ids := []kafka.NodeID{}
	for word := range strings.SplitSeq(text, "+") {
		if n, err := strconv.Atoi(word); err == nil {
			ids = append(ids, kafka.NodeID(n))
		}
	}
	return ids
}

var scenarioCommands = map[string]func(s *scenario, words []string){
	// brokers 1 2/rack 3!  registers brokers; ! leaves one fenced, * makes it start uncleanly
	"brokers": func(s *scenario, words []string) {
		for _, w := range words {
			w, fenced := strings.CutSuffix(w, "!")
			w, unclean := strings.CutSuffix(w, "*")
			id, rack, hasRack := strings.Cut(w, "/")
			n, _ := strconv.Atoi(id)
			reg := Registration{ID: kafka.NodeID(n), LogDirs: []kafka.UUID{{0: byte(n)}}, Unclean: unclean}
			if hasRack {
				reg.Rack = &rack
			}
			entries := DecideStart(s.im, reg, s.im.Offset()+1, s.env)
			if fenced {
				entries = entries[:len(entries)-1]
			}
			for _, e := range entries {
				if change, ok := e.Record.(*sysrecord.PartitionChangeRecord); ok {
					s.p("  change %d leader=%d isr=%v elr=%v", change.PartitionID, change.Leader, change.ISR, change.EligibleLeaderReplicas)
				}
			}
			s.apply(entries)
		}
	},
	// create [validate] NAME... p=N rf=N as=1+2,2+1 KEY=VALUE...  topics with the same settings; LENGTHn is a name so long
	"create": func(s *scenario, words []string) {
		names, set := options(words)
		t := NewTopic{Partitions: number32(set, "p", -1), ReplicationFactor: int16(number32(set, "rf", -1))}
		if rows, ok := set["as"]; ok {
			delete(set, "as")
			t.Assignments = map[int32][]kafka.NodeID{}
			for i, row := range strings.Split(rows, ",") {
				if row != "gap" {
					t.Assignments[int32(i)] = nodes(row)
				}
			}
		}
		for _, key := range slices.Sorted(maps.Keys(set)) {
			value := ConfigValue{Name: key}
			if set[key] != "null" {
				value.Value = new(set[key])
			}
			t.Configs = append(t.Configs, value)
		}
		cmd := CreateTopics{}
		for _, name := range names {
			if name == "validate" {
				cmd.ValidateOnly = true
				continue
			}
			if name == "EMPTY" {
				name = ""
			}
			t.Name = strings.ReplaceAll(name, "SPACE", " ")
			if length, ok := strings.CutPrefix(name, "LENGTH"); ok {
				n, _ := strconv.Atoi(length)
				t.Name = strings.Repeat("x", n)
			}
			cmd.Topics = append(cmd.Topics, t)
		}
		entries, results := DecideCreateTopics(s.im, cmd, s.env)
		for _, r := range results {
			s.p("%s: %s partitions=%d rf=%d", r.Name, outcome(r.Err), r.Partitions, r.ReplicationFactor)
		}
		s.took(entries)
	},
	// delete NAME... id=N...
	"delete": func(s *scenario, words []string) {
		cmd := DeleteTopics{}
		for _, w := range words {
			if id, ok := strings.CutPrefix(w, "id="); ok {
				n, _ := strconv.Atoi(id)
				cmd.IDs = append(cmd.IDs, kafka.UUID{15: byte(n)})
			} else {
				cmd.Names = append(cmd.Names, w)
			}
		}
		entries, results := DecideDeleteTopics(s.im, cmd)
		for _, r := range results {
			s.p("%q id=%d: %s", r.Name, r.ID[15], outcome(r.Err))
		}
		s.took(entries)
	},
	// grow [validate] NAME... to=N as=1,2
	"grow": func(s *scenario, words []string) {
		names, set := options(words)
		g := TopicGrowth{Count: number32(set, "to", 0)}
		if rows, ok := set["as"]; ok {
			g.Assignments = [][]kafka.NodeID{}
			for row := range strings.SplitSeq(rows, ",") {
				g.Assignments = append(g.Assignments, nodes(row))
			}
		}
		cmd := CreatePartitions{}
		for _, name := range names {
			if name == "validate" {
				cmd.ValidateOnly = true
				continue
			}
			g.Name = name
			cmd.Topics = append(cmd.Topics, g)
		}
		entries, results := DecideCreatePartitions(s.im, cmd, s.env)
		for _, r := range results {
			s.p("%s: %s", r.Name, outcome(r.Err))
		}
		s.took(entries)
	},
	// alter TYPE NAME KEY=VALUE...  the legacy request
	"alter": func(s *scenario, words []string) { s.alter(words, false) },
	// incr TYPE NAME [set|del|app|sub]:KEY=VALUE...
	"incr": func(s *scenario, words []string) { s.alter(words, true) },
	// unregister ID
	"unregister": func(s *scenario, words []string) {
		entries, err := DecideUnregister(s.im, nodes(words[0])[0], s.env)
		s.p("%s", outcome(err))
		s.took(entries)
	},
	// fence ID
	"fence": func(s *scenario, words []string) {
		s.took(DecideFence(s.im, nodes(words[0])[0], s.env))
		b, _ := s.im.Broker(nodes(words[0])[0])
		s.p("fenced=%v", b.Fenced)
	},
	// elect preferred|unclean|odd [TOPIC PARTITION...]  without a topic: all partitions
	"elect": func(s *scenario, words []string) {
		kinds := map[string]ElectionType{"preferred": PreferredElection, "unclean": UncleanElection, "odd": 2}
		cmd := ElectLeaders{Type: kinds[words[0]]}
		if len(words) > 1 {
			row := TopicPartitions{Topic: words[1]}
			for _, id := range nodes(strings.Join(words[2:], "+")) {
				row.Partitions = append(row.Partitions, int32(id))
			}
			cmd.Topics = append(cmd.Topics, row)
		}
		entries, results, err := DecideElectLeaders(s.im, cmd, s.env)
		if err != nil {
			s.p("%v", err)
		}
		for _, r := range results {
			for _, p := range r.Partitions {
				s.p("%s-%d: %s", r.Topic, p.Partition, outcome(p.Err))
			}
		}
		s.took(entries)
	},
	// reassign [fixed] TOPIC PARTITION=1+2... PARTITION=cancel
	"reassign": func(s *scenario, words []string) {
		cmd := Reassign{FixedFactors: words[0] == "fixed"}
		if cmd.FixedFactors {
			words = words[1:]
		}
		for _, w := range words[1:] {
			number, target, _ := strings.Cut(w, "=")
			r := Reassignment{Topic: words[0], Replicas: nodes(target), Cancel: target == "cancel"}
			n, _ := strconv.Atoi(number)
			r.Partition = int32(n)
			cmd.Partitions = append(cmd.Partitions, r)
		}
		entries, results := DecideReassign(s.im, cmd, s.env)
		for i, err := range results {
			s.p("%s-%d: %s", words[0], cmd.Partitions[i].Partition, outcome(err))
		}
		s.took(entries)
	},
	// features KIND [validate] NAME=LEVEL...  kinds are Kafka's numbers
	"features": func(s *scenario, words []string) {
		kind, _ := strconv.Atoi(words[0])
		cmd := UpdateFeatures{KRaft: 0, MinISR: "2"}
		for _, w := range words[1:] {
			if w == "validate" {
				cmd.ValidateOnly = true
				continue
			}
			name, level, _ := strings.Cut(w, "=")
			n, _ := strconv.Atoi(level)
			cmd.Updates = append(cmd.Updates, FeatureUpdate{name, int16(n), UpgradeType(kind)})
		}
		entries, raise, err := DecideUpdateFeatures(s.im, cmd)
		s.p("%s, raise kraft.version %v", outcome(err), raise)
		s.took(entries)
	},
	// controller: a leadership begins; sessions are of 9000 ms
	"controller": func(s *scenario, _ []string) { s.live = NewLiveness(s.im, 9000, s.nowMs) },
	// after MS: time passes
	"after": func(s *scenario, words []string) {
		n, _ := strconv.Atoi(words[0])
		s.nowMs += int64(n)
	},
	// register ID inc=N prev=EPOCH|old rack=R dirs=1+2 at=HOST feature:NAME=MIN-MAX zk
	"register": func(s *scenario, words []string) {
		plain, set := options(words)
		reg := testRegistration(nodes(plain[0])[0])
		reg.Incarnation[0] = byte(number32(set, "inc", 1))
		reg.Migrating = slices.Contains(plain, "zk")
		if b, ok := s.im.Broker(reg.ID); ok && set["prev"] == "old" {
			reg.PreviousEpoch = b.Epoch
		} else if set["prev"] != "" {
			reg.PreviousEpoch = kafka.BrokerEpoch(number32(set, "prev", -1))
		}
		if rack, ok := set["rack"]; ok {
			reg.Rack = &rack
		}
		if dirs, ok := set["dirs"]; ok {
			reg.LogDirs = testDirs(dirs)
		}
		reg.Endpoints = []Endpoint{{Name: "PLAINTEXT", Host: set["at"], Port: 9092, Security: "PLAINTEXT"}}
		for key, levels := range set {
			if name, is := strings.CutPrefix(key, "feature:"); is {
				reg.Features = slices.DeleteFunc(reg.Features, func(f FeatureRange) bool { return f.Name == name })
				if low, high, ok := strings.Cut(levels, "-"); ok {
					a, _ := strconv.Atoi(low)
					b, _ := strconv.Atoi(high)
					reg.Features = append(reg.Features, FeatureRange{name, int16(a), int16(b)})
				}
			}
		}
		entries, epoch, err := s.live.Register(s.im, reg, s.im.Offset()+1, s.nowMs, s.env)
		s.p("%s, epoch %d", outcome(err), epoch)
		s.brief(entries)
	},
	// beat ID [at=OFFSET] [epoch=N] [fence] [stop] offline=1+2 cordoned=1+2  at is the newest record by default
	"beat": func(s *scenario, words []string) {
		plain, set := options(words)
		hb := Heartbeat{Broker: nodes(plain[0])[0], MetadataOffset: s.im.Offset()}
		if b, ok := s.im.Broker(hb.Broker); ok {
			hb.Epoch = b.Epoch
		}
		hb.Epoch = kafka.BrokerEpoch(number32(set, "epoch", int32(hb.Epoch)))
		hb.MetadataOffset = kafka.Offset(number32(set, "at", int32(hb.MetadataOffset)))
		hb.WantFence, hb.WantShutDown = slices.Contains(plain, "fence"), slices.Contains(plain, "stop")
		if dirs, ok := set["offline"]; ok {
			hb.OfflineDirs = testDirs(dirs)
		}
		if dirs, ok := set["cordoned"]; ok {
			hb.CordonedDirs = testDirs(dirs)
		}
		entries, r, err := s.live.Heartbeat(s.im, hb, s.im.Offset()+1, s.nowMs, s.env)
		if err != nil {
			s.p("%s", outcome(err))
			return
		}
		s.p("caught up %v, fenced %v, stop %v", r.CaughtUp, r.Fenced, r.ShouldShutDown)
		s.brief(entries)
	},
	// expire: fences those whose session is over
	"expire": func(s *scenario, _ []string) {
		for id, due := s.live.Expired(s.im, s.nowMs); due; id, due = s.live.Expired(s.im, s.nowMs) {
			s.p("broker %d", id)
			s.brief(DecideFence(s.im, id, s.env))
		}
	},
	// died ID: its address refuses connections
	"died": func(s *scenario, words []string) {
		b, _ := s.im.Broker(nodes(words[0])[0])
		fence := s.live.Died(s.im, b.ID, b.Epoch, s.nowMs)
		s.p("fence %v", fence)
		if fence {
			s.brief(DecideFence(s.im, b.ID, s.env))
		}
	},
	// isr LEADER TOPIC PARTITION=1+2+3:EPOCH [le=N] [pe=N] [epoch=N] [recovering]  epochs are the current ones by default
	"isr": func(s *scenario, words []string) {
		plain, set := options(words)
		cmd := AlterPartition{Broker: nodes(plain[0])[0]}
		if b, ok := s.im.Broker(cmd.Broker); ok {
			cmd.Epoch = b.Epoch
		}
		cmd.Epoch = kafka.BrokerEpoch(number32(set, "epoch", int32(cmd.Epoch)))
		le, pe := number32(set, "le", -1), number32(set, "pe", -1)
		row := AlterPartitionTopic{ID: kafka.TopicID{15: 99}}
		if t, ok := s.im.Topic(plain[1]); ok {
			row.ID = t.ID
		}
		for _, w := range words[2:] {
			key, ids, _ := strings.Cut(w, "=")
			n, err := strconv.Atoi(key)
			if err != nil {
				continue
			}
			alter := PartitionAlteration{Index: int32(n), LeaderEpoch: kafka.Epoch(le), PartitionEpoch: kafka.Epoch(pe)}
			if p, ok := s.im.Partition(kafka.TopicPartition{Topic: plain[1], Partition: int32(n)}); ok {
				if le < 0 {
					alter.LeaderEpoch = p.LeaderEpoch
				}
				if pe < 0 {
					alter.PartitionEpoch = p.PartitionEpoch
				}
			}
			if slices.Contains(plain, "recovering") {
				alter.RecoveryState = Recovering
			}
			for member := range strings.SplitSeq(ids, "+") {
				id, epoch, given := strings.Cut(member, ":")
				m := ISRMember{Broker: nodes(id)[0], Epoch: NoBrokerEpoch}
				if e, err := strconv.Atoi(epoch); given && err == nil {
					m.Epoch = kafka.BrokerEpoch(e)
				}
				alter.ISR = append(alter.ISR, m)
			}
			row.Partitions = append(row.Partitions, alter)
		}
		cmd.Topics = []AlterPartitionTopic{row}
		entries, result, err := DecideAlterPartition(s.im, cmd, s.env)
		if err != nil {
			s.p("%s", outcome(err))
			return
		}
		for _, p := range result.Topics[0].Partitions {
			if p.Err != kafka.None {
				s.p("%d: %v", p.Index, p.Err)
				continue
			}
			s.p("%d: leader=%d isr=%v epoch=%d/%d recovery=%d", p.Index, p.Leader, p.ISR, p.LeaderEpoch, p.PartitionEpoch, p.RecoveryState)
		}
		s.brief(entries)
	},
	// dirs BROKER DIR TOPIC PARTITION... [epoch=N]
	"dirs": func(s *scenario, words []string) {
		plain, set := options(words)
		cmd := AssignDirs{Broker: nodes(plain[0])[0]}
		if b, ok := s.im.Broker(cmd.Broker); ok {
			cmd.Epoch = b.Epoch
		}
		cmd.Epoch = kafka.BrokerEpoch(number32(set, "epoch", int32(cmd.Epoch)))
		row := TopicIDPartitions{ID: kafka.TopicID{15: 99}}
		if t, ok := s.im.Topic(plain[2]); ok {
			row.ID = t.ID
		}
		for _, id := range nodes(strings.Join(plain[3:], "+")) {
			row.Partitions = append(row.Partitions, int32(id))
		}
		cmd.Dirs = []DirAssignment{{ID: testDirs(plain[1])[0], Topics: []TopicIDPartitions{row}}}
		entries, result, err := DecideAssignDirs(s.im, cmd, s.env)
		if err != nil {
			s.p("%s", outcome(err))
			return
		}
		for _, p := range result.Dirs[0].Topics[0].Partitions {
			s.p("%d: %v", p.Index, p.Err)
		}
		s.brief(entries)
	},
	// balance: preferred leaders; leaders: for partitions without one
	"balance": func(s *scenario, _ []string) {
		entries, more := DecideBalance(s.im, s.env)
		s.p("more %v", more)
		s.brief(entries)
	},
	"leaders": func(s *scenario, _ []string) {
		entries, more := DecideElections(s.im, s.env)
		s.p("more %v", more)
		s.brief(entries)
	},
	// raise TOPIC=FACTOR/MINISR...
	"raise": func(s *scenario, words []string) {
		var wanted []WantedFactor
		for _, w := range words {
			name, numbers, _ := strings.Cut(w, "=")
			factor, minISR, _ := strings.Cut(numbers, "/")
			f, _ := strconv.Atoi(factor)
			m, _ := strconv.Atoi(minISR)
			wanted = append(wanted, WantedFactor{name, f, m})
		}
		s.brief(DecideRaiseFactors(s.im, wanted, s.env))
	},
	// producers ID [epoch=N]
	"producers": func(s *scenario, words []string) {
		plain, set := options(words)
		id := nodes(plain[0])[0]
		b, _ := s.im.Broker(id)
		entries, first, err := DecideProducerIDs(s.im, id, kafka.BrokerEpoch(number32(set, "epoch", int32(b.Epoch))))
		s.p("%s, first %d", outcome(err), first)
		s.brief(entries)
	},
	// show prints the topics, and what is set
	"show": func(s *scenario, _ []string) {
		for t := range s.im.Topics() {
			s.p("%s %s", t.Name, sortedConfig(s.im, Resource{TopicResource, t.Name}))
			for i, p := range t.Partitions {
				s.p("  %d replicas=%v isr=%v leader=%d epoch=%d/%d", i, p.Replicas, p.ISR, p.Leader, p.LeaderEpoch, p.PartitionEpoch)
				if p.Reassigning() {
					s.p("    adding=%v removing=%v", p.Adding, p.Removing)
				}
				if len(p.ELR)+len(p.LastELR) > 0 {
					s.p("    elr=%v last=%v", p.ELR, p.LastELR)
				}
				if p.Recovering {
					s.p("    recovering")
				}
			}
		}
		for _, kind := range []ResourceType{BrokerResource, ClientMetricsResource, GroupResource} {
			for r := range s.im.Resources(kind) {
				s.p("%d/%s %s", r.Type, r.Name, sortedConfig(s.im, r))
			}
		}
	},
}

func sortedConfig(im *Image, r Resource) string {
	var words []string
	values := im.Config(r)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		words = append(words, key+"="+values[key])
	}
	return strings.Join(words, " ")
}

func (s *scenario) alter(words []string, incremental bool) {
	kind, _ := strconv.Atoi(words[0])
	name := words[1]
	if name == "EMPTY" {
		name = ""
	}
	change := ConfigChange{Resource: Resource{ResourceType(kind), name}}
	kinds := map[string]OpKind{"set": Set, "del": Delete, "app": Append, "sub": Subtract, "odd": 9}
	for _, w := range words[2:] {
		key, value, hasValue := strings.Cut(w, "=")
		op := ConfigOp{Name: key}
		if incremental {
			verb, rest, _ := strings.Cut(key, ":")
			op.Name, op.Op = rest, kinds[verb]
		}
		if hasValue {
			op.Value = &value
		}
		change.Ops = append(change.Ops, op)
	}
	entries, results := DecideAlterConfigs(s.im, AlterConfigs{Incremental: incremental, Resources: []ConfigChange{change}}, s.env)
	s.p("%s", outcome(results[0].Err))
	s.took(entries)
}
