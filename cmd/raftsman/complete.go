package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// completionPatience is how long the Tab key may take.
const completionPatience = 2 * time.Second

// completeTopics offers the cluster's topics to the shell. What goes wrong is no news to somebody who pressed Tab.
func (a *app) completeTopics(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(c, func(ctx context.Context, adm *kadm.Client) ([]string, error) {
		topics, err := adm.ListTopics(ctx)
		return topics.Names(), err
	})
}

// completeGroups offers the cluster's groups.
func (a *app) completeGroups(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(c, func(ctx context.Context, adm *kadm.Client) ([]string, error) {
		groups, err := adm.ListGroups(ctx)
		return groups.Groups(), err
	})
}

func (a *app) complete(c *cobra.Command, names func(context.Context, *kadm.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), completionPatience)
	defer cancel()
	var found []string
	err := a.admin(ctx, func(ctx context.Context, adm *kadm.Client) (err error) {
		found, err = names(ctx, adm)
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}
