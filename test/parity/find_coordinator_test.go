package parity

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

func (c *conversation) findCoordinators() {
	for _, v := range raw.VersionsOf(kmsg.FindCoordinator) {
		for _, kind := range []int8{0, 3, -1} {
			for _, key := range []string{"rebalanced", "", "grüppe ☃"} {
				req := raw.At(v, kmsg.NewPtrFindCoordinatorRequest())
				req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = kind, key, []string{key, "another", key}
				s := c.add(fmt.Sprintf("type %d, key %q", kind, key), req)
				if kind == 0 {
					s.till = raw.Found
				}
			}
		}
		for _, key := range []string{"g1", "g1:x:0", ":AAAAAAAAAAAAAAAAAAAAAA:0", "g1:AAAAAAAAAAAAAAAAAAAAAA:x", "g1:AAAAAAAAAAAAAAAAAAAAAA"} {
			req := raw.At(v, kmsg.NewPtrFindCoordinatorRequest())
			req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = 2, key, []string{key}
			c.add(fmt.Sprintf("a share partition of key %q", key), req)
		}
	}
}
