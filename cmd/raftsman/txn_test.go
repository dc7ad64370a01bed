package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/raftsman/raftsman/internal/raw"
)

// openTransactionOf leaves a transaction of the id open, with a record in partitions 0 and 1 of a topic.
func openTransactionOf(t *testing.T, bootstrap, topic, id string) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.TransactionalID(id), kgo.TransactionTimeout(time.Minute), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for p := range int32(2) {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: p, Value: []byte(id)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return cl
}

// asked runs a command that has to succeed and reads its JSON.
func asked[T any](t *testing.T, bootstrap string, args ...string) (v T) {
	t.Helper()
	text := must(t, bootstrap, "", append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("`raftsman %s` prints %s: %v", strings.Join(args, " "), text, err)
	}
	return v
}

// failsWith runs a command that must fail and say so in one line with a text.
func failsWith(t *testing.T, bootstrap, want string, args ...string) {
	t.Helper()
	s := newLiveSession(bootstrap)
	if code := s.run(args...); code != exitFailure || !strings.Contains(s.err.String(), want) || strings.Count(s.err.String(), "\n") != 1 {
		t.Errorf("`raftsman %s` ends with %d, prints %s and says %s, want one line with %s", strings.Join(args, " "), code, s.out.String(), s.err.String(), want)
	}
}

