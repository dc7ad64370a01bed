package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/plan"
)

const cordonedDirs = "cordoned.log.dirs"

func clusterDrainCommand(a *app) *cobra.Command {
	var f moveFlags
	var leaders bool
	c := &cobra.Command{
		Use:   "drain BROKER",
		Short: "Move all replicas away from a broker, or all that it leads",
		Long: `Move all replicas of a broker to others, so that it can go for good. Each goes where least is, to a rack that has none of its partition if
there is one. The broker is told to take no new ones (` + cordonedDirs + `), and goes on with what it has until that is elsewhere. It may be
down: then its replicas are copied from the others that are in sync. Without --execute only a preview is shown.

With --leaders it keeps its replicas and leads nothing: for a while of maintenance. A broker that is stopped in order needs no such thing, it hands over
what it leads by itself.

What is interrupted goes on by itself as far as it was begun; the same command again does the rest.`,
		Example: `  raftsman cluster drain 3
  raftsman cluster drain 3 --execute --throttle 50MiB
  raftsman cluster drain 3 --leaders --execute`,
		Args: wants(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := parseNode(args[0])
			if err != nil {
				return err
			}
			if err := f.check(); err != nil {
				return err
			}
			return a.operate(c.Context(), func(ctx context.Context, cl *kgo.Client, adm *kadm.Client) error {
				if leaders {
					return a.drainLeaders(ctx, cl, adm, kafka.NodeID(id), &f)
				}
				return a.drain(ctx, cl, adm, kafka.NodeID(id), &f)
			})
		},
	}
	c.Flags().BoolVar(&leaders, "leaders", false, "only what it leads: it keeps its replicas")
	f.add(c)
	return c
}

func (a *app) drain(ctx context.Context, cl *kgo.Client, adm *kadm.Client, id kafka.NodeID, f *moveFlags) error {
	p, moves, err := planDrain(ctx, cl, adm, id)
	if err != nil {
		return err
	}
	first := viewPlan(&p.Cluster, moves)
	if !f.execute {
		return a.moveOrShow(ctx, cl, adm, p, moves, nil, f)
	}
	if b := p.broker(id); !b.Down && !b.Cordoned {
		all := "*"
		resource := configResource{kmsg.ConfigResourceTypeBroker, fmt.Sprint(id)}
		if err := alterConfigs(ctx, cl, []resourceChange{{resource, []configChange{{kmsg.IncrementalAlterConfigOpSet, cordonedDirs, &all}}}}, false); err != nil {
			a.note("broker %d may still be given new partitions: %s", id, oneLine(err.Error()))
		}
	}
	leaving := func(u *underWay) bool { return slices.Contains(u.removing, id) }
	for len(moves) > 0 || slices.ContainsFunc(p.underWay, func(u underWay) bool { return leaving(&u) }) {
		if err := a.carryOut(ctx, cl, adm, p, moves, leaving, f); err != nil {
			return err
		}
		if p, moves, err = planDrain(ctx, cl, adm, id); err != nil { // what was created meanwhile
			return err
		}
	}
	first.Executed = true
	if err := a.writePlan(&first); err != nil {
		return err
	}
	a.note("broker %d has no replicas and takes none: it can be stopped for good. To use it again: `raftsman config unset broker %d %s` and `raftsman rebalance --execute`", id, id, cordonedDirs)
	return nil
}

func planDrain(ctx context.Context, cl *kgo.Client, adm *kadm.Client, id kafka.NodeID) (*placement, []plan.Move, error) {
	p, err := readPlacement(ctx, cl, adm)
	if err != nil {
		return nil, nil, err
	}
	if p.broker(id) == nil {
		return nil, nil, noBroker(id)
	}
	moves, err := plan.Drain(&p.Cluster, id)
	var short *plan.ShortError
	if errors.As(err, &short) {
		return nil, nil, fmt.Errorf("%w: add a broker, or lower `raftsman topic reassign %s -r %d --execute`; --leaders moves only what broker %d leads",
			err, short.Topic, short.Finds, id)
	}
	return p, moves, err
}

func (a *app) drainLeaders(ctx context.Context, cl *kgo.Client, adm *kadm.Client, id kafka.NodeID, f *moveFlags) error {
	p, err := readPlacement(ctx, cl, adm)
	if err != nil {
		return err
	}
	if p.broker(id) == nil {
		return noBroker(id)
	}
	moves, stay := plan.DrainLeaders(&p.Cluster, id)
	if err := a.moveOrShow(ctx, cl, adm, p, moves, func(*underWay) bool { return false }, f); err != nil {
		return err
	}
	for i, q := range stay {
		if i == problemsShown {
			a.note("and %d more", len(stay)-i)
			break
		}
		a.note("%s partition %d stays: no other replica is in sync, on a broker in service", q.Topic, q.Number)
	}
	if len(stay) > 0 {
		return errReported
	}
	return nil
}
