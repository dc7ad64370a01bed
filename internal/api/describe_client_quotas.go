package api

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/quota"
)

// describeClientQuotas lists the quotas of all that match a filter (key 48).
func (a *API) describeClientQuotas(c call) {
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrDescribeClientQuotasResponse()
	filter, err := newQuotaFilter(req)
	code, message := answerOf(err)
	if resp.ErrorCode, resp.ErrorMessage = int16(code), message; err != nil {
		c.answer(resp)
		return
	}
	resp.ErrorMessage = new("")
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{}
	for e, values := range a.Quorum.Image().Quotas() {
		if filter.matches(e) {
			resp.Entries = append(resp.Entries, describedQuota(e, values))
		}
	}
	c.answer(resp)
}

func describedQuota(e quota.Entity, values map[string]float64) kmsg.DescribeClientQuotasResponseEntry {
	row := kmsg.NewDescribeClientQuotasResponseEntry()
	for _, kind := range []string{meta.QuotaUser, meta.QuotaClientID, meta.QuotaIP} {
		if part := entityPart(&e, kind); part.IsSet() {
			row.Entity = append(row.Entity, kmsg.DescribeClientQuotasResponseEntryEntity{Type: kind, Name: part.Name()})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		row.Values = append(row.Values, kmsg.DescribeClientQuotasResponseEntryValue{Key: key, Value: values[key]})
	}
	return row
}

// quotaFilter is what an entity must have to be listed.
type quotaFilter struct {
	exact  quota.Entity    // these very parts
	any    map[string]bool // parts of these types, whatever their names
	strict bool            // and no others
}

// The ways in which a filter names a part.
const (
	matchExact   = 0
	matchDefault = 1
	matchAny     = 2
)

func newQuotaFilter(req *kmsg.DescribeClientQuotasRequest) (quotaFilter, error) {
	f := quotaFilter{any: map[string]bool{}, strict: req.Strict}
	for _, component := range req.Components {
		kind, match := component.EntityType, component.MatchType
		at := entityPart(&f.exact, kind)
		switch {
		case kind == "":
			return f, kafka.Refuse(kafka.InvalidRequest, "a filter names a type")
		case at != nil && at.IsSet() || f.any[kind]:
			return f, kafka.Refuse(kafka.InvalidRequest, "type %s comes more than once in the filter", kind)
		case at == nil:
			return f, kafka.Refuse(kafka.UnsupportedVersion, "%q is no type of what has a quota: user, client-id and ip are", kind)
		case match < matchExact || match > matchAny:
			return f, kafka.Refuse(kafka.InvalidRequest, "there is no match type %d", match)
		case match == matchExact && component.Match == nil:
			return f, kafka.Refuse(kafka.InvalidRequest, "an exact match needs a name")
		case match != matchExact && component.Match != nil:
			return f, kafka.Refuse(kafka.InvalidRequest, "match type %d goes without a name", match)
		}
		switch match {
		case matchExact:
			*at = quota.Named(*component.Match)
		case matchDefault:
			*at = quota.Default
		case matchAny:
			f.any[kind] = true
		}
	}
	if (f.exact.IP.IsSet() || f.any[meta.QuotaIP]) && len(req.Components) > 1 {
		return f, kafka.Refuse(kafka.InvalidRequest, "addresses are asked for alone, not with users or client ids")
	}
	return f, nil
}

func (f *quotaFilter) matches(e quota.Entity) bool {
	for _, kind := range []string{meta.QuotaUser, meta.QuotaClientID, meta.QuotaIP} {
		has, wanted := *entityPart(&e, kind), *entityPart(&f.exact, kind)
		switch {
		case f.any[kind]:
			if !has.IsSet() {
				return false
			}
		case wanted.IsSet():
			if has != wanted {
				return false
			}
		case f.strict && has.IsSet():
			return false
		}
	}
	return true
}
