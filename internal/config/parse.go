package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Warning is something in a configuration that does no harm but is likely a mistake.
type Warning struct {
	Name    string // the key
	Origin  string // where it was set, as "server.properties: line 12"
	Message string
}

func (w Warning) String() string {
	if w.Origin == "" {
		return w.Message
	}
	return w.Origin + ": " + w.Message
}

// Fault is a setting that the broker cannot start with.
type Fault struct {
	Name, Value string
	Origin      string // "" when it is a default or follows from several keys
	Reason      string // what is allowed

	key string // that it is about, where the text does without Name
}

func (f *Fault) Error() string {
	text := f.Reason
	if f.Value != "" {
		text = fmt.Sprintf("%s=%s: %s", f.Name, f.Value, f.Reason)
	} else if f.Name != "" {
		text = fmt.Sprintf("%s: %s", f.Name, f.Reason)
	}
	if f.Origin != "" {
		text = f.Origin + ": " + text
	}
	return text
}

func fault(name, val, format string, args ...any) *Fault {
	if k, ok := Lookup(ScopeBroker, name); ok && k.Sensitive() {
		val = "[hidden]"
	}
	return &Fault{Name: name, Value: val, Reason: fmt.Sprintf(format, args...)}
}

// setting is one key that was set, and where.
type setting struct{ name, text, origin string }

func settingsOf(properties map[string]string) []setting {
	settings := make([]setting, 0, len(properties))
	for _, name := range sortedNames(properties) {
		settings = append(settings, setting{name: name, text: properties[name]})
	}
	return settings
}

// OriginOverride is the origin of what an override sets.
const OriginOverride = "override"

// Parse is [ParseFile] for a text that has no name.
func Parse(properties string, overrides, environ []string) (*Broker, []Warning, error) {
	return ParseFile("", properties, overrides, environ)
}

// ParseFile makes a broker's configuration from the text of a server.properties, which file names, from the process's
// environment (NAME=value items) and from overrides (key=value items); later ones win. An error joins a [Fault] for everything
// that is wrong, not only the first, in the order of the settings, as the warnings are. Unknown keys are warnings, unless they
// begin with raftsman. or raftsman.config.strict is true.
func ParseFile(file, properties string, overrides, environ []string) (*Broker, []Warning, error) {
	at := ""
	if file != "" {
		at = file + ": "
	}
	lines, err := ParseProperties(properties)
	if err != nil {
		return nil, nil, fmt.Errorf("%s%w", at, err)
	}
	var settings []setting
	for _, p := range lines {
		settings = append(settings, setting{p.Name, p.Value, at + "line " + itoa(p.Line)})
	}
	env := ParseEnviron(environ)
	for i, p := range env.Properties {
		settings = append(settings, setting{p.Name, p.Value, "variable " + env.variables[i]})
	}
	var faults []error
	for _, item := range overrides {
		name, text, ok := strings.Cut(item, "=")
		if !ok || trim(name) == "" {
			faults = append(faults, &Fault{Value: item, Name: OriginOverride, Reason: "must be key=value"})
			continue
		}
		settings = append(settings, setting{trim(name), text, OriginOverride})
	}
	b, warnings, err := fromSettings(settings, faults)
	if err != nil {
		return nil, warnings, err
	}
	b.clusterID = env.ClusterID
	return b, warnings, nil
}

