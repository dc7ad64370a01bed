package broker

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/quorum"
)

// Quorum says who the first voters of a new cluster's quorum are, as far as this node's log directories have to know: the choices of Kafka's
// storage tool. The zero value leaves it to the configuration.
type Quorum struct {
	ClusterID  string              // empty: the configured one, or a new one
	Standalone bool                // this node alone
	Initial    []InitialController // these, among them this node
	None       bool                // the node joins a quorum that is there
}

// InitialController is one of the first voters of a quorum.
type InitialController struct {
	ID        kafka.NodeID
	Host      string
	Port      uint16
	Directory kafka.UUID // directory.id of its metadata log's directory
}

// ParseInitialControllers reads a list as ID@HOST:PORT:DIRECTORY, separated by commas.
func ParseInitialControllers(text string) ([]InitialController, error) {
	var controllers []InitialController
	for item := range strings.SplitSeq(text, ",") {
		c, err := parseInitialController(strings.TrimSpace(item))
		if err != nil {
			return nil, fmt.Errorf("%q is no initial controller, as 1@localhost:9093:JEXY6aqzQY-32P5TStzaFg: %w", item, err)
		}
		if slices.ContainsFunc(controllers, func(other InitialController) bool { return other.ID == c.ID }) {
			return nil, fmt.Errorf("initial controller %d comes twice", c.ID)
		}
		controllers = append(controllers, c)
	}
	return controllers, nil
}

func parseInitialController(item string) (c InitialController, err error) {
	id, rest, found := strings.Cut(item, "@")
	if !found {
		return c, fmt.Errorf("no @ follows the id")
	}
	n, err := strconv.ParseInt(id, 10, 32)
	if err != nil || n < 0 {
		return c, fmt.Errorf("the id %q is no number from 0 on", id)
	}
	i := strings.LastIndexByte(rest, ':')
	j := strings.LastIndexByte(rest[:max(i, 0)], ':')
	if i < 0 || j < 0 {
		return c, fmt.Errorf("host, port and directory are wanted behind the @")
	}
	port, err := strconv.ParseUint(rest[j+1:i], 10, 16)
	if err != nil {
		return c, fmt.Errorf("the port %q is no number from 0 to 65535", rest[j+1:i])
	}
	directory, err := kafka.ParseUUID(rest[i+1:])
	if err != nil {
		return c, err
	}
	host := strings.TrimSuffix(strings.TrimPrefix(rest[:j], "["), "]")
	return InitialController{ID: kafka.NodeID(n), Host: host, Port: uint16(port), Directory: directory}, nil
}

// Formatted is what [Format] found and made.
type Formatted struct {
	Made     []string // the log directories that were not formatted before
	Before   []string // those that were
	Metadata string   // the one of the metadata log
	Kind     string   // of that one, as Kafka's tool calls it
}

// Format makes the log directories of a configuration ready, as the first start of a node does, and starts nothing. Where some of them
// are formatted already it makes none, as a start does not.
func Format(c Config, q Quorum) (Formatted, error) {
	n := &Node{config: c.Parsed, log: slog.New(slog.DiscardHandler), fs: c.FS}
	if err := n.configure(c); err != nil {
		return Formatted{}, err
	}
	founders, err := n.check(q)
	if err != nil {
		return Formatted{}, err
	}
	paths, blank, err := n.findDirs()
	if err != nil {
		return Formatted{}, err
	}
	if n.clusterID != "" && q.ClusterID != "" && n.clusterID != q.ClusterID {
		return Formatted{}, fmt.Errorf("the log directories belong to cluster %s, not to %s: give others, or empty ones", n.clusterID, q.ClusterID)
	}
	n.clusterID = cmp.Or(n.clusterID, q.ClusterID)
	f := Formatted{Metadata: n.config.MetadataLogDir(), Kind: n.kind(founders)}
	for _, path := range paths {
		if !slices.Contains(blank, path) {
			f.Before = append(f.Before, path)
		}
	}
	if len(blank) == 0 || len(f.Before) > 0 {
		return f, nil
	}
	f.Made = blank
	if err := n.mayFormat(paths, blank); err != nil {
		return f, err
	}
	return f, n.format(blank, founders)
}

