package parity

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/record/compress"
)

// produce sends records; version 13 names topics by their ids.
func (c *conversation) produce(name string, v, acks int16, rows ...raw.ProduceRow) *step {
	return c.with(name, kmsg.Produce, v, func(w *world) kmsg.Request {
		rows := slices.Clone(rows)
		for i := range rows {
			if v >= 13 && rows[i].ID == [16]byte{} {
				rows[i].ID, rows[i].Topic = w.id(rows[i].Topic), ""
			}
		}
		return raw.Produce(v, acks, rows...)
	})
}

// to is a row of a Produce.
func to(topic string, partition int32, records []byte) raw.ProduceRow {
	return raw.ProduceRow{Topic: topic, Partition: partition, Records: records}
}

// futureMs is a time that no broker takes.
const futureMs int64 = 4_000_000_000_000

func (c *conversation) produces() {
	good, three := raw.Batch(compress.None, raw.LongAgoMs, raw.LongAgoMs+1), raw.Batch(compress.None, raw.LongAgoMs, raw.LongAgoMs+1, raw.LongAgoMs+2)
	torn := raw.Values("a")
	torn = torn[:len(torn)-1]
	keyless := record.Builder{}
	keyless.Add([]byte("k"), nil, nil, raw.LongAgoMs)
	keyless.Add(nil, []byte("v"), nil, raw.LongAgoMs)
	noKey := keyless.Build()
	for _, v := range raw.VersionsOf(kmsg.Produce) {
		c.produce("right", v, -1, to("r", 0, raw.Values("a", "b")), to("r", 2, raw.Values("c")), to(raw.LongName, 0, raw.Values("d")))
		c.produce("right and wrong", v, 1, to("r", 0, raw.Values("a")), to("r", 9, raw.Values("b")), to("r", -1, raw.Values("b")), to("nope", 0, raw.Values("c")),
			to("r", 1, torn), to("r", 2, raw.Values("e")))
		c.produce("a partition twice", v, -1, to("twice", 1, raw.Values("x")), to("twice", 1, raw.Values("y")))
		c.produce("a topic twice", v, -1, to("r", 1, raw.Values("x")), to("compact", 0, raw.Values("x")), to("r", 2, raw.Values("y")))
		c.produce("no records", v, -1, to("r", 0, []byte{}), to("r", 1, raw.Values("z"))) // null leaves Kafka without an answer
		c.produce("no topics", v, -1)
		for _, bits := range []int16{0, 0x10} {
			b := record.Builder{Producer: &record.Producer{ID: 7000, Epoch: 0}, Transactional: bits != 0}
			b.Add([]byte("k"), []byte("v"), nil, raw.LongAgoMs)
			batch := b.Build()
			c.with(fmt.Sprintf("a transactional id, attributes %#x", bits), kmsg.Produce, v, func(w *world) kmsg.Request {
				rows := []raw.ProduceRow{to("twice", 0, batch), to("nope", 0, raw.Values("x"))}
				if v >= 13 {
					rows = []raw.ProduceRow{{ID: w.id("twice"), Records: batch}, {ID: raw.StrangeID, Records: raw.Values("x")}}
				}
				req := raw.Produce(v, -1, rows...)
				req.TransactionID = new("tx")
				return req
			})
		}
		c.produce("two batches", v, 1, to("r", 0, append(raw.Values("a"), raw.Values("b")...)))
		c.produce("no key in a compacted topic", v, 1, to("compact", 0, noKey))
		c.produce("zstd", v, 1, to("r", 1, raw.Batch(compress.Zstd, raw.LongAgoMs)))
		c.produce("to one partition", v, -1, to("plain", 0, good))
		c.produce("unknown topic", v, 1, to("nope", 0, good))
		c.produce("unknown partition", v, 1, to("plain", 9, good))
		c.produce("negative partition", v, 1, to("plain", -1, good))
		c.produce("keys in a compacted topic", v, 1, to("compacted", 0, three))
		c.produce("time in the future", v, 1, to("plain", 0, raw.Batch(compress.None, raw.LongAgoMs, futureMs)))
		c.produce("rule 44: append time", v, -1, to("appended", 0, good))
		c.produce("rule 38: too large", v, 1, to("small", 0, raw.Batch(compress.None, slices.Repeat([]int64{raw.LongAgoMs}, 40)...)))
		for _, acks := range []int16{2, -2} {
			c.produce(fmt.Sprintf("rule 48: acks=%d", acks), v, acks, to("plain", 0, raw.Batch(compress.None, raw.LongAgoMs)))
			c.produce(fmt.Sprintf("rule 48: acks=%d, unknown topic", acks), v, acks, to("nope", 0, raw.Batch(compress.None, raw.LongAgoMs)))
		}
	}
	for _, codec := range []compress.Codec{compress.Gzip, compress.Snappy, compress.LZ4, compress.Zstd} {
		for _, v := range raw.VersionsOf(kmsg.Produce) {
			c.produce("codec "+codec.String(), v, 1, to("plain", 1, raw.Batch(codec, raw.LongAgoMs)))
		}
	}
	c.produce("stored in another codec", 9, 1, to("repacked", 0, raw.Batch(compress.None, raw.LongAgoMs, raw.LongAgoMs)))
	c.produce("stored in another codec", 9, 1, to("repacked", 0, raw.Batch(compress.LZ4, raw.LongAgoMs, raw.LongAgoMs)))
	c.produce("an id that is no topic's", 13, 1, raw.ProduceRow{ID: raw.StrangeID, Records: good})
	c.with("the id of none", kmsg.Produce, 13, func(*world) kmsg.Request { return raw.Produce(13, 1, raw.ProduceRow{Records: good}) })
	large := record.Builder{}
	large.Add([]byte("k"), []byte(strings.Repeat("x", 1_500_000)), nil, raw.LongAgoMs)
	c.produce("rule 39: larger than a segment", 9, 1, to("segmented", 0, large.Build()))
}

