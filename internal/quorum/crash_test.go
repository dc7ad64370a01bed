package quorum

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// TestPowerCutsLoseNothingAcknowledged lets commands run while the power is cut at a random operation of the disk, again and
// again, and compares what each start finds with what was answered before: all of it is there, and of the one command that was
// under way all or nothing. More seeds: CRASH_SEEDS=1000 go test -run TestPowerCuts ./internal/quorum; one again: CRASH_SEED=n.
func TestPowerCutsLoseNothingAcknowledged(t *testing.T) {
	first, count := uint64(time.Now().UnixNano())%1_000_000, 150
	if text := os.Getenv("CRASH_SEEDS"); text != "" {
		count, _ = strconv.Atoi(text)
	}
	if text := os.Getenv("CRASH_SEED"); text != "" {
		seed, _ := strconv.Atoi(text)
		first, count = uint64(seed), 1
	}
	for i := range count {
		seed := first + uint64(i)
		if err := crash(t, seed, ""); err != nil {
			t.Fatalf("%v\nagain: CRASH_SEED=%d go test -run TestPowerCuts ./internal/quorum", err, seed)
		}
	}
}

// TestEverySyncIsNeeded takes single flushes out of the program and expects that power cuts show it.
func TestEverySyncIsNeeded(t *testing.T) {
	disk := faultfs.NewDisk(1)
	if err := crashOn(t, disk, 1); err != nil {
		t.Fatal(err)
	}
	for _, site := range disk.Sites() {
		if strings.HasPrefix(site, "quorum/") && !shows(t, site) {
			t.Errorf("power cuts do not show that the flush at %s is missing", site)
		}
	}
}

func shows(t *testing.T, site string) bool {
	for seed := range uint64(1000) {
		if crash(t, seed, site) != nil {
			return true
		}
	}
	return false
}

// model is what a start must find.
type model struct {
	topics  map[string]topicModel
	configs map[string]string
	nextID  kafka.ProducerID // producer ids below were handed out
}

type topicModel struct {
	id         kafka.TopicID // zero while not answered
	partitions int
	retention  string
	epoch      kafka.Epoch // the highest leader epoch that was seen
}

func (m model) clone() model {
	m.topics, m.configs = maps.Clone(m.topics), maps.Clone(m.configs)
	return m
}

// crasher runs one program over several lives of a host.
type crasher struct {
	*host
	disk      *faultfs.Disk
	formatted bool
	known     model
	perhaps   func(*model) // what the command under way would change
	last      string
}

func crash(t *testing.T, seed uint64, skip string) error {
	disk := faultfs.NewDisk(seed)
	disk.SkipSync(skip)
	return crashOn(t, disk, seed)
}

func crashOn(t *testing.T, disk *faultfs.Disk, seed uint64) error {
	c := &crasher{host: newHost(t, disk, seed), disk: disk, known: model{map[string]topicModel{}, map[string]string{}, 0}}
	c.options = func(o *Options) {
		o.SegmentBytes, o.RetentionBytes = 2000+c.random.IntN(6000), int64(c.random.IntN(20_000))
	}
	for life := range 6 {
		disk.CutAt(c.random.IntN([]int{15, 120}[c.random.IntN(2)]))
		if err := c.live(25); err != nil {
			return fmt.Errorf("seed %d, life %d, %s: %w", seed, life, c.last, err)
		}
		disk.Restart()
	}
	return nil
}

// live runs until the power is cut or all is done.
func (c *crasher) live(operations int) error {
	err := c.begin()
	for range operations {
		if err == nil {
			err = c.operate()
		}
	}
	if err == nil && c.random.IntN(2) == 0 {
		c.last = "close"
		err = c.close()
	}
	if errors.Is(err, faultfs.ErrPowerCut) && c.disk.Off() {
		return nil
	}
	return err
}

