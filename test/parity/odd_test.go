package parity

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

// odd asks for every version of every key in ways that say nothing sensible.
func (c *conversation) odd() {
	for _, k := range raw.Keys {
		if k.Comes != "" {
			continue
		}
		if k.Key != kmsg.ApiVersions { // whose answer then has another form
			c.add("older than there is", raw.Odd(k.Key, raw.VersionsOf(k.Key)[0]-1, raw.Bare))
			c.add("newer than there is", raw.Odd(k.Key, k.Max+1, raw.Bare))
		}
		for _, v := range raw.VersionsOf(k.Key) {
			for _, way := range []string{raw.Bare, raw.Single, raw.Doubled, raw.Hollow} {
				if k.Key == kmsg.Metadata && (way == raw.Bare || way == raw.Hollow) {
					continue // those are sensible: all topics, and none
				}
				c.add(way, raw.Odd(k.Key, v, way))
			}
		}
	}
}
