package scripts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func configsScript() *script {
	return &script{
		instead: "raftsman config",
		actions: []string{"alter", "describe"},
		options: common(slices.Concat(
			flags("alter", "describe", "all", "entity-default", "user-defaults", "client-defaults", "broker-defaults", "ip-defaults"),
			values("entity-type", "entity-name", "topic", "client", "user", "broker", "ip", "client-metrics", "group", "add-config", "add-config-file", "delete-config"),
			refuses("`raftsman serve --log-level` where the broker is started", value, "broker-logger"),
		)...),
		run: runConfigs,
	}
}

// entity is what settings or quotas belong to. A nil name stands for the default of its type; named says whether it was chosen at all.
type entity struct {
	kind  string // of --entity-type: topics, brokers, ...
	name  *string
	named bool
}

// entityKinds are the types in the order in which the script lists them.
var entityKinds = []string{"broker-loggers", "topics", "clients", "users", "brokers", "ips", "client-metrics", "groups"}

// shortEntities are options that are type and name in one.
var shortEntities = []struct {
	option, defaults, kind string
}{
	{"topic", "", "topics"},
	{"client", "client-defaults", "clients"},
	{"user", "user-defaults", "users"},
	{"broker", "broker-defaults", "brokers"},
	{"ip", "ip-defaults", "ips"},
	{"client-metrics", "", "client-metrics"},
	{"group", "", "groups"},
}

// entities reads whose settings are meant. --entity-name and --entity-default belong to the types in the order they come.
func (c *call) entities() ([]entity, error) {
	var found []entity
	for _, kind := range c.opts["entity-type"] {
		if !slices.Contains(entityKinds, kind) {
			return nil, usagef("Invalid entity type %s, the entity type must be one of %s with a --bootstrap-server or ID argument", kind, strings.Join(entityKinds, ", "))
		}
		found = append(found, entity{kind: kind})
	}
	at := 0
	for i, arg := range c.args {
		option, text, attached := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if arg != "--entity-default" && option != "entity-name" || !strings.HasPrefix(arg, "--") {
			continue
		}
		if at == len(found) {
			return nil, usagef("%s has no --entity-type before it", arg)
		}
		found[at].named = true
		switch {
		case option == "entity-name" && attached:
			found[at].name = &text
		case option == "entity-name":
			found[at].name = &c.args[i+1]
		}
		at++
	}
	for _, short := range shortEntities {
		for _, name := range c.opts[short.option] {
			found = append(found, entity{short.kind, &name, true})
		}
		if short.defaults != "" && c.opts.has(short.defaults) {
			found = append(found, entity{kind: short.kind, named: true})
		}
	}
	if len(found) == 0 {
		return nil, usagef("At least one entity type must be specified")
	}
	return found, nil
}

