package scripts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/meta"
)

func clusterScript() *script {
	return &script{
		instead: "raftsman cluster describe",
		verbs:   []string{"cluster-id", "unregister", "unregister-controller", "list-endpoints"},
		options: append(common(values("id", "config")...), flags("include-fenced-brokers")...),
		short:   map[string]string{"-i": "id"},
		run:     runCluster,
	}
}

func runCluster(ctx context.Context, c *call) error {
	switch c.verb {
	case "":
		return usagef("")
	case "unregister", "unregister-controller":
		return c.unregister(ctx)
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

// unregister takes a broker or a controller out of the cluster that is gone for good.
func (c *call) unregister(ctx context.Context) error {
	text := c.opts.value("id")
	if text == "" {
		return usagef("argument --id/-i is required")
	}
	id, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return usagef("argument --id/-i: could not convert '%s' to Integer (For input string: \"%s\")", text, text)
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	if c.verb == "unregister-controller" {
		if err := c.unregisterController(ctx, int32(id)); err != nil {
			return err
		}
		c.print("Controller %d is no longer registered.\n", id)
		return nil
	}
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = int32(id)
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return errors.New(exception(err, deref(resp.ErrorMessage)))
	}
	c.print("Broker %d is no longer registered.\n", id)
	return nil
}

func (c *call) unregisterController(ctx context.Context, id int32) error {
	req := kmsg.NewPtrUnregisterControllerRequest()
	req.ControllerID = id
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return errors.New(exception(err, deref(resp.ErrorMessage)))
	}
	return nil
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
		return fmt.Errorf("%s is not served by this script, only describe is: Kafka's own kafka-features.sh does it, `raftsman cluster describe` shows what there is", c.verb)
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "raftsman-scripts", KafkaVersion
	node, err := c.number("node-id")
	if err != nil {
		return err
	}
	var of kmsg.Requestor = c.cl
	if node >= 0 {
		of = c.cl.Broker(int(node))
	}
	resp, err := req.RequestWith(ctx, of)
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
