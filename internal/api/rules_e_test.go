package api_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
	"github.com/raftsman/raftsman/internal/record/compress"
)

// rowsOf lists the partitions of a Fetch answer that hold records, as topic-partition:bytes.
func rowsOf(resp kmsg.Response) map[string]int {
	rows := map[string]int{}
	for _, t := range resp.(*kmsg.FetchResponse).Topics {
		for _, p := range t.Partitions {
			rows[fmt.Sprint(t.Topic, "-", p.Partition)] = len(p.RecordBatches)
		}
	}
	return rows
}

// A record larger than every limit is delivered all the same, from the first partition that has any, and the limits hold for the
// others.
func TestRule71FirstBatchOverTheLimits(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	l.Create("t", 3)
	size := 0
	for p := range int32(3) {
		if p == 0 {
			continue // stays empty
		}
		large := raw.Values(strings.Repeat("x", 500_000))
		size = len(large)
		l.Ask(raw.Produce(9, -1, raw.ProduceRow{Topic: "t", Partition: p, Records: large}))
	}
	for version := int16(4); version <= 12; version++ {
		for name, limit := range map[string]func(*kmsg.FetchRequest){
			"of the request": func(r *kmsg.FetchRequest) { r.MaxBytes = 1 },
			"of the partition": func(r *kmsg.FetchRequest) {
				for i := range r.Topics[0].Partitions {
					r.Topics[0].Partitions[i].PartitionMaxBytes = 1
				}
			},
		} {
			req := raw.Fetch(version, raw.FetchRow{Topic: "t"}, raw.FetchRow{Topic: "t", Partition: 1}, raw.FetchRow{Topic: "t", Partition: 2})
			limit(req)
			if got := rowsOf(l.Ask(req)); got["t-0"] != 0 || got["t-1"] != size || got["t-2"] != 0 {
				t.Errorf("v%d, limit %s: %v, want %d bytes of t-1 alone", version, name, got, size)
			}
		}
	}
}

// A fetch with nothing to say waits for its time, also one that names no partition, and not at all where no byte is asked for.
func TestRule72FetchWaits(t *testing.T) {
	b := brokertest.Start(t)
	l := connect(t, b.Addr())
	l.Create("t", 1)
	open := raw.Fetch(12, raw.FetchRow{Topic: "t"})
	open.SessionEpoch = 0
	session := l.Ask(open).(*kmsg.FetchResponse).SessionID
	took := func(req *kmsg.FetchRequest) time.Duration {
		began := time.Now()
		l.Ask(req)
		return time.Since(began)
	}
	const wait = 200 * time.Millisecond // and no end to it would be longer than a link's raw.Patience
	full := raw.Fetch(12, raw.FetchRow{Topic: "t"})
	full.MaxWaitMillis = int32(wait.Milliseconds())
	for range 3 {
		if d := took(full); d < wait {
			t.Errorf("a fetch of an idle topic took %v, want %v", d, wait)
		}
	}
	for epoch := int32(1); epoch < 4; epoch++ {
		next := raw.Fetch(12)
		next.SessionID, next.SessionEpoch, next.MaxWaitMillis = session, epoch, full.MaxWaitMillis
		if d := took(next); d < wait {
			t.Errorf("an incremental fetch that names nothing took %v, want %v", d, wait)
		}
	}
	full.MinBytes, full.MaxWaitMillis = 0, int32((10 * raw.Patience).Milliseconds())
	l.Ask(full) // at once
	full.MinBytes = 1
	l.Send(full)
	connect(t, b.Addr()).produce(9, "t", raw.Values("x"))
	if got := rowsOf(l.Answer(full, l.Last)); got["t-0"] == 0 {
		t.Errorf("woken by a record, and it is not there: %v", got)
	}
	full.Topics[0].Partitions[0].FetchOffset, full.MinBytes, full.MaxWaitMillis = 0, 1_000_000, 300
	if d := took(full); d < 300*time.Millisecond {
		t.Errorf("a fetch of a megabyte took %v with less than that in the log", d)
	}
}

