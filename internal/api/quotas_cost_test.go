package api

import (
	"context"
	"testing"

	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/quota"
	"github.com/raftsman/raftsman/internal/wire"
)

// newMeteredCall is a request of a broker on which these quotas are set.
func newMeteredCall(t *testing.T, changes ...meta.QuotaChange) (*Quotas, call) {
	t.Helper()
	a := newConfigWorld(t, "").api
	if results, err := a.Quorum.AlterQuotas(context.Background(), meta.AlterQuotas{Changes: changes}); err != nil {
		t.Fatal(err)
	} else {
		for _, err := range results {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return NewQuotas(a.Config, a.Quorum.Image), call{Request: &wire.Request{ClientID: new("app"), Peer: &wire.Peer{Principal: "User:ANONYMOUS"}}}
}

// Measuring allocates nothing: where there is no quota it is a look at the image, where there is one the meters are there already.
func TestMeasuringAllocatesNothing(t *testing.T) {
	for name, changes := range map[string][]meta.QuotaChange{
		"without quotas": nil,
		"with quotas":    {{Entity: quota.Entity{ClientID: quota.Default}, Ops: []meta.QuotaOp{{Key: "producer_byte_rate", Value: 1 << 40}, {Key: "consumer_byte_rate", Value: 1 << 40}}}},
	} {
		q, c := newMeteredCall(t, changes...)
		if n := testing.AllocsPerRun(1000, func() {
			q.record(quota.ProduceBytes, c.who(), 1000)
			q.fetchMax(c.who(), 1<<20)
			q.record(quota.FetchBytes, c.who(), 1000)
			q.add(quota.FetchBytes, c.who(), -1000)
		}); n != 0 {
			t.Errorf("%s: %v allocations a request", name, n)
		}
	}
}

// One Fetch does not ask for more than it could get without waiting.
func TestAFetchIsBoundedByTheBurst(t *testing.T) {
	q, c := newMeteredCall(t, meta.QuotaChange{Entity: quota.Entity{User: quota.Named("ANONYMOUS")}, Ops: []meta.QuotaOp{{Key: "consumer_byte_rate", Value: 1000}}})
	if got := q.fetchMax(c.who(), 1<<20); got != 10_000 { // ten full samples
		t.Errorf("%d bytes, want 10000", got)
	}
	if got := q.fetchMax(c.who(), 500); got != 500 {
		t.Errorf("%d bytes where 500 are asked for", got)
	}
}

func BenchmarkMeasureProduce(b *testing.B) {
	for name, changes := range map[string][]meta.QuotaChange{
		"without": nil,
		"with":    {{Entity: quota.Entity{ClientID: quota.Default}, Ops: []meta.QuotaOp{{Key: "producer_byte_rate", Value: 1 << 40}}}},
	} {
		b.Run(name, func(b *testing.B) {
			image := meta.NewImage("c").Update()
			entries, _ := meta.DecideAlterQuotas(meta.NewImage("c"), meta.AlterQuotas{Changes: changes})
			for _, e := range entries {
				if err := image.Apply(e); err != nil {
					b.Fatal(err)
				}
			}
			im := image.Image(0, 0, 0)
			q := &Quotas{image: func() *meta.Image { return im }, meters: quota.NewMeters(quota.Window{Count: 11, SizeMs: 1000}, quota.Window{Count: 11, SizeMs: 1000})}
			c := call{Request: &wire.Request{ClientID: new("app"), Peer: &wire.Peer{Principal: "User:ANONYMOUS"}}}
			b.ReportAllocs()
			for b.Loop() {
				q.record(quota.ProduceBytes, c.who(), 1000)
			}
		})
	}
}
