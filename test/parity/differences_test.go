package parity

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

// stays is a difference that remains, and why. All the cases that it names must differ: when one does not any more, the test fails.
type stays struct {
	key   kmsg.Key
	from  int16  // the first version that differs
	title string // a part of the case's name
	field string // a part of the field, as row, space, name=value; empty: the answers have little in common
	why   string
	seen  map[string]bool // the cases that differ
}

const moreAborted = "Kafka lists the transactions that were aborted up to the next entry of its index, or to the end of the log; here those of the records that are returned"

// asTheyBegin: kafkajs looks at the first of the list alone until its first offset comes. TestReadersSkipAbortedTransactionsThatOverlap.
const asTheyBegin = "Kafka lists aborted transactions in the order in which they end, and kafkajs delivers records of one within which another was aborted; here they come in the order in which they begin"

// sentBefore: TestSequencesOfATransactionThatEnded.
const sentBefore = "Kafka takes a batch for one that was sent before its transaction, and librdkafka loses records of which it sends others with the same sequences; here they are refused"

var differences = []*stays{
	{key: kmsg.CreateTopics, title: "no time", field: `Topics["hasty"`, why: "Kafka gives up before it begins when the time allowed is 0; here the topic is made at once"},
	{key: kmsg.Metadata, from: 12, title: "null and no id", why: "Kafka stumbles over a topic without name and id; here it is no topic"},
	{key: kmsg.DescribeTopicPartitions, title: `topics [""], from ""`, field: "Topics[", why: "Kafka stumbles over an empty name; here it is an invalid one"},
	{key: kmsg.DescribeTopicPartitions, title: raw.Single, field: "Topics[", why: "Kafka stumbles over an empty name; here it is an invalid one"},
	{key: kmsg.DescribeTopicPartitions, title: raw.Doubled, field: "Topics[", why: "Kafka stumbles over an empty name; here it is an invalid one"},
	{key: kmsg.Produce, title: "a partition twice", field: "BaseOffset=", why: "Kafka keeps the last of the partition's rows and drops the others unsaid; here each is appended and answered"},
	{key: kmsg.DeleteGroups, title: "after a client without protocols was refused", field: "ErrorCode=", why: "Kafka leaves an empty group in memory for a client that it refuses"},
	{key: kmsg.Fetch, title: "isolation level 7", why: "Kafka stumbles over an isolation level that does not exist; here it is read_uncommitted"},
	{key: kmsg.ListOffsets, from: 2, title: "isolation level 2", field: "Partitions[0]", why: "Kafka stumbles over an isolation level that does not exist; here it is read_uncommitted"},
	{key: kmsg.Produce, title: "unknown codec", field: "ErrorCode", why: "Kafka stumbles over a codec that does not exist; here the client is told that it is unknown"},
	{key: kmsg.DescribeConfigs, title: "with documentation", field: `"controller.quorum.bootstrap.servers"`, why: "Kafka is told where its own controller is; here a node that is the whole quorum needs no such setting"},
	{key: kmsg.DescribeConfigs, from: 4, title: "describe the broker", field: `"controller.quorum.bootstrap.servers"`, why: "Kafka is told where its own controller is; here a node that is the whole quorum needs no such setting"},
	{key: kmsg.Fetch, title: "the session of the old id while there is none", field: "ErrorCode=", why: "Kafka's session remembers that the id had a name, and that topic is unknown; here the id is. Clients ask for metadata after either"},
	{key: kmsg.IncrementalAlterConfigs, title: `log.local.retention.ms="-1"`, why: "there is no tiered storage: its settings are checked one by one, not against each other"},
	{key: kmsg.IncrementalAlterConfigs, title: `log.local.retention.ms="9223372036854775807"`, why: "there is no tiered storage: its settings are checked one by one, not against each other"},
	{key: kmsg.IncrementalAlterConfigs, title: `log.remote.copy.lag.ms="9223372036854775807"`, why: "there is no tiered storage: its settings are checked one by one, not against each other"},
	{key: kmsg.IncrementalAlterConfigs, title: `config.providers=","`, field: "ErrorCode=", why: "Kafka takes a list of two empty names; here it is refused"},
	{key: kmsg.DescribeGroups, from: 6, title: "just downgraded", field: "MemberAssignment=", why: "of a group that becomes a classic one Kafka gives members what they were to have, so that one that is upgraded again at once gives away partitions that somebody still works on; here it is what they hold, until they join"},
	{key: kmsg.AlterClientQuotas, title: "ip=localhost", why: "Kafka looks up the names of hosts; here an address is one that is written as such"},
	{key: kmsg.Fetch, title: "limits below 0", why: "Kafka stumbles over a limit below 0; here it is 0, and the first batch comes all the same"},
	{key: kmsg.Produce, title: "in a transaction, the brokers' own topic", field: "Error", why: "Kafka asks the transaction's coordinator before it looks at the topic; here one that nobody writes to is refused at once"},
	{key: kmsg.Produce, from: 12, title: "in a transaction, acks 1", field: "Partitions[1]", why: sentBefore},
	{key: kmsg.Produce, from: 12, title: "once more what was sent", field: "Partitions[0]", why: sentBefore},
	{key: kmsg.Produce, from: 12, title: "where nothing was sent", field: "Partitions[2]", why: sentBefore},
	{key: kmsg.WriteTxnMarkers, title: "transactions' own topic", field: "ErrorCode=", why: "Kafka lets a client write markers between its coordinators' records; here that topic is in no transaction"},
	{key: kmsg.EndTxn, title: "of protocol 2 at level 0", field: "ErrorCode=", why: "Kafka is busy with it for ever, and with the transactional id; here the client is told that it can't be"},
	{key: kmsg.Fetch, title: "read0 has ended, a limit of 1", field: "AbortedTransactions", why: moreAborted},
	{key: kmsg.Fetch, title: "read3 has ended, a limit of 1", field: "AbortedTransactions", why: moreAborted},
	{key: kmsg.Fetch, title: "read2 has ended, a limit of 1", field: "AbortedTransactions", why: moreAborted},
	{key: kmsg.Fetch, title: "read3 has ended, committed from 0", field: "AbortedTransactions", why: moreAborted},
	{key: kmsg.Fetch, title: "read3 has ended, committed from 3", field: "AbortedTransactions", why: moreAborted},
	{key: kmsg.Fetch, title: "read2 has ended, committed from", field: "AbortedTransactions", why: asTheyBegin},
}

