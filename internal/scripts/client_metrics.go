package scripts

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// clientMetrics is the type whose resources kafka-client-metrics works on, as kafka-configs calls it.
const clientMetrics = "client-metrics"

func clientMetricsScript() *script {
	return &script{
		instead:    "raftsman config show client-metrics",
		actions:    []string{"alter", "delete", "describe", "list"},
		lastAction: " or %s.",
		options:    common(slices.Concat(flags("alter", "delete", "describe", "list", "generate-name"), values("name", "metrics", "interval", "match"))...),
		run:        runClientMetrics,
	}
}

// checkClientMetrics sees to it that the options go together.
func (c *call) checkClientMetrics() error {
	alters, named := c.opts.has("alter"), c.opts.has("name")
	for _, action := range c.script.actions {
		if !c.opts.has(action) {
			continue
		}
		for _, option := range []string{"generate-name", "name", "metrics", "interval", "match"} {
			if c.opts.has(option) && action != "alter" && (option != "name" || action == "list") {
				return usagef(`Option "[%s]" can't be used with option "[%s]"`, action, option)
			}
		}
	}
	switch {
	case alters && named == c.opts.has("generate-name"):
		return usagef("One of --name or --generate-name must be specified with --alter.")
	case c.opts.has("delete") && !named:
		return usagef("A client metrics resource name must be specified with --delete.")
	}
	return nil
}

func runClientMetrics(ctx context.Context, c *call) error {
	if err := c.checkClientMetrics(); err != nil {
		return err
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	name := c.opts.value("name")
	switch {
	case c.opts.has("alter"):
		if name == "" {
			name = randomID()
		}
		set, unset := map[string]string{}, []string(nil)
		for option, key := range map[string]string{"metrics": "metrics", "interval": "interval.ms", "match": "match"} {
			switch text := strings.Join(c.opts[option], ","); {
			case text != "":
				set[key] = text
			case c.opts.has(option):
				unset = append(unset, key)
			}
		}
		if err := c.changeConfigs(ctx, clientMetrics, name, set, unset); err != nil {
			return err
		}
		c.print("Altered client metrics config for %s.\n", name)
		return nil
	case c.opts.has("delete"):
		set, err := c.metricsOf(ctx, name)
		if err != nil {
			return err
		}
		if err := c.changeConfigs(ctx, clientMetrics, name, nil, slices.Sorted(maps.Keys(set))); err != nil {
			return err
		}
		c.print("Deleted client metrics config for %s.\n", name)
		return nil
	}
	names, err := c.namesOf(ctx, clientMetrics)
	if err != nil {
		return err
	}
	if c.opts.has("list") {
		for _, name := range names {
			c.print("%s\n", name)
		}
		return nil
	}
	if name != "" {
		if !slices.Contains(names, name) {
			c.print("The client metric resource %s doesn't exist and doesn't have dynamic config.\n", name)
			return nil
		}
		names = []string{name}
	}
	for _, name := range names {
		set, err := c.metricsOf(ctx, name)
		if err != nil {
			return err
		}
		c.print("Client metrics configs for %s are:\n", name)
		for _, key := range slices.Sorted(maps.Keys(set)) {
			c.print("  %s=%s\n", key, set[key])
		}
	}
	return nil
}

// metricsOf returns the settings of one subscription.
func (c *call) metricsOf(ctx context.Context, name string) (map[string]string, error) {
	settings, err := c.settingsOf(ctx, clientMetrics, name)
	if err != nil {
		return nil, err
	}
	set := map[string]string{}
	for _, entry := range settings {
		set[entry.Name] = deref(entry.Value)
	}
	return set, nil
}
