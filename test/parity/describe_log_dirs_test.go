package parity

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

func (c *conversation) describeLogDirs() {
	for _, v := range raw.VersionsOf(kmsg.DescribeLogDirs) {
		for _, asked := range []struct {
			name   string
			topics []string
		}{{"right and wrong", []string{"r", "nope", "r", ""}}, {"rule 31: some topics", []string{"times", "deleted", "nope"}}, {"rule 31: no topics", []string{}}, {"all", nil}} {
			req := raw.At(v, kmsg.NewPtrDescribeLogDirsRequest())
			if asked.topics != nil {
				req.Topics = []kmsg.DescribeLogDirsRequestTopic{}
			}
			for _, name := range asked.topics {
				t := kmsg.NewDescribeLogDirsRequestTopic()
				t.Topic, t.Partitions = name, []int32{0, 7, 0}
				req.Topics = append(req.Topics, t)
			}
			c.add(asked.name, req)
		}
	}
}
