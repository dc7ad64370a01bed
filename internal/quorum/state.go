package quorum

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/vfs"
)

// StateFile is the name of the file in which a member of the quorum remembers its epoch and vote.
const StateFile = "quorum-state"

// stateFile is Kafka's JSON of [sysrecord.QuorumStateData]; data_version 0 belongs to kraft.version 0.
type stateFile struct {
	ClusterID        *string       `json:"clusterId,omitempty"`
	LeaderID         kafka.NodeID  `json:"leaderId"`
	LeaderEpoch      kafka.Epoch   `json:"leaderEpoch"`
	VotedID          kafka.NodeID  `json:"votedId"`
	VotedDirectoryID *string       `json:"votedDirectoryId,omitempty"`
	AppliedOffset    *int64        `json:"appliedOffset,omitempty"`
	CurrentVoters    []staticVoter `json:"currentVoters,omitempty"`
	DataVersion      int           `json:"data_version"`
}

type staticVoter struct {
	VoterID kafka.NodeID `json:"voterId"`
}

// readState reads the quorum-state file; a member that has none was never in a quorum.
func readState(fs vfs.FS, folder string) (kraft.State, error) {
	name := filepath.Join(folder, StateFile)
	content, err := vfs.ReadFile(fs, name)
	if vfs.IsNotExist(err) {
		return kraft.NewState(), nil
	}
	if err != nil {
		return kraft.State{}, err
	}
	f := stateFile{LeaderID: kafka.NoNode, VotedID: kafka.NoNode}
	if err := json.Unmarshal(content, &f); err != nil {
		return kraft.State{}, fmt.Errorf("read %s: %w", name, err)
	}
	if f.DataVersion < 0 || f.DataVersion > 1 {
		return kraft.State{}, fmt.Errorf("read %s: data_version %d, want 0 or 1", name, f.DataVersion)
	}
	state := kraft.State{Epoch: max(f.LeaderEpoch, 0), Leader: f.LeaderID, Voted: f.VotedID}
	if f.VotedDirectoryID != nil {
		if state.VotedDirectory, err = kafka.ParseUUID(*f.VotedDirectoryID); err != nil {
			return kraft.State{}, fmt.Errorf("read %s: %w", name, err)
		}
	}
	return state, nil
}

// writeState makes the state durable.
func writeState(fs vfs.FS, folder string, state kraft.State, membership kraft.Membership) error {
	f := stateFile{LeaderID: state.Leader, LeaderEpoch: state.Epoch, VotedID: state.Voted}
	if membership.Version > 0 {
		f.DataVersion, f.VotedDirectoryID = 1, new(state.VotedDirectory.String())
	} else {
		f.ClusterID, f.AppliedOffset = new(""), new(int64)
		for _, v := range membership.Voters {
			f.CurrentVoters = append(f.CurrentVoters, staticVoter{v.ID})
		}
	}
	content, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return vfs.Replace(fs, filepath.Join(folder, StateFile), content)
}

func cryptoRandom(b []byte) { rand.Read(b) }

func randomUint64(random func([]byte)) uint64 {
	var b [8]byte
	random(b[:])
	return binary.BigEndian.Uint64(b[:])
}
