package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func configCommand(a *app) *cobra.Command {
	return family("config", "Show and change settings of topics, brokers and groups",
		configShowCommand(a), configSetCommand(a), configAppendCommand(a), configSubtractCommand(a), configUnsetCommand(a), configCheckCommand(a), configExportCommand(a))
}

const (
	configResources = `A resource is "topic NAME", "broker ID", "brokers" (what all brokers have that set nothing themselves), "group NAME" or
"client-metrics NAME".`
	configUse = "(topic|broker|group|client-metrics NAME | brokers)"
)

// configResource is what settings belong to.
type configResource struct {
	kind kmsg.ConfigResourceType
	name string // of the protocol: "" stands for the default of all brokers
}

// splitResource reads the resource that arguments begin with, and returns those behind it.
func splitResource(args []string) (configResource, []string, error) {
	if args[0] == "brokers" {
		return configResource{kmsg.ConfigResourceTypeBroker, ""}, args[1:], nil
	}
	if len(args) == 1 {
		return configResource{}, nil, usagef("which %s is missing. %s", args[0], configResources)
	}
	resource, err := parseResource(args[0], args[1])
	return resource, args[2:], err
}

func parseResource(kind, name string) (configResource, error) {
	if name == "" {
		return configResource{}, usagef("which %s is missing", kind)
	}
	switch kind {
	case "topic":
		return configResource{kmsg.ConfigResourceTypeTopic, name}, nil
	case "group":
		return configResource{kmsg.ConfigResourceTypeGroupConfig, name}, nil
	case "client-metrics":
		return configResource{kmsg.ConfigResourceTypeClientMetrics, name}, nil
	case "broker":
		if name == "default" {
			return configResource{kmsg.ConfigResourceTypeBroker, ""}, nil
		}
		if id, err := strconv.ParseInt(name, 10, 32); err != nil || id < 0 {
			return configResource{}, usagef("%q is no broker: give its id, or \"brokers\" for all", name)
		}
		return configResource{kmsg.ConfigResourceTypeBroker, name}, nil
	}
	return configResource{}, usagef("%q has no settings: topic, broker, brokers, group and client-metrics have", kind)
}

func (r configResource) String() string {
	switch r.kind {
	case kmsg.ConfigResourceTypeTopic:
		return "topic " + r.name
	case kmsg.ConfigResourceTypeGroupConfig:
		return "group " + r.name
	case kmsg.ConfigResourceTypeClientMetrics:
		return "client-metrics " + r.name
	}
	if r.name == "" {
		return "brokers"
	}
	return "broker " + r.name
}

