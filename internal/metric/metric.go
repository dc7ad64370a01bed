// Package metric holds the numbers that the broker keeps about itself: counters, gauges and histograms that many goroutines
// write without a lock. It knows no names and no formats; whoever shows them walks the fields of the structs that hold them.
package metric

import (
	"math/bits"
	"sync/atomic"
)

// Counter only grows. The zero value is ready.
type Counter struct{ n atomic.Int64 }

// Inc adds one.
func (c *Counter) Inc() { c.n.Add(1) }

// Add adds n, which must not be negative.
func (c *Counter) Add(n int64) { c.n.Add(n) }

// Value returns the sum so far.
func (c *Counter) Value() int64 { return c.n.Load() }

// Gauge goes up and down. The zero value is ready.
type Gauge struct{ n atomic.Int64 }

// Add adds n, which may be negative, and returns the new value.
func (g *Gauge) Add(n int64) int64 { return g.n.Add(n) }

// Set replaces the value.
func (g *Gauge) Set(n int64) { g.n.Store(n) }

// Value returns the value now.
func (g *Gauge) Value() int64 { return g.n.Load() }

// histogramBuckets covers values of up to 2^44 in four steps per power of two: microseconds up to half a year.
const histogramBuckets = 4*44 + 4

// Histogram counts values in buckets whose bounds grow by a quarter of a power of two, so that a quantile is at most 25 %
// too large. The zero value is ready. Negative values count as 0.
type Histogram struct {
	sum     atomic.Int64
	buckets [histogramBuckets]atomic.Int64
}

// Observe counts one value.
func (h *Histogram) Observe(v int64) {
	v = max(v, 0)
	h.sum.Add(v)
	h.buckets[bucketOf(v)].Add(1)
}

// bucketOf returns the bucket of v: 0..3 for the values themselves, then the two bits below the highest one choose the step.
func bucketOf(v int64) int {
	if v < 4 {
		return int(v)
	}
	power := bits.Len64(uint64(v)) - 1
	return min(4*(power-1)+int(v>>(power-2)&3), histogramBuckets-1)
}

// upperBound returns the largest value that falls into bucket i.
func upperBound(i int) int64 {
	if i < 4 {
		return int64(i)
	}
	power := i/4 + 1
	return (int64(i%4)+5)<<(power-2) - 1
}

// Distribution is a histogram at one moment.
type Distribution struct {
	Count, Sum int64
	buckets    [histogramBuckets]int64
}

// Read returns the values counted so far. Values observed meanwhile may be in or out.
func (h *Histogram) Read() Distribution {
	d := Distribution{Sum: h.sum.Load()}
	for i := range h.buckets {
		d.buckets[i] = h.buckets[i].Load()
		d.Count += d.buckets[i]
	}
	return d
}

// Quantile returns a value that at least the fraction q of all values do not exceed, and 0 when there are none.
func (d *Distribution) Quantile(q float64) int64 {
	if d.Count == 0 {
		return 0
	}
	want := max(int64(q*float64(d.Count)+0.5), 1)
	for i, n := range d.buckets {
		if want -= n; want <= 0 {
			return upperBound(i)
		}
	}
	return upperBound(histogramBuckets - 1)
}
