package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// changedVoter is what `cluster add-voter` and `cluster remove-voter` show.
type changedVoter struct {
	ID        int32  `json:"id"`
	Directory string `json:"directoryId"`
	Endpoint  string `json:"endpoint,omitempty"` // of one that was added
	Votes     bool   `json:"votes"`
}

func clusterAddVoterCommand(a *app) *cobra.Command {
	var directory, listener string
	c := &cobra.Command{
		Use:   "add-voter NODE HOST:PORT",
		Short: "Have a controller vote in the metadata quorum, which follows it already",
		Long: `Have a controller vote in the metadata quorum. It has to run and to have all metadata: ` + "`raftsman cluster quorum`" + ` shows it as an observer.
HOST:PORT is where the other controllers reach it. Raftsman's own controllers ask for their vote by themselves when they join
(controller.quorum.auto.join.enable).`,
		Example: "  raftsman cluster add-voter 4 10.0.0.4:9093",
		Args:    wants(2, 2),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := parseNode(args[0])
			if err != nil {
				return err
			}
			host, port, err := parseEndpoint(args[1])
			if err != nil {
				return err
			}
			return a.reach(c.Context(), func(ctx context.Context, cl *kgo.Client, _ *kadm.Client) error {
				p, nodes, err := describeQuorum(ctx, cl)
				if err != nil {
					return err
				}
				key, err := chooseReplica(id, directory, "observer", p.Observers)
				if err != nil {
					return err
				}
				at := kmsg.NewAddRaftVoterRequestListener()
				at.Name, at.Host, at.Port = listener, host, port
				if at.Name == "" {
					at.Name = controllerListener(p.LeaderID, nodes)
				}
				if at.Name == "" {
					return usagef("the cluster does not tell what its controllers' listener is called: name it with --listener")
				}
				return a.addVoter(ctx, cl, id, key, at)
			})
		},
	}
	c.Flags().StringVar(&directory, "directory-id", "", "the directory of the node's metadata log, where the quorum has seen several of the node or none")
	c.Flags().StringVar(&listener, "listener", "", "the name of the listener at HOST:PORT (default: that of the quorum's leader)")
	return c
}

func (a *app) addVoter(ctx context.Context, cl *kgo.Client, id int32, directory [16]byte, at kmsg.AddRaftVoterRequestListener) error {
	req := kmsg.NewPtrAddRaftVoterRequest()
	req.TimeoutMillis, req.VoterID, req.VoterDirectoryID = int32(a.timeout.Milliseconds()), id, directory
	req.Listeners = append(req.Listeners, at)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return refused(fmt.Sprintf("add voter %d", id), err, message(resp.ErrorMessage))
	}
	endpoint := at.Name + "://" + net.JoinHostPort(at.Host, strconv.Itoa(int(at.Port)))
	if a.json() {
		return a.writeJSON(changedVoter{id, topicID(directory), endpoint, true})
	}
	a.note("node %d votes, with directory %s at %s", id, topicID(directory), endpoint)
	return nil
}

func clusterRemoveVoterCommand(a *app) *cobra.Command {
	var directory string
	c := &cobra.Command{
		Use:   "remove-voter NODE",
		Short: "Have a controller vote no more in the metadata quorum",
		Long: `Have a controller vote no more in the metadata quorum. It need not run. One that runs goes on to follow the quorum, and asks for its vote
again if it is to join by itself (controller.quorum.auto.join.enable, as on Raftsman's own): stop it first.`,
		Example: "  raftsman cluster remove-voter 3",
		Args:    wants(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := parseNode(args[0])
			if err != nil {
				return err
			}
			return a.reach(c.Context(), func(ctx context.Context, cl *kgo.Client, _ *kadm.Client) error {
				p, _, err := describeQuorum(ctx, cl)
				if err != nil {
					return err
				}
				key, err := chooseReplica(id, directory, "voter", p.CurrentVoters)
				if err != nil {
					return err
				}
				return a.removeVoter(ctx, cl, id, key)
			})
		},
	}
	c.Flags().StringVar(&directory, "directory-id", "", "the directory of the node's metadata log")
	return c
}

func (a *app) removeVoter(ctx context.Context, cl *kgo.Client, id int32, directory [16]byte) error {
	req := kmsg.NewPtrRemoveRaftVoterRequest()
	req.VoterID, req.VoterDirectoryID = id, directory
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return refused(fmt.Sprintf("remove voter %d", id), err, message(resp.ErrorMessage))
	}
	if a.json() {
		return a.writeJSON(changedVoter{ID: id, Directory: topicID(directory)})
	}
	a.note("node %d votes no more", id)
	return nil
}

// chooseReplica returns the directory of a node among replicas of the metadata log, or the one that was given.
func chooseReplica(id int32, given, role string, replicas []kmsg.DescribeQuorumResponseTopicPartitionReplicaState) (directory [16]byte, err error) {
	if given != "" {
		b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(given, "="))
		if err != nil || len(b) != len(directory) {
			return directory, usagef("--directory-id %s is no id: `raftsman cluster quorum` shows them", given)
		}
		return [16]byte(b), nil
	}
	of := slices.DeleteFunc(slices.Clone(replicas), func(r kmsg.DescribeQuorumResponseTopicPartitionReplicaState) bool { return r.ReplicaID != id })
	switch {
	case len(of) == 0:
		return directory, fmt.Errorf("node %d is no %s of the metadata quorum: `raftsman cluster quorum` shows who is", id, role)
	case len(of) > 1:
		return directory, usagef("node %d is there with several directories: name one with --directory-id, `raftsman cluster quorum` shows them", id)
	}
	return of[0].ReplicaDirectoryID, nil
}

// controllerListener is what a node calls its first listener for controllers, "" if that is not known.
func controllerListener(id int32, nodes []kmsg.DescribeQuorumResponseNode) string {
	for _, n := range nodes {
		if n.NodeID == id && len(n.Listeners) > 0 {
			return n.Listeners[0].Name
		}
	}
	return ""
}

func parseNode(text string) (int32, error) {
	id, err := strconv.ParseInt(text, 10, 32)
	if err != nil || id < 0 {
		return 0, usagef("%q is no node: it is a number, as node.id", text)
	}
	return int32(id), nil
}

func parseEndpoint(text string) (host string, port uint16, err error) {
	host, digits, err := net.SplitHostPort(text)
	if err != nil || host == "" {
		return "", 0, usagef("%q is no address: it is HOST:PORT", text)
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 {
		return "", 0, usagef("%q is no address: its port is a number from 1 to 65535", text)
	}
	return host, uint16(n), nil
}
