package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func clusterCommand(a *app) *cobra.Command {
	return family("cluster", "Describe the cluster, its health and what it serves",
		clusterDescribeCommand(a), clusterHealthCommand(a), clusterDrainCommand(a), clusterQuorumCommand(a), clusterAddVoterCommand(a), clusterRemoveVoterCommand(a), clusterVersionsCommand(a))
}

// clusterView is what `cluster describe` shows.
type clusterView struct {
	ClusterID  string        `json:"clusterId"`
	Controller int32         `json:"controller"` // -1: unknown
	Brokers    []brokerView  `json:"brokers"`
	Quorum     *quorumView   `json:"quorum,omitempty"` // nil where the cluster does not tell
	Features   []featureView `json:"features"`
}

type brokerView struct {
	ID        int32     `json:"id"`
	Host      string    `json:"host"`
	Port      int32     `json:"port"`
	Rack      string    `json:"rack,omitempty"`
	Listeners []string  `json:"listeners"`
	LogDirs   []dirView `json:"logDirs"`
}

// dirView is a log directory. TotalBytes and UsableBytes are the file system's, -1 when unknown.
type dirView struct {
	Path        string `json:"path"`
	Partitions  int    `json:"partitions"`
	Bytes       int64  `json:"bytes"`
	TotalBytes  int64  `json:"totalBytes"`
	UsableBytes int64  `json:"usableBytes"`
	Error       string `json:"error,omitempty"`
}

type quorumView struct {
	Leader        int32       `json:"leader"`
	Epoch         int32       `json:"epoch"`
	HighWatermark int64       `json:"highWatermark"`
	Voters        []voterView `json:"voters"`
}

type voterView struct {
	ID        int32  `json:"id"`
	EndOffset int64  `json:"endOffset"`
	Directory string `json:"directoryId,omitempty"`
}

type featureView struct {
	Name      string `json:"name"`
	Finalized int16  `json:"finalized"` // 0: not in use
	Min       int16  `json:"supportedMin"`
	Max       int16  `json:"supportedMax"`
}

func clusterDescribeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "describe",
		Short: "Show cluster id, controller, brokers, listeners, features and log directories",
		Args:  wants(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.admin(c.Context(), func(ctx context.Context, adm *kadm.Client) error {
				v, err := a.viewCluster(ctx, adm)
				if err != nil {
					return err
				}
				if a.json() {
					return a.writeJSON(v)
				}
				return v.write(a)
			})
		},
	}
}

// viewCluster asks for the whole picture. Brokers and controllers are essential; what a cluster does not tell beyond that is
// left out.
func (a *app) viewCluster(ctx context.Context, adm *kadm.Client) (clusterView, error) {
	meta, err := adm.BrokerMetadata(ctx)
	if err != nil {
		return clusterView{}, err
	}
	v := clusterView{ClusterID: meta.Cluster, Controller: meta.Controller, Features: []featureView{}}
	dirs, err := adm.DescribeAllLogDirs(ctx, nil)
	if ctx.Err() != nil {
		return v, err
	}
	for _, b := range meta.Brokers {
		view := brokerView{ID: b.NodeID, Host: b.Host, Port: b.Port, Listeners: []string{}, LogDirs: []dirView{}}
		if b.Rack != nil {
			view.Rack = *b.Rack
		}
		for _, d := range dirs[b.NodeID].Sorted() {
			view.LogDirs = append(view.LogDirs, viewDir(d))
		}
		if view.Listeners, err = a.listeners(ctx, b.NodeID); err != nil {
			return v, err
		}
		v.Brokers = append(v.Brokers, view)
	}
	if v.Quorum = a.viewQuorum(ctx); v.Quorum != nil {
		v.Controller = v.Quorum.Leader // brokers name one of themselves in metadata, whoever it is
	}
	versions, err := adm.ApiVersions(ctx)
	if err = unlessPartial(err); err != nil {
		return v, err
	}
	v.Features = features(versions)
	return v, nil
}

func viewDir(d kadm.DescribedLogDir) dirView {
	view := dirView{Path: d.Dir, Bytes: d.Size(), TotalBytes: d.TotalBytes, UsableBytes: d.UsableBytes}
	d.Topics.Each(func(kadm.DescribedLogDirPartition) { view.Partitions++ })
	if d.Err != nil {
		view.Error = refused("directory", d.Err, "").Error()
	}
	return view
}

// listeners asks a broker how it says it can be reached. One that does not tell has none.
func (a *app) listeners(ctx context.Context, broker int32) ([]string, error) {
	settings, err := a.readSettings(ctx, configResource{kmsg.ConfigResourceTypeBroker, fmt.Sprint(broker)}, false)
	if ctx.Err() != nil {
		return nil, err
	}
	for _, key := range []string{"advertised.listeners", "listeners"} {
		i := slices.IndexFunc(settings, func(s setting) bool { return s.Key == key })
		if i >= 0 && message(settings[i].Value) != "" {
			return strings.Split(*settings[i].Value, ","), nil
		}
	}
	return []string{}, nil
}

