package main

import (
	"math"
)

// skew is one partition that takes far more than its even share: nearly always the sign of a key that most records have.
type skew struct {
	Partition int32   `json:"partition"`
	Share     float64 `json:"share"`
	Of        string  `json:"of"`        // "records" or "bytes"
	TimesEven float64 `json:"timesEven"` // share divided by the even share
}

const (
	skewRecordsMin = 10   // fewer records say nothing
	skewTimesMin   = 2.0  // an even share is 1
	skewShareMin   = 0.8  // of two partitions, nothing is more than twice the even share
	skewSigmas     = 4.0  // and chance does not explain it
	skewSurely     = 0.95 // of whatever number of partitions
)

// findSkew returns the partition that stands out most, or nil. Records decide; where they are even, bytes may still tell
// (one key with far larger values).
func findSkew(partitions []partitionView) *skew {
	records := func(p partitionView) int64 { return p.Records }
	bytes := func(p partitionView) int64 { return p.Bytes }
	if s := outlier(partitions, "records", records); s != nil {
		return s
	}
	return outlier(partitions, "bytes", bytes)
}

func outlier(partitions []partitionView, of string, measure func(partitionView) int64) *skew {
	if len(partitions) < 2 {
		return nil
	}
	var sum, records int64
	top := partitions[0]
	for _, p := range partitions {
		if measure(p) < 0 || p.Records < 0 {
			return nil
		}
		sum += measure(p)
		records += p.Records
		if measure(p) > measure(top) {
			top = p
		}
	}
	if sum == 0 || records < skewRecordsMin {
		return nil
	}
	even := 1 / float64(len(partitions))
	share := float64(measure(top)) / float64(sum)
	// If every record chose its partition by chance, its share would vary by this much around the even one.
	chance := math.Sqrt(even * (1 - even) / float64(records))
	switch {
	case share < even+skewSigmas*chance && share < skewSurely:
		return nil
	case share < min(skewTimesMin*even, skewShareMin):
		return nil
	}
	return &skew{Partition: top.Partition, Share: share, Of: of, TimesEven: share / even}
}
