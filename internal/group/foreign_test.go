package group

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
)

var (
	typesByName = map[string]Type{"consumer": Consumer, "share": Share, "streams": Streams}
	partNames   = [...]string{"whole", "target", "member", "current", "topology"}
)

// foreign is a record that Kafka has written of a group of another type.
func (s *scenario) foreign(l line) *ForeignRecord {
	r := &ForeignRecord{Group: l.option("group", "g"), Type: typesByName[l.name], Epoch: int32(s.number(l.option("epoch", "0")))}
	if r.Type == Classic || len(l.rest) == 0 || !slices.Contains(partNames[:], l.rest[0]) {
		s.t.Fatalf("bad record of Kafka: %+v", l)
	}
	r.Part = Part(slices.Index(partNames[:], l.rest[0]))
	r.Gone, r.Settled = slices.Contains(l.rest, "gone"), !slices.Contains(l.rest, "unsettled")
	r.Name, r.Topics = l.option("name", ""), split(l.option("topics", ""))
	return r
}

func (s *scenario) printForeign(r *ForeignRecord) {
	what := strings.TrimRight(fmt.Sprintf("%v %s %s", r.Type, partNames[r.Part], r.Name), " ")
	key := AppendKey(nil, r)
	value, ok := AppendValue(nil, r)
	if ok == r.Gone {
		s.t.Fatalf("%s of group %s: %+v has value %x", what, r.Group, r, value)
	}
	if read := must(Decode(key, value)); !reflect.DeepEqual(read, r.decodable()) {
		s.t.Fatalf("%s of group %s: key %x value %x is read as %+v", what, r.Group, key, value, read)
	}
	s.printf("write %s: forget %s", r.Group, what)
}

// decodable is what Decode makes of a tombstone.
func (r *ForeignRecord) decodable() Record {
	if r.Part == TopologyPart {
		return nil
	}
	return r
}

func must(r Record, err error) Record {
	if err != nil {
		panic(err)
	}
	return r
}

func (s *scenario) fetchMember(l line) *FetchMember {
	id, epoch, ok := strings.Cut(l.option("as", ""), ":")
	if !ok {
		return nil
	}
	return &FetchMember{ID: id, Epoch: int32(s.number(epoch))}
}

func otherType(t Type) string {
	if t == Classic {
		return ""
	}
	return " " + t.String()
}

// TestGroupsOfOtherTypesAreRead decodes what Kafka 4.4 has written.
func TestGroupsOfOtherTypesAreRead(t *testing.T) {
	for _, c := range []struct {
		key, value string
		want       ForeignRecord
	}{
		{"000b 0001 67", "0000 00000002 8b52bee16e24d57d 00", ForeignRecord{Type: Share, Part: WholePart, Epoch: 2}},
		{
			"000a 0001 67 0001 6d", "0000 00 04726177 0b2f3132372e302e302e31 02 0274 00",
			ForeignRecord{Type: Share, Part: MemberPart, Name: "m", Topics: []string{"t"}},
		},
		{
			"0011 0001 67", "0000 00000002 8b52bee16e24d57d 02 00 04 00000000 01 19 02 156e756d2e7374616e6462792e7265706c69636173 0230 00",
			ForeignRecord{Type: Streams, Part: WholePart, Epoch: 2},
		},
		{
			"0013 0001 67 0001 6d", "0000 00 00 04726177 0b2f3132372e302e302e31 000493e0 00000000 037031 ff 01 00",
			ForeignRecord{Type: Streams, Part: MemberPart, Name: "m"},
		},
		{"0014 0001 67", "0000 00000003 01 00 08 000001a22ac70dc1", ForeignRecord{Type: Streams, Part: TargetPart, Epoch: 3}},
		{
			"0016 0001 67 0001 6d", "0000 00000001 00000000 01 01 01 01 01 01 01 00",
			ForeignRecord{Type: Streams, Part: CurrentPart, Name: "m", Epoch: 1, Settled: true},
		},
	} {
		c.want.Group = "g"
		got, err := Decode(unhex(t, c.key), unhex(t, c.value))
		if err != nil || !reflect.DeepEqual(got, &c.want) {
			t.Errorf("key %s value %s: %+v %v, want %+v", c.key, c.value, got, err, c.want)
		}
		if got, err := Decode(unhex(t, c.key), nil); err != nil || !got.(*ForeignRecord).Gone {
			t.Errorf("key %s without a value: %+v %v", c.key, got, err)
		}
	}
}

// TestWhyAMemberCannotJoin is what the operator is told: the client sees only the code.
func TestWhyAMemberCannotJoin(t *testing.T) {
	for kind, want := range map[Type]string{
		Share:   "it is a share group; members of the classic protocol need a group of another name",
		Streams: "it is a streams group and has members; it can become a classic group when they have left or their sessions have ended",
	} {
		m := New(testConfig(), func([]byte) {})
		m.Apply(&ForeignRecord{Group: "g", Type: kind, Part: MemberPart, Name: "m"})
		join := &Join{SessionTimeoutMs: 10_000, MemberID: "n", ProtocolType: "consumer", Protocols: []Protocol{{Name: "range"}}}
		e := m.Handle(scenarioStart, 1, "g", join)
		if r := e.Replies[0].Reply.(*JoinReply); r.Code != kafka.InconsistentGroupProtocol || r.MemberID != "" || len(e.Records) > 0 {
			t.Errorf("%v: %+v, records %v", kind, r, e.Records)
		}
		if events := m.TakeEvents(); len(events) != 1 || events[0].Kind != JoinRefused || events[0].Reason != want {
			t.Errorf("%v: events %+v, want %q", kind, events, want)
		}
	}
}
