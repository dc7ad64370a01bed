package config

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
)

// Broker is the configuration of one node, complete: what is not set has its default. It is immutable and safe to share.
//
// The getters take names of the broker scope; one that does not exist, or has another type, is a bug of ours and panics. A key
// whose value is null reads as 0, false, "" or an empty list.
type Broker struct {
	static    map[string]string // what properties, environment and overrides set, known keys and others
	dynamic   map[string]string // what [Broker.With] put on top
	resolved  map[string]value  // every key of the broker scope
	single    bool
	clusterID string
	folder    string // that relative log directories are in; "": as they are written

	listeners []Listener
}

// NewBroker returns the configuration that the given properties make, without warnings.
func NewBroker(properties map[string]string) (*Broker, error) {
	b, _, err := FromMap(properties)
	return b, err
}

// FromMap is [Parse] for a program that has its properties as a map.
func FromMap(properties map[string]string) (*Broker, []Warning, error) {
	return fromSettings(settingsOf(properties), nil)
}

// In returns the configuration with the log directories that are written as relative paths in folder, which is absolute: Kafka
// knows a log directory by its absolute path only. What was set is shown as it was written. An error names two spellings of one
// directory.
func (b *Broker) In(folder string) (*Broker, error) {
	c := *b
	c.folder = folder
	if one, two, ok := c.sameLogDir(); ok {
		return nil, sameLogDirFault(&c, one, two)
	}
	return &c, nil
}

// With returns the configuration with dynamic values on top: those of the cluster ([Dynamic.Cluster]) and of this node. Values
// that do not parse are passed over, as an old cluster may hold some.
func (b *Broker) With(d Dynamic) *Broker {
	merged := d.merged()
	c := *b
	c.dynamic = make(map[string]string, len(merged))
	c.resolved = maps.Clone(b.resolved)
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		k, ok := lookupBroker(name)
		if !ok || k.Mode == ReadOnly && k.Name == name {
			continue
		}
		if v, err := k.parse(merged[name]); err == nil {
			c.dynamic[name] = merged[name]
			if k.Name == name {
				c.resolved[name] = v
			}
		}
	}
	return &c
}

func (b *Broker) value(name string, types ...Type) value {
	k, ok := Lookup(ScopeBroker, name)
	invariant.Check(ok, "no broker configuration %q", name)
	invariant.Check(slices.Contains(types, k.Type), "broker configuration %q is a %s", name, k.Type)
	return b.resolved[name]
}

// Int returns the value of a key of type int or short.
func (b *Broker) Int(name string) int { return int(b.value(name, Int, Short).i) }

// ListenerInt returns the value of a key of type int for one listener: what listener.name.NAME.KEY sets, or the key for all.
func (b *Broker) ListenerInt(listener, name string) int {
	forAll := b.Int(name)
	k, _ := Lookup(ScopeBroker, name)
	for _, settings := range []map[string]string{b.dynamic, b.static} {
		text, set := settings["listener.name."+strings.ToLower(listener)+"."+name]
		if v, err := k.parse(text); set && err == nil {
			return int(v.i)
		}
	}
	return forAll
}

// Int64 returns the value of a key of type long, int or short.
func (b *Broker) Int64(name string) int64 { return b.value(name, Long, Int, Short).i }

// Float returns the value of a key of type double.
func (b *Broker) Float(name string) float64 { return b.value(name, Double).f }

// Bool returns the value of a key of type boolean.
func (b *Broker) Bool(name string) bool { return b.value(name, Boolean).b }

// String returns the value of a key of type string, class or password.
func (b *Broker) String(name string) string { return b.value(name, String, Class, Password).text }

// List returns the items of a key of type list. The caller must not change them.
func (b *Broker) List(name string) []string { return b.value(name, List).list }

// Duration returns the value of a key whose unit its name tells: .ms, .seconds, .minutes or .hours. Values too large for a
// duration, as Kafka's "never", are the largest duration.
func (b *Broker) Duration(name string) time.Duration {
	unit, ok := unitOf(name)
	invariant.Check(ok, "broker configuration %q has no unit of time in its name", name)
	n := b.value(name, Long, Int, Short).i
	const longest = time.Duration(1<<63 - 1)
	if n > int64(longest/unit) {
		return longest
	}
	return time.Duration(max(n, -int64(longest/unit))) * unit
}

// IsNull tells whether a key is not set and has no default.
func (b *Broker) IsNull(name string) bool {
	_, ok := Lookup(ScopeBroker, name)
	invariant.Check(ok, "no broker configuration %q", name)
	return b.resolved[name].null
}

// IsSet tells whether properties, environment, overrides or a dynamic change set the key.
func (b *Broker) IsSet(name string) bool {
	_, ok := Lookup(ScopeBroker, name)
	invariant.Check(ok, "no broker configuration %q", name)
	if _, ok := b.dynamic[name]; ok {
		return true
	}
	_, ok = b.static[name]
	return ok
}

// NodeID returns node.id, or broker.id where only that is set, or 1.
func (b *Broker) NodeID() kafka.NodeID { return kafka.NodeID(b.resolved["node.id"].i) }

// LogDirs returns the directories of log.dirs, or of log.dir where only that is set, in the shortest spelling,
// absolute after [Broker.In].
func (b *Broker) LogDirs() []string {
	written := b.resolved[b.logDirsKey()].list
	dirs := make([]string, len(written))
	for i, dir := range written {
		dirs[i] = b.path(dir)
	}
	return dirs
}

// path returns a directory in the shortest spelling.
func (b *Broker) path(written string) string {
	if b.folder == "" || filepath.IsAbs(written) {
		return filepath.Clean(written)
	}
	return filepath.Join(b.folder, written)
}

// logDirsKey is the key that names the log directories.
func (b *Broker) logDirsKey() string {
	if b.resolved["log.dirs"].null {
		return "log.dir"
	}
	return "log.dirs"
}

// CordonedLogDirs returns those of the log directories that take no new partitions.
func (b *Broker) CordonedLogDirs() []string {
	var cordoned []string
	for _, item := range b.resolved["cordoned.log.dirs"].list {
		if item == "*" {
			return b.LogDirs()
		}
		cordoned = append(cordoned, b.path(item))
	}
	return cordoned
}

// MetadataLogDir returns the directory of the metadata log: metadata.log.dir, or else the first of the log directories.
func (b *Broker) MetadataLogDir() string {
	if dir := b.resolved["metadata.log.dir"]; !dir.null {
		return b.path(dir.text)
	}
	return b.LogDirs()[0]
}

// ClusterID returns the variable CLUSTER_ID, which names the cluster that a new data directory is formatted for; mostly "".
func (b *Broker) ClusterID() string { return b.clusterID }

// SingleNode tells whether no other member of the quorum is configured.
func (b *Broker) SingleNode() bool { return b.single }

// Listeners returns what this node listens on, the broker's listeners and the controller's, in the order configured.
func (b *Broker) Listeners() []Listener { return b.listeners }

// Static returns what properties, environment and overrides set, with keys that are not in the table. The map is a copy.
func (b *Broker) Static() map[string]string { return maps.Clone(b.static) }

// unitOf returns the unit of time at the end of a key's name.
func unitOf(name string) (time.Duration, bool) {
	units := []struct {
		word string
		unit time.Duration
	}{{"ms", time.Millisecond}, {"seconds", time.Second}, {"minutes", time.Minute}, {"hours", time.Hour}}
	for _, u := range units {
		if strings.HasSuffix(name, "."+u.word) {
			return u.unit, true
		}
	}
	return 0, false
}
