package parity

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

// credentials asks for the passwords of users, of whom nobody has one.
func (c *conversation) credentials() {
	for _, v := range raw.VersionsOf(kmsg.DescribeUserSCRAMCredentials) {
		c.add("of all", raw.DescribeSCRAM(v))
		none := raw.DescribeSCRAM(v)
		none.Users = []kmsg.DescribeUserSCRAMCredentialsRequestUser{}
		c.add("of none", none)
		c.add("of one", raw.DescribeSCRAM(v, "alice"))
		c.add("of two", raw.DescribeSCRAM(v, "alice", "bob"))
		c.add("of one twice", raw.DescribeSCRAM(v, "alice", "alice", "bob"))
		c.add("of one without a name", raw.DescribeSCRAM(v, ""))
	}
}
