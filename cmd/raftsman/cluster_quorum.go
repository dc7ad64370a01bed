package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// quorumState is what `cluster quorum` shows: the metadata quorum as its leader sees it.
type quorumState struct {
	Leader        int32          `json:"leader"`
	Epoch         int32          `json:"epoch"`
	HighWatermark int64          `json:"highWatermark"`
	Voters        []replicaState `json:"voters"`
	Observers     []replicaState `json:"observers"`
}

// replicaState is one node's copy of the metadata log. Offsets and times are -1 where the leader has not heard of it.
type replicaState struct {
	ID             int32    `json:"id"`
	Directory      string   `json:"directoryId,omitempty"`
	EndOffset      int64    `json:"endOffset"`
	Lag            int64    `json:"lag"` // records that the leader has and it has not
	LastFetchMs    int64    `json:"lastFetchMs"`
	LastCaughtUpMs int64    `json:"lastCaughtUpMs"`
	Endpoints      []string `json:"endpoints"`
}

func clusterQuorumCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "quorum",
		Short: "Show the metadata quorum: its leader, who votes, who follows, and how far behind they are",
		Args:  wants(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.reach(c.Context(), func(ctx context.Context, cl *kgo.Client, _ *kadm.Client) error {
				p, nodes, err := describeQuorum(ctx, cl)
				if err != nil {
					return err
				}
				v := viewReplicas(p, nodes)
				if a.json() {
					return a.writeJSON(v)
				}
				return v.write(a, a.now())
			})
		},
	}
}

// describeQuorum asks for the metadata quorum, and where its voters are.
func describeQuorum(ctx context.Context, cl *kgo.Client) (p kmsg.DescribeQuorumResponseTopicPartition, nodes []kmsg.DescribeQuorumResponseNode, err error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, topic)
	const what = "describe the metadata quorum"
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return p, nil, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return p, nil, refused(what, err, message(resp.ErrorMessage))
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return p, nil, errors.New("the broker tells nothing of the metadata quorum")
	}
	p = resp.Topics[0].Partitions[0]
	return p, resp.Nodes, refused(what, kerr.ErrorForCode(p.ErrorCode), message(p.ErrorMessage))
}

func viewReplicas(p kmsg.DescribeQuorumResponseTopicPartition, nodes []kmsg.DescribeQuorumResponseNode) quorumState {
	v := quorumState{Leader: p.LeaderID, Epoch: p.LeaderEpoch, HighWatermark: p.HighWatermark}
	end := int64(unknown)
	for _, r := range p.CurrentVoters {
		if r.ReplicaID == p.LeaderID {
			end = r.LogEndOffset
		}
	}
	view := func(replicas []kmsg.DescribeQuorumResponseTopicPartitionReplicaState) []replicaState {
		views := []replicaState{}
		for _, r := range replicas {
			view := replicaState{
				ID: r.ReplicaID, Directory: topicID(r.ReplicaDirectoryID), EndOffset: r.LogEndOffset, Lag: unknown,
				LastFetchMs: r.LastFetchTimestamp, LastCaughtUpMs: r.LastCaughtUpTimestamp, Endpoints: []string{},
			}
			if end >= 0 && r.LogEndOffset >= 0 {
				view.Lag = max(0, end-r.LogEndOffset)
			}
			for _, n := range nodes {
				for _, l := range n.Listeners {
					if n.NodeID == r.ReplicaID {
						view.Endpoints = append(view.Endpoints, fmt.Sprintf("%s://%s", l.Name, net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port)))))
					}
				}
			}
			views = append(views, view)
		}
		slices.SortFunc(views, func(x, y replicaState) int {
			return cmp.Or(cmp.Compare(x.ID, y.ID), cmp.Compare(x.Directory, y.Directory))
		})
		return views
	}
	v.Voters, v.Observers = view(p.CurrentVoters), view(p.Observers)
	return v
}

func (v *quorumState) write(a *app, now time.Time) error {
	p := a.paint()
	var b strings.Builder
	high := formatCount(v.HighWatermark)
	if v.HighWatermark < 0 {
		high = "not known yet"
	}
	fmt.Fprintf(&b, "metadata quorum: leader %d, epoch %d, high watermark %s\n\n", v.Leader, v.Epoch, high)
	replicas := newTable(column{title: "NODE", right: true}, column{title: "ROLE"}, column{title: "END OFFSET", right: true}, column{title: "LAG", right: true},
		column{title: "FETCHED", right: true}, column{title: "CAUGHT UP", right: true}, column{title: "DIRECTORY"}, column{title: "ENDPOINTS", flexible: true})
	known := func(n int64) cell { return when(n < 0, faint("-"), count(n)) }
	ago := func(ms int64) cell {
		if ms < 0 {
			return faint("-")
		}
		return plain(formatSpan(max(0, now.Sub(time.UnixMilli(ms)))) + " ago")
	}
	add := func(r *replicaState, role cell) {
		fetched, caughtUp := ago(r.LastFetchMs), ago(r.LastCaughtUpMs)
		if r.ID == v.Leader && role.text == "leader" {
			fetched, caughtUp = faint("-"), faint("-") // it has all by itself
		}
		replicas.add(number(r.ID), role, known(r.EndOffset), known(r.Lag), fetched, caughtUp,
			when(r.Directory == "", faint("-"), plain(r.Directory)), when(len(r.Endpoints) == 0, faint("-"), plain(strings.Join(r.Endpoints, " "))))
	}
	for i := range v.Voters {
		add(&v.Voters[i], when(v.Voters[i].ID == v.Leader, strong("leader"), plain("voter")))
	}
	for i := range v.Observers {
		add(&v.Observers[i], plain("observer"))
	}
	if err := replicas.write(&b, p, a.width()); err != nil {
		return err
	}
	_, err := fmt.Fprint(a.out, b.String())
	return err
}
