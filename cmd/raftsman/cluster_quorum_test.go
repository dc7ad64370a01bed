package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/brokertest"
)

func TestQuorumIsShownWithHowFarReplicasAreBehind(t *testing.T) {
	now := testNow.UnixMilli()
	replica := func(id int32, directory byte, end, fetched, caughtUp int64) kmsg.DescribeQuorumResponseTopicPartitionReplicaState {
		return kmsg.DescribeQuorumResponseTopicPartitionReplicaState{
			ReplicaID: id, ReplicaDirectoryID: [16]byte{directory}, LogEndOffset: end, LastFetchTimestamp: fetched, LastCaughtUpTimestamp: caughtUp,
		}
	}
	v := viewReplicas(kmsg.DescribeQuorumResponseTopicPartition{
		LeaderID: 2, LeaderEpoch: 7, HighWatermark: 1740,
		CurrentVoters: []kmsg.DescribeQuorumResponseTopicPartitionReplicaState{
			replica(3, 3, -1, -1, -1), replica(2, 2, 1741, now, now), replica(1, 1, 1700, now-250, now-90_000),
		},
		Observers: []kmsg.DescribeQuorumResponseTopicPartitionReplicaState{replica(4, 0, 1741, now, now)},
	}, []kmsg.DescribeQuorumResponseNode{
		{NodeID: 1, Listeners: []kmsg.DescribeQuorumResponseNodeListener{{Name: "CONTROLLER", Host: "::1", Port: 9093}}},
		{NodeID: 2, Listeners: []kmsg.DescribeQuorumResponseNodeListener{{Name: "CONTROLLER", Host: "10.0.0.2", Port: 9093}}},
	})
	golden(t, "cluster_quorum", rendered(t, func(a *app) error {
		if a.json() {
			return a.writeJSON(v)
		}
		return v.write(a, testNow)
	}))
}

func TestVotersAreNamedRightly(t *testing.T) {
	for line, want := range map[string]string{
		"add-voter 4":                        "something is missing",
		"add-voter four 10.0.0.4:9093":       `"four" is no node`,
		"add-voter -- -4 10.0.0.4:9093":      `"-4" is no node`,
		"add-voter 4 10.0.0.4":               `"10.0.0.4" is no address: it is HOST:PORT`,
		"add-voter 4 :9093":                  "is no address",
		"add-voter 4 10.0.0.4:99999":         "its port is a number from 1 to 65535",
		"remove-voter":                       "something is missing",
		"remove-voter 4294967296":            "is no node",
		"remove-voter 1 --directory-id 12 3": `"3" is too much`,
	} {
		s := newSession()
		if code := s.run(append([]string{"cluster"}, strings.Fields(line)...)...); code != exitUsage || !strings.Contains(s.err.String(), want) {
			t.Errorf("cluster %s ends with %d and says %q, want %d and %q", line, code, s.err.String(), exitUsage, want)
		}
	}
}

// A voter of three is taken out by its number, follows as an observer, and votes again.
func TestAVoterIsRemovedAndAdded(t *testing.T) {
	t.Parallel()
	c := brokertest.StartCluster(t, 3, brokertest.Property("controller.quorum.auto.join.enable", "false"))
	bootstrap := strings.Join(c.Seeds(), ",")
	until := func(voters, observers int) (q quorumState) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; {
			q = quorumState{}
			if err := json.Unmarshal([]byte(must(t, bootstrap, "", "cluster", "quorum", "-o", "json")), &q); err != nil {
				t.Fatal(err)
			}
			if len(q.Voters) == voters && len(q.Observers) == observers {
				return q
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d voters and %d observers are waited for, there are %+v", voters, observers, q)
			}
		}
	}
	q := until(3, 0)
	if table := must(t, bootstrap, "", "cluster", "quorum"); strings.Count(table, "voter") != 2 || !strings.Contains(table, "leader") {
		t.Errorf("the quorum of three is shown as\n%s", table)
	}
	_, address, _ := strings.Cut(q.Voters[2].Endpoints[0], "://")
	say := func(wantCode int, want string, args ...string) {
		t.Helper()
		s := newSession()
		s.env[bootstrapVariable] = bootstrap
		if code := s.run(append([]string{"cluster"}, args...)...); code != wantCode || !strings.Contains(s.err.String(), want) {
			t.Errorf("cluster %s ends with %d and says %q, want %d and %q", strings.Join(args, " "), code, s.err.String(), wantCode, want)
		}
	}
	say(exitFailure, "node 9 is no voter of the metadata quorum", "remove-voter", "9")
	say(exitFailure, "node 3 is no observer of the metadata quorum", "add-voter", "3", address)
	say(exitUsage, "--directory-id 12 is no id", "remove-voter", "3", "--directory-id", "12")
	say(exitFailure, "(DUPLICATE_VOTER)", "add-voter", "3", address, "--directory-id", q.Voters[2].Directory)
	say(exitOK, "node 3 votes no more", "remove-voter", "3")
	if after := until(2, 1); after.Observers[0].ID != 3 || after.Observers[0].Directory != q.Voters[2].Directory {
		t.Errorf("node 3 was taken out of %+v, and left %+v", q, after)
	}
	say(exitFailure, "node 3 is no voter", "remove-voter", "3")
	say(exitFailure, "(INVALID_REQUEST)", "add-voter", "3", address, "--listener", "ELSEWHERE")
	if got := must(t, bootstrap, "", "cluster", "add-voter", "3", address, "-o", "json"); !strings.Contains(got, `"votes": true`) {
		t.Errorf("add-voter -o json prints %s", got)
	}
	until(3, 0)
}
