package raw

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// QuotaOf says what has a quota: "user=alice", "client-id" for the default, and so on.
func QuotaOf(parts ...string) (entity []kmsg.AlterClientQuotasRequestEntryEntity) {
	for _, part := range parts {
		e := kmsg.NewAlterClientQuotasRequestEntryEntity()
		kind, name, named := strings.Cut(part, "=")
		if e.Type = kind; named {
			e.Name = &name
		}
		entity = append(entity, e)
	}
	return entity
}

// SetQuota gives a quota a value.
func SetQuota(key string, value float64) kmsg.AlterClientQuotasRequestEntryOp {
	op := kmsg.NewAlterClientQuotasRequestEntryOp()
	op.Key, op.Value = key, value
	return op
}

// RemoveQuota takes a quota away.
func RemoveQuota(key string) kmsg.AlterClientQuotasRequestEntryOp {
	op := kmsg.NewAlterClientQuotasRequestEntryOp()
	op.Key, op.Remove = key, true
	return op
}

// QuotaChange changes the quotas of one entity.
func QuotaChange(entity []kmsg.AlterClientQuotasRequestEntryEntity, ops ...kmsg.AlterClientQuotasRequestEntryOp) kmsg.AlterClientQuotasRequestEntry {
	e := kmsg.NewAlterClientQuotasRequestEntry()
	e.Entity, e.Ops = entity, ops
	return e
}

// AlterClientQuotas changes the quotas of some entities.
func AlterClientQuotas(version int16, entries ...kmsg.AlterClientQuotasRequestEntry) *kmsg.AlterClientQuotasRequest {
	req := At(version, kmsg.NewPtrAlterClientQuotasRequest())
	req.Entries = entries
	return req
}

// DescribeClientQuotas asks for what matches: "user=alice" that name, "user" the default, "user*" any that has one.
func DescribeClientQuotas(version int16, strict bool, filters ...string) *kmsg.DescribeClientQuotasRequest {
	req := At(version, kmsg.NewPtrDescribeClientQuotasRequest())
	req.Strict = strict
	for _, filter := range filters {
		component := kmsg.NewDescribeClientQuotasRequestComponent()
		kind, name, named := strings.Cut(filter, "=")
		switch {
		case named:
			component.MatchType, component.Match = 0, &name
		case strings.HasSuffix(kind, "*"):
			kind, component.MatchType = strings.TrimSuffix(kind, "*"), 2
		default:
			component.MatchType = 1
		}
		component.EntityType = kind
		req.Components = append(req.Components, component)
	}
	return req
}
