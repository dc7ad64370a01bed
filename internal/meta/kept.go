package meta

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/raftsman/raftsman/internal/sysrecord"
)

// keptRecord is a record of a kind that is stored but not served yet: credentials, access rules, tokens, controllers, and quotas of
// entities that this build does not know.
// The latest one under each identity is written back into snapshots.
type keptRecord struct {
	kind, version int16
	body          []byte
}

// rawRecord is a record of a kind that this build does not know, kept as it came.
type rawRecord = []byte

// The prefix of a kept record's identity says where it stands in a snapshot.
const (
	keptControllers = "a/"
	keptQuotas      = "b/"
	keptACLs        = "c/"
	keptSCRAM       = "d/"
	keptTokens      = "e/"
	keptMigration   = "f/"
)

// keep stores the record under its identity, or removes what is stored there.
func (u *Update) keep(e Entry) error {
	var id string
	var remove bool
	switch r := e.Record.(type) {
	case *sysrecord.RegisterControllerRecord:
		id = keptControllers + number(int32(r.ControllerID))
	case *sysrecord.UnregisterControllerRecord:
		id, remove = keptControllers+number(int32(r.ControllerID)), true
	case *sysrecord.ClientQuotaRecord:
		if entity, known := entityOf(r); known {
			u.setQuota(entity, r)
			return nil
		}
		id, remove = keptQuotas+quotaID(r), r.Remove
	case *sysrecord.AccessControlEntryRecord:
		id = keptACLs + string(r.ID[:])
	case *sysrecord.RemoveAccessControlEntryRecord:
		id, remove = keptACLs+string(r.ID[:]), true
	case *sysrecord.UserScramCredentialRecord:
		id = keptSCRAM + number(int32(r.Mechanism)) + r.Name
	case *sysrecord.RemoveUserScramCredentialRecord:
		id, remove = keptSCRAM+number(int32(r.Mechanism))+r.Name, true
	case *sysrecord.DelegationTokenRecord:
		id = keptTokens + r.TokenID
	case *sysrecord.RemoveDelegationTokenRecord:
		id, remove = keptTokens+r.TokenID, true
	case *sysrecord.ZkMigrationStateRecord:
		id = keptMigration
	default:
		return fmt.Errorf("nothing is known of a %s", e.Record.RecordName())
	}
	if remove {
		u.im.kept.remove(u.by, id)
		return nil
	}
	u.im.kept.set(u.by, id, keptRecord{e.Record.RecordKey(), e.Version, e.Record.AppendTo(nil, e.Version)})
	return nil
}

// number is a key that sorts as the number does.
func number(n int32) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(n)))
}

func quotaID(r *sysrecord.ClientQuotaRecord) string {
	var id strings.Builder
	for _, entity := range r.Entity {
		id.WriteString(entity.EntityType + "\x00")
		if entity.EntityName != nil {
			id.WriteString("=" + *entity.EntityName)
		}
		id.WriteString("\x00")
	}
	return id.String() + "\x00" + r.Key
}

// keptFrom yields the kept records whose identity begins with prefix, as they are written.
func (im *Image) keptFrom(prefix string, yield func(sysrecord.Frame) bool) bool {
	more := true
	im.kept.from(prefix, func(id string, k keptRecord) bool {
		if !strings.HasPrefix(id, prefix) {
			return false
		}
		more = yield(sysrecord.Frame{Key: k.kind, Version: k.version, Body: k.body})
		return more
	})
	return more
}
