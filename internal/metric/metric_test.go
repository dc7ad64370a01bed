package metric

import (
	"math"
	"testing"
)

func TestBucketsCoverEveryValueOnce(t *testing.T) {
	for _, v := range []int64{0, 1, 3, 4, 5, 7, 8, 9, 10, 15, 16, 1000, 1 << 20, 1<<20 + 1, 1<<30 - 1} {
		i := bucketOf(v)
		if up := upperBound(i); v > up || i > 0 && v <= upperBound(i-1) {
			t.Errorf("value %d in bucket %d, which covers %d..%d", v, i, upperBound(i-1)+1, up)
		}
		if up := upperBound(i); float64(up) > 1.25*float64(v)+1 {
			t.Errorf("value %d reads back as %d, more than a quarter too large", v, up)
		}
	}
	if got := bucketOf(math.MaxInt64); got != histogramBuckets-1 {
		t.Errorf("the largest value is in bucket %d, want the last, %d", got, histogramBuckets-1)
	}
}

func TestQuantile(t *testing.T) {
	var h Histogram
	if d := h.Read(); d.Quantile(0.5) != 0 {
		t.Errorf("quantile of nothing = %d, want 0", d.Quantile(0.5))
	}
	for v := range int64(1000) {
		h.Observe(v)
	}
	h.Observe(-5)
	d := h.Read()
	if d.Count != 1001 || d.Sum != 999*1000/2 {
		t.Errorf("count %d, sum %d; want 1001 and %d", d.Count, d.Sum, 999*1000/2)
	}
	for _, c := range []struct {
		q     float64
		exact int64
	}{{0.5, 499}, {0.99, 989}, {1, 999}} {
		got := d.Quantile(c.q)
		if got < c.exact || float64(got) > 1.25*float64(c.exact) {
			t.Errorf("quantile %v = %d, want %d to a quarter more", c.q, got, c.exact)
		}
	}
}

func TestCounterAndGauge(t *testing.T) {
	var c Counter
	c.Inc()
	c.Add(4)
	var g Gauge
	g.Set(7)
	if got := g.Add(-2); c.Value() != 5 || got != 5 || g.Value() != 5 {
		t.Errorf("counter %d, gauge %d; want 5 and 5", c.Value(), got)
	}
}
