package main

import (
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/raftsman/raftsman/internal/commitlog/dump"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// decodedRecord is a record of one of the brokers' own logs, by Kafka's names. A nil Value with a Key deletes.
type decodedRecord struct {
	Name  string           `json:"name,omitempty"`
	Key   sysrecord.Record `json:"key,omitempty"`
	Value sysrecord.Record `json:"value,omitempty"`
	Error string           `json:"error,omitempty"`
}

// String is the record as one line, or nothing for one that is not decoded (control records).
func (d decodedRecord) String() string {
	switch {
	case d.Error != "":
		return "not decoded: " + d.Error
	case d.Name == "":
		return ""
	case d.Key == nil:
		return d.Name + " " + asJSON(d.Value)
	case d.Value == nil:
		return d.Name + " " + asJSON(d.Key) + " deleted"
	}
	return d.Name + " " + asJSON(d.Key) + " " + asJSON(d.Value)
}

func asJSON(v sysrecord.Record) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// recordDecoder decodes the records of one kind of log; nil leaves them as they are.
type recordDecoder func(key, value []byte) decodedRecord

// decoderFor tells by its folder what a file's records are.
func decoderFor(name string) recordDecoder {
	folder := filepath.Base(filepath.Dir(absolute(name)))
	switch {
	case strings.HasPrefix(folder, "__cluster_metadata-"):
		return decodeMetadata
	case strings.HasPrefix(folder, "__consumer_offsets-"):
		return coordinatorDecoder(sysrecord.NewGroupKey, sysrecord.NewGroupValue)
	case strings.HasPrefix(folder, "__transaction_state-"):
		return coordinatorDecoder(sysrecord.NewTransactionKey, sysrecord.NewTransactionValue)
	case strings.HasPrefix(folder, "__share_group_state-"):
		return coordinatorDecoder(sysrecord.NewShareKey, sysrecord.NewShareValue)
	}
	return nil
}

// absolute makes a relative name one with its folder; without a working directory it stays as it is.
func absolute(name string) string {
	if path, err := filepath.Abs(name); err == nil {
		return path
	}
	return name
}

// all decodes the records of a batch.
func (d recordDecoder) all(b dump.Batch) []decodedRecord {
	if d == nil || len(b.Records) == 0 || b.Control {
		return nil
	}
	decoded := make([]decodedRecord, 0, len(b.Records))
	for _, r := range b.Records {
		decoded = append(decoded, d(r.Key, r.Value))
	}
	return decoded
}

func decodeMetadata(_, value []byte) decodedRecord {
	frame, err := sysrecord.ParseFrame(value)
	if err != nil {
		return decodedRecord{Error: err.Error()}
	}
	record, err := frame.Record()
	switch {
	case err != nil:
		return decodedRecord{Error: err.Error()}
	case record == nil:
		return decodedRecord{Error: "a newer version wrote it"}
	}
	return decodedRecord{Name: record.RecordName(), Value: record}
}

// coordinatorDecoder decodes the records of a coordinator's log: the key's number says what they are.
func coordinatorDecoder(newKey, newValue func(int16) sysrecord.Record) recordDecoder {
	return func(key, value []byte) decodedRecord {
		k, err := sysrecord.ReadKey(key, newKey)
		if err != nil {
			return decodedRecord{Error: err.Error()}
		}
		d := decodedRecord{Name: strings.TrimSuffix(k.RecordName(), "Key"), Key: k}
		if value == nil {
			return d
		}
		v := newValue(k.RecordKey())
		if v == nil {
			return decodedRecord{Error: k.RecordName() + " has no value that is known"}
		}
		if err := sysrecord.ReadValue(value, v); err != nil {
			return decodedRecord{Error: err.Error()}
		}
		d.Value = v
		return d
	}
}
