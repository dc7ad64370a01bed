package group

import (
	"reflect"
	"testing"
)

// TestConsumerProtocolIsReadWithCare: what members of the classic protocol say comes from the network.
func TestConsumerProtocolIsReadWithCare(t *testing.T) {
	rack := "r"
	whole := []byte{
		0, 3, 0, 0, 0, 2, 0, 1, 't', 0, 2, 'u', 'v', 0, 0, 0, 1, 9, // version, topics, user data
		0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 7, // owned
		0, 0, 0, 5, 0, 1, 'r', // generation, rack
	}
	want := consumerSubscription{version: 3, topics: []string{"t", "uv"}, owned: map[string][]int32{"t": {4, 7}}, rack: &rack}
	if got, err := readConsumerSubscription(whole); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v %v, want %+v", got, err, want)
	}
	if got, err := readConsumerSubscription(append([]byte{0, 9}, append(whole[2:], 1, 2, 3)...)); err != nil || len(got.owned) != 1 {
		t.Errorf("a later version, which has more at its end: %+v %v", got, err)
	}
	for n := range whole {
		if got, err := readConsumerSubscription(whole[:n]); err == nil {
			t.Errorf("the first %d bytes are read as %+v", n, got)
		}
	}
	for name, bad := range map[string][]byte{
		"a version below 0": {0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff},
		"many topics":       {0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 1, 't'},
		"topics below 0":    {0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0},
		"a long name":       {0, 0, 0, 0, 0, 1, 0x7f, 0xff, 't'},
		"a name below 0":    {0, 0, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0},
		"many partitions":   {0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 1, 't', 0x3f, 0xff, 0xff, 0xff},
	} {
		if got, err := readConsumerSubscription(bad); err == nil {
			t.Errorf("%s is read as %+v", name, got)
		}
	}
	given := appendConsumerAssignment(1, []NamedPartitions{{Topic: "t", Partitions: []int32{4, 7}}, {Topic: "uv", Partitions: []int32{0}}})
	topics, foreign, err := readConsumerAssignment(given)
	if err != nil || foreign || !reflect.DeepEqual(topics, map[string][]int32{"t": {4, 7}, "uv": {0}}) {
		t.Errorf("an assignment came back as %v, foreign %v, %v", topics, foreign, err)
	}
	for n := 1; n < len(given); n++ {
		if got, _, err := readConsumerAssignment(given[:n]); err == nil {
			t.Errorf("the first %d bytes of an assignment are read as %v", n, got)
		}
	}
	own := append(given[:len(given)-4], 0, 0, 0, 1, 42)
	if _, foreign, err := readConsumerAssignment(own); err != nil || !foreign {
		t.Errorf("an assignment of a user's own assignor: foreign %v, %v", foreign, err)
	}
	if topics, foreign, err := readConsumerAssignment(nil); len(topics) > 0 || foreign || err != nil {
		t.Errorf("no assignment: %v %v %v", topics, foreign, err)
	}
}
