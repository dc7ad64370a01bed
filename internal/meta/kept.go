package meta

// keptRecord is a record of a kind that is stored but not served yet: credentials, access rules, quotas, tokens,
// controllers. The latest one under each identity is written back into snapshots.
type keptRecord struct {
	kind, version int16
	body          []byte
}

// rawRecord is a record of a kind that this build does not know, kept as it came.
type rawRecord []byte
