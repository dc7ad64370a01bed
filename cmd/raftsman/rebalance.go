package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/raftsman/raftsman/internal/plan"
)

func rebalanceCommand(a *app) *cobra.Command {
	var f moveFlags
	var topics []string
	var leaders bool
	var slack int
	c := &cobra.Command{
		Use:   "rebalance",
		Short: "Even out what brokers store and lead",
		Long: `Even out what brokers store and lead. Replicas leave racks that have two of a partition while another has none; then as few as possible are
moved until all brokers store about as much, and have about as many; then those that lead more than others hand some on. Without --execute only a preview is
shown.

What is interrupted goes on by itself as far as it was begun; the same command again does the rest.`,
		Example: `  raftsman rebalance
  raftsman rebalance --execute --throttle 50MiB
  raftsman rebalance --leaders --execute`,
		Args: wants(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if slack < 0 || slack > 100 {
				return usagef("--slack %d: percent from 0 to 100 are possible", slack)
			}
			if err := f.check(); err != nil {
				return err
			}
			of, err := parseTopicPartitions(topics)
			if err != nil {
				return err
			}
			return a.operate(c.Context(), func(ctx context.Context, cl *kgo.Client, adm *kadm.Client) error {
				p, err := readPlacement(ctx, cl, adm)
				if err != nil {
					return err
				}
				if len(of) > 0 {
					if _, err := findTopics(ctx, adm, sortedKeys(of)); err != nil {
						return err
					}
				}
				chosen := func(tp topicPartition) bool { return len(of) == 0 || names(of, tp) }
				moves := plan.Rebalance(&p.Cluster, plan.Goal{
					LeadersOnly: leaders, Slack: float64(slack) / 100,
					Movable: func(q *plan.Partition) bool { return chosen(topicPartition{q.Topic, q.Number}) },
				})
				return a.moveOrShow(ctx, cl, adm, p, moves, func(u *underWay) bool { return !leaders && chosen(u.topicPartition) }, &f)
			})
		},
	}
	c.Flags().StringArrayVarP(&topics, "topic", "t", nil, "move only this topic, or TOPIC:0,3 for some of its partitions (repeat)")
	c.Flags().BoolVar(&leaders, "leaders", false, "only who leads: nothing is copied")
	c.Flags().IntVar(&slack, "slack", 10, "percent of the mean by which the fullest and the emptiest broker may differ")
	f.add(c)
	return c
}
