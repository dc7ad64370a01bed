package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The level of metadata.version 3.9, and the versions above 0 of records of the metadata log that it allows.
const olderLevel = 21

var olderVersions = map[string]int{
	"REGISTER_BROKER_RECORD": 3, "PARTITION_RECORD": 1, "PARTITION_CHANGE_RECORD": 1, "BROKER_REGISTRATION_CHANGE_RECORD": 2,
}

// keptKinds are records of the metadata log that Raftsman keeps for Kafka.
var keptKinds = []string{"USER_SCRAM_CREDENTIAL_RECORD", "ACCESS_CONTROL_ENTRY_RECORD", "CLIENT_QUOTA_RECORD"}

// TestRaftsmanLeavesADirectoryAtItsLevel starts Raftsman where Apache Kafka 4.4 was at metadata.version 3.9, with users, access rules
// and quotas. They outlive Raftsman's own metadata snapshots; the level stays, and nothing newer is written.
func TestRaftsmanLeavesADirectoryAtItsLevel(t *testing.T) {
	t.Parallel()
	k := kafkaHome{root: t.TempDir(), port: freePort(t), release: "3.9", settings: []string{
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:ANONYMOUS",
		"metadata.log.max.record.bytes.between.snapshots=3000", "metadata.log.max.snapshot.interval.ms=0",
		"offsets.topic.num.partitions=3",
	}}
	data := filepath.Join(k.root, "data")
	k.start(t)
	o := older{TB: t, home: k, adm: kadm.NewClient(crashClient(t, k.addr()))}
	o.fill()
	secured := o.secured()
	t.Logf("Kafka tells:\n%s", secured)
	o.look()
	k.stop(t)
	kept := inForce(t, metadataRecords(t, data), "")
	t.Logf("Kafka wrote:\n%s", kept)

	p := k.raftsman(t, "--override", "authorizer.class.name=")
	o.same("Raftsman after Kafka")
	o.change("by Raftsman")
	p.kill()
	p = k.raftsman(t, "--override", "authorizer.class.name=")
	o.same("Raftsman after it was killed")
	o.change("by Raftsman again")
	p.terminate()
	all := metadataRecords(t, data)
	checkLevel(t, all)
	var newest string
	for _, r := range all {
		newest = max(newest, r.snapshot)
	}
	if is := inForce(t, all, newest); is != kept {
		t.Errorf("Raftsman's snapshot %s has not what Kafka wrote:\n%s", newest, difference(kept, is))
	}

	k.start(t)
	eventually(t, atLast, "Kafka has all users, rules and quotas", func() error {
		if is := o.secured(); is != secured {
			return errors.New("\n" + difference(secured, is))
		}
		return nil
	})
	o.same("Kafka after Raftsman")
	o.change("by Kafka again")
	k.stop(t)
}

// older is a cluster at an older level.
type older struct {
	testing.TB
	home    kafkaHome
	adm     *kadm.Client
	before  view
	levels  map[string]string // of features
	changes int
}