// laterFeatures are Kafka's that are not finalised here, and when they come.
var laterFeatures = map[string]string{
	"share.version":   raw.ComesWithShare,
	"streams.version": raw.ComesWithStreams,
}

// of tells whether a case is among those of the difference.
func (d *stays) of(s *step) bool {
	return d.key == s.key && s.v >= d.from && strings.Contains(s.name, d.title)
}

// explain parts the differences that stay from the others, as lines. Where Kafka does not answer at all, any answer is better, and stays.
func explain(s *step, got, kafkas answer) (stay answer, left []string) {
next:
	for _, d := range compare(got, kafkas) {
		if s.key == kmsg.ApiVersions && d.whose == "Kafka" && comesLater(d.field) != "" {
			continue
		}
		if slices.Equal(kafkas, silent) {
			stay = append(stay, d.recorded())
			continue
		}
		for _, e := range differences {
			if e.of(s) && strings.Contains(d.field.String(), e.field) {
				if e.seen == nil {
					e.seen = map[string]bool{}
				}
				e.seen[s.title()] = true
				stay = append(stay, d.recorded())
				continue next
			}
		}
		left = append(left, d.String())
	}
	return stay, left
}

// recorded is the field as it stands in oursRecorded, with a minus where Kafka alone has it.
func (d difference) recorded() field {
	f := d.field
	if d.whose == "Kafka" {
		f.name = "-" + f.name
	}
	return f
}

var oursNow = flag.Bool("ours", false, "record what this broker answers where the differences stay")

// checkOurs holds this broker to what it answered before where it differs from Kafka, or records that.
func checkOurs(t *testing.T, c *conversation, got map[string]answer) {
	t.Helper()
	if *recordNow || *oursNow {
		oursRecorded.write(t, c, got)
	}
	want := oursRecorded.read(t)
	for _, title := range slices.Sorted(maps.Keys(got)) {
		for _, d := range compare(got[title], want[title]) {
			t.Errorf("%s differs from Kafka as before no more: now and %s; if it is right, run `cd test && go test ./parity -ours`", title, d)
		}
		delete(want, title)
	}
	for _, title := range slices.Sorted(maps.Keys(want)) {
		t.Errorf("%s does not differ any more: run `cd test && go test ./parity -ours`", title)
	}
}

// comesLater tells when what a row of Kafka's ApiVersions speaks of comes here, or nothing if it is here.
func comesLater(f field) string {
	for _, k := range raw.Keys {
		if f.row == fmt.Sprintf("ApiKeys[%d]", k.Key) {
			return k.Comes
		}
	}
	for name, when := range laterFeatures {
		if strings.HasSuffix(f.row, fmt.Sprintf("Features[%q]", name)) {
			return when
		}
	}
	return ""
}