func runConfigs(ctx context.Context, c *call) error {
	found, err := c.entities()
	if err != nil {
		return err
	}
	if c.opts.has("alter") {
		if !c.opts.has("add-config") && !c.opts.has("add-config-file") && !c.opts.has("delete-config") {
			return usagef("At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter")
		}
		if !found[0].named {
			return usagef("--entity-name or --entity-default must be specified with --alter of %s", found[0].kind)
		}
	}
	switch found[0].kind {
	case "users", "clients", "ips":
	case "broker-loggers":
		return errors.New("--entity-type broker-loggers is not served by this script: use `raftsman serve --log-level` where the broker is started")
	default:
		if len(found) > 1 {
			return usagef("Only users and clients go together; it is one of %s", strings.Join(entityKinds, ", "))
		}
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	quotas := quotaTypes[found[0].kind] != ""
	switch {
	case c.opts.has("describe") && quotas:
		err = c.describeQuotas(ctx, found)
	case c.opts.has("describe"):
		err = c.describeConfigs(ctx, found[0])
	case quotas:
		err = c.alterQuotas(ctx, found)
	default:
		err = c.alterConfigs(ctx, found[0])
	}
	var usage *usageError
	if err != nil && !errors.As(err, &usage) {
		c.say("Error while executing config command with args '%s'", strings.Join(c.args, " "))
		c.say("%s", exception(err, saidBy(err)))
		return errTold
	}
	return err
}

// resourceTypes are the types of the protocol.
var resourceTypes = map[string]kmsg.ConfigResourceType{
	"topics": kmsg.ConfigResourceTypeTopic, "brokers": kmsg.ConfigResourceTypeBroker, "client-metrics": kmsg.ConfigResourceTypeClientMetrics, "groups": kmsg.ConfigResourceTypeGroupConfig,
}

// singular is how the script calls one of a type.
func singular(kind string) string {
	if kind == "client-metrics" {
		return "client-metric"
	}
	return strings.TrimSuffix(kind, "s")
}

func (c *call) describeConfigs(ctx context.Context, e entity) error {
	names := []string{deref(e.name)}
	existing, err := c.namesOf(ctx, e.kind)
	if err != nil {
		return err
	}
	switch {
	case !e.named:
		if names = existing; e.kind == "brokers" {
			names = append(names, "")
		}
	case e.name != nil && !slices.Contains(existing, *e.name):
		c.print("The %s '%s' doesn't exist and doesn't have dynamic config.\n", singular(e.kind), *e.name)
		return nil
	}
	for _, name := range names {
		if err := c.describeConfig(ctx, e.kind, name); err != nil {
			return err
		}
	}
	return nil
}

// namesOf returns the resources of a type that there are.
func (c *call) namesOf(ctx context.Context, kind string) ([]string, error) {
	var names []string
	switch kind {
	case "topics":
		topics, err := c.adm.ListTopicsWithInternal(ctx)
		if err != nil {
			return nil, err
		}
		return topics.Names(), nil
	case "brokers":
		brokers, err := c.adm.ListBrokers(ctx)
		if err != nil {
			return nil, err
		}
		for _, id := range brokers.NodeIDs() {
			names = append(names, fmt.Sprint(id))
		}
		return names, nil
	}
	listed, err := c.adm.ListConfigResources(ctx, resourceTypes[kind])
	if err != nil {
		return nil, err
	}
	for _, r := range listed.Resources {
		names = append(names, r.Name)
	}
	if kind == "groups" {
		groups, err := c.adm.ListGroups(ctx)
		if err != nil {
			return nil, err
		}
		names = append(names, groups.Groups()...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func (c *call) describeConfig(ctx context.Context, kind, name string) error {
	settings, err := c.settingsOf(ctx, kind, name)
	if err != nil {
		return err
	}
	dynamic := map[string]kmsg.ConfigSource{
		"topics": kmsg.ConfigSourceDynamicTopicConfig, "brokers": kmsg.ConfigSourceDynamicBrokerConfig,
		"client-metrics": kmsg.ConfigSourceClientMetricsConfig, "groups": kmsg.ConfigSourceGroupConfig,
	}[kind]
	all := "Dynamic"
	if c.opts.has("all") {
		all = "All"
	}
	switch {
	case kind == "brokers" && name == "":
		dynamic = kmsg.ConfigSourceDynamicDefaultBrokerConfig
		c.print("Default configs for brokers in the cluster are:\n")
	default:
		c.print("%s configs for %s %s are:\n", all, singular(kind), name)
	}
	for _, entry := range settings {
		if entry.Source != dynamic && !c.opts.has("all") {
			continue
		}
		var synonyms []string
		for _, s := range entry.ConfigSynonyms {
			synonyms = append(synonyms, fmt.Sprintf("%s:%s=%s", sourceText(s.Source), s.Name, orNull(s.Value)))
		}
		c.print("  %s=%s sensitive=%t synonyms={%s}\n", entry.Name, orNull(entry.Value), entry.IsSensitive, strings.Join(synonyms, ", "))
	}
	return nil
}

// settingsOf asks for the settings of one resource, and returns them by their names, in order.
func (c *call) settingsOf(ctx context.Context, kind, name string) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms = true
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = resourceTypes[kind], name
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return nil, err
	}
	var settings []kmsg.DescribeConfigsResponseResourceConfig
	for _, r := range resp.Resources {
		if err := said(r.ErrorCode, r.ErrorMessage); err != nil {
			return nil, err
		}
		settings = append(settings, r.Configs...)
	}
	slices.SortFunc(settings, func(x, y kmsg.DescribeConfigsResponseResourceConfig) int { return strings.Compare(x.Name, y.Name) })
	return settings, nil
}

func orNull(text *string) string {
	if text == nil {
		return "null"
	}
	return *text
}

// sourceText is what scripts of Java call the source of a value.
func sourceText(source kmsg.ConfigSource) string {
	switch source {
	case kmsg.ConfigSourceClientMetricsConfig:
		return "DYNAMIC_CLIENT_METRICS_CONFIG"
	case kmsg.ConfigSourceGroupConfig:
		return "DYNAMIC_GROUP_CONFIG"
	}
	return source.String()
}

// added reads --add-config, where values with commas stand in brackets, and --add-config-file.
func (c *call) added() (map[string]string, error) {
	values := map[string]string{}
	if file := c.opts.value("add-config-file"); file != "" {
		properties, err := readProperties(file)
		if err != nil {
			return nil, err
		}
		maps.Copy(values, properties)
	}
	for _, text := range c.opts["add-config"] {
		for _, pair := range splitOutside(text) {
			key, value, ok := strings.Cut(pair, "=")
			if !ok {
				return nil, usagef(`Invalid entity config: all configs to be added must be in the format "key=val" or  "key=[val1,val2]" to group values which contain commas.`)
			}
			values[strings.TrimSpace(key)] = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(value), "["), "]")
		}
	}
	return values, nil
}

