package quorum

import (
	"fmt"

	"github.com/raftsman/raftsman/internal/kafka"
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

// leaderChange begins each epoch.
func leaderChange(leader kafka.NodeID, m kraft.Membership) control {
	r := sysrecord.NewLeaderChangeMessage()
	r.LeaderID = leader
	for _, v := range m.Voters {
		r.Voters = append(r.Voters, sysrecord.LeaderChangeMessageVoter{VoterID: v.ID})
	}
	r.GrantingVoters = []sysrecord.LeaderChangeMessageVoter{{VoterID: leader}}
	return control{record.ControlLeaderChange, r}
}

// membershipControls say which kraft.version the log is at and who votes: nothing at version 0.
func membershipControls(m kraft.Membership) []control {
	if m.Version == 0 {
		return nil
	}
	version := sysrecord.NewKRaftVersionRecord()
	version.KRaftVersion = m.Version
	return []control{{record.ControlKRaftVersion, version}, {record.ControlVoters, votersRecord(m.Voters)}}
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

// replay is what is built from a snapshot and the log.
type replay struct {
	update     *meta.Update
	membership kraft.Membership
	entries    *[]meta.Entry // when set, metadata records are put here instead of applied
}

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

// control takes what concerns the quorum; other control records (headers, footers, leader changes) change nothing.
func (p *replay) control(r record.Record) error {
	kind, known := record.ParseControlKey(r.Key)
	if !known {
		return fmt.Errorf("a control record's key of %d bytes", len(r.Key))
	}
	switch kind {
	case record.ControlKRaftVersion:
		v := sysrecord.NewKRaftVersionRecord()
		if err := v.ReadFrom(r.Value, 0); err != nil {
			return err
		}
		p.membership.Version = v.KRaftVersion
	case record.ControlVoters:
		v := sysrecord.NewVotersRecord()
		if err := v.ReadFrom(r.Value, 0); err != nil {
			return err
		}
		p.membership.Voters = votersOf(v)
	}
	return nil
}
