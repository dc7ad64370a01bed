package meta

import (
	"iter"
	"maps"
	"math"
	"net/netip"
	"slices"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/quota"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// The types of the parts of a quota's entity, by Kafka's names.
const (
	QuotaUser     = "user"
	QuotaClientID = "client-id"
	QuotaIP       = "ip"
)

// quotas are the client quotas of an image.
type quotas struct {
	entities tree[quota.Entity, map[string]float64]
	// What is derived from them: how many entities have a quota of each kind, and the connection rates by address.
	counts [quota.Kinds]int
	rates  tree[netip.Addr, float64]
}

func newQuotas() quotas {
	return quotas{entities: newTree[quota.Entity, map[string]float64](quota.Compare), rates: newTree[netip.Addr, float64](netip.Addr.Compare)}
}

// HasQuotas tells whether anybody has a quota of the kind.
func (im *Image) HasQuotas(k quota.Kind) bool { return im.quotas.counts[k] > 0 }

// Quotas yields all that have quotas, and theirs by key.
func (im *Image) Quotas() iter.Seq2[quota.Entity, map[string]float64] { return im.quotas.entities.all }

// Limit implements [quota.Limits].
func (im *Image) Limit(e quota.Entity, k quota.Kind) (limit float64, set bool) {
	values, _ := im.quotas.entities.get(e)
	limit, set = values[k.Key()]
	return limit, set
}

// ConnectionRate implements [quota.Limits].
func (im *Image) ConnectionRate(ip netip.Addr) (limit float64, set bool) {
	if limit, set := im.quotas.rates.get(ip); set {
		return limit, true
	}
	return im.Limit(quota.Entity{IP: quota.Default}, quota.Connections)
}

// entityOf returns the entity of a record, false where it has parts that this build does not know.
func entityOf(r *sysrecord.ClientQuotaRecord) (e quota.Entity, known bool) {
	for _, data := range r.Entity {
		part := quota.Default
		if data.EntityName != nil {
			part = quota.Named(*data.EntityName)
		}
		switch data.EntityType {
		case QuotaUser:
			e.User = part
		case QuotaClientID:
			e.ClientID = part
		case QuotaIP:
			e.IP = part
		default:
			return e, false
		}
	}
	return e, true
}

// setQuota applies a record whose entity is known.
func (u *Update) setQuota(e quota.Entity, r *sysrecord.ClientQuotaRecord) {
	q := &u.im.quotas
	before, _ := q.entities.get(e)
	_, was := before[r.Key]
	after := maps.Clone(before)
	if r.Remove {
		delete(after, r.Key)
	} else {
		if after == nil {
			after = map[string]float64{}
		}
		after[r.Key] = r.Value
	}
	if len(after) == 0 {
		q.entities.remove(u.by, e)
	} else {
		q.entities.set(u.by, e, after)
	}
	kind, counted := quota.KindOf(r.Key)
	switch {
	case !counted:
		return
	case was && r.Remove:
		q.counts[kind]--
	case !was && !r.Remove:
		q.counts[kind]++
	}
	if ip, ok := addressOf(e); ok && kind == quota.Connections && e == (quota.Entity{IP: e.IP}) {
		if r.Remove {
			q.rates.remove(u.by, ip)
		} else {
			q.rates.set(u.by, ip, r.Value)
		}
	}
}

// addressOf returns the address of an entity that is one.
func addressOf(e quota.Entity) (ip netip.Addr, ok bool) {
	if name := e.IP.Name(); e.IP.IsSet() && name != nil {
		ip, err := netip.ParseAddr(*name)
		return ip.Unmap(), err == nil
	}
	return netip.Addr{}, false
}

func (im *Image) writeQuotas(w *snapshotWriter) {
	for e, values := range im.Quotas() {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if !w.put(quotaRecord(e, key, values[key], false), 0) {
				return
			}
		}
	}
}

func quotaRecord(e quota.Entity, key string, value float64, remove bool) *sysrecord.ClientQuotaRecord {
	r := &sysrecord.ClientQuotaRecord{Key: key, Value: value, Remove: remove}
	add := func(kind string, part quota.Part) {
		if part.IsSet() {
			r.Entity = append(r.Entity, sysrecord.ClientQuotaRecordEntityData{EntityType: kind, EntityName: part.Name()})
		}
	}
	add(QuotaClientID, e.ClientID) // in Kafka's order
	add(QuotaUser, e.User)
	add(QuotaIP, e.IP)
	return r
}

