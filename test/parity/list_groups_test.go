package parity

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

func (c *conversation) listGroups() {
	for _, v := range raw.VersionsOf(kmsg.ListGroups) {
		for _, filter := range [][2]string{{"", ""}, {"Stable", ""}, {"stable,EMPTY", ""}, {"nonsense", ""}, {"", "classic"}, {"", "CONSUMER"}, {"Empty", "Classic"}, {"", "nonsense"}} {
			req := raw.At(v, kmsg.NewPtrListGroupsRequest())
			if filter[0] != "" {
				req.StatesFilter = strings.Split(filter[0], ",")
			}
			if filter[1] != "" {
				req.TypesFilter = strings.Split(filter[1], ",")
			}
			c.add(fmt.Sprintf("states %q, types %q", filter[0], filter[1]), req)
		}
	}
}
