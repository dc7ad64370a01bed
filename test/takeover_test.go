package test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kafkaHome is a folder that Apache Kafka was formatted in and configured for by itself.
type kafkaHome struct {
	root     string
	port     int
	release  string   // that it is formatted for, as "3.9"; "" is its own
	settings []string // as key=value, beside those of test/kafka
}

func (k kafkaHome) addr() string       { return fmt.Sprintf("127.0.0.1:%d", k.port) }
func (k kafkaHome) properties() string { return filepath.Join(k.root, "server.properties") }

func (k kafkaHome) start(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		_, _ = tryRun(time.Minute, nil, "kafka/kafka", "stop", k.root, "KILL")
		if t.Failed() {
			t.Logf("the end of Apache Kafka's server.log:\n%s", last(swapDir{root: k.root}.kafkaLog(), 4000))
		}
	})
	env := []string{"KAFKA_HEAP=512m", "KAFKA_RELEASE=" + k.release}
	run(t, 2*atLast, env, "kafka/kafka", append([]string{"start", k.root, fmt.Sprint(k.port)}, k.settings...)...)
}

// raftsman starts Raftsman with Kafka's own server.properties.
func (k kafkaHome) raftsman(t testing.TB, args ...string) *process {
	t.Helper()
	p := launchWith(t, k.addr(), append([]string{"serve", k.properties()}, args...)...)
	p.awaitServing(atLast)
	return p
}

func (k kafkaHome) stop(t testing.TB) {
	t.Helper()
	run(t, atLast, nil, "kafka/kafka", "stop", k.root)
}

// tool runs one of Kafka's own tools against whatever serves the address.
func (k kafkaHome) tool(t testing.TB, name string, args ...string) string {
	t.Helper()
	return run(t, atLast, nil, "kafka/kafka", append([]string{"tool", name, "--bootstrap-server", k.addr()}, args...)...)
}

// TestRaftsmanTakesOverADirectoryOfKafkas starts Raftsman where Apache Kafka 4.4 was, with transactions, groups of all three
// kinds, quotas, and settings; and Kafka again where Raftsman was, which must have lost nothing of it, known to Raftsman or not.
func TestRaftsmanTakesOverADirectoryOfKafkas(t *testing.T) {
	t.Parallel()
	k := kafkaHome{root: t.TempDir(), port: freePort(t), settings: []string{"metadata.log.max.record.bytes.between.snapshots=2000"}}
	k.start(t)
	k.fill(t)
	wholly := k.wholly(t)
	adm := kadm.NewClient(crashClient(t, k.addr()))
	before := takeCensus(t, adm)
	delete(before.Groups, "shares") // of a kind that Raftsman does not serve, and has to keep
	t.Logf("Kafka tells:\n%s", wholly)
	records := map[string]string{}
	for _, topic := range []string{"plain", "txn", "more"} {
		records[topic] = committedRecords(t, k.addr(), topic, wholeRecord)
	}
	k.stop(t)

	same := func(when string) {
		t.Helper()
		is := takeCensus(t, adm)
		delete(is.Groups, "shares")
		if is.String() != before.String() {
			t.Errorf("%s: not as before:\n%s", when, difference(before.String(), is.String()))
		}
		for topic, was := range records {
			if is := committedRecords(t, k.addr(), topic, wholeRecord); is != was {
				t.Errorf("%s: topic %s:\n%s", when, topic, difference(was, is))
			}
		}
	}
	p := k.raftsman(t)
	same("Raftsman after Kafka")
	produceAll(t, k.addr(), "more", "by Raftsman")
	records["more"] = committedRecords(t, k.addr(), "more", wholeRecord)
	p.kill()
	p = k.raftsman(t)
	same("Raftsman after it was killed")
	p.terminate()

	k.start(t)
	eventually(t, atLast, "Kafka has all that it had", func() error {
		if is := k.wholly(t); is != wholly {
			return errors.New("\n" + difference(wholly, is))
		}
		return nil
	})
	same("Kafka after Raftsman")
	produceAll(t, k.addr(), "more", "by Kafka again")
	k.stop(t)
}