// AlterQuotas changes client quotas. Each entity is changed whole or not at all, independently of the others.
type AlterQuotas struct {
	Changes      []QuotaChange
	ValidateOnly bool
}

// QuotaChange is the change of one entity. Refused says what is wrong with the entity itself.
type QuotaChange struct {
	Entity  quota.Entity
	Refused error
	Ops     []QuotaOp
}

// QuotaOp sets one quota, or removes it.
type QuotaOp struct {
	Key    string
	Value  float64
	Remove bool
}

// DecideAlterQuotas judges each entity by itself. There is one result, nil or why not, for each change, in the order of the command.
func DecideAlterQuotas(im *Image, cmd AlterQuotas) ([]Entry, []error) {
	var entries []Entry
	results := make([]error, len(cmd.Changes))
	for i, c := range cmd.Changes {
		var changed []Entry
		changed, results[i] = alterQuota(im, c)
		entries = append(entries, changed...)
	}
	if len(entries) > requestRecordsMax {
		for i := range results {
			results[i] = tooManyRecords()
		}
		return nil, results
	}
	if cmd.ValidateOnly {
		return nil, results
	}
	return entries, results
}

func alterQuota(im *Image, c QuotaChange) ([]Entry, error) {
	if c.Refused != nil {
		return nil, c.Refused
	}
	scope, err := quotaScope(c.Entity)
	if err != nil {
		return nil, err
	}
	before, _ := im.quotas.entities.get(c.Entity)
	named := map[string]bool{}
	var entries []Entry
	for _, op := range c.Ops {
		if named[op.Key] {
			return nil, kafka.Refuse(kafka.InvalidRequest, "quota %s comes more than once", op.Key)
		}
		named[op.Key] = true
		was, set := before[op.Key]
		if !op.Remove {
			if err := checkQuota(scope, op); err != nil {
				return nil, err
			}
		}
		if op.Remove && set || !op.Remove && (!set || was != op.Value) {
			entries = append(entries, Entry{Record: quotaRecord(c.Entity, op.Key, op.Value, op.Remove)})
		}
	}
	return entries, nil
}

// quotaScope returns which quotas the entity may have.
func quotaScope(e quota.Entity) (config.Scope, error) {
	switch _, isAddress := addressOf(e); {
	case e.IP.IsSet() && (e.User.IsSet() || e.ClientID.IsSet()):
		return 0, kafka.Refuse(kafka.InvalidRequest, "an address has quotas by itself, not with a user or a client id")
	case e.IP.IsSet() && e.IP != quota.Default && !isAddress:
		return 0, kafka.Refuse(kafka.InvalidRequest, "%q is no IP address. Names of hosts are not looked up here", *e.IP.Name())
	case e.IP.IsSet():
		return config.ScopeIPQuota, nil
	case e.User.IsSet() || e.ClientID.IsSet():
		return config.ScopeClientQuota, nil
	}
	return 0, kafka.Refuse(kafka.InvalidRequest, "a quota belongs to a user, a client id, both, or an ip")
}

// wholeWithin is how far a whole number may be off, as it comes as a floating-point one.
const wholeWithin = 1e-6

func checkQuota(scope config.Scope, op QuotaOp) error {
	key, known := config.Lookup(scope, op.Key)
	whole := known && (key.Type == config.Long || key.Type == config.Int)
	most := math.Inf(1)
	if whole {
		most = math.MaxInt64
		if key.Type == config.Int {
			most = math.MaxInt32
		}
	}
	switch {
	case !known:
		return kafka.Refuse(kafka.InvalidRequest, "there is no quota %q for such an entity", op.Key)
	case math.IsNaN(op.Value) || math.IsInf(op.Value, 0) || op.Value <= 0:
		return kafka.Refuse(kafka.InvalidRequest, "quota %s must be a number above 0", op.Key)
	case op.Value > most:
		return kafka.Refuse(kafka.InvalidRequest, "quota %s is %.0f at most", op.Key, most)
	case whole && math.Abs(op.Value-math.Round(op.Value)) > wholeWithin:
		return kafka.Refuse(kafka.InvalidRequest, "quota %s must be a whole number", op.Key)
	}
	return nil
}
