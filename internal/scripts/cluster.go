package scripts

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/meta"
)

func clusterScript() *script {
	return &script{
		instead: "raftsman cluster describe",
		verbs:   []string{"cluster-id", "list-endpoints", "unregister"},
		options: append(common(values("id", "config")...), flags("include-fenced-brokers")...),
		run:     runCluster,
	}
}

func runCluster(ctx context.Context, c *call) error {
	switch c.verb {
	case "":
		return usagef("")
	case "unregister":
		return errors.New("unregister is not served by this script yet: a cluster has one node")
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeFencedBrokers = c.opts.has("include-fenced-brokers")
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return err
	}
	if err := said(resp.ErrorCode, resp.ErrorMessage); err != nil {
		return err
	}
	if c.verb == "cluster-id" {
		c.print("Cluster ID: %s\n", resp.ClusterID)
		return nil
	}
	rows := [][]string{{"ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"}}
	slices.SortFunc(resp.Brokers, func(x, y kmsg.DescribeClusterResponseBroker) int { return cmp.Compare(x.NodeID, y.NodeID) })
	for _, b := range resp.Brokers {
		state := "unfenced"
		if b.IsFenced {
			state = "fenced"
		}
		rows = append(rows, []string{fmt.Sprint(b.NodeID), b.Host, fmt.Sprint(b.Port), orNull(b.Rack), state, "broker"})
	}
	c.columns(rows)
	return nil
}

func logDirsScript() *script {
	return &script{
		instead: "raftsman cluster describe",
		options: common(append(flags("describe"), values("topic-list", "broker-list")...)...),
		run:     runLogDirs,
	}
}

// The form that log directories are printed in.
type (
	dirsReport struct {
		Brokers []dirsOfBroker `json:"brokers"`
		Version int            `json:"version"`
	}
	dirsOfBroker struct {
		Broker  int32       `json:"broker"`
		LogDirs []dirReport `json:"logDirs"`
	}
	dirReport struct {
		Partitions []dirPartition `json:"partitions"`
		Error      *string        `json:"error"`
		LogDir     string         `json:"logDir"`
	}
	dirPartition struct {
		Partition string `json:"partition"`
		Size      int64  `json:"size"`
		OffsetLag int64  `json:"offsetLag"`
		IsFuture  bool   `json:"isFuture"`
	}
)