// fill has Kafka write what it can.
func (k kafkaHome) fill(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*atLast)
	defer cancel()
	adm := kadm.NewClient(crashClient(t, k.addr()))
	compact, short := "compact", "3600000"
	must(adm.CreateTopic(ctx, 3, 1, map[string]*string{"retention.ms": &short}, "plain"))(t)
	must(adm.CreateTopic(ctx, 1, 1, map[string]*string{"cleanup.policy": &compact}, "txn"))(t)
	must(adm.CreateTopic(ctx, 2, 1, nil, "more"))(t)
	produceAll(t, k.addr(), "plain", "by Kafka")
	produceAll(t, k.addr(), "more", "by Kafka")

	for n, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		cl := crashClient(t, k.addr(), kgo.TransactionalID("writer"), kgo.DefaultProduceTopic("txn"))
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			if err := cl.ProduceSync(ctx, kgo.KeyStringRecord(fmt.Sprint(n, "-", i), fmt.Sprint("transaction ", n))).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err := cl.EndTransaction(ctx, end); err != nil {
			t.Fatal(err)
		}
		cl.Close()
	}
	var commits kadm.Offsets
	commits.AddOffset("plain", 1, 5, -1)
	if err := adm.CommitAllOffsets(ctx, "simple", commits); err != nil {
		t.Fatal(err)
	}
	k.tool(t, "console-consumer", "--topic", "plain", "--group", "classic", "--from-beginning", "--max-messages", "20", "--timeout-ms", "60000",
		"--command-property", "group.protocol=classic")
	k.tool(t, "console-consumer", "--topic", "plain", "--group", "modern", "--from-beginning", "--max-messages", "25", "--timeout-ms", "60000",
		"--command-property", "group.protocol=consumer")
	earliest := "earliest"
	setting := kmsg.NewIncrementalAlterConfigsRequestResource()
	setting.ResourceType, setting.ResourceName = kmsg.ConfigResourceTypeGroupConfig, "shares"
	setting.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "share.auto.offset.reset", Value: &earliest}}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, setting)
	if code := must(req.RequestWith(ctx, crashClient(t, k.addr())))(t).Resources[0].ErrorCode; code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
	k.tool(t, "console-share-consumer", "--topic", "plain", "--group", "shares", "--max-messages", "15", "--timeout-ms", "60000")
	job := "batch-job"
	must(adm.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{
		Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &job}}, Ops: []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 1 << 20}},
	}}))(t)
}

// wholly is what only Kafka can tell: groups of all kinds with their offsets, quotas, settings of groups, transactions.
func (k kafkaHome) wholly(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*atLast)
	defer cancel()
	var told []string
	for line := range strings.SplitSeq(k.tool(t, "consumer-groups", "--describe", "--all-groups")+k.tool(t, "share-groups", "--describe", "--all-groups"), "\n") {
		if fields := strings.Fields(line); len(fields) > 0 {
			told = append(told, strings.Join(fields, " "))
		}
	}
	cl := crashClient(t, k.addr())
	adm := kadm.NewClient(cl)
	for _, quota := range must(adm.DescribeClientQuotas(ctx, false, []kadm.DescribeClientQuotaComponent{{Type: "client-id", MatchType: kmsg.QuotasMatchTypeAny}}))(t) {
		told = append(told, fmt.Sprint("quota ", quota.Entity, quota.Values))
	}
	for _, txn := range must(adm.ListTransactions(ctx, nil, nil))(t) {
		told = append(told, fmt.Sprint("transaction ", txn.TxnID, txn.ProducerID, txn.State))
	}
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeGroupConfig, "shares", []string{"share.auto.offset.reset"}
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = append(req.Resources, resource)
	for _, c := range must(req.RequestWith(ctx, cl))(t).Resources[0].Configs {
		told = append(told, fmt.Sprint("setting ", c.Name, *c.Value, c.Source))
	}
	slices.Sort(told)
	return strings.Join(told, "\n")
}