func TestTransactionsAreListedDescribedAndAborted(t *testing.T) {
	bootstrap := startBroker(t)
	topic := topicFor(t, bootstrap, 2)
	going := openTransactionOf(t, bootstrap, topic, "shop-going")
	done := openTransactionOf(t, bootstrap, topic, "shop-done")
	if err := done.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	eventually(t, "shop-done to be committed", func() bool {
		listed := asked[[]txnSummary](t, bootstrap, "txn", "list", "--pattern", "shop-d.*")
		return len(listed) == 1 && listed[0].TransactionalID == "shop-done" && listed[0].State == "CompleteCommit" && listed[0].OpenMs == nil
	})
	for args, want := range map[string]string{
		"":                                "[shop-done shop-going]",
		"--state ongoing,PrepareCommit":   "[shop-going]",
		"--longer-than 0s":                "[shop-going]",
		"--longer-than 10m":               "[]",
		"--pattern shop":                  "[]",
		"--pattern shop-(done|goin).?":    "[shop-done shop-going]",
		"--producer-id 1000000":           "[]",
		"--state Empty --producer-id 1,2": "[]",
	} {
		var ids []string
		for _, l := range asked[[]txnSummary](t, bootstrap, strings.Fields("txn list "+args)...) {
			if strings.HasPrefix(l.TransactionalID, "shop-") {
				ids = append(ids, l.TransactionalID)
			}
		}
		if got := fmt.Sprint(ids); got != want {
			t.Errorf("txn list %s: %s, want %s", args, got, want)
		}
	}
	v := asked[[]txnView](t, bootstrap, "txn", "describe", "shop-going")[0]
	wantPartitions := []txnPartition{{topic, 0, 0}, {topic, 1, 0}}
	if v.State != "Ongoing" || v.TimeoutMs != 60_000 || v.OpenMs == nil || v.Started == "" || fmt.Sprint(v.Partitions) != fmt.Sprint(wantPartitions) {
		t.Errorf("shop-going is %+v, want it Ongoing in %v", v, wantPartitions)
	}
	text := must(t, bootstrap, "", "txn", "describe", "shop-going", "shop-done")
	if want := fmt.Sprintf("shop-going  state Ongoing, producer %d epoch %d, coordinator 1, timeout 1m0s, open for ", v.ProducerID, v.ProducerEpoch); !strings.HasPrefix(text, want) ||
		!strings.Contains(text, "\nshop-done  state CompleteCommit, ") || !strings.Contains(text, ", no transaction open\n") {
		t.Errorf("txn describe prints %s", text)
	}
	of := asked[[]partitionProducers](t, bootstrap, "txn", "describe", "-t", topic+":1")
	if len(of) != 1 || len(of[0].Producers) != 2 || of[0].Partition != 1 {
		t.Fatalf("partition 1 has the producers %+v, want two", of)
	}
	for _, p := range of[0].Producers {
		if want := map[string]int64{"shop-going": 0, "shop-done": -1}[p.TransactionalID]; p.TransactionalID == "" || p.StartOffset != want {
			t.Errorf("%+v begins at %d, want %d", p, p.StartOffset, want)
		}
	}

	failsWith(t, bootstrap, "there is no transactional id nobody: `raftsman txn list` shows those there are", "txn", "describe", "nobody")
	failsWith(t, bootstrap, "there is no transactional id nobody", "txn", "abort", "nobody", "--execute")
	failsWith(t, bootstrap, "shop-done has no transaction open, its state is CompleteCommit", "txn", "abort", "shop-done")
	failsWith(t, bootstrap, "does not hang: it is that of shop-going, in state Ongoing; `raftsman txn abort shop-going` ends it", "txn", "abort", "-t", topic+":0", "--start-offset", "0")
	if asked[abortedTransaction](t, bootstrap, "txn", "abort", "shop-going").Executed {
		t.Error("a preview says that it was done")
	}
	if v := asked[[]txnView](t, bootstrap, "txn", "describe", "shop-going")[0]; v.State != "Ongoing" {
		t.Errorf("after a preview it is %s", v.State)
	}
	if !asked[abortedTransaction](t, bootstrap, "txn", "abort", "shop-going", "--execute").Executed {
		t.Error("it was not done")
	}
	if v := asked[[]txnView](t, bootstrap, "txn", "describe", "shop-going")[0]; v.OpenMs != nil || len(v.Partitions) != 0 {
		t.Errorf("after the abort it is %+v", v)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := going.EndTransaction(ctx, kgo.TryCommit); err == nil {
		t.Error("the producer whose transaction was aborted commits it")
	}
	if told := must(t, bootstrap, "", "consume", topic, "-e", "--isolation", "committed"); told != "shop-done\nshop-done\n" {
		t.Errorf("of the topic there is %q", told)
	}
}

func TestHangingTransactionsAreFoundAndAborted(t *testing.T) {
	bootstrap := startBroker(t)
	topic := topicFor(t, bootstrap, 2)
	must(t, bootstrap, "", "produce", topic, "-p", "1", "before")
	openTransactionOf(t, bootstrap, topic, "live")
	hangs := raw.Dial(t, bootstrap).Hang("dead", topic, 1)
	must(t, bootstrap, "", "produce", topic, "-p", "1", "after")

	found := asked[[]hangingTransaction](t, bootstrap, "txn", "find-hanging", "-t", topic)
	if len(found) != 1 || found[0].ProducerID != hangs.Producer || found[0].StartOffset != 2 || found[0].Partition != 1 || found[0].TransactionalID != "dead" {
		t.Fatalf("found %+v, want producer %d at 2", found, hangs.Producer)
	}
	if all := asked[[]hangingTransaction](t, bootstrap, "txn", "find-hanging", "--longer-than", "0s"); fmt.Sprint(all[0].StartOffset, len(all)) != "2 1" {
		t.Errorf("in all topics there are %+v, want the same one", all)
	}
	s := newLiveSession(bootstrap)
	if code := s.run("txn", "find-hanging"); code != exitOK || !strings.Contains(s.err.String(), "`raftsman txn abort -t "+topic+":1 --start-offset 2` ends") {
		t.Errorf("find-hanging ends with %d and says %s", code, s.err.String())
	}
	failsWith(t, bootstrap, topic+" partition 1 from offset 3 on: those that are begin at 1, 2", "txn", "abort", "-t", topic+":1", "--start-offset", "3", "--execute")
	failsWith(t, bootstrap, topic+" has no partition 2: it has 0 to 1", "txn", "abort", "-t", topic+":2", "--start-offset", "3", "--execute")
	abort := []string{"txn", "abort", "-t", topic + ":1", "--start-offset", "2"}
	if got := asked[abortedTransaction](t, bootstrap, abort...); got.Executed || got.ProducerID != hangs.Producer {
		t.Errorf("the preview is %+v", got)
	}
	must(t, bootstrap, "", append(abort, "--execute")...)
	failsWith(t, bootstrap, "no transaction is open in "+topic+" partition 1", append(abort, "--execute")...)
	must(t, bootstrap, "", "txn", "abort", "live", "--execute")
	if told := must(t, bootstrap, "", "consume", topic, "-e", "--isolation", "committed"); told != "before\nafter\n" {
		t.Errorf("of the topic there is %q", told)
	}
	if told := asked[[]hangingTransaction](t, bootstrap, "txn", "find-hanging", "--longer-than", "0s"); len(told) != 0 {
		t.Errorf("afterwards there is %+v", told)
	}
}