// fromSettings resolves every key. The last setting of a name counts.
func fromSettings(settings []setting, faults []error) (*Broker, []Warning, error) {
	last, order := make(map[string]setting, len(settings)), make(map[string]int, len(settings))
	for i, s := range settings {
		last[s.name], order[s.name] = s, i
	}
	// What no setting says comes last.
	inOrder := func(x, y string) int {
		return cmp.Compare(placeOf(order, x, len(settings)), placeOf(order, y, len(settings)))
	}
	b := &Broker{static: make(map[string]string, len(last)), resolved: make(map[string]value, len(table))}
	var warnings []Warning
	strict := strings.EqualFold(trim(last["raftsman.config.strict"].text), "true")
	for _, name := range slices.SortedFunc(maps.Keys(last), inOrder) {
		s := last[name]
		b.static[name] = s.text
		k, ok := Lookup(ScopeBroker, name)
		if !ok || k.DynamicOnly {
			warning, err := unknownKey(s, strict)
			if err != nil {
				faults = append(faults, err)
			} else if warning != nil {
				warnings = append(warnings, *warning)
			}
			continue
		}
		v, err := k.parse(s.text)
		if err != nil {
			f := fault(name, trim(s.text), "%v", err)
			f.Origin = s.origin
			faults = append(faults, f)
			continue
		}
		b.resolved[name] = v
	}
	b.resolveDefaults()
	listeners, wrong := b.resolveListeners()
	b.listeners = listeners
	faults = append(faults, wrong...)
	b.single = b.alone()
	b.resolveQuorumDefaults()
	faults = append(faults, b.checkTogether()...)
	faults = append(faults, b.checkSupported()...)
	for _, w := range append(b.warnNotRun(), b.warnNoOffsetsTopic()...) {
		w.Origin = last[w.Name].origin
		warnings = append(warnings, w)
	}
	slices.SortStableFunc(warnings, func(x, y Warning) int { return inOrder(x.Name, y.Name) })
	if len(faults) > 0 {
		for i, err := range faults {
			if f, ok := errors.AsType[*Fault](err); ok && f.Origin == "" {
				f.Origin = last[f.Name].origin
				faults[i] = f
			}
		}
		slices.SortStableFunc(faults, func(x, y error) int { return inOrder(faultName(x), faultName(y)) })
		return nil, warnings, errors.Join(faults...)
	}
	return b, warnings, nil
}

func placeOf(order map[string]int, name string, otherwise int) int {
	if i, ok := order[name]; ok {
		return i
	}
	return otherwise
}

func faultName(err error) string {
	if f, ok := errors.AsType[*Fault](err); ok {
		return cmp.Or(f.key, f.Name)
	}
	return ""
}

// unknownKey decides about a key that is not in the table.
func unknownKey(s setting, strict bool) (*Warning, error) {
	if k, ok := listenerKey(s.name); ok && k.Mode != ReadOnly || hasPluginPrefix(s.name) {
		return nil, nil
	}
	message := "unknown key " + s.name
	if s.name == "" {
		message = fmt.Sprintf("there is no key before %q", "="+s.text)
	} else if k, ok := Lookup(ScopeBroker, s.name); ok && k.DynamicOnly {
		message = "key " + s.name + " can only be set while the broker runs, by IncrementalAlterConfigs"
	} else if nearest := Nearest(ScopeBroker, s.name); nearest != "" {
		message += "; did you mean " + nearest + "?"
	}
	if strict || strings.HasPrefix(s.name, "raftsman.") {
		return nil, &Fault{Origin: s.origin, Reason: message, key: s.name}
	}
	return &Warning{Name: s.name, Origin: s.origin, Message: message}, nil
}

// listenerPrefix begins the names of settings of one listener: listener.name.NAME.KEY.
const listenerPrefix = "listener.name."

// ofListener returns what follows the listener in the name of a setting of one.
func ofListener(name string) (base string, ok bool) {
	rest, ok := strings.CutPrefix(name, listenerPrefix)
	if !ok {
		return "", false
	}
	_, base, ok = strings.Cut(rest, ".")
	return base, ok
}

// listenerKey returns the key that listener.name.NAME.KEY sets for one listener. KEY may begin with a SASL mechanism.
func listenerKey(name string) (*Key, bool) {
	rest, ok := strings.CutPrefix(name, listenerPrefix)
	if !ok {
		return nil, false
	}
	for {
		_, after, ok := strings.Cut(rest, ".")
		if !ok {
			return nil, false
		}
		if k, ok := Lookup(ScopeBroker, after); ok {
			return k, true
		}
		rest = after
	}
}

// hasPluginPrefix tells whether a key belongs to a plug-in or to a provider of secrets, which Kafka hands its keys unseen.
func hasPluginPrefix(name string) bool {
	for _, prefix := range []string{"config.providers.", "rsm.config.", "rlmm.config.", listenerPrefix} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func sortedNames(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