func (o *older) fill() {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Context(), atLast)
	defer cancel()
	stamped, segment := "LogAppendTime", "1048576"
	must(o.adm.CreateTopics(ctx, 2, 1, map[string]*string{"message.timestamp.type": &stamped, "segment.bytes": &segment}, "stamped"))(o)
	must(o.adm.CreateTopics(ctx, 2, 1, nil, "plain"))(o)
	produceAll(o, o.home.addr(), "stamped", "by Kafka")
	produceAll(o, o.home.addr(), "plain", "by Kafka")
	var front kadm.Offsets
	front.AddOffset("stamped", 1, 4, -1)
	must(o.adm.DeleteRecords(ctx, front))(o)

	for _, user := range []kadm.UpsertSCRAM{
		{User: "alice", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "secret"},
		{User: "alice", Mechanism: kadm.ScramSha512, Iterations: 8192, Password: "Geheimnis"},
		{User: "bübchen", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: "x"},
		{User: "carol", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: "gone"},
	} {
		if err := must(o.adm.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{user}))(o).Error(); err != nil {
			o.Fatal(user.User, err)
		}
	}
	gone := must(o.adm.AlterUserSCRAMs(ctx, []kadm.DeleteSCRAM{{User: "carol", Mechanism: kadm.ScramSha512}}, nil))(o)
	if err := gone.Error(); err != nil {
		o.Fatal(err)
	}
	for _, rules := range []*kadm.ACLBuilder{
		kadm.NewACLs().Topics("plain", "stamped").Groups("readers").Allow("User:alice").AllowHosts("*", "10.0.0.1").
			Operations(kmsg.ACLOperationRead, kmsg.ACLOperationDescribe).ResourcePatternType(kmsg.ACLResourcePatternTypeLiteral),
		kadm.NewACLs().Topics("pre").Allow("User:bübchen").AllowHosts("*").Operations(kmsg.ACLOperationAll).
			ResourcePatternType(kmsg.ACLResourcePatternTypePrefixed),
		kadm.NewACLs().Clusters().TransactionalIDs("*").Deny("User:*").DenyHosts("192.0.2.1").Operations(kmsg.ACLOperationAlter, kmsg.ACLOperationWrite).
			ResourcePatternType(kmsg.ACLResourcePatternTypeLiteral),
	} {
		for _, r := range must(o.adm.CreateACLs(ctx, rules))(o) {
			if r.Err != nil && !strings.Contains(r.Err.Error(), "INVALID") { // as of operations that a resource does not know
				o.Fatal(r.Err)
			}
		}
	}
	must(o.adm.DeleteACLs(ctx, kadm.NewACLs().Topics("stamped").Allow("User:alice").AllowHosts("10.0.0.1").
		Operations(kmsg.ACLOperationRead).ResourcePatternType(kmsg.ACLResourcePatternTypeLiteral)))(o)
	alice, job := "alice", "batch-job"
	entity := func(parts ...kadm.ClientQuotaEntityComponent) kadm.ClientQuotaEntity { return parts }
	user, anyone := kadm.ClientQuotaEntityComponent{Type: "user", Name: &alice}, kadm.ClientQuotaEntityComponent{Type: "user"}
	client, address := kadm.ClientQuotaEntityComponent{Type: "client-id", Name: &job}, kadm.ClientQuotaEntityComponent{Type: "ip"}
	for _, q := range must(o.adm.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{
		{Entity: entity(user, client), Ops: []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 1 << 20}, {Key: "consumer_byte_rate", Value: 1.5e9}}},
		{Entity: entity(anyone), Ops: []kadm.AlterClientQuotaOp{{Key: "request_percentage", Value: 12.5}}},
		{Entity: entity(client), Ops: []kadm.AlterClientQuotaOp{{Key: "controller_mutation_rate", Value: 3}}},
		{Entity: entity(address), Ops: []kadm.AlterClientQuotaOp{{Key: "connection_creation_rate", Value: 40}}},
	}))(o) {
		if q.Err != nil {
			o.Fatal(q.Err)
		}
	}
	must(o.adm.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{
		{Entity: entity(client), Ops: []kadm.AlterClientQuotaOp{{Key: "controller_mutation_rate", Remove: true}}},
	}))(o)
	o.change("by Kafka")
}

// change does what writes records of many kinds into the metadata log.
func (o *older) change(who string) {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Context(), atLast)
	defer cancel()
	o.changes++
	topic, day := fmt.Sprint("made-", o.changes), "86400000"
	must(o.adm.CreateTopic(ctx, 2, 1, map[string]*string{"retention.ms": &day}, topic))(o)
	must(o.adm.CreateTopic(ctx, 5, 1, nil, "short-lived"))(o)
	must(o.adm.CreatePartitions(ctx, 1, topic))(o)
	delay := fmt.Sprint(60_000 + o.changes)
	must(o.adm.AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Name: "log.segment.delete.delay.ms", Value: &delay}}))(o)
	for _, r := range must(o.adm.DeleteTopics(ctx, "short-lived"))(o) {
		if r.Err != nil {
			o.Fatal(r.Err)
		}
	}
	produceAll(o, o.home.addr(), "plain", who)
	produceAll(o, o.home.addr(), topic, who)
	var commits kadm.Offsets
	commits.Add(kadm.Offset{Topic: "plain", Partition: 1, At: int64(7 + o.changes), LeaderEpoch: -1, Metadata: who})
	if err := o.adm.CommitAllOffsets(ctx, "readers", commits); err != nil {
		o.Fatal(err)
	}
	eventually(o, atLast, "the change shows", func() error {
		if is := takeCensus(o, o.adm).Configs[""]["log.segment.delete.delay.ms"]; is != delay {
			return errors.New(is)
		}
		return nil
	})
	o.look()
}

// look takes what must stay.
func (o *older) look() {
	o.Helper()
	o.before, o.levels = viewOf(o, o.home.addr()), o.features()
}

// same compares with the last look.
func (o *older) same(when string) {
	o.Helper()
	o.before.check(o, o.home.addr(), when)
	if is := o.features(); !maps.Equal(is, o.levels) {
		o.Errorf("%s: features are at %v, were at %v", when, is, o.levels)
	}
}

