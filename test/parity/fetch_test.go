package parity

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

// fetch reads without a session and waits for nothing; from version 13 on it names topics by their ids. change may be nil.
func (c *conversation) fetch(name string, v int16, change func(w *world, req *kmsg.FetchRequest), rows ...raw.FetchRow) *step {
	return c.with(name, kmsg.Fetch, v, func(w *world) kmsg.Request {
		rows := slices.Clone(rows)
		for i := range rows {
			if v >= 13 {
				rows[i].ID, rows[i].Topic = w.id(rows[i].Topic), ""
			}
		}
		req := raw.Fetch(v, rows...)
		if change != nil {
			change(w, req)
		}
		return req
	})
}

// from is a row of a Fetch.
func from(topic string, partition int32, offset int64) raw.FetchRow {
	return raw.FetchRow{Topic: topic, Partition: partition, Offset: offset}
}

func (c *conversation) fetches() {
	for _, v := range raw.VersionsOf(kmsg.Fetch) {
		c.fetch("right", v, nil, from("r", 0, 0), from("r", 2, 1), from(raw.LongName, 0, 0))
		c.fetch("right and wrong", v, nil, from("r", 0, 1), from("r", 9, 0), from("nope", 0, 0), from("r", 1, 1000), from("r", 2, 0))
		c.fetch("a partition twice", v, nil, from("r", 0, 0), from("r", 0, 1))
		c.fetch("a topic twice", v, nil, from("r", 0, 0), from("compact", 0, 0), from("r", 2, 0))
		c.fetch("no topics", v, nil)
		c.fetch("committed", v, func(_ *world, r *kmsg.FetchRequest) { r.IsolationLevel = 1 }, from("r", 0, 0), from("nope", 0, 0))
		c.fetch("isolation level 7", v, func(_ *world, r *kmsg.FetchRequest) { r.IsolationLevel = 7 }, from("r", 0, 0))
		c.fetch("limits below 0", v, func(_ *world, r *kmsg.FetchRequest) {
			r.MaxBytes, r.MinBytes, r.MaxWaitMillis, r.Topics[0].Partitions[0].PartitionMaxBytes = -1, -1, -1, -1
		}, from("r", 0, 0))
		c.fetch("a rack", v, func(_ *world, r *kmsg.FetchRequest) { r.Rack = "rack" }, from("r", 0, 0))
		c.fetch("one partition", v, nil, from("plain", 0, 0))
		c.fetch("committed, from the middle of a batch", v, func(_ *world, r *kmsg.FetchRequest) { r.IsolationLevel = 1 }, from("plain", 0, 3))
		c.fetch("the end", v, nil, from("compacted", 0, 33))
		c.fetch("beyond the end", v, nil, from("plain", 1, 1000))
		c.fetch("negative offset", v, nil, from("plain", 1, -5))
		c.fetch("unknown topic", v, nil, from("nope", 0, 0))
		c.fetch("unknown partition", v, nil, from("plain", 9, 0))
		c.fetch("rule 71: limit of the partition", v, func(_ *world, r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].PartitionMaxBytes = 1 }, from("plain", 0, 0))
		c.fetch("rule 71: limit of the request", v, func(_ *world, r *kmsg.FetchRequest) { r.MaxBytes = 1 }, from("plain", 0, 0))
		c.fetch("rule 71: limit of the request, two partitions", v, func(_ *world, r *kmsg.FetchRequest) { r.MaxBytes = 1 }, from("plain", 0, 0), from("plain", 1, 0))
		c.fetch("rule 76: newer leader epoch", v, func(_ *world, r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].CurrentLeaderEpoch = 5 }, from("plain", 0, 0))
		c.fetch("rule 76: newer fetched epoch", v, func(_ *world, r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].LastFetchedEpoch = 5 }, from("plain", 0, 1))
		c.fetch("rule 76: the fetched epoch", v, func(_ *world, r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].LastFetchedEpoch = 0 }, from("plain", 0, 1))
		c.fetch("rule 76: the fetched epoch, beyond the end", v, func(_ *world, r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].LastFetchedEpoch = 0 }, from("plain", 0, 1000))
		c.fetch("rule 76: the fetched epoch, beyond the end, committed", v, func(_ *world, r *kmsg.FetchRequest) {
			r.IsolationLevel, r.Topics[0].Partitions[0].LastFetchedEpoch = 1, 0
		}, from("plain", 0, 1000))
		c.fetch("stored at the append time", v, nil, from("appended", 0, 0))
		c.fetch("packed", v, nil, from("plain", 1, 0))
	}
}

// sessions sends session fields that name none, in all the ways there are, and takes a session through its life.
func (c *conversation) sessions() {
	for v := int16(7); v <= 18; v++ {
		for _, s := range []struct{ id, epoch int32 }{{0, -1}, {0, 0}, {0, 1}, {12345, 1}, {12345, 0}, {12345, -1}, {0, -2}} {
			c.fetch(fmt.Sprintf("rule 74: session %d, epoch %d", s.id, s.epoch), v, func(_ *world, r *kmsg.FetchRequest) {
				r.SessionID, r.SessionEpoch = s.id, s.epoch
			}, from("sessions", 0, 0))
		}
		in := func(epoch int32) func(w *world, r *kmsg.FetchRequest) {
			return func(w *world, r *kmsg.FetchRequest) { r.SessionID, r.SessionEpoch = w.session, epoch }
		}
		c.fetch("a session: opened", v, func(_ *world, r *kmsg.FetchRequest) { r.SessionEpoch = 0 }, from("sessions", 0, 0), from("sessions", 1, 0), from("nope", 0, 0))
		c.fetch("a session: nothing new", v, in(1))
		c.produce("into a session", 9, -1, to("sessions", 0, raw.Values("new")))
		c.fetch("a session: something new", v, in(2))
		c.fetch("a session: another offset", v, in(3), from("sessions", 1, 50))
		c.fetch("a session: the error again", v, in(4))
		c.fetch("a session: an epoch left out", v, in(6))
		c.fetch("a session: an epoch again", v, in(4))
		c.fetch("a session: one more partition", v, in(5), from("plain", 0, 0))
		c.fetch("a session: forgotten", v, func(w *world, r *kmsg.FetchRequest) {
			in(6)(w, r)
			forgotten := kmsg.NewFetchRequestForgottenTopic()
			forgotten.Topic, forgotten.Partitions = "sessions", []int32{1, 7}
			if v >= 13 {
				forgotten.Topic, forgotten.TopicID = "", w.id("sessions")
			}
			r.ForgottenTopics = append(r.ForgottenTopics, forgotten)
		})
		c.fetch("a session: what is left", v, in(7), from("plain", 0, 0))
		c.with("a session: names for ids and ids for names", kmsg.Fetch, 25-v, func(w *world) kmsg.Request {
			req := raw.Fetch(25 - v)
			in(8)(w, req)
			return req
		})
		c.fetch("a session: closed", v, in(-1))
		c.fetch("a session: after its end", v, in(8))
	}
}
