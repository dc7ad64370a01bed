package parity

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

// alterReplicaLogDirs asks to move partitions between log directories, of which there is one.
func (c *conversation) alterReplicaLogDirs() {
	for _, v := range raw.VersionsOf(kmsg.AlterReplicaLogDirs) {
		row := func(dir, topic string, partitions ...int32) kmsg.AlterReplicaLogDirsRequestDir {
			return kmsg.AlterReplicaLogDirsRequestDir{Dir: dir, Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: topic, Partitions: partitions}}}
		}
		ask := func(name string, rows func(here string) []kmsg.AlterReplicaLogDirsRequestDir) {
			c.with(name, kmsg.AlterReplicaLogDirs, v, func(w *world) kmsg.Request {
				all := w.links[0].Ask(raw.At(4, kmsg.NewPtrDescribeLogDirsRequest())).(*kmsg.DescribeLogDirsResponse)
				req := kmsg.NewPtrAlterReplicaLogDirsRequest()
				req.Dirs = rows(all.Dirs[0].Dir)
				return req
			})
		}
		ask("where it is", func(here string) []kmsg.AlterReplicaLogDirsRequestDir {
			return []kmsg.AlterReplicaLogDirsRequestDir{row(here, "r", 0, 1)}
		})
		ask("to nowhere", func(string) []kmsg.AlterReplicaLogDirsRequestDir {
			return []kmsg.AlterReplicaLogDirsRequestDir{row("/nowhere", "r", 0), row("nowhere", "nope", 1)}
		})
		ask("what is not there", func(here string) []kmsg.AlterReplicaLogDirsRequestDir {
			return []kmsg.AlterReplicaLogDirsRequestDir{row(here, "r", 2, 7, -1), row(here, "nope", 0)}
		})
		ask("one partition twice", func(here string) []kmsg.AlterReplicaLogDirsRequestDir {
			return []kmsg.AlterReplicaLogDirsRequestDir{row("/nowhere", "r", 0), row(here, "r", 0, 0)}
		})
		ask("a name too long, to nowhere", func(string) []kmsg.AlterReplicaLogDirsRequestDir {
			return []kmsg.AlterReplicaLogDirsRequestDir{row("/nowhere", strings.Repeat("x", 249), 0, -1)}
		})
		ask("a name too long", func(here string) []kmsg.AlterReplicaLogDirsRequestDir {
			return []kmsg.AlterReplicaLogDirsRequestDir{row(here, strings.Repeat("x", 249), 0)}
		})
	}
}
