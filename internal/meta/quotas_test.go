package meta

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/quota"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

func quotaSet(key string, value float64) QuotaOp { return QuotaOp{Key: key, Value: value} }
func quotaCut(key string) QuotaOp                { return QuotaOp{Key: key, Remove: true} }

// altered decides on changes, applies what was decided and returns how many records that took.
func altered(t *testing.T, im *Image, changes ...QuotaChange) (*Image, int) {
	t.Helper()
	entries, results := DecideAlterQuotas(im, AlterQuotas{Changes: changes})
	for i, err := range results {
		if err != nil {
			t.Fatalf("change %d: %v", i, err)
		}
	}
	u := im.Update()
	for _, e := range entries {
		if err := u.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	return u.Image(im.Offset()+1, 1, 0), len(entries)
}

// listedQuotas are the quotas of an image, one a line.
func listedQuotas(im *Image) (lines []string) {
	for e, values := range im.Quotas() {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			lines = append(lines, fmt.Sprintf("%+v %s %v", e, key, values[key]))
		}
	}
	return lines
}

func TestQuotasAreFoundCountedAndInSnapshots(t *testing.T) {
	alice, app := quota.Named("alice"), quota.Named("app")
	before := NewImage("cluster")
	im, n := altered(t, before,
		QuotaChange{Entity: quota.Entity{User: alice, ClientID: app}, Ops: []QuotaOp{quotaSet("producer_byte_rate", 10), quotaSet("consumer_byte_rate", 20)}},
		QuotaChange{Entity: quota.Entity{ClientID: quota.Default}, Ops: []QuotaOp{quotaSet("producer_byte_rate", 30)}},
		QuotaChange{Entity: quota.Entity{IP: quota.Named("0:0:0:0:0:0:0:1")}, Ops: []QuotaOp{quotaSet("connection_creation_rate", 5)}},
		QuotaChange{Entity: quota.Entity{IP: quota.Default}, Ops: []QuotaOp{quotaSet("connection_creation_rate", 6)}})
	if n != 5 {
		t.Errorf("%d records, want 5", n)
	}
	for _, ask := range []struct {
		e    quota.Entity
		kind quota.Kind
		want float64
		set  bool
	}{
		{quota.Entity{User: alice, ClientID: app}, quota.ProduceBytes, 10, true},
		{quota.Entity{User: alice, ClientID: app}, quota.RequestTime, 0, false},
		{quota.Entity{User: alice}, quota.ProduceBytes, 0, false},
		{quota.Entity{ClientID: quota.Default}, quota.ProduceBytes, 30, true},
		{quota.Entity{ClientID: quota.Named("")}, quota.ProduceBytes, 0, false},
	} {
		if got, set := im.Limit(ask.e, ask.kind); got != ask.want || set != ask.set {
			t.Errorf("%s of %+v: %v, %t, want %v, %t", ask.kind.Key(), ask.e, got, set, ask.want, ask.set)
		}
	}
	for ip, want := range map[string]float64{"::1": 5, "10.0.0.1": 6} {
		if got, set := im.ConnectionRate(netip.MustParseAddr(ip)); got != want || !set {
			t.Errorf("connection rate of %s: %v, %t, want %v", ip, got, set, want)
		}
	}
	for kind, want := range map[quota.Kind]bool{quota.ProduceBytes: true, quota.FetchBytes: true, quota.RequestTime: false, quota.Mutations: false, quota.Connections: true} {
		if im.HasQuotas(kind) != want || before.HasQuotas(kind) {
			t.Errorf("has quotas of %s: %t, and before %t, want %t and not before", kind.Key(), im.HasQuotas(kind), before.HasQuotas(kind), want)
		}
	}
	again := replayed(t, snapshotOf(im))
	if got, want := listedQuotas(again), listedQuotas(im); !slices.Equal(got, want) || again.HasQuotas(quota.RequestTime) || !again.HasQuotas(quota.FetchBytes) {
		t.Errorf("from a snapshot: %q, want %q", got, want)
	}
	if _, n := altered(t, im, QuotaChange{Entity: quota.Entity{ClientID: quota.Default}, Ops: []QuotaOp{quotaSet("producer_byte_rate", 30), quotaCut("nope")}}); n != 0 {
		t.Errorf("%d records for what is so already", n)
	}
	gone, _ := altered(t, im,
		QuotaChange{Entity: quota.Entity{User: alice, ClientID: app}, Ops: []QuotaOp{quotaCut("producer_byte_rate"), quotaCut("consumer_byte_rate")}},
		QuotaChange{Entity: quota.Entity{ClientID: quota.Default}, Ops: []QuotaOp{quotaCut("producer_byte_rate")}},
		QuotaChange{Entity: quota.Entity{IP: quota.Named("0:0:0:0:0:0:0:1")}, Ops: []QuotaOp{quotaCut("connection_creation_rate")}})
	if got := listedQuotas(gone); len(got) != 1 || gone.HasQuotas(quota.ProduceBytes) || gone.HasQuotas(quota.FetchBytes) || !gone.HasQuotas(quota.Connections) {
		t.Errorf("left after all but one were removed: %q", got)
	}
	if got, _ := gone.ConnectionRate(netip.MustParseAddr("::1")); got != 6 {
		t.Errorf("an address without a quota of its own has %v, want the default", got)
	}
	if len(listedQuotas(im)) != 5 {
		t.Error("an older image has changed")
	}
}