// checkBroker refuses a broker that is not there: its settings only it can tell.
func (r configResource) checkBroker(ctx context.Context, adm *kadm.Client) error {
	if r.kind != kmsg.ConfigResourceTypeBroker || r.name == "" {
		return nil
	}
	brokers, err := adm.ListBrokers(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(brokers, func(b kadm.BrokerDetail) bool { return fmt.Sprint(b.NodeID) == r.name }) {
		return fmt.Errorf("there is no broker %s: `raftsman cluster describe` shows which there are", r.name)
	}
	return nil
}

// setting is one key of a resource. Value is nil for no value, and for secrets, which no broker tells.
type setting struct {
	Key       string    `json:"key"`
	Value     *string   `json:"value"`
	Source    string    `json:"source"`
	Default   *string   `json:"default"`
	Overrides []synonym `json:"overrides"` // what would count without it, the next first; the built-in default is not among them
	Changed   bool      `json:"changed"`   // set for this resource itself
	Sensitive bool      `json:"sensitive,omitempty"`
	ReadOnly  bool      `json:"readOnly,omitempty"`
	Type      string    `json:"type,omitempty"`
	Doc       string    `json:"doc,omitempty"`
}

// synonym is a value that another one, set closer to the resource, hides.
type synonym struct {
	Key    string  `json:"key"`
	Value  *string `json:"value"`
	Source string  `json:"source"`
}

func configShowCommand(a *app) *cobra.Command {
	var changed, doc bool
	c := &cobra.Command{
		Use:     "show " + configUse + " [KEY...]",
		Aliases: []string{"get"},
		Short:   "Show settings: value, where it comes from, what it hides, default",
		Long: "Show settings: value, where it comes from, default. What is set for the resource itself stands out; HIDES is what would count without it.\n\n" +
			configResources,
		Example: `  raftsman config show topic orders
  raftsman config show topic orders retention.ms cleanup.policy
  raftsman config show broker 1 --changed`,
		Args: wants(1, -1),
		RunE: func(c *cobra.Command, args []string) error {
			resource, keys, err := splitResource(args)
			if err != nil {
				return err
			}
			return a.admin(c.Context(), func(ctx context.Context, adm *kadm.Client) error {
				settings, err := a.readSettings(ctx, resource, doc)
				if err != nil {
					return err
				}
				if settings, err = pick(settings, keys, resource); err != nil {
					return err
				}
				if changed {
					settings = slices.DeleteFunc(settings, func(s setting) bool { return !s.Changed })
				}
				return a.writeSettings(resource, settings, doc)
			})
		},
		ValidArgsFunction: a.completeResource,
	}
	c.Flags().BoolVar(&changed, "changed", false, "only what is set for this resource itself")
	c.Flags().BoolVar(&doc, "doc", false, "what each setting means")
	return c
}

// readSettings asks for all settings of a resource, in order of their names.
func (a *app) readSettings(ctx context.Context, resource configResource, doc bool) ([]setting, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = true, doc
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = resource.kind, resource.name
	req.Resources = append(req.Resources, r)
	cl, err := a.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	if err := resource.checkBroker(ctx, kadm.NewClient(cl)); err != nil {
		return nil, err
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	var settings []setting
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			if resource.kind == kmsg.ConfigResourceTypeTopic {
				return nil, unknownTopic(resource.name, err)
			}
			return nil, refused("settings of "+resource.String(), err, message(r.ErrorMessage))
		}
		for _, c := range r.Configs {
			settings = append(settings, newSetting(resource, c))
		}
	}
	slices.SortFunc(settings, func(x, y setting) int { return strings.Compare(x.Key, y.Key) })
	return settings, nil
}

