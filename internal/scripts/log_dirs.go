package scripts

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
)

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