// features are the finalised levels that clients are told.
func (o *older) features() map[string]string {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Context(), atLast)
	defer cancel()
	resp := must(kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, crashClient(o, o.home.addr(), kgo.MaxVersions(nil))))(o)
	levels := map[string]string{}
	for _, f := range resp.FinalizedFeatures {
		levels[f.Name] = fmt.Sprint(f.MinVersionLevel, "-", f.MaxVersionLevel)
	}
	return levels
}

// secured is what Kafka tells of users, access rules and quotas.
func (o *older) secured() string {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Context(), atLast)
	defer cancel()
	var told []string
	adm := kadm.NewClient(crashClient(o, o.home.addr())) // one that Raftsman has not told yet that it does not know these requests
	for _, u := range must(adm.DescribeUserSCRAMs(ctx))(o).Sorted() {
		for _, c := range u.CredInfos { // in no order
			told = append(told, fmt.Sprint("user ", u.User, " ", c, u.Err))
		}
	}
	for _, r := range must(adm.DescribeACLs(ctx, kadm.NewACLs().AnyResource().Allow().AllowHosts().Deny().DenyHosts().Operations().
		ResourcePatternType(kmsg.ACLResourcePatternTypeAny)))(o) {
		for _, a := range r.Described {
			told = append(told, fmt.Sprint("rule ", a))
		}
	}
	for _, q := range must(adm.DescribeClientQuotas(ctx, false, nil))(o) {
		told = append(told, fmt.Sprint("quota ", q.Entity, q.Values))
	}
	slices.Sort(told)
	return strings.Join(slices.Compact(told), "\n")
}

// metadataRecord is a record of a metadata log or of a snapshot of it, as Kafka's tool shows it.
type metadataRecord struct {
	snapshot string // the file's name, "" in the log
	Type     string
	Version  int
	Data     json.RawMessage
}

// metadataRecords reads the metadata log of a stopped broker, and its snapshots.
func metadataRecords(t testing.TB, data string) []metadataRecord {
	t.Helper()
	var names []string
	for _, ext := range []string{"*.checkpoint", "*.log"} {
		names = append(names, must(filepath.Glob(filepath.Join(data, "__cluster_metadata-0", ext)))(t)...)
	}
	out := run(t, atLast, nil, "kafka/kafka", "tool", "dump-log", "--cluster-metadata-decoder", "--files", strings.Join(names, ","))
	var records []metadataRecord
	snapshot := ""
	for line := range strings.SplitSeq(out, "\n") {
		if name, ok := strings.CutPrefix(line, "Dumping "); ok {
			if snapshot = filepath.Base(name); !strings.HasSuffix(name, ".checkpoint") {
				snapshot = ""
			}
		}
		if _, payload, ok := strings.Cut(line, " payload: "); ok {
			r := metadataRecord{snapshot: snapshot}
			if err := json.Unmarshal([]byte(payload), &r); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			records = append(records, r)
		}
	}
	return records
}

// inForce lists what the records of users, access rules and quotas in a file come to: "" is the log.
func inForce(t testing.TB, records []metadataRecord, file string) string {
	t.Helper()
	kept := map[string]string{}
	for _, r := range records {
		kind := strings.TrimPrefix(r.Type, "REMOVE_")
		if r.snapshot != file || !slices.Contains(keptKinds, kind) {
			continue
		}
		var of struct {
			Name      string
			Mechanism int
			ID        string
			Entity    json.RawMessage
			Key       string
			Remove    bool
		}
		if err := json.Unmarshal(r.Data, &of); err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprint(kind, of.Name, of.Mechanism, of.ID, string(of.Entity), of.Key)
		if kind != r.Type || of.Remove {
			delete(kept, id)
		} else {
			kept[id] = fmt.Sprint(r.Type, " ", r.Version, " ", string(r.Data))
		}
	}
	return strings.Join(slices.Sorted(maps.Values(kept)), "\n")
}

// checkLevel finds fault with records that are newer than the cluster's level.
func checkLevel(t testing.TB, records []metadataRecord) {
	t.Helper()
	for _, r := range records {
		if r.Version > olderVersions[r.Type] {
			t.Errorf("%s version %d is newer than metadata.version 3.9: %s", r.Type, r.Version, r.Data)
		}
		var level struct {
			Name         string
			FeatureLevel int
		}
		if err := json.Unmarshal(r.Data, &level); err != nil {
			t.Fatal(err)
		}
		if r.Type == "FEATURE_LEVEL_RECORD" && (level.Name != "metadata.version" || level.FeatureLevel != olderLevel) {
			t.Errorf("%s is at level %d", level.Name, level.FeatureLevel)
		}
	}
}
