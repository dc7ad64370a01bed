package main

import "testing"

func partitionsOf(records ...int64) []partitionView {
	var partitions []partitionView
	for i, n := range records {
		partitions = append(partitions, partitionView{Partition: int32(i), Records: n, Bytes: 100 * n})
	}
	return partitions
}

func TestSkewIsFoundWhereOneKeyFillsAPartition(t *testing.T) {
	for _, c := range []struct {
		name    string
		records []int64
		want    int32 // -1: none
	}{
		{"constant key", []int64{0, 1000, 0}, 1},
		{"constant key of few records", []int64{0, 10}, 1},
		{"dominant key", []int64{300, 310, 9000, 295, 305, 290}, 2},
		{"two partitions, 70 to 30", []int64{700, 300}, -1},
		{"two partitions, 90 to 10", []int64{900, 100}, 0},
		{"even", []int64{1000, 1010, 990, 1003}, -1},
		{"chance among few", []int64{6, 2, 3, 2}, -1},
		{"too few to say", []int64{3, 0, 0}, -1},
		{"empty", []int64{0, 0, 0}, -1},
		{"one partition", []int64{1000}, -1},
		{"unknown offsets", []int64{-1, 1000}, -1},
		{"twice the even share of many", []int64{100, 100, 100, 100, 100, 100, 100, 400}, 7},
	} {
		s := findSkew(partitionsOf(c.records...))
		got := int32(-1)
		if s != nil {
			got = s.Partition
		}
		if got != c.want {
			t.Errorf("%s %v: skewed partition %d, want %d", c.name, c.records, got, c.want)
		}
	}
}

func TestSkewInBytesIsFoundWhereRecordsAreEven(t *testing.T) {
	partitions := partitionsOf(1000, 1000, 1000, 1000)
	partitions[3].Bytes = 50_000_000
	s := findSkew(partitions)
	if s == nil || s.Partition != 3 || s.Of != "bytes" {
		t.Fatalf("got %+v, want partition 3 by bytes", s)
	}
}