// kind is what Kafka's tool calls the directory of the metadata log.
func (n *Node) kind(founders []InitialController) string {
	switch {
	case len(founders) == 0:
		return "metadata directory"
	case !n.isAmong(founders):
		return "dynamic metadata directory"
	}
	return "dynamic metadata voter directory"
}

func (n *Node) isAmong(controllers []InitialController) bool {
	return slices.ContainsFunc(controllers, func(c InitialController) bool { return c.ID == n.config.NodeID() })
}

// founders are the first voters of the quorum that a node begins by itself: none where it joins one.
func (n *Node) founders() []InitialController {
	if n.founding != asFirst && !n.config.SingleNode() {
		return nil
	}
	return n.alone()
}

// alone is the quorum of this node.
func (n *Node) alone() []InitialController {
	e := n.controllerEndpoint()
	return []InitialController{{ID: n.config.NodeID(), Host: e.Host, Port: e.Port, Directory: kafka.NewUUID(random)}}
}

// check returns the first voters that a choice names, if it fits the configuration, as Kafka's tool judges it.
func (n *Node) check(q Quorum) ([]InitialController, error) {
	b := n.config
	chosen := q.Standalone || q.None || len(q.Initial) > 0
	switch {
	case chosen && len(b.Voters()) > 0:
		return nil, fmt.Errorf("You cannot use --standalone, --initial-controllers or --no-initial-controllers with a fixed quorum: controller.quorum.voters is set.") //nolint:staticcheck // Kafka's words
	case !b.IsController() && (q.Standalone || len(q.Initial) > 0):
		return nil, fmt.Errorf("You can only use --standalone and --initial-controllers on a controller.") //nolint:staticcheck // Kafka's words
	case q.Standalone, !chosen && b.SingleNode():
		return n.alone(), nil
	case len(q.Initial) > 0:
		return q.Initial, nil
	case !chosen && b.IsController() && len(b.Voters()) == 0:
		return nil, fmt.Errorf("Because controller.quorum.voters is not set on this controller, you must specify one of the following: " + //nolint:staticcheck // Kafka's words
			"--standalone, --initial-controllers, or --no-initial-controllers.")
	}
	return nil, nil
}

// format makes blank directories into this node's. The metadata log of a node that is among the first voters begins with them, or without
// where the configuration names them; all others find in the quorum's log who votes.
func (n *Node) format(blank []string, founders []InitialController) error {
	if n.clusterID == "" {
		n.clusterID = n.config.ClusterID()
	}
	if n.clusterID == "" {
		n.clusterID = kafka.NewUUID(random).String()
	}
	var voters []kraft.Voter
	for _, c := range founders {
		voters = append(voters, kraft.Voter{
			ID: c.ID, Directory: c.Directory, MaxVersion: 1,
			Endpoints: []kraft.Endpoint{{Name: n.config.ControllerListeners()[0], Host: c.Host, Port: c.Port}},
		})
	}
	fixed := n.config.IsController() && len(n.config.Voters()) > 0
	for _, path := range blank {
		if err := n.fs.MkdirAll(path); err != nil {
			return openError(path, err)
		}
		properties := commitlog.MetaProperties{ClusterID: n.clusterID, NodeID: n.config.NodeID(), ID: kafka.NewUUID(random)}
		var err error
		if path == n.config.MetadataLogDir() && (len(voters) > 0 || fixed) {
			if i := slices.IndexFunc(voters, func(v kraft.Voter) bool { return v.ID == n.config.NodeID() }); i >= 0 {
				properties.ID = voters[i].Directory
			}
			err = quorum.FormatVoters(n.fs, path, properties, voters, time.Now())
		} else {
			err = commitlog.FormatDir(n.fs, path, properties)
		}
		if err != nil {
			return openError(path, err)
		}
	}
	n.fresh = true
	return nil
}
