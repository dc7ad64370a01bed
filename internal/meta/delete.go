package meta

import (
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// What a client is told of a topic that is not there.
const (
	noSuchTopic   = "This server does not host this topic-partition."
	noSuchTopicID = "This server does not host this topic ID."
)

// DecideDeleteTopics judges each name and id by itself; a repeated one is refused once and deletes nothing.
func DecideDeleteTopics(im *Image, cmd DeleteTopics) ([]Entry, []DeleteResult) {
	var results []DeleteResult
	var entries []Entry
	remove := func(t *Topic, result DeleteResult) {
		if result.Err = cmd.Charge.ask(len(t.Partitions)); result.Err == nil {
			entries = append(entries, Entry{Record: &sysrecord.RemoveTopicRecord{TopicID: t.ID}})
		}
		results = append(results, result)
	}
	ids, names := counts(cmd.IDs), counts(cmd.Names)
	for _, name := range cmd.Names {
		t, exists := im.Topic(name)
		switch {
		case names[name] == 0: // a repetition that was answered
		case names[name] > 1:
			results = append(results, DeleteResult{Name: name, Err: kafka.Refuse(kafka.InvalidRequest, "the topic is named more than once")})
		case !exists:
			results = append(results, DeleteResult{Name: name, Err: kafka.Refuse(kafka.UnknownTopicOrPartition, noSuchTopic)})
		case ids[t.ID] > 0:
			err := kafka.Refuse(kafka.InvalidRequest, "the topic is named and its id is given too")
			results = append(results, DeleteResult{Name: name, ID: t.ID, Err: err})
			ids[t.ID] = 0
		default:
			remove(t, DeleteResult{Name: name, ID: t.ID})
		}
		names[name] = 0
	}
	for _, id := range cmd.IDs {
		t, exists := im.TopicByID(id)
		switch {
		case ids[id] == 0:
		case id.IsZero():
			results = append(results, DeleteResult{ByID: true, Err: kafka.Refuse(kafka.InvalidRequest, "neither a name nor an id was given")})
		case ids[id] > 1:
			results = append(results, DeleteResult{ID: id, ByID: true, Err: kafka.Refuse(kafka.InvalidRequest, "the topic id is given more than once")})
		case !exists:
			results = append(results, DeleteResult{ID: id, ByID: true, Err: kafka.Refuse(kafka.UnknownTopicId, noSuchTopicID)})
		default:
			remove(t, DeleteResult{Name: t.Name, ID: id, ByID: true})
		}
		ids[id] = 0
	}
	return entries, results
}

func counts[T comparable](items []T) map[T]int {
	n := map[T]int{}
	for _, item := range items {
		n[item]++
	}
	return n
}
