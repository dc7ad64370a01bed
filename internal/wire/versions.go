package wire

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Keys that the server must know by name.
const (
	KeyProduce     = int16(kmsg.Produce)
	KeyApiVersions = int16(kmsg.ApiVersions)
	MaxKey         = kmsg.MaxKey
)

// never stands for "no version".
const never = math.MaxInt16

// firstFlexible is the first version with compact lengths and tags, by key, as kmsg knows it.
var firstFlexible = flexibleVersions()

func flexibleVersions() []int16 {
	table := make([]int16, kmsg.MaxKey+1)
	for key := range table {
		table[key] = never
		request := kmsg.RequestForKey(int16(key))
		if request == nil {
			continue
		}
		for version := range request.MaxVersion() + 1 {
			if request.SetVersion(version); request.IsFlexible() {
				table[key] = version
				break
			}
		}
	}
	return table
}

// Flexible tells whether requests and responses of that version use compact lengths and tags.
func Flexible(key, version int16) bool {
	return key >= 0 && int(key) < len(firstFlexible) && version >= firstFlexible[key]
}

// KeyName returns Kafka's name of an API, as "Produce".
func KeyName(key int16) string { return kmsg.NameForKey(key) }
