package group

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
)

// golden is what Apache Kafka 4.4 writes for each record, as seen in its log; the names in the third are shortened.
var golden = []struct {
	name       string
	key, value string
	record     Record
}{
	{
		name:  "offset of a topic with an id",
		key:   "0001 0006 73696d706c65 0001 74 00000001",
		value: "0004 0000000000000006 00000003 05 6d657461 000001a228934931 01 0010 434aec18c0b643aa8f33b28f50c36acf",
		record: &OffsetRecord{Group: "simple", Topic: "t", Partition: 1, Value: &OffsetValue{
			Offset: 6, LeaderEpoch: 3, Metadata: "meta", CommittedMs: 1795977070897, ExpiresMs: -1,
			TopicID: kafka.TopicID{0x43, 0x4a, 0xec, 0x18, 0xc0, 0xb6, 0x43, 0xaa, 0x8f, 0x33, 0xb2, 0x8f, 0x50, 0xc3, 0x6a, 0xcf},
		}},
	},
	{
		name:   "group before its first generation",
		key:    "0002 0002 6367",
		value:  "0003 0000 00000000 ffff ffff 000001a228934978 00000000",
		record: &GroupRecord{Group: "cg", Value: &Generation{SinceMs: 1795977070968, Members: []Member{}}},
	},
	{
		name: "generation with a member",
		key:  "0002 0002 6367",
		value: "0003 0008 636f6e73756d6572 00000001 0005 72616e6765 0002 6d31 000001a22893498b 00000001" +
			"0002 6d31 ffff 0003 6b676f 000a 2f3132372e302e302e31 0000ea60 0000afc8 00000001 73 00000001 61",
		record: &GroupRecord{Group: "cg", Value: &Generation{
			ProtocolType: "consumer", Generation: 1, Protocol: new("range"), Leader: new("m1"), SinceMs: 1795977070987,
			Members: []Member{{
				MemberID: "m1", ClientID: "kgo", ClientHost: "/127.0.0.1", RebalanceTimeoutMs: 60000, SessionTimeoutMs: 45000,
				Subscription: []byte("s"), Assignment: []byte("a"),
			}},
		}},
	},
	{
		name:   "deleted offset",
		key:    "0001 0006 73696d706c65 0001 75 00000000",
		record: &OffsetRecord{Group: "simple", Topic: "u"},
	},
	{
		name:   "deleted group",
		key:    "0002 0006 73696d706c65",
		record: &GroupRecord{Group: "simple"},
	},
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRecordsAreKafkas(t *testing.T) {
	for _, g := range golden {
		key := AppendKey(nil, g.record)
		value, there := AppendValue(nil, g.record)
		if want := unhex(t, g.key); !bytes.Equal(key, want) {
			t.Errorf("%s: key\n%x, want\n%x", g.name, key, want)
		}
		if want := unhex(t, g.value); !bytes.Equal(value, want) || there != (g.value != "") {
			t.Errorf("%s: value\n%x, want\n%x", g.name, value, want)
		}
		if !there {
			value = nil
		}
		if got, err := Decode(key, value); err != nil || !reflect.DeepEqual(got, g.record) {
			t.Errorf("%s: decoded %+v %v, want %+v", g.name, got, err, g.record)
		}
	}
}

func TestOldVersionsOfRecordsAreRead(t *testing.T) {
	key := unhex(t, "0001 0001 67 0001 74 00000000")
	for _, c := range []struct {
		value string
		want  OffsetValue
	}{
		{"0000 0000000000000005 0001 6d 0000000000000007", OffsetValue{Offset: 5, LeaderEpoch: -1, Metadata: "m", CommittedMs: 7, ExpiresMs: -1}},
		{"0001 0000000000000005 0001 6d 0000000000000007 0000000000000009", OffsetValue{Offset: 5, LeaderEpoch: -1, Metadata: "m", CommittedMs: 7, ExpiresMs: 9}},
		{"0003 0000000000000005 00000002 0001 6d 0000000000000007", OffsetValue{Offset: 5, LeaderEpoch: 2, Metadata: "m", CommittedMs: 7, ExpiresMs: -1}},
	} {
		got, err := Decode(key, unhex(t, c.value))
		if err != nil || *got.(*OffsetRecord).Value != c.want {
			t.Errorf("value %s: %+v %v, want %+v", c.value, got, err, c.want)
		}
		key[1] = 0 // the key that Kafka wrote before 0.9 says the same
		if got, err := Decode(key, unhex(t, c.value)); err != nil || *got.(*OffsetRecord).Value != c.want {
			t.Errorf("old key, value %s: %+v %v", c.value, got, err)
		}
		key[1] = 1
	}
	for _, r := range []*OffsetRecord{
		{Group: "g", Topic: "t", Value: &OffsetValue{Offset: 1, LeaderEpoch: -1, CommittedMs: 2, ExpiresMs: 3}},
		{Group: "g", Topic: "t", Value: &OffsetValue{Offset: 1, LeaderEpoch: 4, CommittedMs: 2, ExpiresMs: -1}},
	} {
		value, _ := AppendValue(nil, r)
		if got, err := Decode(AppendKey(nil, r), value); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v came back as %+v %v", r.Value, got, err)
		}
	}
}

func TestOtherRecordsAreLeftAlone(t *testing.T) {
	for name, key := range map[string]string{
		"what a share group keeps of its topics": "000f 0001 67",
		"a kind of a later Kafka":                "7fff 0001 67",
	} {
		if r, err := Decode(unhex(t, key), []byte{0, 0}); r != nil || err != nil {
			t.Errorf("%s: %+v %v", name, r, err)
		}
	}
	for _, bad := range []string{"", "00", "0001", "0001 0005 67", "0002 ffff"} {
		if r, err := Decode(unhex(t, bad), nil); err == nil {
			t.Errorf("key %q was read as %+v", bad, r)
		}
	}
	if r, err := Decode(unhex(t, "0002 0001 67"), unhex(t, "0003 0000 00000000")); err == nil {
		t.Errorf("half a value was read as %+v", r)
	}
}
