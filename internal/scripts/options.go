package scripts

import (
	"fmt"
	"slices"
	"strings"
)

// option is one that a script takes.
type option struct {
	name    string
	takes   takes
	instead string // set: it is known and not served; what to use: a command of raftsman's in backquotes, with more about it or not
}

// takes says whether an option has a value.
type takes int

const (
	nothing takes = iota
	value
	maybeValue // which is then empty
)

// options are the values that were given, by name. A name without a value has an empty one.
type options map[string][]string

func (o options) has(name string) bool { return len(o[name]) > 0 }

// value returns the last one that was given, "" if none was.
func (o options) value(name string) string {
	if !o.has(name) {
		return ""
	}
	return o[name][len(o[name])-1]
}

// common are the options that every script has that asks a cluster.
func common(more ...option) []option {
	return append([]option{
		{name: "bootstrap-server", takes: value},
		{name: "command-config", takes: value},
		{name: "help"},
		{name: "version"},
		{name: "bootstrap-controller", takes: value, instead: "--bootstrap-server with the address of a broker, which knows the controller"},
	}, more...)
}

// flags are options without values.
func flags(names ...string) []option { return named(nothing, names) }

// values are options with them.
func values(names ...string) []option { return named(value, names) }

func named(takes takes, names []string) []option {
	var options []option
	for _, name := range names {
		options = append(options, option{name: name, takes: takes})
	}
	return options
}

// refuses are options that are known and not served, and what to use instead.
func refuses(instead string, takes takes, names ...string) []option {
	options := named(takes, names)
	for i := range options {
		options[i].instead = instead
	}
	return options
}

// parse takes the arguments apart: --name value, --name=value, --name.
func (c *call) parse() error {
	c.opts = options{}
	args := c.args
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if long := c.script.short[arg]; long != "" {
			arg = "--" + long
		}
		name, text, attached := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if !strings.HasPrefix(arg, "--") || name == "" {
			if c.verb == "" && slices.Contains(c.script.verbs, arg) {
				c.verb = arg
				continue
			}
			return usagef("%s is not a recognized argument", arg)
		}
		i := slices.IndexFunc(c.script.options, func(o option) bool { return o.name == name })
		if i < 0 {
			return usagef("%s is not a recognized option", name)
		}
		o := c.script.options[i]
		if o.instead != "" {
			return fmt.Errorf("--%s is not served by this script: use %s", name, o.instead)
		}
		next := len(args) > 0 && !strings.HasPrefix(args[0], "--")
		switch {
		case o.takes == nothing && attached:
			return usagef("Option %s takes no value", name)
		case attached || o.takes == nothing:
		case next:
			text, args = args[0], args[1:]
		case o.takes == value:
			return usagef("Option %s requires an argument", name)
		}
		c.opts[name] = append(c.opts[name], text)
	}
	return nil
}

// checkActions sees to it that exactly one of the actions was chosen.
func (c *call) checkActions() error {
	if len(c.script.actions) == 0 {
		return nil
	}
	chosen := 0
	for _, action := range c.script.actions {
		if c.opts.has(action) {
			chosen++
		}
	}
	if chosen == 1 {
		return nil
	}
	names := make([]string, 0, len(c.script.actions))
	for _, action := range c.script.actions {
		names = append(names, "--"+action)
	}
	return c.script.wantAction(names)
}

// wantAction is in the words of each script, which differ a little.
func (s *script) wantAction(names []string) error {
	list := strings.Join(names, ", ")
	if last := len(names) - 1; s.lastAction != "" {
		list = strings.Join(names[:last], ", ") + fmt.Sprintf(s.lastAction, names[last])
	}
	return usagef("Command must include exactly one action: %s", list)
}

// usage lists what a script takes.
func (s *script) usage(name string) string {
	var parts []string
	if len(s.verbs) > 0 {
		parts = append(parts, "("+strings.Join(s.verbs, "|")+")")
	}
	for _, o := range s.options {
		switch {
		case o.instead != "":
		case o.takes == value:
			parts = append(parts, "--"+o.name+" VALUE")
		default:
			parts = append(parts, "--"+o.name)
		}
	}
	return name + " " + strings.Join(parts, " ")
}

// pairs reads key=value options.
func pairs(texts []string) (map[string]string, error) {
	values := map[string]string{}
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, usagef("%q is not key=value", text)
		}
		values[key] = value
	}
	return values, nil
}