func (a *app) viewQuorum(ctx context.Context) *quorumView {
	cl, err := a.connect(ctx)
	if err != nil {
		return nil
	}
	defer cl.Close()
	p, _, err := describeQuorum(ctx, cl)
	if err != nil {
		return nil
	}
	v := &quorumView{Leader: p.LeaderID, Epoch: p.LeaderEpoch, HighWatermark: p.HighWatermark, Voters: []voterView{}}
	for _, voter := range p.CurrentVoters {
		v.Voters = append(v.Voters, voterView{ID: voter.ReplicaID, EndOffset: voter.LogEndOffset, Directory: topicID(voter.ReplicaDirectoryID)})
	}
	slices.SortFunc(v.Voters, func(x, y voterView) int { return cmp.Compare(x.ID, y.ID) })
	return v
}

// features joins what the brokers support: a level counts if all of them have it.
func features(brokers kadm.BrokersApiVersions) []featureView {
	found := map[string]*featureView{}
	for _, b := range brokers.Sorted() {
		if b.Err != nil || b.Raw() == nil {
			continue
		}
		for _, f := range b.Raw().SupportedFeatures {
			if v := found[f.Name]; v != nil {
				v.Min, v.Max = max(v.Min, f.MinVersion), min(v.Max, f.MaxVersion)
				continue
			}
			found[f.Name] = &featureView{Name: f.Name, Min: f.MinVersion, Max: f.MaxVersion}
		}
		for _, f := range b.Raw().FinalizedFeatures {
			if v := found[f.Name]; v != nil {
				v.Finalized = f.MaxVersionLevel
			}
		}
	}
	features := []featureView{}
	for _, name := range sortedKeys(found) {
		features = append(features, *found[name])
	}
	return features
}

func (v *clusterView) write(a *app) error {
	p := a.paint()
	var b strings.Builder
	controller := "unknown"
	if v.Controller >= 0 {
		controller = fmt.Sprint(v.Controller)
	}
	fmt.Fprintf(&b, "cluster %s, %s, controller %s\n", p.bold(printable(v.ClusterID)), plural(int64(len(v.Brokers)), "broker"), controller)
	if q := v.Quorum; q != nil {
		var voters []string
		for _, voter := range q.Voters {
			voters = append(voters, fmt.Sprintf("%d (offset %s)", voter.ID, formatCount(voter.EndOffset)))
		}
		fmt.Fprintf(&b, "metadata quorum: leader %d, epoch %d, high watermark %s, voters %s\n", q.Leader, q.Epoch, formatCount(q.HighWatermark), strings.Join(voters, ", "))
	}
	b.WriteByte('\n')

	brokers := newTable(column{title: "BROKER", right: true}, column{title: "ADDRESS"}, column{title: "RACK"}, column{title: "LISTENERS", flexible: true})
	dirs := newTable(column{title: "BROKER", right: true}, column{title: "LOG DIRECTORY", flexible: true}, column{title: "PARTITIONS", right: true},
		column{title: "SIZE", right: true}, column{title: "FREE", right: true}, column{title: "OF", right: true}, column{})
	for _, broker := range v.Brokers {
		id := number(broker.ID)
		if broker.ID == v.Controller {
			id.paint = paint.bold
		}
		brokers.add(id, plain(fmt.Sprintf("%s:%d", broker.Host, broker.Port)), when(broker.Rack == "", faint("-"), plain(broker.Rack)),
			when(len(broker.Listeners) == 0, faint("-"), plain(strings.Join(broker.Listeners, " "))))
		for _, d := range broker.LogDirs {
			dirs.add(number(broker.ID), plain(d.Path), count(int64(d.Partitions)), plain(formatBytes(d.Bytes)), d.free(), plain(formatBytes(d.TotalBytes)), alarm(d.Error))
		}
	}
	features := newTable(column{title: "FEATURE"}, column{title: "LEVEL", right: true}, column{title: "SUPPORTED"})
	for _, f := range v.Features {
		features.add(plain(f.Name), number(f.Finalized), plain(fmt.Sprintf("%d-%d", f.Min, f.Max)))
	}
	for _, t := range []*table{brokers, dirs, features} {
		if len(t.rows) == 0 {
			continue
		}
		if err := t.write(&b, p, a.width()); err != nil {
			return err
		}
		b.WriteByte('\n')
	}
	_, err := fmt.Fprintln(a.out, strings.TrimRight(b.String(), "\n"))
	return err
}

const tightDisk = 0.1 // of the file system: less free space is marked

func (d *dirView) free() cell {
	free := plain(formatBytes(d.UsableBytes))
	if d.TotalBytes > 0 && float64(d.UsableBytes) < tightDisk*float64(d.TotalBytes) {
		return alarm(free.text)
	}
	return free
}
