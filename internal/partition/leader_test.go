package partition

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
)

var update = flag.Bool("update", false, "write the transcripts in testdata anew")

// TestScenarios replays the transcripts in testdata: a line that begins at the margin is told to a leader, the indented lines
// below it are what it answers. `go test ./internal/partition -update` writes the answers anew.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(t, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
			}
		})
	}
}

// replay tells the commands of a transcript to a leader and returns the transcript with its answers.
func replay(t *testing.T, transcript string) string {
	t.Helper()
	var s scenario
	var out strings.Builder
	for line := range strings.Lines(transcript) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "  ") {
			continue
		}
		out.WriteString(line + "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		for _, answer := range s.tell(t, line) {
			out.WriteString("  " + answer + "\n")
		}
	}
	return out.String()
}

type scenario struct {
	l       *Leader
	brokers Brokers
	nowMs   int64
}

// members is an in-sync set with the broker epochs that are known.
func members(isr []Member) string {
	var texts []string
	for _, m := range isr {
		text := strconv.Itoa(int(m.ID))
		if m.Epoch != NoBrokerEpoch {
			text += "@" + strconv.Itoa(int(m.Epoch))
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ",")
}

func errorNamed(t *testing.T, name string) kafka.Error {
	t.Helper()
	for code := kafka.UnknownServerError; code < 140; code++ {
		if code.Name() == name || name == "" && code == kafka.None {
			return code
		}
	}
	t.Fatalf("no error %s", name)
	return kafka.None
}

func (s *scenario) tell(t *testing.T, line string) []string {
	t.Helper()
	name, rest, _ := strings.Cut(line, " ")
	args := map[string]string{}
	for field := range strings.FieldsSeq(rest) {
		key, value, _ := strings.Cut(field, "=")
		args[key] = value
	}
	number := func(key string, otherwise int64) int64 {
		text, ok := args[key]
		if !ok {
			return otherwise
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return n
	}
	nodes := func(key string) (ids []kafka.NodeID) {
		for text := range strings.SplitSeq(args[key], ",") {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			ids = append(ids, kafka.NodeID(n))
		}
		return ids
	}
	offset := func(key string) kafka.Offset { return kafka.Offset(number(key, 0)) }
	led := func() Leadership {
		return Leadership{
			Epoch: kafka.Epoch(number("epoch", 0)), PartitionEpoch: kafka.Epoch(number("change", 0)), Replicas: nodes("replicas"), ISR: nodes("isr"),
		}
	}

	var released []Release
	var answers []string
	s.nowMs = number("ms", s.nowMs)
	switch name {
	case "new":
		s.l = NewLeader(Config{Self: 1, MinISR: int(number("min", 1)), LagMaxMs: 1000, Brokers: s.brokers}, led(), Positions{
			Start: offset("start"), End: offset("end"), Stable: offset("stable"), HighWatermark: offset("high"),
		}, s.nowMs)
	case "lead":
		released = s.l.Lead(led(), s.nowMs, nil)
	case "brokers": // brokers 2=20 3=30,fenced 4=40,stopping
		s.brokers = Brokers{}
		for id, what := range args {
			epoch, fenced := strings.CutSuffix(what, ",fenced")
			epoch, stopping := strings.CutSuffix(epoch, ",stopping")
			n, _ := strconv.Atoi(id)
			e, err := strconv.Atoi(epoch)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			s.brokers[kafka.NodeID(n)] = Broker{Epoch: kafka.BrokerEpoch(e), Fenced: fenced, Stopping: stopping}
		}
		if s.l == nil {
			return nil
		}
		released = s.l.SetBrokers(s.brokers, s.nowMs, nil)
	case "lag":
		released = s.l.CheckLag(s.nowMs, nil)
	case "answer":
		answer := Altered{
			Err: errorNamed(t, args["error"]), Epoch: kafka.Epoch(number("epoch", int64(s.l.Epoch()))), PartitionEpoch: kafka.Epoch(number("change", 0)),
		}
		if args["isr"] != "" {
			answer.ISR = nodes("isr")
		}
		var again bool
		if released, again = s.l.Answered(number("to", s.l.asked), answer, s.nowMs, nil); again {
			answers = append(answers, "again")
			s.l.AskAgain(s.l.asked)
		}
	case "min":
		released = s.l.SetMinISR(int(number("isr", 1)), nil)
	case "append":
		if err := s.l.Admit(int16(number("acks", 1))); err != nil {
			return []string{"refused " + err.Error()}
		}
		s.l.Appended(offset("end"))
	case "park":
		parked, err := s.l.Park(int16(number("acks", 1)), Parked{
			Upto: offset("upto"), DeadlineMs: number("deadline", 1000), Ref: args["as"], Index: int32(number("index", 0)),
		})
		answers = append(answers, fmt.Sprintf("parked %v %v", parked, kafkaName(err)))
	case "flushed":
		released = s.l.Flushed(offset("end"), nil)
	case "follower":
		var err error
		released, err = s.l.FollowerAt(Fetched{
			ID: kafka.NodeID(number("id", 0)), Epoch: kafka.Epoch(number("epoch", -1)),
			BrokerEpoch: kafka.BrokerEpoch(number("broker", -1)), Start: offset("start"), End: offset("end"),
		}, s.nowMs, nil)
		if err != nil {
			answers = append(answers, "refused "+kafkaName(err))
		}
	case "delete":
		low, parked := s.l.ParkDelete(Parked{Upto: offset("upto"), DeadlineMs: number("deadline", 1000), Ref: args["as"], Index: int32(number("index", 0))})
		answers = append(answers, fmt.Sprintf("low %d parked %v", low, parked))
	case "start":
		released = s.l.StartMoved(offset("at"), nil)
	case "expire":
		released = s.l.Expire(number("now", 0), nil)
	case "resign":
		released = s.l.Resign(kafka.NotLeaderOrFollower, nil)
	default:
		t.Fatalf("unknown command %q", line)
	}
	for _, r := range released {
		answers = append(answers, fmt.Sprintf("release %v/%d upto=%d %s", r.Ref, r.Index, r.Upto, kafkaName(r.Err)))
	}
	if due, ok := s.l.Due(); ok {
		answers = append(answers, fmt.Sprintf("ask %d: epoch=%d change=%d isr=%s", due.Number, due.Epoch, due.PartitionEpoch, members(due.ISR)))
	}
	return append(answers, fmt.Sprintf("high=%d end=%d stable=%d epoch=%d from %d waiting=%d",
		s.l.HighWatermark(), s.l.End(), s.l.StableEnd(), s.l.Epoch(), s.l.EpochStart(), s.l.Waiting()))
}

func kafkaName(err error) string {
	code, _ := kafka.Answer(err)
	return code.Name()
}

func TestRule76LeaderEpochIsCompared(t *testing.T) {
	for _, c := range []struct {
		asked, current kafka.Epoch
		want           kafka.Error
	}{
		{5, 5, kafka.None},
		{kafka.NoEpoch, 5, kafka.None},
		{4, 5, kafka.FencedLeaderEpoch},
		{6, 5, kafka.UnknownLeaderEpoch},
	} {
		got, _ := kafka.Answer(CheckEpoch(c.asked, c.current))
		if got != c.want {
			t.Errorf("CheckEpoch(%d, %d) = %v, want %v", c.asked, c.current, got, c.want)
		}
	}
}