func TestRule74SessionsByEpoch(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	id := l.Create("t", 1)
	for _, version := range []int16{7, 11, 12, 13, 16, 18} {
		row := raw.FetchRow{Topic: "t"}
		if version >= 13 {
			row = raw.FetchRow{Topic: "", ID: id}
		}
		ask := func(session, epoch int32, rows ...raw.FetchRow) *kmsg.FetchResponse {
			req := raw.Fetch(version, rows...)
			req.SessionID, req.SessionEpoch = session, epoch
			return l.Ask(req).(*kmsg.FetchResponse)
		}
		if none := ask(0, -1, row); none.SessionID != 0 || none.ErrorCode != 0 {
			t.Errorf("v%d: without a session: session %d, error %d", version, none.SessionID, none.ErrorCode)
		}
		session := ask(0, 0, row).SessionID
		if session == 0 {
			t.Fatalf("v%d: no session was opened", version)
		}
		for epoch := int32(1); epoch < 5; epoch++ {
			if next := ask(session, epoch); next.ErrorCode != 0 || next.SessionID != session {
				t.Errorf("v%d: epoch %d: session %d, error %d", version, epoch, next.SessionID, next.ErrorCode)
			}
		}
		for _, epoch := range []int32{4, 6, 1, 100} {
			code(t, fmt.Sprintf("v%d: epoch %d after 4", version, epoch), ask(session, epoch).ErrorCode, kafka.InvalidFetchSessionEpoch)
		}
		code(t, fmt.Sprintf("v%d: another session", version), ask(session^0x1234, 5).ErrorCode, kafka.FetchSessionIdNotFound)
		mixed := raw.Fetch(25-version, row) // 12 and 13 change sides
		if version == 12 || version == 13 {
			mixed.SessionID, mixed.SessionEpoch = session, 5
			code(t, fmt.Sprintf("v%d: goes on as v%d", version, mixed.Version), l.Ask(mixed).(*kmsg.FetchResponse).ErrorCode, kafka.FetchSessionTopicIdError)
		}
		if closed := ask(session, -1, row); closed.ErrorCode != 0 || closed.SessionID != 0 {
			t.Errorf("v%d: closed: session %d, error %d", version, closed.SessionID, closed.ErrorCode)
		}
		code(t, fmt.Sprintf("v%d: after it was closed", version), ask(session, 5).ErrorCode, kafka.FetchSessionIdNotFound)
	}
}