func runLogDirs(ctx context.Context, c *call) error {
	if !c.opts.has("describe") {
		return usagef(`Missing required argument "[describe]"`)
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	brokers, err := c.adm.ListBrokers(ctx)
	if err != nil {
		return err
	}
	ids := brokers.NodeIDs()
	slices.Sort(ids)
	if text := c.opts.value("broker-list"); text != "" {
		wanted, err := numbers(text)
		if err != nil {
			return usagef("--broker-list: %v", err)
		}
		var missing []int32
		for _, id := range wanted {
			if !slices.Contains(ids, id) {
				missing = append(missing, id)
			}
		}
		if len(missing) > 0 {
			c.say("ERROR: The given brokers do not exist from --broker-list: %s. Current existent brokers: %s", join(missing), join(ids))
			return errTold
		}
		ids = wanted
	}
	c.print("Querying brokers for log directories information\n")
	var topics []string
	if text := c.opts.value("topic-list"); text != "" {
		topics = strings.Split(text, ",")
	}
	report := dirsReport{Version: 1}
	for _, id := range ids {
		dirs, err := c.adm.DescribeBrokerLogDirs(ctx, id, nil)
		if err != nil {
			return err
		}
		of := dirsOfBroker{Broker: id, LogDirs: []dirReport{}}
		for _, d := range dirs.Sorted() {
			of.LogDirs = append(of.LogDirs, reportDir(d, topics))
		}
		report.Brokers = append(report.Brokers, of)
	}
	text, err := json.Marshal(report)
	if err != nil {
		return err
	}
	c.print("Received log directory information from brokers %s\n%s\n", join(ids), text)
	return nil
}

func reportDir(d kadm.DescribedLogDir, topics []string) dirReport {
	report := dirReport{Partitions: []dirPartition{}, LogDir: d.Dir}
	if d.Err != nil {
		text := sentence(d.Err, "")
		report.Error = &text
	}
	for _, t := range d.Topics.Sorted() {
		if len(topics) > 0 && !slices.Contains(topics, t.Topic) {
			continue
		}
		report.Partitions = append(report.Partitions, dirPartition{fmt.Sprintf("%s-%d", t.Topic, t.Partition), t.Size, t.OffsetLag, t.IsFuture})
	}
	return report
}

func versionsScript() *script {
	return &script{instead: "raftsman cluster api-versions", options: common(), run: runVersions}
}

// javaNames turns the library's names of requests into Kafka's.
var javaNames = strings.NewReplacer("SASL", "Sasl", "ACLs", "Acls", "SCRAM", "Scram", "ProducerID", "ProducerId", "PartitionAssignments", "PartitionReassignments")

func runVersions(ctx context.Context, c *call) error {
	if err := c.connect(ctx); err != nil {
		return err
	}
	cluster, err := c.adm.BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	described, err := c.adm.ApiVersions(ctx)
	if err != nil && len(described) == 0 {
		return err
	}
	slices.SortFunc(cluster.Brokers, func(x, y kadm.BrokerDetail) int { return cmp.Compare(x.NodeID, y.NodeID) })
	for _, b := range cluster.Brokers {
		d := described[b.NodeID]
		if d.Err != nil {
			c.print("%s:%d (id: %d rack: %s isFenced: false) -> ERROR: %s\n", b.Host, b.Port, b.NodeID, orNull(b.Rack), exception(d.Err, ""))
			continue
		}
		var lines []string
		keys := d.Raw().ApiKeys
		slices.SortFunc(keys, func(x, y kmsg.ApiVersionsResponseApiKey) int { return cmp.Compare(x.ApiKey, y.ApiKey) })
		for _, k := range keys {
			span := fmt.Sprint(k.MinVersion)
			if k.MaxVersion > k.MinVersion {
				span = fmt.Sprintf("%d to %d", k.MinVersion, k.MaxVersion)
			}
			lines = append(lines, fmt.Sprintf("\t%s(%d): %s [usable: %d]", javaNames.Replace(kmsg.NameForKey(k.ApiKey)), k.ApiKey, span, k.MaxVersion))
		}
		c.print("%s:%d (id: %d rack: %s isFenced: false) -> (\n%s\n)\n", b.Host, b.Port, b.NodeID, orNull(b.Rack), strings.Join(lines, ",\n"))
	}
	return nil
}

func featuresScript() *script {
	return &script{
		instead: "raftsman cluster describe",
		verbs:   []string{"describe", "upgrade", "downgrade", "disable", "version-mapping", "feature-dependencies"},
		options: common(values("feature", "metadata", "release-version", "node-id")...),
		run:     runFeatures,
	}
}

func runFeatures(ctx context.Context, c *call) error {
	switch c.verb {
	case "describe":
	case "":
		return usagef("")
	default:
		return fmt.Errorf("%s is not served by this script: only describe is", c.verb)
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "raftsman-scripts", KafkaVersion
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return err
	}
	if err := said(resp.ErrorCode, nil); err != nil {
		return err
	}
	slices.SortFunc(resp.SupportedFeatures, func(x, y kmsg.ApiVersionsResponseSupportedFeature) int { return cmp.Compare(x.Name, y.Name) })
	var rows [][]string
	for _, f := range resp.SupportedFeatures {
		level := int16(0)
		for _, final := range resp.FinalizedFeatures {
			if final.Name == f.Name {
				level = final.MaxVersionLevel
			}
		}
		rows = append(rows, []string{
			"Feature: " + f.Name, "SupportedMinVersion: " + levelText(f.Name, f.MinVersion), "SupportedMaxVersion: " + levelText(f.Name, f.MaxVersion),
			"FinalizedVersionLevel: " + levelText(f.Name, level), fmt.Sprintf("Epoch: %d", resp.FinalizedFeaturesEpoch),
		})
	}
	c.columns(rows)
	return nil
}

func levelText(feature string, level int16) string {
	if name := meta.MetadataVersionName(level); name != "" && feature == "metadata.version" {
		return name
	}
	return fmt.Sprint(level)
}

// quorumScript and electionScript ask what only clusters of a recent Kafka, or of Raftsman, serve.
func quorumScript() *script {
	return &script{
		instead: "raftsman cluster describe",
		verbs:   []string{"describe", "add-controller", "remove-controller"},
		options: append(common(), flags("status", "replication", "human-readable")...),
		run:     runQuorum,
	}
}

func runQuorum(ctx context.Context, c *call) error {
	switch {
	case c.verb == "":
		return usagef("")
	case c.verb != "describe":
		return fmt.Errorf("%s is not served by this script: only describe is", c.verb)
	case c.opts.has("status") == c.opts.has("replication"):
		return usagef("One of --status or --replication must be specified with describe sub-command")
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	req := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return err
	}
	if err := said(resp.ErrorCode, resp.ErrorMessage); err != nil {
		return err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return errors.New("the broker tells nothing of the metadata quorum")
	}
	p := resp.Topics[0].Partitions[0]
	if err := said(p.ErrorCode, p.ErrorMessage); err != nil {
		return err
	}
	if c.opts.has("replication") {
		c.printReplication(&p)
		return nil
	}
	cluster, err := c.adm.BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	c.printStatus(cluster.Cluster, &p, resp.Nodes)
	return nil
}

func (c *call) printReplication(p *kmsg.DescribeQuorumResponseTopicPartition) {
	end := int64(0)
	for _, v := range p.CurrentVoters {
		if v.ReplicaID == p.LeaderID {
			end = v.LogEndOffset
		}
	}
	rows := [][]string{{"NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"}}
	row := func(r *kmsg.DescribeQuorumResponseTopicPartitionReplicaState, status string) []string {
		return []string{
			fmt.Sprint(r.ReplicaID), base64.RawURLEncoding.EncodeToString(r.ReplicaDirectoryID[:]), fmt.Sprint(r.LogEndOffset), fmt.Sprint(end - r.LogEndOffset),
			fmt.Sprint(r.LastFetchTimestamp), fmt.Sprint(r.LastCaughtUpTimestamp), status,
		}
	}
	for i := range p.CurrentVoters {
		if v := &p.CurrentVoters[i]; v.ReplicaID == p.LeaderID {
			rows = slices.Insert(rows, 1, row(v, "Leader"))
		} else {
			rows = append(rows, row(v, "Follower"))
		}
	}
	for i := range p.Observers {
		rows = append(rows, row(&p.Observers[i], "Observer"))
	}
	var widths [7]int
	for _, r := range rows {
		for i, text := range r {
			widths[i] = max(widths[i], len(text))
		}
	}
	for _, r := range rows {
		for i, text := range r {
			r[i] = fmt.Sprintf("%-*s", widths[i], text)
		}
		c.print("%s\t\n", strings.Join(r, "\t"))
	}
}

func (c *call) printStatus(cluster string, p *kmsg.DescribeQuorumResponseTopicPartition, nodes []kmsg.DescribeQuorumResponseNode) {
	var end, lag int64
	var caughtUp, latest int64
	for _, v := range p.CurrentVoters {
		if v.ReplicaID == p.LeaderID {
			end, latest = v.LogEndOffset, v.LastCaughtUpTimestamp
		}
	}
	for _, v := range p.CurrentVoters {
		if behind := end - v.LogEndOffset; behind > lag {
			lag = behind
		}
		if behind := latest - v.LastCaughtUpTimestamp; v.LastCaughtUpTimestamp > 0 && behind > caughtUp {
			caughtUp = behind
		}
	}
	c.print("ClusterId:              %s\nLeaderId:               %d\nLeaderEpoch:            %d\nHighWatermark:          %d\nMaxFollowerLag:         %d\nMaxFollowerLagTimeMs:   %d\n",
		cluster, p.LeaderID, p.LeaderEpoch, p.HighWatermark, lag, caughtUp)
	c.print("CurrentVoters:          %s\nCurrentObservers:       %s\n", replicaList(p.CurrentVoters, nodes), replicaList(p.Observers, nodes))
}

func replicaList(replicas []kmsg.DescribeQuorumResponseTopicPartitionReplicaState, nodes []kmsg.DescribeQuorumResponseNode) string {
	var parts []string
	for _, r := range replicas {
		var endpoints []string
		for _, n := range nodes {
			if n.NodeID != r.ReplicaID {
				continue
			}
			for _, l := range n.Listeners {
				endpoints = append(endpoints, fmt.Sprintf("%q", fmt.Sprintf("%s://%s:%d", l.Name, l.Host, l.Port)))
			}
		}
		text := fmt.Sprintf(`{"id": %d, "directoryId": %q`, r.ReplicaID, base64.RawURLEncoding.EncodeToString(r.ReplicaDirectoryID[:]))
		if len(endpoints) > 0 {
			text += fmt.Sprintf(`, "endpoints": [%s]`, strings.Join(endpoints, ", "))
		}
		parts = append(parts, text+"}")
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func electionScript() *script {
	return &script{
		instead: "raftsman topic describe",
		options: common(slices.Concat(values("election-type", "topic", "partition", "path-to-json-file"), flags("all-topic-partitions"))...),
		run:     runElection,
	}
}

func runElection(ctx context.Context, c *call) error {
	how, ok := map[string]kadm.ElectLeadersHow{"preferred": kadm.ElectPreferredReplica, "unclean": kadm.ElectLiveReplica}[strings.ToLower(c.opts.value("election-type"))]
	if !ok {
		return usagef(`Missing required argument "[election-type]": it is preferred or unclean`)
	}
	wanted, err := c.electable()
	if err != nil {
		return err
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	results, err := c.adm.ElectLeaders(ctx, how, wanted)
	if err != nil {
		return err
	}
	var done, valid []string
	failed := 0
	for _, topic := range sorted(results) {
		for _, p := range sorted(results[topic]) {
			r := results[topic][p]
			name := fmt.Sprintf("%s-%d", topic, p)
			switch {
			case r.Err == nil:
				done = append(done, name)
			case errors.Is(r.Err, kerr.ElectionNotNeeded):
				valid = append(valid, name)
			default:
				c.print("Error completing leader election (%s) for partition: %s: %s\n", strings.ToUpper(c.opts.value("election-type")), name, exception(r.Err, r.ErrMessage))
				failed++
			}
		}
	}
	if len(done) > 0 {
		c.print("Successfully completed leader election (%s) for partitions %s\n", strings.ToUpper(c.opts.value("election-type")), strings.Join(done, ", "))
	}
	if len(valid) > 0 {
		c.print("Valid replica already elected for partitions %s\n", strings.Join(valid, ", "))
	}
	if failed > 0 {
		c.say("%d replica(s) could not be elected", failed)
		return errTold
	}
	return nil
}

// electable reads which partitions are meant; nil is all.
func (c *call) electable() (kadm.TopicsSet, error) {
	wanted := kadm.TopicsSet{}
	switch {
	case c.opts.has("all-topic-partitions"):
		return nil, nil
	case c.opts.has("path-to-json-file"):
		text, err := readFile(c.opts.value("path-to-json-file"))
		if err != nil {
			return nil, err
		}
		var content struct {
			Partitions []struct {
				Topic     string `json:"topic"`
				Partition int32  `json:"partition"`
			} `json:"partitions"`
		}
		if err := json.Unmarshal([]byte(text), &content); err != nil {
			return nil, fmt.Errorf("%s: %w", c.opts.value("path-to-json-file"), err)
		}
		for _, p := range content.Partitions {
			wanted.Add(p.Topic, p.Partition)
		}
		return wanted, nil
	case !c.opts.has("topic"):
		return nil, usagef("One and only one of the following options is required: all-topic-partitions, topic, path-to-json-file")
	case !c.opts.has("partition"):
		return nil, usagef("Missing required option(s): partition")
	}
	found, err := numbers(c.opts.value("partition"))
	if err != nil {
		return nil, usagef("--partition: %v", err)
	}
	wanted.Add(c.opts.value("topic"), found...)
	return wanted, nil
}

func sorted[M ~map[K]V, K cmp.Ordered, V any](m M) []K { return slices.Sorted(maps.Keys(m)) }

func storageScript() *script {
	return &script{
		instead: "raftsman serve",
		verbs:   []string{"random-uuid", "format", "info", "version-mapping", "feature-dependencies"},
		options: slices.Concat([]option{{name: "help"}}, values("config", "cluster-id"), flags("standalone", "ignore-formatted"),
			refuses("raftsman serve, which formats for Kafka "+KafkaVersion+" and one node", value, "release-version", "feature", "initial-controllers", "add-scram"),
			refuses("raftsman serve, which formats for one node", nothing, "no-initial-controllers")),
		short: map[string]string{
			"-t": "cluster-id", "-c": "config", "-r": "release-version", "-f": "feature", "-s": "standalone", "-g": "ignore-formatted",
			"-I": "initial-controllers", "-N": "no-initial-controllers", "-S": "add-scram",
		},
		run: runStorage,
	}
}

// format makes log directories ready. `raftsman serve` does so by itself; runbooks for Kafka have a step for it.
func (c *call) format() error {
	for _, option := range []struct{ name, letter string }{{"config", "c"}, {"cluster-id", "t"}} {
		if !c.opts.has(option.name) {
			return usagef("kafka-storage: error: argument --%s/-%s is required", option.name, option.letter)
		}
	}
	f, err := c.env.Format(c.opts.value("config"), c.opts.value("cluster-id"))
	switch {
	case err != nil:
		return err
	case len(f.Before) > 0 && !c.opts.has("ignore-formatted"):
		return fmt.Errorf("Log directory %s is already formatted. Use --ignore-formatted to ignore this directory and format the others.", f.Before[0])
	case len(f.Made) == 0:
		c.print("All of the log directories are already formatted.\n")
		return nil
	}
	version := levelText("metadata.version", meta.LatestMetadataVersion)
	for _, dir := range f.Made {
		if dir != f.Metadata {
			c.print("Formatting data directory %s with metadata.version %s.\n", dir, version)
		}
	}
	c.print("Formatting dynamic metadata voter directory %s with metadata.version %s.\n", f.Metadata, version)
	return nil
}

// randomID is a new id as the scripts make them up: a version 4 UUID, which does not begin with a dash: that would be an option to
// the next command.
func randomID() string {
	for {
		var id [16]byte
		rand.Read(id[:]) // never fails
		id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
		if text := base64.RawURLEncoding.EncodeToString(id[:]); !strings.HasPrefix(text, "-") {
			return text
		}
	}
}

func runStorage(_ context.Context, c *call) error {
	switch c.verb {
	case "":
		return usagef("")
	case "random-uuid":
		c.print("%s\n", randomID())
		return nil
	case "format":
		return c.format()
	}
	return fmt.Errorf("%s is not served by this script: `raftsman log` looks into log directories", c.verb)
}
