package quorum

import (
	"fmt"

	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// batchBytesMax bounds one batch of the metadata log and of snapshots, below the 8 MiB that Kafka's reader takes.
const batchBytesMax = 4 << 20

// encode makes one batch of entries: they become durable all or none.
func encode(entries []meta.Entry, nowMs int64) record.Batch {
	b := record.Builder{}
	var value []byte
	for _, e := range entries {
		value = sysrecord.AppendMetadata(value[:0], e.Record, e.Version)
		b.Add(nil, value, nil, nowMs)
	}
	return b.Build()
}

// control is one control record: what the quorum says in the log about itself.
type control struct {
	kind   record.ControlType
	record sysrecord.Record
}

func encodeControl(controls []control, nowMs int64) record.Batch {
	b := record.Builder{Control: true}
	for _, c := range controls {
		b.Add(record.ControlKey(c.kind), c.record.AppendTo(nil, 0), nil, nowMs)
	}
	return b.Build()
}

// controlOf is the record of what a member wants to say.
func controlOf(c kraft.Control) control {
	switch c := c.(type) {
	case kraft.LeaderChange:
		r := sysrecord.NewLeaderChangeMessage()
		r.LeaderID, r.Voters, r.GrantingVoters = c.Leader, votersOfEpoch(c.Voters), votersOfEpoch(c.Granting)
		return control{record.ControlLeaderChange, r}
	case kraft.VersionChange:
		r := sysrecord.NewKRaftVersionRecord()
		r.KRaftVersion = c.Level
		return control{record.ControlKRaftVersion, r}
	case kraft.VotersChange:
		return control{record.ControlVoters, votersRecord(c.Voters)}
	}
	invariant.Check(false, "a control record of type %T", c)
	return control{}
}

// votersOfEpoch has no directories: Kafka writes version 0 of the record.
func votersOfEpoch(voters []kraft.ReplicaKey) (rows []sysrecord.LeaderChangeMessageVoter) {
	for _, v := range voters {
		rows = append(rows, sysrecord.LeaderChangeMessageVoter{VoterID: v.ID})
	}
	return rows
}

// membershipControls say which kraft.version the log is at and who votes: nothing at version 0.
func membershipControls(m kraft.Membership) []control {
	if m.Version == 0 {
		return nil
	}
	return []control{controlOf(kraft.VersionChange{Level: m.Version}), controlOf(kraft.VotersChange{Voters: m.Voters})}
}

func votersRecord(voters []kraft.Voter) *sysrecord.VotersRecord {
	r := sysrecord.NewVotersRecord()
	for _, v := range voters {
		row := *sysrecord.NewVotersRecordVoter()
		row.VoterID, row.VoterDirectoryID = v.ID, v.Directory
		row.KRaftVersionFeature.MinSupportedVersion, row.KRaftVersionFeature.MaxSupportedVersion = v.MinVersion, v.MaxVersion
		for _, e := range v.Endpoints {
			row.Endpoints = append(row.Endpoints, sysrecord.VotersRecordEndpoint{Name: e.Name, Host: e.Host, Port: e.Port})
		}
		r.Voters = append(r.Voters, row)
	}
	return r
}

func votersOf(r *sysrecord.VotersRecord) []kraft.Voter {
	var voters []kraft.Voter
	for _, row := range r.Voters {
		v := kraft.Voter{
			ID: row.VoterID, Directory: row.VoterDirectoryID,
			MinVersion: row.KRaftVersionFeature.MinSupportedVersion, MaxVersion: row.KRaftVersionFeature.MaxSupportedVersion,
		}
		for _, e := range row.Endpoints {
			v.Endpoints = append(v.Endpoints, kraft.Endpoint{Name: e.Name, Host: e.Host, Port: e.Port})
		}
		voters = append(voters, v)
	}
	return voters
}

// parseControl returns what a control record says of the quorum: nil for the header and footer of a snapshot, and for kinds to come.
func parseControl(r record.Record) (kraft.Control, error) {
	kind, known := record.ParseControlKey(r.Key)
	if !known {
		return nil, fmt.Errorf("a control record's key of %d bytes", len(r.Key))
	}
	switch kind {
	case record.ControlLeaderChange:
		v := sysrecord.NewLeaderChangeMessage()
		err := v.ReadFrom(r.Value, 0)
		return kraft.LeaderChange{Leader: v.LeaderID}, err
	case record.ControlKRaftVersion:
		v := sysrecord.NewKRaftVersionRecord()
		err := v.ReadFrom(r.Value, 0)
		return kraft.VersionChange{Level: v.KRaftVersion}, err
	case record.ControlVoters:
		v := sysrecord.NewVotersRecord()
		err := v.ReadFrom(r.Value, 0)
		return kraft.VotersChange{Voters: votersOf(v)}, err
	}
	return nil, nil
}

// parseBatch returns what a member wants to know of a batch.
func parseBatch(b record.Batch) (kraft.Batch, error) {
	parsed := kraft.Batch{Base: b.BaseOffset(), End: b.NextOffset(), Epoch: b.LeaderEpoch()}
	if !b.IsControl() {
		return parsed, nil
	}
	for r, err := range b.Records(record.DecompressedMaxDefault) {
		if err != nil {
			return parsed, err
		}
		c, err := parseControl(r)
		if err != nil {
			return parsed, fmt.Errorf("control record at offset %d: %w", r.Offset, err)
		}
		parsed.Controls = append(parsed.Controls, c)
	}
	return parsed, nil
}

// replay is what is built from a snapshot and the log.
type replay struct {
	update     *meta.Update
	membership kraft.Membership
	entries    *[]meta.Entry // when set, metadata records are put here instead of applied
}

func newReplay(from *meta.Image) replay { return replay{update: from.Update()} }

// batch applies one batch of the log or of a snapshot. Values are copied by decoding, so the batch may be reused.
func (p *replay) batch(b record.Batch) error {
	for r, err := range b.Records(record.DecompressedMaxDefault) {
		if err != nil {
			return err
		}
		if b.IsControl() {
			err = p.control(r)
		} else {
			err = p.value(r.Value)
		}
		if err != nil {
			return fmt.Errorf("metadata record at offset %d: %w", r.Offset, err)
		}
	}
	return nil
}

func (p *replay) value(value []byte) error {
	if p.entries != nil {
		return keepEntry(value, p.entries)
	}
	frame, err := sysrecord.ParseFrame(value)
	if err != nil {
		return err
	}
	return p.update.ApplyFrame(frame)
}

func (p *replay) control(r record.Record) error {
	c, err := parseControl(r)
	switch c := c.(type) {
	case kraft.LeaderChange:
		p.update.SetController(c.Leader)
	case kraft.VersionChange:
		p.membership.Version = c.Level
	case kraft.VotersChange:
		p.membership.Voters = c.Voters
	}
	return err
}
