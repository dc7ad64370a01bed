package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// keySample is what the newest records of one partition have as keys, the most frequent first.
type keySample struct {
	Partition int32      `json:"partition"`
	Records   int        `json:"records"`
	Keys      []keyCount `json:"keys"`
	Others    int        `json:"others"` // records whose key is not among Keys
}

type keyCount struct {
	Key     *string `json:"key"` // nil: records without a key
	Records int     `json:"records"`
}

const (
	sampledRecords = 1000
	shownKeys      = 5
)

// sampleKeys reads the newest records of the fullest partition and counts their keys.
func (a *app) sampleKeys(ctx context.Context, v topicView) (*keySample, error) {
	fullest := slices.MaxFunc(v.Partitions, func(x, y partitionView) int {
		return cmp.Or(cmp.Compare(x.Records, y.Records), cmp.Compare(y.Partition, x.Partition))
	})
	if fullest.Records <= 0 {
		return nil, nil
	}
	from := max(fullest.StartOffset, fullest.EndOffset-sampledRecords)
	cl, err := a.connect(ctx, kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		v.Topic: {fullest.Partition: kgo.NewOffset().At(from)},
	}))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	counter := keyCounter{}
	for last := int64(-1); last < fullest.EndOffset-1; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, err
		}
		for _, e := range fetches.Errors() {
			return nil, refused("read "+e.Topic, e.Err, "")
		}
		fetches.EachRecord(func(r *kgo.Record) {
			last = r.Offset
			if !r.Attrs.IsControl() && r.Offset < fullest.EndOffset {
				counter.add(r.Key)
			}
		})
	}
	return counter.sample(fullest.Partition), nil
}

// keyCounter counts records by key; the nil key counts apart from the empty one.
type keyCounter struct {
	none int
	keys map[string]int
}

func (c *keyCounter) add(key []byte) {
	if key == nil {
		c.none++
		return
	}
	if c.keys == nil {
		c.keys = map[string]int{}
	}
	c.keys[string(key)]++
}

func (c *keyCounter) sample(partition int32) *keySample {
	s := &keySample{Partition: partition, Records: c.none}
	if c.none > 0 {
		s.Keys = append(s.Keys, keyCount{Records: c.none})
	}
	for _, key := range sortedKeys(c.keys) {
		s.Keys = append(s.Keys, keyCount{Key: &key, Records: c.keys[key]})
		s.Records += c.keys[key]
	}
	slices.SortStableFunc(s.Keys, func(x, y keyCount) int { return y.Records - x.Records })
	for _, k := range s.Keys[min(len(s.Keys), shownKeys):] {
		s.Others += k.Records
	}
	s.Keys = s.Keys[:min(len(s.Keys), shownKeys)]
	return s
}

func (s *keySample) text() string {
	var parts []string
	for _, k := range s.Keys {
		name := "no key"
		if k.Key != nil {
			name = fmt.Sprintf("key %q", shorten(*k.Key, 40))
		}
		parts = append(parts, fmt.Sprintf("%s %s", name, formatPercent(float64(k.Records)/float64(s.Records))))
	}
	if s.Others > 0 {
		parts = append(parts, "others "+formatPercent(float64(s.Others)/float64(s.Records)))
	}
	return fmt.Sprintf("keys of the newest %s of partition %d: %s", plural(int64(s.Records), "record"), s.Partition, strings.Join(parts, ", "))
}
