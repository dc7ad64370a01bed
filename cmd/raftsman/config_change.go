package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func configSetCommand(a *app) *cobra.Command {
	return configChangeCommand(a, kmsg.IncrementalAlterConfigOpSet, &cobra.Command{
		Use:   "set " + configUse + " KEY=VALUE...",
		Short: "Change settings; all others stay as they are",
		Long:  "Change settings; all others stay as they are. Either all of the changes are made or none.\n\n" + configResources,
		Example: `  raftsman config set topic orders retention.ms=86400000 cleanup.policy=compact,delete
  raftsman config set brokers log.cleaner.threads=2`,
	})
}

func configAppendCommand(a *app) *cobra.Command {
	return configChangeCommand(a, kmsg.IncrementalAlterConfigOpAppend, &cobra.Command{
		Use:     "append " + configUse + " KEY=VALUE...",
		Short:   "Add to settings that are lists",
		Long:    "Add to settings that are lists. What is there already is not added again.\n\n" + configResources,
		Example: "  raftsman config append topic orders cleanup.policy=compact",
	})
}

func configSubtractCommand(a *app) *cobra.Command {
	return configChangeCommand(a, kmsg.IncrementalAlterConfigOpSubtract, &cobra.Command{
		Use:     "subtract " + configUse + " KEY=VALUE...",
		Short:   "Take away from settings that are lists",
		Long:    "Take away from settings that are lists. What is not there is passed over.\n\n" + configResources,
		Example: "  raftsman config subtract topic orders cleanup.policy=delete",
	})
}

func configUnsetCommand(a *app) *cobra.Command {
	return configChangeCommand(a, kmsg.IncrementalAlterConfigOpDelete, &cobra.Command{
		Use:     "unset " + configUse + " KEY...",
		Short:   "Take settings back: what is set more generally, or the default, counts again",
		Long:    "Take settings back: what is set more generally, or the default, counts again.\n\n" + configResources,
		Example: `  raftsman config unset topic orders retention.ms`,
	})
}

// configChangeCommand completes a command that makes one kind of change.
func configChangeCommand(a *app, op kmsg.IncrementalAlterConfigOp, c *cobra.Command) *cobra.Command {
	var dryRun bool
	c.Args = wants(2, -1)
	c.RunE = func(c *cobra.Command, args []string) error {
		resource, rest, err := splitResource(args)
		if err != nil {
			return err
		}
		if len(rest) == 0 {
			return usagef("something is missing: %s", usageLine(c))
		}
		var changes []configChange
		if op == kmsg.IncrementalAlterConfigOpDelete {
			for _, key := range slices.Compact(slices.Sorted(slices.Values(rest))) {
				changes = append(changes, configChange{op, key, nil})
			}
			return a.changeConfig(c.Context(), resource, changes, dryRun)
		}
		values, err := parsePairs(rest, c.Name())
		if err != nil {
			return err
		}
		for _, key := range sortedKeys(values) {
			changes = append(changes, configChange{op, key, values[key]})
		}
		return a.changeConfig(c.Context(), resource, changes, dryRun)
	}
	c.ValidArgsFunction = a.completeResource
	c.Flags().BoolVar(&dryRun, "dry-run", false, "have the broker check it, change nothing")
	return c
}

// configChange is one step of an incremental change (KIP-339).
type configChange struct {
	op    kmsg.IncrementalAlterConfigOp
	key   string
	value *string
}

// result is what a change makes of a value that counts: lists have commas.
func (c *configChange) result(before *string) *string {
	var items []string
	if before != nil && *before != "" {
		items = strings.Split(*before, ",")
	}
	switch c.op {
	case kmsg.IncrementalAlterConfigOpAppend:
		for item := range strings.SplitSeq(*c.value, ",") {
			if !slices.Contains(items, item) {
				items = append(items, item)
			}
		}
	case kmsg.IncrementalAlterConfigOpSubtract:
		gone := strings.Split(*c.value, ",")
		items = slices.DeleteFunc(items, func(item string) bool { return slices.Contains(gone, item) })
	default:
		return c.value
	}
	value := strings.Join(items, ",")
	return &value
}

