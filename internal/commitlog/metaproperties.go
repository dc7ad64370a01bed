package commitlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
)

// MetaProperties is what meta.properties says about a log directory: to which cluster and node it belongs.
type MetaProperties struct {
	ClusterID string
	NodeID    kafka.NodeID
	ID        kafka.UUID // directory.id; zero in directories formatted before Kafka 3.7
}

// ParseMetaProperties reads a file of version 1, or of version 0 as brokers with ZooKeeper wrote it.
func ParseMetaProperties(content []byte) (MetaProperties, error) {
	values := make(map[string]string)
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		values[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	p := MetaProperties{ClusterID: values["cluster.id"]}
	id := values["node.id"]
	switch values["version"] {
	case "0":
		id = values["broker.id"]
	case "1":
	default:
		return p, fmt.Errorf("version %q: want 0 or 1", values["version"])
	}
	n, err := strconv.ParseInt(id, 10, 32)
	if err != nil {
		return p, fmt.Errorf("node.id %q is not a number", id)
	}
	p.NodeID = kafka.NodeID(n)
	if text := values["directory.id"]; text != "" {
		if p.ID, err = kafka.ParseUUID(text); err != nil {
			return p, fmt.Errorf("directory.id: %w", err)
		}
	}
	return p, nil
}

// format returns the file's content. Like Java's Properties it begins with a comment.
func (p MetaProperties) format() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "#\ncluster.id=%s\n", p.ClusterID)
	if !p.ID.IsZero() {
		fmt.Fprintf(&b, "directory.id=%s\n", p.ID)
	}
	fmt.Fprintf(&b, "node.id=%d\nversion=1\n", p.NodeID)
	return b.Bytes()
}

// ReadMetaProperties reads a directory's meta.properties without opening the directory. ErrNotFormatted tells that there is
// none.
func ReadMetaProperties(fs vfs.FS, path string) (MetaProperties, error) {
	name := filepath.Join(path, MetaPropertiesFile)
	content, err := vfs.ReadFile(fs, name)
	if vfs.IsNotExist(err) {
		return MetaProperties{}, fmt.Errorf("%s: %w", path, ErrNotFormatted)
	}
	if err != nil {
		return MetaProperties{}, err
	}
	p, err := ParseMetaProperties(content)
	if err != nil {
		return MetaProperties{}, fmt.Errorf("read %s: %w", name, err)
	}
	return p, nil
}

// FormatDir makes a directory ready for [OpenDir]: it writes meta.properties, last and durably. Formatting again replaces what
// the file says and touches nothing else.
func FormatDir(fs vfs.FS, path string, p MetaProperties) error {
	if err := fs.MkdirAll(path); err != nil {
		return err
	}
	if err := fs.SyncDir(filepath.Dir(filepath.Clean(path))); err != nil {
		return fmt.Errorf("sync directory of %s: %w", path, err)
	}
	return vfs.Replace(fs, filepath.Join(path, MetaPropertiesFile), p.format())
}

// cleanShutdown is the content of .kafka_cleanshutdown.
type cleanShutdown struct {
	Version     int               `json:"version"`
	BrokerEpoch kafka.BrokerEpoch `json:"brokerEpoch"`
}

// ParseCleanShutdown returns the broker epoch in .kafka_cleanshutdown. Kafka before 3.7 wrote an empty file: -1.
func ParseCleanShutdown(content []byte) (kafka.BrokerEpoch, error) {
	if len(content) == 0 {
		return -1, nil
	}
	c := cleanShutdown{BrokerEpoch: -1}
	if err := json.Unmarshal(content, &c); err != nil {
		return -1, err
	}
	if c.Version != 0 {
		return -1, fmt.Errorf("version %d, want 0", c.Version)
	}
	return c.BrokerEpoch, nil
}

// ParsePartitionMetadata returns the topic id in partition.metadata.
func ParsePartitionMetadata(content []byte) (kafka.TopicID, error) {
	version, rest, _ := strings.Cut(string(content), "\n")
	if version != "version: 0" {
		return kafka.TopicID{}, fmt.Errorf("%q: want version: 0", version)
	}
	text, ok := strings.CutPrefix(strings.TrimRight(rest, "\n"), "topic_id: ")
	if !ok {
		return kafka.TopicID{}, fmt.Errorf("no topic_id")
	}
	return kafka.ParseUUID(text)
}

func formatPartitionMetadata(id kafka.TopicID) []byte {
	return fmt.Appendf(nil, "version: 0\ntopic_id: %s", id)
}