// A session remembers what was said at its beginning: which epoch the client knows, which offset it wants, and the topic's id.
func TestRule75WhatASessionRemembers(t *testing.T) {
	dir := t.TempDir()
	l := connect(t, brokertest.Start(t, brokertest.Dir(dir)).Addr())
	id := l.Create("t", 2)
	l.produce(9, "t", raw.Values("a", "b"))
	for i, version := range []int16{12, 13, 18} {
		row := func(partition int32, offset int64) raw.FetchRow {
			if version >= 13 {
				return raw.FetchRow{Topic: "", ID: id, Partition: partition, Offset: offset}
			}
			return raw.FetchRow{Topic: "t", Partition: partition, Offset: offset}
		}
		open := raw.Fetch(version, row(0, 2), row(1, int64(i)))
		open.SessionEpoch = 0
		open.Topics[0].Partitions[0].CurrentLeaderEpoch = 0
		first := l.Ask(open).(*kmsg.FetchResponse)
		next := func(epoch int32, rows ...raw.FetchRow) *kmsg.FetchResponse {
			req := raw.Fetch(version, rows...)
			req.SessionID, req.SessionEpoch = first.SessionID, epoch
			return l.Ask(req).(*kmsg.FetchResponse)
		}
		if idle := next(1); len(idle.Topics) != 0 {
			t.Errorf("v%d: nothing is new, and %+v is told", version, idle.Topics)
		}
		l.Ask(raw.Produce(9, -1, raw.ProduceRow{Topic: "t", Partition: 1, Records: raw.Values("c")}))
		news := next(2)
		if len(news.Topics) != 1 || len(news.Topics[0].Partitions) != 1 || news.Topics[0].Partitions[0].Partition != 1 || len(news.Topics[0].Partitions[0].RecordBatches) == 0 {
			t.Fatalf("v%d: a record in partition 1, and %+v is told", version, news.Topics)
		}
		if version >= 13 && news.Topics[0].TopicID != id || version < 13 && news.Topics[0].Topic != "t" {
			t.Errorf("v%d: told of topic %q %x", version, news.Topics[0].Topic, news.Topics[0].TopicID)
		}
		stale := raw.Fetch(version, row(0, 2))
		stale.SessionID, stale.SessionEpoch, stale.Topics[0].Partitions[0].CurrentLeaderEpoch = first.SessionID, 3, 77
		code(t, fmt.Sprintf("v%d: an epoch from the future", version), l.Ask(stale).(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode, kafka.UnknownLeaderEpoch)
		if again := next(4); len(again.Topics) == 0 || !slices.ContainsFunc(again.Topics[0].Partitions, func(p kmsg.FetchResponseTopicPartition) bool {
			return p.Partition == 0 && kafka.Error(p.ErrorCode) == kafka.UnknownLeaderEpoch
		}) {
			t.Errorf("v%d: the epoch of partition 0 was forgotten: %+v", version, again.Topics)
		}
	}
}

// The client's epoch is compared with the leader's: an older one is fenced, a newer one unknown, -1 is not looked at.
func TestRule76EpochsInRequests(t *testing.T) {
	dir := t.TempDir()
	b := brokertest.Start(t, brokertest.Dir(dir))
	connect(t, b.Addr()).Create("t", 1)
	b = brokertest.Start(t, brokertest.Dir(crashed(t, dir))) // which makes a new epoch
	l := connect(t, b.Addr())
	l.produce(9, "t", raw.Values("a", "b"))
	now := l.row(12, "t").Partitions[0].LeaderEpoch
	if now < 1 {
		t.Fatalf("leader epoch %d after a crash, want a new one", now)
	}
	for _, c := range []struct {
		epoch int32
		want  kafka.Error
	}{{now, kafka.None}, {-1, kafka.None}, {now - 1, kafka.FencedLeaderEpoch}, {now + 1, kafka.UnknownLeaderEpoch}} {
		for version := int16(9); version <= 12; version++ {
			req := raw.Fetch(version, raw.FetchRow{Topic: "t"})
			req.Topics[0].Partitions[0].CurrentLeaderEpoch = c.epoch
			code(t, fmt.Sprintf("Fetch v%d at epoch %d of %d", version, c.epoch, now), l.Ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode, c.want)
		}
		for version := int16(4); version <= 11; version++ {
			req := raw.ListOffsets(version, raw.ListRow{Topic: "t", Timestamp: -1})
			req.Topics[0].Partitions[0].CurrentLeaderEpoch = c.epoch
			code(t, fmt.Sprintf("ListOffsets v%d at epoch %d of %d", version, c.epoch, now), l.Ask(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode, c.want)
		}
		for version := int16(2); version <= 4; version++ {
			req := raw.EpochEnds(version, "t", 0)
			req.Topics[0].Partitions[0].CurrentLeaderEpoch = c.epoch
			code(t, fmt.Sprintf("OffsetForLeaderEpoch v%d at epoch %d of %d", version, c.epoch, now), l.Ask(req).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0].ErrorCode, c.want)
		}
	}
	for _, c := range []struct {
		fetched   int32
		offset    int64
		want      kafka.Error
		diverging int64 // end offset, -1 for none
	}{{now, 2, kafka.None, -1}, {now + 1, 2, kafka.OffsetOutOfRange, -1}, {-1, 2, kafka.None, -1}, {now - 1, 2, kafka.None, 0}} {
		req := raw.Fetch(12, raw.FetchRow{Topic: "t", Offset: c.offset})
		req.Topics[0].Partitions[0].LastFetchedEpoch = c.fetched
		p := l.Ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if kafka.Error(p.ErrorCode) != c.want || p.DivergingEpoch.EndOffset != c.diverging {
			t.Errorf("fetched at epoch %d: %v, diverges at %d; want %v, %d", c.fetched, kafka.Error(p.ErrorCode), p.DivergingEpoch.EndOffset, c.want, c.diverging)
		}
	}
}

// Three epochs are made by crashes, and the end of each is told as the start of the next.
func TestRule77EndsOfLeaderEpochs(t *testing.T) {
	dir := t.TempDir()
	type span struct {
		epoch int32
		start int64
	}
	var spans []span
	var l *link
	for round := range 3 {
		b := brokertest.Start(t, brokertest.Dir(dir))
		l = connect(t, b.Addr())
		if round == 0 {
			l.Create("t", 1)
		}
		spans = append(spans, span{l.row(12, "t").Partitions[0].LeaderEpoch, l.end("t")})
		for range 5 {
			l.produce(9, "t", raw.Values("a", "b"))
		}
		if round < 2 {
			dir = crashed(t, dir)
		}
	}
	last := spans[len(spans)-1].epoch
	if last <= spans[0].epoch {
		t.Fatalf("epochs %v do not rise", spans)
	}
	for version := int16(2); version <= 4; version++ {
		for asked := int32(-1); asked <= last+2; asked++ {
			want := span{-1, -1}
			for i, s := range spans {
				if asked < s.epoch || asked > last {
					continue
				}
				want = span{s.epoch, 30}
				if i+1 < len(spans) {
					want.start = spans[i+1].start
				}
			}
			req := raw.EpochEnds(version, "t", 0)
			req.Topics[0].Partitions[0].LeaderEpoch = asked
			p := l.Ask(req).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
			if got := (span{p.LeaderEpoch, p.EndOffset}); p.ErrorCode != 0 || got != want {
				t.Errorf("v%d: epoch %d ends %+v (%v), want %+v; epochs start %v", version, asked, got, kafka.Error(p.ErrorCode), want, spans)
			}
		}
	}
}

// Consumers ask with replica ids -1 and -2.
func TestRule78WhoAsksForEpochs(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	l.Create("t", 1)
	l.produce(9, "t", raw.Values("a", "b"))
	for version := int16(2); version <= 4; version++ {
		for _, replica := range []int32{-1, -2} {
			req := raw.EpochEnds(version, "t", 0)
			req.ReplicaID = replica
			if p := l.Ask(req).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.LeaderEpoch != 0 || p.EndOffset != 2 {
				t.Errorf("v%d, replica %d: %+v", version, replica, p)
			}
		}
	}
}

// at of a time: the first record not older, inside batches too.
func TestRule79OffsetsByTime(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	for _, codec := range []compress.Codec{compress.None, compress.Gzip, compress.Snappy, compress.LZ4, compress.Zstd} {
		name := codec.String()
		l.Create(name, 1, "retention.ms", "-1")
		l.produce(9, name, raw.Batch(codec, raw.LongAgoMs+2, raw.LongAgoMs+4))
		l.produce(9, name, raw.Batch(codec, raw.LongAgoMs+6, raw.LongAgoMs+8))
		for version := int16(1); version <= 11; version++ {
			for i, want := range []int64{0, 1, 1, 2, 2, 3, 3, -1} { // asked for 2 to 9
				p := l.Ask(raw.ListOffsets(version, raw.ListRow{Topic: name, Timestamp: raw.LongAgoMs + 2 + int64(i)})).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
				wantMs := int64(-1)
				if want >= 0 {
					wantMs = raw.LongAgoMs + 2 + want*2
				}
				if p.ErrorCode != 0 || p.Offset != want || p.Timestamp != wantMs {
					t.Errorf("%s, v%d: +%d ms: offset %d at %d, want %d at %d", name, version, 2+i, p.Offset, p.Timestamp, want, wantMs)
				}
			}
		}
	}
}

func TestRule80SpecialOffsets(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	l.Create("t", 1, "retention.ms", "-1")
	l.produce(9, "t", raw.Batch(compress.Gzip, raw.LongAgoMs+5, raw.LongAgoMs+9, raw.LongAgoMs+7))
	ask := func(version int16, special int64) string {
		p := l.Ask(raw.ListOffsets(version, raw.ListRow{Topic: "t", Timestamp: special})).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
		if p.ErrorCode != 0 {
			return kafka.Error(p.ErrorCode).Name()
		}
		if p.Timestamp > 0 {
			p.Timestamp -= raw.LongAgoMs
		}
		return fmt.Sprint(p.Offset, " at ", p.Timestamp)
	}
	unknown := kafka.UnsupportedVersion.Name()
	from := func(first, version int16, answer string) string {
		if version < first {
			return unknown
		}
		return answer
	}
	for version := int16(1); version <= 11; version++ {
		for special, want := range map[int64]string{
			-1: "3 at -1", -2: "0 at -1", -3: from(7, version, "1 at 9"), -4: from(8, version, "0 at -1"), -5: from(9, version, "-1 at -1"),
			-6: from(11, version, "-1 at -1"), -7: unknown, -100: unknown,
		} {
			if got := ask(version, special); got != want {
				t.Errorf("v%d, %d: %s, want %s", version, special, got, want)
			}
		}
	}
	if p := l.Ask(raw.DeleteRecords(2, "t", 0, -1)).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.LowWatermark != 3 {
		t.Fatalf("delete everything: %+v", p)
	}
	for version := int16(1); version <= 11; version++ {
		if first, last := ask(version, -2), ask(version, -1); first != "3 at -1" || first != last {
			t.Errorf("v%d: emptied: from %s to %s, want 3 to 3", version, first, last)
		}
	}
}

// What is said of a topic's records does not depend on how they are asked for: every version of Fetch reads the same.
func TestEveryFetchVersionReadsTheSameFromEveryOffset(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	id := l.Create("t", 1, "retention.ms", "-1")
	for i, codec := range []compress.Codec{compress.None, compress.Gzip, compress.Snappy, compress.LZ4, compress.Zstd} {
		l.produce(9, "t", raw.Batch(codec, slices.Repeat([]int64{raw.LongAgoMs}, i+1)...))
	}
	seen := map[int64][]byte{}
	for version := int16(4); version <= 18; version++ {
		for offset := range int64(15) {
			ask := raw.FetchRow{Topic: "t", Offset: offset}
			if version >= 13 {
				ask = raw.FetchRow{Topic: "", ID: id, Offset: offset}
			}
			got := l.Ask(raw.Fetch(version, ask)).(*kmsg.FetchResponse).Topics[0].Partitions[0]
			if want, known := seen[offset]; known && !bytes.Equal(got.RecordBatches, want) {
				t.Errorf("v%d from %d: %d bytes, want %d", version, offset, len(got.RecordBatches), len(want))
			}
			seen[offset] = got.RecordBatches
			first := whole(t, got.RecordBatches)[0]
			if int64(first.BaseOffset()) > offset || int64(first.NextOffset()) <= offset {
				t.Errorf("v%d from %d: the first batch is %d to %d", version, offset, first.BaseOffset(), first.LastOffset())
			}
		}
	}
	if n := len(slices.Collect(maps.Keys(seen))); n != 15 {
		t.Errorf("%d offsets were read", n)
	}
}