// forgeries are batches with one field that is wrong.
func (c *conversation) forgeries() {
	flipped := raw.Batch(compress.None, raw.LongAgoMs)
	flipped[len(flipped)-1] ^= 1
	for _, f := range []struct {
		name    string
		records []byte
	}{
		{"rule 41: a flipped byte", flipped},
		{"rule 41: the leader epoch", raw.Forged(raw.Put(12, int32(77)))},
		{"rule 42: two batches", append(raw.Values("a"), raw.Values("a")...)},
		{"rule 42: count", raw.Forged(raw.Put(57, int32(2)))},
		{"rule 42: last offset delta", raw.Forged(raw.Put(23, int32(5)))},
		{"rule 42: control batch", raw.Forged(raw.Put(21, int16(0x20)))},
		{"rule 42: transactional", raw.Forged(raw.Put(21, int16(0x10)))},
		{"rule 42: transactional control", raw.Forged(raw.Put(21, int16(0x30)))},
		{"rule 42: base offset", raw.Forged(raw.Put(0, int64(5)))},
		{"rule 42: magic 1", raw.Forged(func(b []byte) { b[16] = 1 })},
		{"rule 42: magic 3", raw.Forged(func(b []byte) { b[16] = 3 })},
		{"rule 42: append time from a client", raw.Forged(raw.Put(21, int16(0x08)))},
		{"rule 42: unknown codec", raw.Forged(raw.Put(21, int16(0x05)))},
		{"rule 43: length -1", raw.Forged(raw.Put(8, int32(-1)))},
		{"rule 43: length too small", raw.Forged(raw.Put(8, int32(10)))},
		{"rule 43: length beyond the bytes", raw.Forged(raw.Put(8, int32(10_000)))},
		{"rule 43: torn", raw.Batch(compress.None, raw.LongAgoMs)[:70]},
		{"rule 43: no bytes", []byte{}},
		{"rule 52: negative sequence", raw.Sequenced(50, 0, -5, 1)},
		{"producer id without an epoch", raw.Forged(raw.Put(43, int64(50)))},
	} {
		for _, v := range []int16{3, 9, 13} {
			c.produce(f.name, v, 1, to("forged", 0, f.records))
		}
	}
	c.fetch("what is left of forgeries", 12, nil, from("forged", 0, 0))
}

// sequences sends what idempotent producers do right and wrong, from a producer id that the broker gave away and from others.
func (c *conversation) sequences() {
	c.add("for sequences", raw.At(4, kmsg.NewPtrInitProducerIDRequest()))
	for _, s := range []struct {
		name  string
		epoch kafka.ProducerEpoch
		base  kafka.Sequence
		n     int
	}{
		{"rule 49: batch 1", 0, 0, 2},
		{"rule 49: batch 2", 0, 2, 2},
		{"rule 49: batch 3", 0, 4, 2},
		{"rule 49: batch 4", 0, 6, 2},
		{"rule 49: batch 5", 0, 8, 2},
		{"rule 49: batch 1 again", 0, 0, 2},
		{"rule 49: batch 5 again", 0, 8, 2},
		{"rule 49: a part of batch 2", 0, 2, 1},
		{"rule 49: batches 2 and 3 in one", 0, 2, 4},
		{"rule 49: batch 6", 0, 10, 2},
		{"rule 49: batch 1, out of the window", 0, 0, 2},
		{"rule 50: a gap", 0, 13, 1},
		{"rule 53: a new epoch from 7", 1, 7, 1},
		{"rule 53: a new epoch from 0", 1, 0, 1},
		{"rule 53: the old epoch", 0, 12, 1},
		{"rule 53: the new epoch goes on", 1, 1, 1},
		{"rule 53: an epoch skipped", 5, 0, 1},
	} {
		c.produce(s.name, 9, -1, to("sequences", 0, raw.Sequenced(51, s.epoch, s.base, s.n)))
		c.with(s.name+", an id given away", kmsg.Produce, 12, func(w *world) kmsg.Request {
			id := kafka.ProducerID(w.producer[len(w.producer)-1])
			return raw.Produce(12, -1, to("sequences", 1, raw.Sequenced(id, s.epoch, s.base, s.n)))
		})
	}
	c.produce("an unknown producer from 5", 9, -1, to("sequences", 0, raw.Sequenced(52, 3, 5, 1)))
	c.produce("rule 51: up to the wrap", 9, -1, to("sequences", 0, raw.Sequenced(53, 0, 2147483640, 20)))
	c.produce("rule 51: beyond the wrap", 9, -1, to("sequences", 0, raw.Sequenced(53, 0, 12, 1)))
	for _, partition := range []int32{0, 1} {
		c.add(fmt.Sprint("rule 68: producers of partition ", partition), describeProducers("sequences", partition))
	}
	c.add("rule 68: producers of an unknown topic", describeProducers("nope", 0))
	c.add("rule 68: producers of an unknown partition", describeProducers("r", 7))
}
