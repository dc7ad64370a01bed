package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/quota"
)

// alterClientQuotas sets and removes quotas (key 49). The quotas of one entity are changed together or not at all.
func (a *API) alterClientQuotas(c call) {
	req := kmsg.NewPtrAlterClientQuotasRequest()
	if !c.decode(req) {
		return
	}
	entries := distinctQuotas(req.Entries)
	cmd := meta.AlterQuotas{ValidateOnly: req.ValidateOnly}
	for i := range entries {
		change := meta.QuotaChange{Entity: entries[i].entity, Refused: entries[i].refused}
		for _, op := range entries[i].Ops {
			change.Ops = append(change.Ops, meta.QuotaOp{Key: op.Key, Value: op.Value, Remove: op.Remove})
		}
		cmd.Changes = append(cmd.Changes, change)
	}
	results, err := a.Quorum.AlterQuotas(context.Background(), cmd)
	resp := kmsg.NewPtrAlterClientQuotasResponse()
	for i := range entries {
		outcome := err
		if err == nil {
			outcome = results[i]
		}
		row := kmsg.NewAlterClientQuotasResponseEntry()
		code, message := answerOf(outcome)
		row.ErrorCode, row.ErrorMessage = int16(code), message
		for _, part := range entries[i].Entity {
			row.Entity = append(row.Entity, kmsg.AlterClientQuotasResponseEntryEntity{Type: part.Type, Name: part.Name})
		}
		resp.Entries = append(resp.Entries, row)
	}
	c.answer(resp)
}

// quotaEntry is an entry of a request whose entity has each part once.
type quotaEntry struct {
	kmsg.AlterClientQuotasRequestEntry
	entity  quota.Entity
	refused error
}

// distinctQuotas returns the entries of a request. As in Kafka, of a part that comes twice in an entity the last one counts. An
// entity that comes twice in the request is refused, once.
func distinctQuotas(rows []kmsg.AlterClientQuotasRequestEntry) (entries []quotaEntry) {
	at := map[string]int{}
	for _, row := range rows {
		e := quotaEntry{AlterClientQuotasRequestEntry: row}
		e.Entity = lastParts(row.Entity)
		name := fmt.Sprint(partNames(e.Entity))
		if i, twice := at[name]; twice {
			entries[i].refused = kafka.Refuse(kafka.InvalidRequest, "quotas of one entity are changed in one entry")
			continue
		}
		at[name] = len(entries)
		e.entity, e.refused = quotaEntity(e.Entity)
		entries = append(entries, e)
	}
	return entries
}

// lastParts returns of each type of part the last one, sorted.
func lastParts(parts []kmsg.AlterClientQuotasRequestEntryEntity) (last []kmsg.AlterClientQuotasRequestEntryEntity) {
	at := map[string]int{}
	for i, p := range parts {
		at[p.Type] = i
	}
	for i, p := range parts {
		if at[p.Type] == i {
			last = append(last, p)
		}
	}
	slices.SortFunc(last, func(a, b kmsg.AlterClientQuotasRequestEntryEntity) int { return strings.Compare(a.Type, b.Type) })
	return last
}

func partNames(parts []kmsg.AlterClientQuotasRequestEntryEntity) (names []string) {
	for _, p := range parts {
		if p.Name == nil {
			names = append(names, fmt.Sprintf("%q", p.Type))
		} else {
			names = append(names, fmt.Sprintf("%q=%q", p.Type, *p.Name))
		}
	}
	return names
}

// quotaEntity returns whose quotas a client means. The error is about a part that no entity has.
func quotaEntity(parts []kmsg.AlterClientQuotasRequestEntryEntity) (e quota.Entity, refused error) {
	for _, p := range parts {
		part := quota.Default
		if p.Name != nil {
			part = quota.Named(*p.Name)
		}
		at := entityPart(&e, p.Type)
		switch {
		case at == nil:
			return e, kafka.Refuse(kafka.InvalidRequest, "%q is no type of what has a quota: user, client-id and ip are", p.Type)
		case p.Name != nil && *p.Name == "":
			return e, kafka.Refuse(kafka.InvalidRequest, "an empty %s has no quota", p.Type)
		}
		*at = part
	}
	return e, nil
}

// entityPart is the part of that type, nil for a type that there is not.
func entityPart(e *quota.Entity, kind string) *quota.Part {
	switch kind {
	case meta.QuotaUser:
		return &e.User
	case meta.QuotaClientID:
		return &e.ClientID
	case meta.QuotaIP:
		return &e.IP
	}
	return nil
}
