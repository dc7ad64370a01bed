package txn

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
)

// golden is what Apache Kafka 4.4 writes for each state, as seen in its log; the names are shortened.
var golden = []struct {
	name, value string // of the id x
	want        *Value
}{
	{
		"an id handed out", "0001 0000000000000000 0000 0000ea60 00 00 000001a22d865283 ffffffffffffffff 01 0008 0000000000000000",
		&Value{Previous: 0, Next: -1, TimeoutMs: 60000, UpdatedMs: 1796060107395, StartMs: -1, Version: 1},
	},
	{
		"a transaction of a client of protocol 0",
		"0001 0000000000000000 0005 0000ea60 01 02 0274 02 00000001 00 000001a22d865a18 000001a22d865a18 01 0008 0000000000000000",
		&Value{
			ID: ID{0, 5}, Next: -1, TimeoutMs: 60000, State: Ongoing, Partitions: []kafka.TopicPartition{{Topic: "t", Partition: 1}},
			UpdatedMs: 1796060109336, StartMs: 1796060109336, Version: 1,
		},
	},
	{
		"a commit in protocol 2",
		"0001 0000000000000003 0002 0000ea60 02 02 0274 02 00000001 00 000001a22d86642c 000001a22d8663eb 02 0008 0000000000000003 02020002",
		&Value{
			ID: ID{3, 2}, Previous: 3, Next: -1, TimeoutMs: 60000, State: PrepareCommit, Protocol: 2,
			Partitions: []kafka.TopicPartition{{Topic: "t", Partition: 1}}, UpdatedMs: 1796060111916, StartMs: 1796060111851, Version: 1,
		},
	},
	{
		"its completion", "0001 0000000000000003 0002 0000ea60 04 01 000001a22d86642d 000001a22d8663eb 02 0008 0000000000000003 02020002",
		&Value{
			ID: ID{3, 2}, Previous: 3, Next: -1, TimeoutMs: 60000, State: CompleteCommit, Protocol: 2,
			UpdatedMs: 1796060111917, StartMs: 1796060111851, Version: 1,
		},
	},
	{
		"an abort when the epochs are used up",
		"0001 000000000000139b 7fff 000927c0 03 02 0274 02 00000002 00 000001a22d893a94 000001a22d893a86" +
			"03 0008 000000000000139b 0108 00000000000003f4 02020002",
		&Value{
			ID: ID{5019, 32767}, Previous: 5019, Next: 1012, TimeoutMs: 600000, State: PrepareAbort, Protocol: 2,
			Partitions: []kafka.TopicPartition{{Topic: "t", Partition: 2}}, UpdatedMs: 1796060297876, StartMs: 1796060297862, Version: 1,
		},
	},
	{
		"the next producer id", "0001 00000000000003ec 0000 0000ea60 05 01 000001a22d891ba7 000001a22d891ba5 02 0008 000000000000138e 02020002",
		&Value{
			ID: ID{1004, 0}, Previous: 5006, Next: -1, TimeoutMs: 60000, State: CompleteAbort, Protocol: 2,
			UpdatedMs: 1796060289959, StartMs: 1796060289957, Version: 1,
		},
	},
	{
		"transaction.version 0", "0000 00000000000007fd 0000 0000ea60 00 ffffffff 000001a22d8e7ef0 ffffffffffffffff",
		&Value{ID: ID{2045, 0}, Previous: -1, Next: -1, TimeoutMs: 60000, UpdatedMs: 1796060643056, StartMs: -1},
	},
	{
		"transaction.version 0, with partitions",
		"0000 00000000000007eb 0003 0000ea60 03 00000001 0001 74 00000002 00000002 00000001 000001a22d8e7bf0 000001a22d8d76ee",
		&Value{
			ID: ID{2027, 3}, Previous: -1, Next: -1, TimeoutMs: 60000, State: PrepareAbort,
			Partitions: []kafka.TopicPartition{{Topic: "t", Partition: 1}, {Topic: "t", Partition: 2}},
			UpdatedMs:  1796060642288, StartMs: 1796060575470,
		},
	},
	{"removed", "", nil},
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
	key := unhex(t, "0000 0001 78")
	for _, g := range golden {
		var value []byte
		if g.want != nil {
			value = unhex(t, g.value)
		}
		want := &Record{TransactionalID: "x", Value: g.want}
		got, err := Decode(key, value)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: read %+v %v, want %+v", g.name, got.Value, err, want.Value)
			continue
		}
		if k := AppendKey(nil, got); !bytes.Equal(k, key) {
			t.Errorf("%s: key %x, want %x", g.name, k, key)
		}
		switch v, there := AppendValue(nil, got); {
		case there != (g.want != nil):
			t.Errorf("%s: null is %v", g.name, !there)
		case strings.Contains(g.name, "with partitions"): // Kafka writes the partitions in any order
			if again, err := Decode(key, v); err != nil || !reflect.DeepEqual(again, want) || len(v) != len(value) {
				t.Errorf("%s: wrote %x, which is %+v %v", g.name, v, again.Value, err)
			}
		case !bytes.Equal(v, value):
			t.Errorf("%s: wrote\n%x, want\n%x", g.name, v, value)
		}
	}
}

func TestTopicsOfATransactionAreWrittenTogether(t *testing.T) {
	var partitions []kafka.TopicPartition
	for _, name := range []string{"a", "a-1", "a1", "b"} {
		for p := range int32(3) {
			partitions = append(partitions, kafka.TopicPartition{Topic: name, Partition: p})
		}
	}
	for version := range int16(2) {
		r := &Record{TransactionalID: "x", Value: &Value{Previous: -1, Next: -1, State: Ongoing, Partitions: union(nil, partitions), Version: version}}
		v, _ := AppendValue(nil, r)
		if got, err := Decode(AppendKey(nil, r), v); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("version %d: %+v came back as %+v %v", version, r.Value, got.Value, err)
		}
	}
	if topics := byTopic(union(nil, partitions)); len(topics) != 4 {
		t.Errorf("%d topics: %+v", len(topics), topics)
	}
}

func TestBadRecordsAreRefused(t *testing.T) {
	good := unhex(t, golden[2].value)
	for name, c := range map[string]struct{ key, value string }{
		"half a key":         {"0000 0005 78", ""},
		"no key":             {"", ""},
		"a null id":          {"0000 ffff", ""},
		"half a value":       {"0000 0001 78", hex.EncodeToString(good[:20])},
		"no version":         {"0000 0001 78", "00"},
		"a state of no name": {"0000 0001 78", "0000 0000000000000000 0000 0000ea60 09 00000000 0000000000000000 0000000000000000"},
		"a state never kept": {"0000 0001 78", "0000 0000000000000000 0000 0000ea60 06 00000000 0000000000000000 0000000000000000"},
	} {
		if r, err := Decode(unhex(t, c.key), unhex(t, c.value)); err == nil {
			t.Errorf("%s was read as %+v", name, r)
		}
	}
	for name, c := range map[string][2]string{
		"a kind of a later Kafka":    {"0001 0001 78", "0000"},
		"a version of a later Kafka": {"0000 0001 78", "0002 00"},
	} {
		if r, err := Decode(unhex(t, c[0]), unhex(t, c[1])); r != nil || err != nil {
			t.Errorf("%s: %+v %v", name, r, err)
		}
	}
}
