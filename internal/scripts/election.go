package scripts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

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