// splitOutside splits at commas that do not stand in brackets.
func splitOutside(text string) []string {
	var parts []string
	depth, from := 0, 0
	for i, r := range text {
		switch {
		case r == '[':
			depth++
		case r == ']' && depth > 0:
			depth--
		case r == ',' && depth == 0:
			parts = append(parts, text[from:i])
			from = i + 1
		}
	}
	return append(parts, text[from:])
}

// deleted reads --delete-config.
func (c *call) deleted() []string {
	var keys []string
	for _, text := range c.opts["delete-config"] {
		for key := range strings.SplitSeq(text, ",") {
			keys = append(keys, strings.TrimSpace(key))
		}
	}
	return keys
}

func (c *call) alterConfigs(ctx context.Context, e entity) error {
	values, err := c.added()
	if err != nil {
		return err
	}
	if err := c.changeConfigs(ctx, e.kind, deref(e.name), values, c.deleted()); err != nil {
		return err
	}
	c.tellUpdated(e)
	return nil
}

// changeConfigs sets and unsets settings of one resource: all or none.
func (c *call) changeConfigs(ctx context.Context, kind, name string, set map[string]string, unset []string) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = resourceTypes[kind], name
	for _, key := range slices.Sorted(maps.Keys(set)) {
		entry := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		value := set[key]
		entry.Name, entry.Op, entry.Value = key, kmsg.IncrementalAlterConfigOpSet, &value
		r.Configs = append(r.Configs, entry)
	}
	for _, key := range unset {
		entry := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		entry.Name, entry.Op = key, kmsg.IncrementalAlterConfigOpDelete
		r.Configs = append(r.Configs, entry)
	}
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return err
	}
	for _, r := range resp.Resources {
		if err := said(r.ErrorCode, r.ErrorMessage); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) tellUpdated(e entity) {
	if e.name == nil {
		c.print("Completed updating default config for %s in the cluster.\n", e.kind)
		return
	}
	c.print("Completed updating config for %s %s.\n", singular(e.kind), *e.name)
}
