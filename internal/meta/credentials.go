package meta

import (
	"cmp"
	"slices"
	"strings"

	"github.com/raftsman/raftsman/internal/sysrecord"
)

// Credential is a SCRAM credential that the log holds, without its secrets.
type Credential struct {
	User       string
	Mechanism  int8 // 1 is SCRAM-SHA-256, 2 SCRAM-SHA-512
	Iterations int32
}

// Credentials returns all SCRAM credentials, by user and mechanism.
func (im *Image) Credentials() (all []Credential) {
	im.keptFrom(keptSCRAM, func(f sysrecord.Frame) bool {
		if r, err := f.Record(); err == nil {
			if c, ok := r.(*sysrecord.UserScramCredentialRecord); ok {
				all = append(all, Credential{c.Name, c.Mechanism, c.Iterations})
			}
		}
		return true
	})
	slices.SortFunc(all, func(a, b Credential) int {
		return cmp.Or(strings.Compare(a.User, b.User), cmp.Compare(a.Mechanism, b.Mechanism))
	})
	return all
}
