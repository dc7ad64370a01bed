package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/peer"
)

const (
	// joinAskMax is how long one controller may take to say which cluster it is in.
	joinAskMax = 3 * time.Second
	// joinAgainAfter is how long a node waits before it asks all of them again.
	joinAgainAfter = 250 * time.Millisecond
)

// founding is how an empty node gets into a cluster.
type founding int8

const (
	asConfigured founding = iota // with the cluster id that is configured, if any: by itself, or into a fixed quorum
	asFirst                      // it is the first node of a new cluster
	asJoiner                     // the cluster is there, and found
)

// findCluster finds the cluster that a new node joins.
func (n *Node) findCluster(ctx context.Context) error {
	paths, blank, err := n.findDirs()
	if err != nil || len(blank) == 0 {
		return err
	}
	if err := n.mayFormat(paths, blank); err != nil {
		return err
	}
	n.founding, err = n.findFounding(ctx)
	return err
}

// findFounding decides how a node whose directories are all blank gets into a cluster of several. The others are asked for the cluster's
// id. A node that is to be the first of a new cluster joins the one that is there all the same, and does not begin another while it can't
// be known whether there is one: a disk that was emptied must not split the cluster in two.
func (n *Node) findFounding(ctx context.Context) (founding, error) {
	b := n.config
	switch {
	case b.SingleNode():
		return asConfigured, nil
	case b.IsController() && len(b.Voters()) > 0:
		if b.ClusterID() == "" {
			return 0, fmt.Errorf("log directory %s is not formatted, and controller.quorum.voters names a fixed quorum: give all of its nodes one "+
				"cluster id, by `raftsman storage format -t ID -c FILE` or the variable CLUSTER_ID; or leave the key out, and name "+
				"controller.quorum.bootstrap.servers, which a node joins by itself", b.MetadataLogDir())
		}
		return asConfigured, nil
	case b.Bool("raftsman.cluster.bootstrap") && b.IsController():
		return n.foundOrJoin(ctx)
	case b.ClusterID() != "":
		n.clusterID = b.ClusterID()
		return asJoiner, nil
	}
	return asJoiner, n.waitForCluster(ctx)
}

// foundOrJoin is findFounding for a node that is told to be the first.
func (n *Node) foundOrJoin(ctx context.Context) (founding, error) {
	for _, other := range n.config.OtherControllers() {
		id, err := n.askCluster(ctx, other)
		switch {
		case err == nil:
			n.clusterID = id
			n.log.Warn("this node is empty and joins the cluster that is there: it does not begin another, whatever raftsman.cluster.bootstrap says",
				"cluster", id, "controller", other.String())
			return asJoiner, nil
		case !peer.IsDead(err):
			return 0, fmt.Errorf("no cluster is begun: whether there is one is not known, as the controller at %s does not say (%w); "+
				"start this node when it answers, or when nobody listens there", other, err)
		}
	}
	return asFirst, nil
}

// waitForCluster asks the controllers until one says which cluster it is in.
func (n *Node) waitForCluster(ctx context.Context) error {
	for said := false; ; said = true {
		for _, other := range n.config.OtherControllers() {
			id, err := n.askCluster(ctx, other)
			if err == nil {
				n.clusterID = id
				n.log.Info("this node is empty and joins a cluster", "cluster", id, "controller", other.String())
				return nil
			}
			if ctx.Err() != nil {
				return fmt.Errorf("find the cluster to join: %w; the last that was asked is %s: %w", ctx.Err(), other, err)
			}
		}
		if !said {
			n.log.Info("this node is empty and waits for a controller of the cluster that it is to join; the first node of a new cluster is started "+
				"with raftsman.cluster.bootstrap=true", "controllers", n.config.OtherControllers())
		}
		select {
		case <-time.After(joinAgainAfter):
		case <-ctx.Done():
			return fmt.Errorf("find the cluster to join: %w", ctx.Err())
		}
	}
}

func (n *Node) askCluster(ctx context.Context, controller config.Address) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, joinAskMax)
	defer cancel()
	id, err := peer.FindCluster(ctx, controller.String(), n.peerOptions())
	if err == nil && id == "" {
		return "", errors.New("it is in no cluster")
	}
	return id, err
}
