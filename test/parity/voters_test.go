package parity

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

// voters asks a quorum of one for others, which it can't get: they would have to run.
func (c *conversation) voters() {
	at := func(name, host string, port uint16) kmsg.AddRaftVoterRequestListener {
		return kmsg.AddRaftVoterRequestListener{Name: name, Host: host, Port: port}
	}
	controller := at("CONTROLLER", "127.0.0.1", 1) // where nobody listens
	for _, v := range raw.VersionsOf(kmsg.AddRaftVoter) {
		c.add("nobody", raw.AddVoter(v, -1, raw.StrangeID, controller))
		c.add("no directory", raw.AddVoter(v, 2, [16]byte{}, controller))
		c.add("no listener", raw.AddVoter(v, 2, raw.StrangeID))
		c.add("another listener", raw.AddVoter(v, 2, raw.StrangeID, at("PLAINTEXT", "127.0.0.1", 1)))
		c.add("one that votes, without a listener", raw.AddVoter(v, 1, raw.StrangeID))
		c.add("one that votes, with another directory", raw.AddVoter(v, 1, raw.StrangeID, controller))
		c.add("one that votes, at two listeners", raw.AddVoter(v, 1, raw.StrangeID, at("PLAINTEXT", "", 0), controller))
		c.add("one that does not run", raw.AddVoter(v, 2, raw.StrangeID, controller))
		c.add("one that does not run, again", raw.AddVoter(v, 2, raw.StrangeID, controller))
		other := raw.AddVoter(v, 2, raw.StrangeID, controller)
		other.ClusterID = new("another")
		c.add("another cluster", other)
		hasty := raw.AddVoter(v, 1, raw.StrangeID, controller)
		hasty.TimeoutMillis = 0
		c.add("no time", hasty)
		if v > 0 {
			early := raw.AddVoter(v, 1, raw.StrangeID, controller)
			early.AckWhenCommitted = false
			c.add("an answer before it is committed", early)
		}
	}
	for _, v := range raw.VersionsOf(kmsg.RemoveRaftVoter) {
		c.add("nobody", raw.RemoveVoter(v, -1, raw.StrangeID))
		c.add("no directory", raw.RemoveVoter(v, 1, [16]byte{}))
		c.add("one that does not vote", raw.RemoveVoter(v, 2, raw.StrangeID))
		c.add("one that votes, with another directory", raw.RemoveVoter(v, 1, raw.StrangeID))
		c.with("the only one that votes", kmsg.RemoveRaftVoter, v, func(w *world) kmsg.Request { return raw.RemoveVoter(v, 1, w.voter) })
		other := raw.RemoveVoter(v, 1, raw.StrangeID)
		other.ClusterID = new("another")
		c.add("another cluster", other)
	}
}