// changeConfig makes the changes and tells what the settings are then. A key that does not exist is refused here, by
// its nearest neighbour, as brokers take any name for some resources.
func (a *app) changeConfig(ctx context.Context, resource configResource, changes []configChange, dryRun bool) error {
	return a.admin(ctx, func(ctx context.Context, adm *kadm.Client) error {
		before, err := a.readSettings(ctx, resource, false)
		if err != nil {
			return err
		}
		if err := a.alterConfig(ctx, resource, changes, dryRun); err != nil {
			return explainChange(err, before, resource, changes)
		}
		report := make([]changedSetting, 0, len(changes))
		for _, c := range changes {
			changed := changedSetting{Key: c.key, Value: c.value}
			if i := slices.IndexFunc(before, func(s setting) bool { return s.Key == c.key }); i >= 0 {
				if before[i].Changed {
					changed.Before = before[i].Value
				}
				changed.Value = c.result(before[i].Value)
			}
			report = append(report, changed)
		}
		return a.writeChanges(resource, report, dryRun)
	})
}

// changedSetting is what set and unset tell. Before is nil when the resource did not set it itself, Value after an unset.
type changedSetting struct {
	Key    string  `json:"key"`
	Before *string `json:"before"`
	Value  *string `json:"value"`
}

func (a *app) writeChanges(resource configResource, changes []changedSetting, dryRun bool) error {
	if a.json() {
		return a.writeJSON(map[string]any{"resource": resource.String(), "changes": changes, "dryRun": dryRun})
	}
	note := ""
	if dryRun {
		note = " (dry run: not done)"
	}
	for _, c := range changes {
		was := "was not set"
		if c.Before != nil {
			was = "was " + *c.Before
		}
		text := fmt.Sprintf("%s: %s unset, %s", resource, c.Key, was)
		if c.Value != nil {
			text = fmt.Sprintf("%s: %s=%s, %s", resource, c.Key, *c.Value, was)
		}
		if _, err := fmt.Fprintln(a.out, printable(text+note)); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) alterConfig(ctx context.Context, resource configResource, changes []configChange, dryRun bool) error {
	cl, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	return alterConfigs(ctx, cl, []resourceChange{{resource, changes}}, dryRun)
}

// resourceChange are the changes of one resource.
type resourceChange struct {
	resource configResource
	changes  []configChange
}

// alterConfigs changes several resources at once. What is refused for one is told, and is no reason for the others to stay.
func alterConfigs(ctx context.Context, cl *kgo.Client, resources []resourceChange, dryRun bool) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = dryRun
	for _, rc := range resources {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = rc.resource.kind, rc.resource.name
		for _, change := range rc.changes {
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			c.Name, c.Op, c.Value = change.key, change.op, change.value
			r.Configs = append(r.Configs, c)
		}
		req.Resources = append(req.Resources, r)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	var failed failures
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			failed = append(failed, refused("change "+configResource{r.ResourceType, r.ResourceName}.String(), err, message(r.ErrorMessage)))
		}
	}
	return failed.join()
}

// explainChange adds the nearest name when a key is the reason for a refusal.
func explainChange(err error, settings []setting, resource configResource, changes []configChange) error {
	for _, c := range changes {
		known := slices.ContainsFunc(settings, func(s setting) bool { return s.Key == c.key })
		if !known && len(settings) > 0 {
			return noSetting(settings, c.key, resource)
		}
	}
	return err
}

// completeResource offers the kinds of resources, then their names.
func (a *app) completeResource(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch {
	case len(args) == 0:
		return []string{"topic", "broker", "brokers", "group", "client-metrics"}, cobra.ShellCompDirectiveNoFileComp
	case len(args) == 1 && args[0] == "topic":
		return a.completeTopics(c, args, typed)
	case len(args) == 1 && args[0] == "group":
		return a.completeGroups(c, args, typed)
	case len(args) < 2 && args[0] != "brokers":
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	resource, _, err := splitResource(args)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.complete(c, func(ctx context.Context, _ *kadm.Client) ([]string, error) {
		settings, err := a.readSettings(ctx, resource, false)
		var keys []string
		for _, s := range settings {
			keys = append(keys, s.Key)
		}
		return keys, err
	})
}
