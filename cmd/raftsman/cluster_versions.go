package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// apiRange is one row of `cluster api-versions`: what all asked brokers serve of an API.
type apiRange struct {
	Key     int16   `json:"key"`
	Name    string  `json:"name"`
	Min     int16   `json:"min"`
	Max     int16   `json:"max"`
	Missing []int32 `json:"missing,omitempty"` // brokers that do not serve it
}

func clusterVersionsCommand(a *app) *cobra.Command {
	var broker int32
	c := &cobra.Command{
		Use:   "api-versions",
		Short: "Show the APIs that the brokers serve, with their versions",
		Long:  "Show the APIs that the brokers serve, with their versions: what all of them have in common, or what --broker has.",
		Args:  wants(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.admin(c.Context(), func(ctx context.Context, adm *kadm.Client) error {
				versions, err := adm.ApiVersions(ctx)
				if err = unlessPartial(err); err != nil {
					return err
				}
				if c.Flags().Changed("broker") {
					one, ok := versions[broker]
					if !ok {
						return fmt.Errorf("there is no broker %d: `raftsman cluster describe` shows which there are", broker)
					}
					versions = kadm.BrokersApiVersions{broker: one}
				}
				return a.writeVersions(commonVersions(versions))
			})
		},
	}
	c.Flags().Int32Var(&broker, "broker", 0, "only this broker")
	return c
}

// commonVersions returns what all brokers serve. A broker that did not answer does not count.
func commonVersions(brokers kadm.BrokersApiVersions) []apiRange {
	var answered []kadm.BrokerApiVersions
	found := map[int16]*apiRange{}
	for _, b := range brokers.Sorted() {
		if b.Err != nil {
			continue
		}
		answered = append(answered, b)
		b.EachKeySorted(func(key, least, most int16) {
			if r := found[key]; r != nil {
				r.Min, r.Max = max(r.Min, least), min(r.Max, most)
				return
			}
			found[key] = &apiRange{Key: key, Name: kmsg.NameForKey(key), Min: least, Max: most}
		})
	}
	ranges := []apiRange{}
	for _, key := range sortedKeys(found) {
		r := *found[key]
		for _, b := range answered {
			if _, ok := b.KeyMaxVersion(key); !ok {
				r.Missing = append(r.Missing, b.NodeID)
			}
		}
		ranges = append(ranges, r)
	}
	return ranges
}

func (a *app) writeVersions(ranges []apiRange) error {
	if a.json() {
		return a.writeJSON(ranges)
	}
	t := newTable(column{title: "KEY", right: true}, column{title: "API"}, column{title: "MIN", right: true}, column{title: "MAX", right: true}, column{})
	for _, r := range ranges {
		note := plain("")
		if len(r.Missing) > 0 {
			note = caution("not on " + joinIDs(slices.Clone(r.Missing)))
		}
		t.add(number(r.Key), plain(r.Name), number(r.Min), number(r.Max), note)
	}
	return t.write(a.out, a.paint(), a.width())
}
