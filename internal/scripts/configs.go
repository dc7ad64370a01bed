package scripts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/config"
)

func configsScript() *script {
	return &script{
		instead: "raftsman config",
		actions: []string{"alter", "describe"},
		options: common(slices.Concat(
			flags("alter", "describe", "all", "entity-default", "user-defaults", "client-defaults", "broker-defaults", "ip-defaults"),
			values("entity-type", "entity-name", "topic", "client", "user", "broker", "ip", "client-metrics", "group", "add-config", "add-config-file", "delete-config"),
			refuses("the configuration of the broker's log", value, "broker-logger"),
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
		return errors.New("--entity-type broker-loggers is not served by this script: levels of the log are set where the broker is started")
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
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms = true
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = resourceTypes[kind], name
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, c.cl)
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
	for _, r := range resp.Resources {
		if err := said(r.ErrorCode, r.ErrorMessage); err != nil {
			return err
		}
		slices.SortFunc(r.Configs, func(x, y kmsg.DescribeConfigsResponseResourceConfig) int { return strings.Compare(x.Name, y.Name) })
		for _, entry := range r.Configs {
			if entry.Source != dynamic && !c.opts.has("all") {
				continue
			}
			var synonyms []string
			for _, s := range entry.ConfigSynonyms {
				synonyms = append(synonyms, fmt.Sprintf("%s:%s=%s", sourceText(s.Source), s.Name, orNull(s.Value)))
			}
			c.print("  %s=%s sensitive=%t synonyms={%s}\n", entry.Name, orNull(entry.Value), entry.IsSensitive, strings.Join(synonyms, ", "))
		}
	}
	return nil
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
		text, err := readFile(file)
		if err != nil {
			return nil, err
		}
		properties, err := config.ParseProperties(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, p := range properties {
			values[p.Name] = p.Value
		}
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
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = resourceTypes[e.kind], deref(e.name)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		entry := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		value := values[key]
		entry.Name, entry.Op, entry.Value = key, kmsg.IncrementalAlterConfigOpSet, &value
		r.Configs = append(r.Configs, entry)
	}
	for _, key := range c.deleted() {
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
	c.tellUpdated(e)
	return nil
}

func (c *call) tellUpdated(e entity) {
	if e.name == nil {
		c.print("Completed updating default config for %s in the cluster.\n", e.kind)
		return
	}
	c.print("Completed updating config for %s %s.\n", singular(e.kind), *e.name)
}

// quotaTypes are the types of the protocol; others have no quotas.
var quotaTypes = map[string]string{"users": "user", "clients": "client-id", "ips": "ip"}

func (c *call) describeQuotas(ctx context.Context, found []entity) error {
	var wanted []kadm.DescribeClientQuotaComponent
	for _, e := range found {
		match := kmsg.QuotasMatchTypeExact
		switch {
		case !e.named:
			match = kmsg.QuotasMatchTypeAny
		case e.name == nil:
			match = kmsg.QuotasMatchTypeDefault
		}
		wanted = append(wanted, kadm.DescribeClientQuotaComponent{Type: quotaTypes[e.kind], MatchName: e.name, MatchType: match})
	}
	described, err := c.adm.DescribeClientQuotas(ctx, true, wanted)
	if err != nil {
		return err
	}
	var lines []string
	for _, d := range described {
		var whose, quotas []string
		for _, kind := range []struct{ of, called string }{{"user", "user-principal"}, {"client-id", "client-id"}, {"ip", "ip"}} {
			for _, part := range d.Entity {
				switch {
				case part.Type != kind.of:
				case part.Name == nil:
					whose = append(whose, "the default "+kind.called)
				default:
					whose = append(whose, fmt.Sprintf("%s '%s'", kind.called, *part.Name))
				}
			}
		}
		for _, v := range d.Values {
			quotas = append(quotas, v.Key+"="+doubleText(v.Value))
		}
		slices.Sort(quotas)
		lines = append(lines, fmt.Sprintf("Quota configs for %s are %s\n", strings.Join(whose, ", "), strings.Join(quotas, ", ")))
	}
	slices.Sort(lines)
	for _, line := range lines {
		c.print("%s", line)
	}
	return nil
}

// doubleText writes a number as Java's Double.toString does: always with a fraction, and with E from ten millions on.
func doubleText(value float64) string {
	if magnitude := max(value, -value); magnitude != 0 && (magnitude < 1e-3 || magnitude >= 1e7) {
		mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(value, 'E', -1, 64), "E")
		if !strings.Contains(mantissa, ".") {
			mantissa += ".0"
		}
		n, _ := strconv.Atoi(exponent) // written by FormatFloat
		return fmt.Sprintf("%sE%d", mantissa, n)
	}
	text := strconv.FormatFloat(value, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// quotaKeys are the quotas of each type.
var quotaKeys = map[string][]string{
	"users":   {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"},
	"clients": {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"},
	"ips":     {"connection_creation_rate"},
}

func (c *call) alterQuotas(ctx context.Context, found []entity) error {
	values, err := c.added()
	if err != nil {
		return err
	}
	entry := kadm.AlterClientQuotaEntry{}
	for _, e := range found {
		entry.Entity = append(entry.Entity, kadm.ClientQuotaEntityComponent{Type: quotaTypes[e.kind], Name: e.name})
	}
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if strings.HasPrefix(key, "SCRAM-") {
			return errors.New("passwords of users are not served by this script yet")
		}
		if !slices.Contains(quotaKeys[found[0].kind], key) {
			unknown = append(unknown, key)
			continue
		}
		n, err := strconv.ParseFloat(values[key], 64)
		if err != nil {
			return usagef("Cannot parse quota configuration value for %s: %s", key, values[key])
		}
		entry.Ops = append(entry.Ops, kadm.AlterClientQuotaOp{Key: key, Value: n})
	}
	if len(unknown) > 0 {
		return usagef("Only quota configs can be added for '%s' using --bootstrap-server. Unexpected config names: %s", found[0].kind, strings.Join(unknown, ","))
	}
	for _, key := range c.deleted() {
		entry.Ops = append(entry.Ops, kadm.AlterClientQuotaOp{Key: key, Remove: true})
	}
	results, err := c.adm.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{entry})
	if err != nil {
		return err
	}
	for _, r := range results {
		if r.Err != nil {
			return &saidError{r.Err, r.ErrMessage}
		}
	}
	c.tellUpdated(found[0])
	return nil
}

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
		return c.alterMetrics(ctx, name, set, unset, "Altered client metrics config for %s.\n")
	case c.opts.has("delete"):
		set, err := c.metricsOf(ctx, name)
		if err != nil {
			return err
		}
		return c.alterMetrics(ctx, name, nil, slices.Collect(maps.Keys(set)), "Deleted client metrics config for %s.\n")
	}
	names, err := c.namesOf(ctx, "client-metrics")
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
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeClientMetrics, name
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return nil, err
	}
	set := map[string]string{}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return nil, err
		}
		for _, entry := range r.Configs {
			set[entry.Name] = deref(entry.Value)
		}
	}
	return set, nil
}

func (c *call) alterMetrics(ctx context.Context, name string, set map[string]string, unset []string, done string) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeClientMetrics, name
	for key, value := range set {
		entry := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
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
	c.print(done, name)
	return nil
}