// What a newer Kafka may give quotas to is kept and not taken for anything else.
func TestQuotasOfUnknownEntitiesAreKept(t *testing.T) {
	r := &sysrecord.ClientQuotaRecord{Entity: []sysrecord.ClientQuotaRecordEntityData{{EntityType: "planet", EntityName: new("x")}}, Key: "producer_byte_rate", Value: 1}
	u := NewImage("cluster").Update()
	if err := u.Apply(Entry{Record: r}); err != nil {
		t.Fatal(err)
	}
	im := u.Image(0, 0, 0)
	if im.HasQuotas(quota.ProduceBytes) || len(listedQuotas(im)) != 0 {
		t.Error("a quota of an unknown entity is taken for somebody's")
	}
	if got := snapshotOf(replayed(t, snapshotOf(im))); len(got) != 1 {
		t.Errorf("%d records in the snapshot, want 1", len(got))
	}
}

// No request can give a quota to an address of a user. A record that does so says nothing about the address, also not when it goes.
func TestAQuotaOfAnAddressWithAUserIsNotTheAddresss(t *testing.T) {
	ip := netip.MustParseAddr("10.0.0.1")
	u := NewImage("cluster").Update()
	for _, r := range []*sysrecord.ClientQuotaRecord{
		quotaRecord(quota.Entity{IP: quota.Named("10.0.0.1")}, "connection_creation_rate", 5, false),
		quotaRecord(quota.Entity{IP: quota.Named("10.0.0.1"), User: quota.Named("u")}, "connection_creation_rate", 7, false),
	} {
		if err := u.Apply(Entry{Record: r}); err != nil {
			t.Fatal(err)
		}
	}
	im := u.Image(0, 0, 0)
	if got, _ := im.ConnectionRate(ip); got != 5 {
		t.Errorf("the address has %v, want 5", got)
	}
	u = im.Update()
	if err := u.Apply(Entry{Record: quotaRecord(quota.Entity{IP: quota.Named("10.0.0.1"), User: quota.Named("u")}, "connection_creation_rate", 0, true)}); err != nil {
		t.Fatal(err)
	}
	if got, _ := u.Image(1, 0, 0).ConnectionRate(ip); got != 5 {
		t.Errorf("the address has %v when the other record is gone, want 5", got)
	}
}

func TestARequestChangesOnlySoManyQuotas(t *testing.T) {
	changes := make([]QuotaChange, requestRecordsMax+1)
	for i := range changes {
		changes[i] = QuotaChange{Entity: quota.Entity{User: quota.Named(fmt.Sprint(i))}, Ops: []QuotaOp{quotaSet("producer_byte_rate", 1)}}
	}
	entries, results := DecideAlterQuotas(NewImage("cluster"), AlterQuotas{Changes: changes})
	if code, _ := kafka.Answer(results[0]); len(entries) != 0 || code != kafka.PolicyViolation {
		t.Errorf("%d records, %v, want none and %v", len(entries), code, kafka.PolicyViolation)
	}
}
