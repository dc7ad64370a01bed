package kraft

import (
	"errors"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
)

var (
	home  = kafka.UUID{1}
	voter = Voter{ID: 1, Directory: home, Endpoints: []Endpoint{{"CONTROLLER", "localhost", 9093}}, MaxVersion: 1}
)

func alone(version int16) Membership { return Membership{Version: version, Voters: []Voter{voter}} }

func TestANewEpochIsAboveAllThatWereSeen(t *testing.T) {
	for _, test := range []struct {
		saved, logged, want kafka.Epoch
	}{{0, -1, 1}, {5, 3, 6}, {3, 5, 6}} {
		saved := NewState()
		saved.Epoch = test.saved
		state, err := New(1, home, saved, alone(1), Log{End: 10, LatestEpoch: test.logged}).Campaign()
		if err != nil || state.Epoch != test.want || state.Leader != 1 || state.Voted != kafka.NoNode {
			t.Errorf("saved %d, logged %d: got %+v %v, want epoch %d", test.saved, test.logged, state, err, test.want)
		}
	}
}

func TestOnlyTheQuorumOfOneLeads(t *testing.T) {
	other := voter
	other.ID = 2
	wiped := voter
	wiped.Directory = kafka.UUID{9}
	for name, m := range map[string]Membership{
		"nobody":            {Version: 1},
		"someone else":      {Version: 1, Voters: []Voter{other}},
		"two":               {Version: 1, Voters: []Voter{voter, other}},
		"another disk":      {Version: 1, Voters: []Voter{wiped}},
		"two, configured":   {Version: 0, Voters: []Voter{voter, other}},
		"other, configured": {Version: 0, Voters: []Voter{other}},
	} {
		_, err := New(1, home, NewState(), m, Log{}).Campaign()
		var notAlone *NotAloneError
		if !errors.As(err, &notAlone) || !strings.Contains(err.Error(), "not this node alone") {
			t.Errorf("%s: got %v, want a NotAloneError", name, err)
		}
	}
	if _, err := New(1, home, NewState(), Membership{Version: 0, Voters: []Voter{wiped}}, Log{}).Campaign(); err != nil {
		t.Errorf("kraft.version 0 knows no directories: got %v", err)
	}
}

func TestCommitNeedsARecordOfTheOwnEpoch(t *testing.T) {
	c := New(1, home, NewState(), alone(1), Log{End: 10, LatestEpoch: 4})
	if _, err := c.Campaign(); err != nil {
		t.Fatal(err)
	}
	if hw := c.Flushed(10); hw != 0 {
		t.Errorf("what an earlier epoch left is committed at %d before the own epoch begins", hw)
	}
	c.Appended(12)
	if hw := c.Flushed(12); hw != 12 || c.HighWatermark() != 12 {
		t.Errorf("got high watermark %d, want 12", hw)
	}
	if hw := c.Flushed(11); hw != 12 {
		t.Errorf("the high watermark went back to %d", hw)
	}
}

func TestUpdateVoterChangesTheOwnEndpointOnly(t *testing.T) {
	c := New(1, home, NewState(), alone(1), Log{})
	if _, changed := c.UpdateVoter(voter.Endpoints); changed {
		t.Error("equal endpoints are a change")
	}
	moved := []Endpoint{{"CONTROLLER", "elsewhere", 9}}
	m, changed := c.UpdateVoter(moved)
	if !changed || m.Voters[0].Endpoints[0] != moved[0] || c.Membership().Voters[0].Endpoints[0] == moved[0] {
		t.Errorf("got %+v %v, core has %+v", m, changed, c.Membership())
	}
	if _, changed := New(1, home, NewState(), alone(0), Log{}).UpdateVoter(moved); changed {
		t.Error("kraft.version 0 stores no voters")
	}
}
