package api_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
)

// TestANameThatIsRepeatedWithoutEnd: of requests whose answer is many times as long, a hundred repetitions are answered, and the others
// refused: a request of 15 kB took a gigabyte.
func TestANameThatIsRepeatedWithoutEnd(t *testing.T) {
	const times, answered = 5000, 101
	l := connect(t, brokertest.Start(t).Addr())
	l.Create("t", 1)
	l.produce(9, "t", raw.Values("a"))
	l.coordinator("g")

	codes := map[string][]kafka.Error{}
	add := func(name string, code int16) { codes[name] = append(codes[name], kafka.Error(code)) }

	configs := kmsg.NewPtrDescribeConfigsRequest()
	configs.Version = 4
	groups := kmsg.NewPtrDescribeGroupsRequest()
	groups.Version = 5
	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: make([]int32, times)}}
	offsets := kmsg.NewPtrOffsetFetchRequest()
	offsets.Version = 8
	for range times {
		configs.Resources = append(configs.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t"})
		groups.Groups = append(groups.Groups, "g")
		offsets.Groups = append(offsets.Groups, kmsg.OffsetFetchRequestGroup{Group: "g"})
	}
	for _, r := range l.Ask(configs).(*kmsg.DescribeConfigsResponse).Resources {
		add("DescribeConfigs", r.ErrorCode)
		if (r.ErrorCode == 0) != (len(r.Configs) > 0) {
			t.Errorf("%d settings beside error %d", len(r.Configs), r.ErrorCode)
		}
	}
	for _, g := range l.Ask(groups).(*kmsg.DescribeGroupsResponse).Groups {
		add("DescribeGroups", g.ErrorCode)
	}
	for _, p := range l.Ask(producers).(*kmsg.DescribeProducersResponse).Topics[0].Partitions {
		add("DescribeProducers", p.ErrorCode)
	}
	for _, g := range l.Ask(offsets).(*kmsg.OffsetFetchResponse).Groups {
		add("OffsetFetch", g.ErrorCode)
	}
	for name, of := range codes {
		for i, code := range of {
			if want := map[bool]kafka.Error{true: kafka.None, false: kafka.InvalidRequest}[i < answered]; code != want {
				t.Fatalf("%s, row %d of %d: %v, want %v", name, i, len(of), code, want)
			}
		}
		if len(of) != times {
			t.Errorf("%s has %d rows, want %d", name, len(of), times)
		}
	}

	// One group's partitions, of which each answer has the metadata.
	for _, version := range []int16{1, 7, 8} {
		offsets = kmsg.NewPtrOffsetFetchRequest()
		offsets.Version, offsets.Group = version, "g"
		offsets.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: make([]int32, times)}}
		offsets.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g", Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: make([]int32, times)}}}}
		resp := l.Ask(offsets).(*kmsg.OffsetFetchResponse)
		code := kafka.Error(resp.ErrorCode)
		switch version {
		case 1:
			code = kafka.Error(resp.Topics[0].Partitions[times-1].ErrorCode)
		case 8:
			code = kafka.Error(resp.Groups[0].ErrorCode)
		}
		if code != kafka.InvalidRequest {
			t.Errorf("OffsetFetch v%d of one partition %d times: %v, want INVALID_REQUEST", version, times, code)
		}
	}
}
