package scripts

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func quorumScript() *script {
	return &script{
		instead: "raftsman cluster quorum",
		verbs:   []string{"describe", "add-controller", "remove-controller"},
		options: common(slices.Concat(flags("status", "replication", "human-readable", "dry-run", "unregister"), values("controller-id", "controller-directory-id"))...),
		short:   map[string]string{"-i": "controller-id", "-d": "controller-directory-id"},
		run:     runQuorum,
	}
}

func runQuorum(ctx context.Context, c *call) error {
	switch {
	case c.verb == "":
		return usagef("")
	case c.verb == "add-controller":
		return errors.New("add-controller is not served by this script: use `raftsman cluster add-voter`, which needs no server.properties")
	case c.verb == "remove-controller":
		return c.removeController(ctx)
	case c.opts.has("status") && c.opts.has("replication"):
		return usagef("Only one of --status or --replication should be specified with describe sub-command")
	case !c.opts.has("status") && !c.opts.has("replication"):
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

// removeController takes a voter out of the quorum.
func (c *call) removeController(ctx context.Context) error {
	for _, name := range []string{"controller-id", "controller-directory-id"} {
		if !c.opts.has(name) {
			return usagef("argument --%s is required", name)
		}
	}
	text := c.opts.value("controller-id")
	id, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return usagef("argument --controller-id/-i: could not convert '%s' to Integer (For input string: \"%s\")", text, text)
	}
	directory, err := parseDirectory(c.opts.value("controller-directory-id"))
	if err != nil {
		return fmt.Errorf("Failed to parse --controller-directory-id: %w", err) //nolint:staticcheck // Kafka's words
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	removed, unregistered := "DRY RUN of removing", "DRY RUN of unregistering"
	if !c.opts.has("dry-run") {
		req := kmsg.NewPtrRemoveRaftVoterRequest()
		req.VoterID, req.VoterDirectoryID = int32(id), directory
		resp, err := req.RequestWith(ctx, c.cl)
		if err != nil {
			return err
		}
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			return errors.New(exception(err, deref(resp.ErrorMessage)))
		}
		removed, unregistered = "Removed", "Unregistered"
	}
	c.print("%s KRaft controller %d with directory id %s\n", removed, id, base64.RawURLEncoding.EncodeToString(directory[:]))
	if !c.opts.has("unregister") {
		return nil
	}
	if !c.opts.has("dry-run") {
		if err := c.unregisterController(ctx, int32(id)); err != nil {
			return err
		}
	}
	c.print("%s KRaft controller %d\n", unregistered, id)
	return nil
}

// parseDirectory reads a directory's id, in base64 for URLs as Kafka writes it.
func parseDirectory(text string) (id [16]byte, err error) {
	if len(text) > 24 {
		return id, fmt.Errorf("Input string with prefix `%s` is too long to be decoded as a base64 UUID", text[:24]) //nolint:staticcheck // Kafka's words
	}
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return id, err
	}
	if len(b) != len(id) {
		return id, fmt.Errorf("Input string `%s` decoded as %d bytes, which is not equal to the expected 16 bytes of a base64-encoded UUID", text, len(b)) //nolint:staticcheck // Kafka's words
	}
	return [16]byte(b), nil
}
