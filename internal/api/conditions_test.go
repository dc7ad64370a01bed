package api_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/condition"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
)

// body returns the bytes of the answer to a request.
func (l *link) body(req kmsg.Request) []byte {
	l.Helper()
	l.Send(req)
	_, body, err := l.Receive()
	if err != nil {
		l.Fatal(err)
	}
	return body
}

func tagsOf(tags *kmsg.Tags) (content []byte) {
	tags.Each(func(tag uint32, has []byte) {
		if tag == condition.Tag {
			content = has
		}
	})
	return content
}

// Conditions are in the answer to a request with our tagged field; without it, with another one or with none of ours in it the
// answer is the same as ever, byte for byte.
func TestConditionsAreToldToWhoAsksAndNobodyElse(t *testing.T) {
	dir := t.TempDir()
	b := brokertest.Start(t, brokertest.Dir(dir))
	l := connect(t, b.Addr())
	l.Create("compacted", 2, "cleanup.policy", "compact")
	l.Create("plain", 1)
	l.Create("zest", 1, "cleanup.policy", "compact")
	l.Ask(raw.Produce(9, -1, raw.ProduceRow{Topic: "plain", Records: raw.Values(strings.Repeat("x", 1000))}))
	l.Ask(raw.Produce(9, -1, raw.ProduceRow{Topic: "compacted", Partition: 1, Records: raw.Values("a")}, raw.ProduceRow{Topic: "zest", Records: raw.Values("a")}))
	for version := int16(2); version <= 5; version++ {
		ask := func(tag uint32, content []byte) *kmsg.DescribeLogDirsRequest {
			req := raw.At(version, kmsg.NewPtrDescribeLogDirsRequest())
			if content != nil {
				req.UnknownTags.Set(tag, content)
			}
			return req
		}
		told := l.Ask(ask(condition.Tag, condition.Asks())).(*kmsg.DescribeLogDirsResponse)
		d, err := condition.ReadDirectory(tagsOf(&told.Dirs[0].UnknownTags))
		if err != nil || d.ReserveBytes <= 0 || d.RefusesProduces {
			t.Errorf("v%d: the directory has %+v, %v", version, d, err)
		}
		told.Dirs[0].UnknownTags = kmsg.Tags{}
		for i, topic := range told.Dirs[0].Topics {
			for j := range topic.Partitions {
				row := &topic.Partitions[j]
				is, err := condition.ReadPartition(tagsOf(&row.UnknownTags))
				switch {
				case topic.Topic == "plain" && row.UnknownTags.Len() > 0:
					t.Errorf("v%d: a topic that is not compacted has %+v", version, is)
				case topic.Topic != "plain" && (err != nil || is.Compaction == nil || is.Compaction.Cleaned != kafka.NoOffset || is.Compaction.CleanedMs != -1):
					t.Errorf("v%d: %s-%d has %+v, %v", version, topic.Topic, row.Partition, is, err)
				}
				told.Dirs[0].Topics[i].Partitions[j].UnknownTags = kmsg.Tags{}
			}
		}
		told.SetVersion(version)
		want := append([]byte{0}, told.AppendTo(nil)...) // behind a header without tags
		for what, req := range map[string]*kmsg.DescribeLogDirsRequest{
			"no tag": ask(0, nil), "another tag": ask(condition.Tag+1, condition.Asks()), "no version": ask(condition.Tag, []byte{}),
			"a negative version": ask(condition.Tag, []byte{0xff}), "too much": ask(condition.Tag, []byte{0, 0}),
		} {
			got := l.body(req)
			if version >= 4 { // the file system's free bytes change meanwhile
				got, want = withoutRoom(t, version, got), withoutRoom(t, version, want)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("v%d, %s: the answer is\n%x\nwant\n%x", version, what, got, want)
			}
		}
	}
	b.Close()
	for _, topic := range []string{"compacted-1", "zest-0"} {
		if err := os.Truncate(filepath.Join(dir, topic, "00000000000000000000.log"), 0); err != nil {
			t.Fatal(err)
		}
	}
	b = brokertest.Start(t, brokertest.Dir(dir))
	l = connect(t, b.Addr())
	req := raw.At(5, kmsg.NewPtrDescribeLogDirsRequest())
	req.UnknownTags.Set(condition.Tag, condition.Asks())
	rows := l.Ask(req).(*kmsg.DescribeLogDirsResponse).Dirs[0].Topics
	if len(rows) != 3 || len(rows[0].Partitions) != 2 || len(rows[2].Partitions) != 1 {
		t.Fatalf("damaged partitions have no rows: %+v", rows)
	}
	for _, row := range []*kmsg.DescribeLogDirsResponseDirTopicPartition{&rows[0].Partitions[1], &rows[2].Partitions[0]} {
		is, err := condition.ReadPartition(tagsOf(&row.UnknownTags))
		if err != nil || is.Damage == nil || !strings.HasSuffix(is.Damage.File, ".log") || is.Damage.Remedy == "" || row.Size != -1 {
			t.Errorf("a damaged partition has %+v, %+v, %v", row, is, err)
		}
	}
	untagged := l.Ask(raw.At(5, kmsg.NewPtrDescribeLogDirsRequest())).(*kmsg.DescribeLogDirsResponse).Dirs[0].Topics
	if len(untagged) != 2 || len(untagged[0].Partitions) != 1 {
		t.Errorf("who does not ask is told of logs that do not open: %+v", untagged)
	}
}

// withoutRoom returns an answer of DescribeLogDirs with the file system's sizes left out.
func withoutRoom(t *testing.T, version int16, body []byte) []byte {
	t.Helper()
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	resp.SetVersion(version)
	if err := resp.ReadFrom(body[1:]); err != nil {
		t.Fatal(err)
	}
	for i := range resp.Dirs {
		resp.Dirs[i].TotalBytes, resp.Dirs[i].UsableBytes = 0, 0
	}
	return append(body[:1:1], resp.AppendTo(nil)...)
}