func message(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func newSetting(resource configResource, c kmsg.DescribeConfigsResponseResourceConfig) setting {
	s := setting{
		Key: c.Name, Value: c.Value, Source: sourceName(c.Source), Sensitive: c.IsSensitive, ReadOnly: c.ReadOnly,
		Type: strings.ToLower(c.ConfigType.String()), Doc: message(c.Documentation), Overrides: []synonym{},
	}
	for i, of := range c.ConfigSynonyms {
		switch {
		case of.Source == kmsg.ConfigSourceDefaultConfig:
			s.Default = of.Value
		case i > 0:
			s.Overrides = append(s.Overrides, synonym{of.Name, of.Value, sourceName(of.Source)})
		}
	}
	switch {
	case c.Source == kmsg.ConfigSourceDefaultConfig:
		s.Default = c.Value
	case s.Default == nil && resource.kind == kmsg.ConfigResourceTypeTopic && !configured(c.ConfigSynonyms):
		// Brokers leave the default of some keys out (retention.ms, whose default is that of log.retention.hours).
		if key, ok := config.Lookup(config.ScopeTopic, c.Name); ok && key.DefaultState == config.DefaultValue {
			s.Default = &key.Default
		}
	}
	switch resource.kind {
	case kmsg.ConfigResourceTypeTopic:
		s.Changed = c.Source == kmsg.ConfigSourceDynamicTopicConfig
	case kmsg.ConfigResourceTypeBroker:
		s.Changed = c.Source == kmsg.ConfigSourceDynamicBrokerConfig || c.Source == kmsg.ConfigSourceDynamicDefaultBrokerConfig ||
			c.Source == kmsg.ConfigSourceStaticBrokerConfig
	default:
		s.Changed = c.Source != kmsg.ConfigSourceDefaultConfig
	}
	return s
}

// configured tells whether a broker sets the key in some way: then that is what a topic gets that does not.
func configured(synonyms []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym) bool {
	return slices.ContainsFunc(synonyms, func(s kmsg.DescribeConfigsResponseResourceConfigConfigSynonym) bool {
		return s.Source != kmsg.ConfigSourceDynamicTopicConfig && s.Source != kmsg.ConfigSourceDefaultConfig
	})
}

// sourceName says where a value comes from.
func sourceName(source kmsg.ConfigSource) string {
	switch source {
	case kmsg.ConfigSourceDynamicTopicConfig:
		return "topic"
	case kmsg.ConfigSourceDynamicBrokerConfig:
		return "broker"
	case kmsg.ConfigSourceDynamicDefaultBrokerConfig:
		return "all brokers"
	case kmsg.ConfigSourceGroupConfig:
		return "group"
	case kmsg.ConfigSourceStaticBrokerConfig:
		return "set at start" // file, environment or flags: the broker does not tell which
	case kmsg.ConfigSourceDefaultConfig:
		return "default"
	}
	return strings.ToLower(strings.ReplaceAll(source.String(), "_", " "))
}

// pick keeps the named settings, in the order they were named.
func pick(settings []setting, keys []string, resource configResource) ([]setting, error) {
	if len(keys) == 0 {
		return settings, nil
	}
	var picked []setting
	for _, key := range keys {
		i := slices.IndexFunc(settings, func(s setting) bool { return s.Key == key })
		if i < 0 {
			return nil, noSetting(settings, key, resource)
		}
		picked = append(picked, settings[i])
	}
	return picked, nil
}

func noSetting(settings []setting, key string, resource configResource) error {
	names := make([]string, 0, len(settings))
	for _, s := range settings {
		names = append(names, s.Key)
	}
	if near := nearest(key, names); near != "" {
		return fmt.Errorf("%s has no setting %s: did you mean %s?", resource, key, near)
	}
	return fmt.Errorf("%s has no setting %s: `raftsman config show %s` shows what there is", resource, key, resource)
}

const (
	widestValue = 60 // a longer value is cut on a terminal
)

func (a *app) writeSettings(resource configResource, settings []setting, doc bool) error {
	if a.json() {
		return a.writeJSON(append([]setting{}, settings...))
	}
	if len(settings) == 0 {
		a.note("%s sets nothing itself", resource)
		return nil
	}
	t := newTable(column{title: "KEY"}, column{title: "VALUE", flexible: true}, column{title: "TYPE"}, column{title: "SOURCE"}, column{title: "HIDES"}, column{title: "DEFAULT"})
	for _, s := range settings {
		key, value := plain(s.Key), s.cell(s.Value)
		if s.Changed {
			key.paint, value.paint = paint.bold, paint.cyan
		}
		source := plain(s.Source)
		if s.ReadOnly && resource.kind == kmsg.ConfigResourceTypeBroker {
			source.text += " (read-only)"
		}
		was := s.cell(s.Default)
		if a.tty.out {
			value.text, was.text = shorten(value.text, widestValue), shorten(was.text, widestValue)
		}
		t.add(key, value, plain(s.Type), source, s.hides(), was)
	}
	if !doc {
		return t.write(a.out, a.paint(), a.width())
	}
	return a.writeDocs(t, settings)
}

// writeDocs prints each setting with what it means below.
func (a *app) writeDocs(t *table, settings []setting) error {
	for i, row := range t.rows {
		one := table{columns: t.columns, rows: [][]cell{row}}
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		if err := one.write(a.out, a.paint(), a.width()); err != nil {
			return err
		}
		width := a.width()
		if width <= 0 || width > 100 {
			width = 100
		}
		for _, line := range wrap(settings[i].Doc, width-4) {
			fmt.Fprintln(a.out, "    "+printable(line))
		}
	}
	return nil
}

// hides tells what a value overrides: "all brokers: 5".
func (s *setting) hides() cell {
	var hidden []string
	for _, o := range s.Overrides {
		hidden = append(hidden, o.Source+": "+s.cell(o.Value).text)
	}
	return when(len(hidden) == 0, faint("-"), plain(strings.Join(hidden, ", ")))
}

func (s *setting) cell(value *string) cell {
	switch {
	case s.Sensitive:
		return faint("(secret)")
	case value == nil:
		return faint("-")
	case *value == "":
		return faint(`""`)
	}
	return plain(*value)
}

// wrap breaks text into lines of width columns.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && displayWidth(line)+1+displayWidth(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
