package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/raftsman/raftsman/internal/clientconf"
	"github.com/raftsman/raftsman/internal/config"
)

const (
	contextVariable   = "RAFTSMAN_CONTEXT"
	currentContextKey = "current-context"
	contextPrefix     = "context."
	contextNameMax    = 64
	contextFileMax    = 1 << 20 // bytes: more is not a file of contexts
	bootstrapKey      = "bootstrap.servers"
)

// contexts are named settings of connections, as the file holds them: properties named context.NAME.KEY, where KEY is one of
// Kafka's clients, and current-context.
type contexts struct {
	path    string
	current string
	named   map[string]map[string]string
}

// contextPath is where the contexts are, "" where there is no place for them.
func (a *app) contextPath() string {
	dir := a.getenv("XDG_CONFIG_HOME")
	if dir == "" && runtime.GOOS == "windows" {
		dir = a.getenv("AppData")
	}
	if home := a.getenv("HOME"); dir == "" && home != "" {
		dir = filepath.Join(home, ".config")
	}
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "raftsman", "config")
}

// readContexts reads the file. One that is not there holds nothing.
func (a *app) readContexts() (*contexts, error) {
	c := &contexts{path: a.contextPath(), named: map[string]map[string]string{}}
	if c.path == "" {
		return c, nil
	}
	text, err := readSmall(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	properties, err := config.ParseProperties(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: mend or delete the file", c.path, err)
	}
	for _, p := range properties {
		name, key, ok := strings.Cut(strings.TrimPrefix(p.Name, contextPrefix), ".")
		switch {
		case p.Name == currentContextKey:
			c.current = p.Value
		case strings.HasPrefix(p.Name, contextPrefix) && ok && name != "" && key != "":
			c.add(name)[key] = p.Value
		default:
			return nil, fmt.Errorf("%s: line %d: %s is neither %s nor %sNAME.KEY: mend or delete it", c.path, p.Line, p.Name, currentContextKey, contextPrefix)
		}
	}
	return c, nil
}

// readSmall reads a file that a person wrote.
func readSmall(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Size() > contextFileMax {
		return "", fmt.Errorf("%s has %s: it is no file of settings", path, formatBytes(info.Size()))
	}
	text, err := os.ReadFile(path)
	return string(text), err
}

func (c *contexts) add(name string) map[string]string {
	if c.named[name] == nil {
		c.named[name] = map[string]string{}
	}
	return c.named[name]
}

// write replaces the file, at once.
func (c *contexts) write() error {
	if c.path == "" {
		return errors.New("there is no place for contexts: set HOME or XDG_CONFIG_HOME")
	}
	var properties []config.Property
	if c.current != "" {
		properties = append(properties, config.Property{Name: currentContextKey, Value: c.current})
	}
	for _, name := range sortedKeys(c.named) {
		for _, key := range sortedKeys(c.named[name]) {
			properties = append(properties, config.Property{Name: contextPrefix + name + "." + key, Value: c.named[name][key]})
		}
	}
	dir := filepath.Dir(c.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, "config-*") // readable by its owner alone
	if err != nil {
		return err
	}
	_, err = file.WriteString(config.FormatProperties(properties))
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), c.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// find returns the settings of a context.
func (c *contexts) find(name string) (map[string]string, error) {
	if properties, ok := c.named[name]; ok {
		return properties, nil
	}
	if near := nearest(name, slices.Collect(maps.Keys(c.named))); near != "" {
		return nil, fmt.Errorf("there is no context %s: did you mean %s?", name, near)
	}
	return nil, fmt.Errorf("there is no context %s: `raftsman context list` shows what there is, `raftsman context set %s -b host:port` makes it", name, name)
}

// clientSettings settles how the cluster is reached: the settings of the context, over them those of --command-config, and over both the
// brokers that -b or the environment names. A context that is only the current one does not count beside brokers of the environment.
func (a *app) clientSettings() (clientconf.Settings, error) {
	properties, err := a.contextProperties()
	if err != nil {
		return clientconf.Settings{}, err
	}
	from := "the context"
	if a.commandConfig != "" {
		text, err := readSmall(a.commandConfig)
		if err != nil {
			return clientconf.Settings{}, usagef("--command-config: %w", err)
		}
		more, err := config.ParseProperties(text)
		if err != nil {
			return clientconf.Settings{}, usagef("--command-config %s: %w", a.commandConfig, err)
		}
		properties = maps.Clone(properties)
		if properties == nil {
			properties = map[string]string{}
		}
		for _, p := range more {
			properties[p.Name] = p.Value
		}
		from = "--command-config " + a.commandConfig
	}
	settings, unknown, err := clientconf.Read(properties)
	if err != nil {
		return settings, usagef("%s: %w", from, err)
	}
	if !a.toldUnknown {
		a.toldUnknown = true
		for _, key := range unknown {
			a.note("%s: %s is no setting of a Kafka client: it has no effect", from, key)
		}
	}
	switch env := a.getenv(bootstrapVariable); {
	case a.bootstrap != "":
		settings.Servers = a.bootstrap
	case settings.Servers != "" && (a.context != "" || a.commandConfig != ""):
	case env != "":
		settings.Servers = env
	case settings.Servers == "":
		settings.Servers = defaultBootstrap
	}
	return settings, nil
}

// contextProperties returns the settings of the context that the flag, the environment or the file chooses; none where none does.
func (a *app) contextProperties() (map[string]string, error) {
	name := a.context
	if name == "" {
		name = a.getenv(contextVariable)
	}
	if name == "" && (a.bootstrap != "" || a.getenv(bootstrapVariable) != "") {
		return nil, nil
	}
	c, err := a.readContexts()
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = c.current
	}
	if name == "" {
		return nil, nil
	}
	return c.find(name)
}