func (c *crasher) begin() error {
	c.now = c.now.Add(time.Minute)
	c.last = "format"
	if !c.formatted {
		if _, err := commitlog.ReadMetaProperties(c.disk, hostDir); errors.Is(err, commitlog.ErrNotFormatted) {
			if err := c.format(); err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
		c.formatted = true
	}
	c.last = "start"
	if err := c.open(); err != nil {
		return err
	}
	return c.check()
}

// check compares the image with what is known, or with what it would be after the command that was cut short.
func (c *crasher) check() error {
	im := c.node.Image()
	err := c.known.differs(im)
	if err != nil && c.perhaps != nil {
		tried := c.known.clone()
		c.perhaps(&tried)
		if tried.differs(im) == nil {
			c.known, err = tried, nil
		}
	}
	c.perhaps = nil
	if err != nil {
		return err
	}
	if m := c.node.Membership(); m.Version != 1 || len(m.Voters) != 1 {
		return fmt.Errorf("membership %+v, want the voter of the format", m)
	}
	if !im.Alive(1) || im.Features()[meta.MetadataVersion] != meta.LatestMetadataVersion {
		return fmt.Errorf("brokers %+v, features %v", im.Brokers(), im.Features())
	}
	for t := range im.Topics() {
		m := c.known.topics[t.Name]
		m.id = t.ID
		for _, p := range t.Partitions {
			m.epoch = max(m.epoch, p.LeaderEpoch)
		}
		c.known.topics[t.Name] = m
	}
	return nil
}

func (m model) differs(im *meta.Image) error {
	if im.TopicCount() != len(m.topics) {
		return fmt.Errorf("found %d topics, want %d", im.TopicCount(), len(m.topics))
	}
	for _, name := range slices.Sorted(maps.Keys(m.topics)) {
		want := m.topics[name]
		t, ok := im.Topic(name)
		if !ok {
			return fmt.Errorf("topic %s is gone", name)
		}
		if !want.id.IsZero() && t.ID != want.id {
			return fmt.Errorf("topic %s has id %s, was answered %s", name, t.ID, want.id)
		}
		retention := im.Config(meta.Resource{Type: meta.TopicResource, Name: name})["retention.ms"]
		if len(t.Partitions) != want.partitions || retention != want.retention {
			return fmt.Errorf("topic %s has %d partitions and retention %q, want %+v", name, len(t.Partitions), retention, want)
		}
		for i, p := range t.Partitions {
			if p.Leader != 1 || p.LeaderEpoch < 0 || i < 1 && p.LeaderEpoch < want.epoch {
				return fmt.Errorf("partition %d of topic %s: %+v, want leader epoch %d or more", i, name, p, want.epoch)
			}
		}
	}
	if got := im.Config(meta.Resource{Type: meta.BrokerResource}); got["log.retention.ms"] != m.configs["log.retention.ms"] {
		return fmt.Errorf("broker configuration %v, want %v", got, m.configs)
	}
	if im.NextProducerID() < m.nextID {
		return fmt.Errorf("next producer id %d, and %d was handed out", im.NextProducerID(), m.nextID-1)
	}
	return nil
}

// command runs one command, whose effect is certain when it returns nil and open until then.
func (c *crasher) command(name string, effect func(*model), run func() error) error {
	c.last, c.perhaps = name, effect
	if err := run(); err != nil {
		return err
	}
	effect(&c.known)
	c.perhaps = nil
	return c.check()
}

func (c *crasher) operate() error {
	ctx := context.Background()
	c.now = c.now.Add(time.Second)
	names := slices.Sorted(maps.Keys(c.known.topics))
	pick := func() string { return names[c.random.IntN(len(names))] }
	switch n := c.random.IntN(100); {
	case n < 40 || len(names) == 0:
		return c.createSome(ctx)
	case n < 50:
		name := pick()
		return c.command("delete "+name, func(m *model) { delete(m.topics, name) }, func() error {
			results, err := c.node.DeleteTopics(ctx, meta.DeleteTopics{Names: []string{name}})
			return errors.Join(err, firstError(len(results), func(i int) error { return results[i].Err }))
		})
	case n < 60:
		return c.grow(ctx, pick())
	case n < 70:
		return c.alter(ctx)
	case n < 85:
		return c.takeProducerIDs(ctx)
	}
	c.last = "snapshot"
	if err := c.node.Snapshot(); err != nil {
		return err
	}
	c.last = "sweep"
	return errors.Join(c.dir.WriteCheckpoints(), c.dir.Sweep(c.now), c.dir.Sweep(c.now.Add(time.Hour)))
}

func firstError(n int, at func(int) error) error {
	for i := range n {
		if err := at(i); err != nil {
			return err
		}
	}
	return nil
}

func (c *crasher) createSome(ctx context.Context) error {
	cmd := meta.CreateTopics{}
	for range 1 + c.random.IntN(3) {
		name := fmt.Sprintf("topic-%d", c.random.IntN(1_000_000))
		_, taken := c.known.topics[name]
		if taken || slices.ContainsFunc(cmd.Topics, func(t meta.NewTopic) bool { return t.Name == name }) {
			continue
		}
		cmd.Topics = append(cmd.Topics, meta.NewTopic{
			Name: name, Partitions: int32(1 + c.random.IntN(20)), ReplicationFactor: 1,
			Configs: []meta.ConfigValue{{Name: "retention.ms", Value: new(strconv.Itoa(c.random.IntN(1000)))}},
		})
	}
	var ids []kafka.TopicID
	effect := func(m *model) {
		for i, t := range cmd.Topics {
			made := topicModel{partitions: int(t.Partitions), retention: *t.Configs[0].Value}
			if ids != nil {
				made.id = ids[i]
			}
			m.topics[t.Name] = made
		}
	}
	return c.command("create", effect, func() error {
		results, err := c.node.CreateTopics(ctx, cmd)
		if err != nil {
			return err
		}
		for _, r := range results {
			ids = append(ids, r.ID)
		}
		return firstError(len(results), func(i int) error { return results[i].Err })
	})
}

func (c *crasher) grow(ctx context.Context, name string) error {
	to := c.known.topics[name].partitions + 1 + c.random.IntN(5)
	effect := func(m *model) {
		t := m.topics[name]
		t.partitions = to
		m.topics[name] = t
	}
	return c.command("grow "+name, effect, func() error {
		results, err := c.node.CreatePartitions(ctx, meta.CreatePartitions{Topics: []meta.TopicGrowth{{Name: name, Count: int32(to)}}})
		return errors.Join(err, firstError(len(results), func(i int) error { return results[i].Err }))
	})
}

func (c *crasher) alter(ctx context.Context) error {
	value := strconv.Itoa(c.random.IntN(1000))
	effect := func(m *model) { m.configs = map[string]string{"log.retention.ms": value} }
	return c.command("alter", effect, func() error {
		results, err := c.node.AlterConfigs(ctx, meta.AlterConfigs{Incremental: true, Resources: []meta.ConfigChange{{
			Resource: meta.Resource{Type: meta.BrokerResource}, Ops: []meta.ConfigOp{{Name: "log.retention.ms", Op: meta.Set, Value: &value}},
		}}})
		return errors.Join(err, firstError(len(results), func(i int) error { return results[i].Err }))
	})
}

func (c *crasher) takeProducerIDs(ctx context.Context) error {
	c.last = "producer id"
	for range 1 + c.random.IntN(3) {
		id, err := c.node.NextProducerID(ctx)
		if err != nil {
			return err
		}
		if id < c.known.nextID {
			return fmt.Errorf("producer id %d was handed out twice", id)
		}
		c.known.nextID = id + 1
	}
	return nil
}
