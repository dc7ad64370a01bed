package scripts

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func quorumScript() *script {
	return &script{
		instead: "raftsman cluster describe",
		verbs:   []string{"describe", "add-controller", "remove-controller"},
		options: append(common(), flags("status", "replication", "human-readable")...),
		run:     runQuorum,
	}
}

func runQuorum(ctx context.Context, c *call) error {
	switch {
	case c.verb == "":
		return usagef("")
	case c.verb != "describe":
		return fmt.Errorf("%s is not served by this script yet: a cluster has one node, and `raftsman cluster describe` shows it", c.verb)
	case c.opts.has("status") == c.opts.has("replication"):
		return usagef("One of --status or --replication must be specified with describe sub-command")
	case c.opts.has("status") && c.opts.has("human-readable"):
		return errors.New("The option --human-readable is only supported along with --replication")
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	req := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return err
	}
	if err := said(resp.ErrorCode, resp.ErrorMessage); err != nil {
		return err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return errors.New("the broker tells nothing of the metadata quorum")
	}
	p := resp.Topics[0].Partitions[0]
	if err := said(p.ErrorCode, p.ErrorMessage); err != nil {
		return err
	}
	if c.opts.has("replication") {
		c.printReplication(&p)
		return nil
	}
	cluster, err := c.adm.BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	c.printStatus(cluster.Cluster, &p, resp.Nodes)
	return nil
}

func (c *call) printReplication(p *kmsg.DescribeQuorumResponseTopicPartition) {
	end := int64(0)
	for _, v := range p.CurrentVoters {
		if v.ReplicaID == p.LeaderID {
			end = v.LogEndOffset
		}
	}
	rows := [][]string{{"NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"}}
	row := func(r *kmsg.DescribeQuorumResponseTopicPartitionReplicaState, status string) []string {
		return []string{
			fmt.Sprint(r.ReplicaID), base64.RawURLEncoding.EncodeToString(r.ReplicaDirectoryID[:]), fmt.Sprint(r.LogEndOffset), fmt.Sprint(end - r.LogEndOffset),
			c.timeText(r.LastFetchTimestamp), c.timeText(r.LastCaughtUpTimestamp), status,
		}
	}
	for i := range p.CurrentVoters {
		if v := &p.CurrentVoters[i]; v.ReplicaID == p.LeaderID {
			rows = slices.Insert(rows, 1, row(v, "Leader"))
		} else {
			rows = append(rows, row(v, "Follower"))
		}
	}
	for i := range p.Observers {
		rows = append(rows, row(&p.Observers[i], "Observer"))
	}
	var widths [7]int
	for _, r := range rows {
		for i, text := range r {
			widths[i] = max(widths[i], len(text))
		}
	}
	for _, r := range rows {
		for i, text := range r {
			r[i] = fmt.Sprintf("%-*s", widths[i], text)
		}
		c.print("%s\t\n", strings.Join(r, "\t"))
	}
}

// timeText writes a time in milliseconds, -1 for none, or how long it is ago where a person asks.
func (c *call) timeText(ms int64) string {
	if ms < 0 || !c.opts.has("human-readable") {
		return fmt.Sprint(ms)
	}
	return fmt.Sprintf("%d ms ago", max(0, c.env.Now().UnixMilli()-ms))
}

func (c *call) printStatus(cluster string, p *kmsg.DescribeQuorumResponseTopicPartition, nodes []kmsg.DescribeQuorumResponseNode) {
	var end, lag int64
	var caughtUp, latest int64
	for _, v := range p.CurrentVoters {
		if v.ReplicaID == p.LeaderID {
			end, latest = v.LogEndOffset, v.LastCaughtUpTimestamp
		}
	}
	for _, v := range p.CurrentVoters {
		if behind := end - v.LogEndOffset; behind > lag {
			lag = behind
		}
		if behind := latest - v.LastCaughtUpTimestamp; v.LastCaughtUpTimestamp > 0 && behind > caughtUp {
			caughtUp = behind
		}
	}
	c.print("ClusterId:              %s\nLeaderId:               %d\nLeaderEpoch:            %d\nHighWatermark:          %d\nMaxFollowerLag:         %d\nMaxFollowerLagTimeMs:   %d\n",
		cluster, p.LeaderID, p.LeaderEpoch, p.HighWatermark, lag, caughtUp)
	c.print("CurrentVoters:          %s\nCurrentObservers:       %s\n", replicaList(p.CurrentVoters, nodes), replicaList(p.Observers, nodes))
}

func replicaList(replicas []kmsg.DescribeQuorumResponseTopicPartitionReplicaState, nodes []kmsg.DescribeQuorumResponseNode) string {
	var parts []string
	for _, r := range replicas {
		var endpoints []string
		for _, n := range nodes {
			if n.NodeID != r.ReplicaID {
				continue
			}
			for _, l := range n.Listeners {
				endpoints = append(endpoints, fmt.Sprintf("%q", fmt.Sprintf("%s://%s:%d", l.Name, l.Host, l.Port)))
			}
		}
		text := fmt.Sprintf(`{"id": %d, "directoryId": %q`, r.ReplicaID, base64.RawURLEncoding.EncodeToString(r.ReplicaDirectoryID[:]))
		if len(endpoints) > 0 {
			text += fmt.Sprintf(`, "endpoints": [%s]`, strings.Join(endpoints, ", "))
		}
		parts = append(parts, text+"}")
	}
	return "[" + strings.Join(parts, ", ") + "]"
}
