package main

import (
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// jsonRecord is a record as `consume -o json` prints it and `produce --json` reads it, one a line. Bytes that are not UTF-8
// stand under the name with Base64; a null key or value is null, and has neither.
type jsonRecord struct {
	Topic       string       `json:"topic,omitempty"`
	Partition   int32        `json:"partition"`
	Offset      int64        `json:"offset"`
	TimestampMs int64        `json:"timestampMs"`
	Timestamp   string       `json:"timestamp,omitempty"`
	Key         *string      `json:"key"`
	KeyBase64   []byte       `json:"keyBase64,omitempty"`
	Value       *string      `json:"value"`
	ValueBase64 []byte       `json:"valueBase64,omitempty"`
	Headers     []jsonHeader `json:"headers,omitempty"`
}

type jsonHeader struct {
	Key         string  `json:"key"`
	Value       *string `json:"value"`
	ValueBase64 []byte  `json:"valueBase64,omitempty"`
}

func newJSONRecord(r *kgo.Record) jsonRecord {
	j := jsonRecord{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, TimestampMs: r.Timestamp.UnixMilli(), Timestamp: formatTime(r.Timestamp)}
	j.Key, j.KeyBase64 = textOrBytes(r.Key)
	j.Value, j.ValueBase64 = textOrBytes(r.Value)
	for _, h := range r.Headers {
		value, base64 := textOrBytes(h.Value)
		j.Headers = append(j.Headers, jsonHeader{Key: h.Key, Value: value, ValueBase64: base64})
	}
	return j
}

func (j *jsonRecord) key() []byte   { return bytesOf(j.Key, j.KeyBase64) }
func (j *jsonRecord) value() []byte { return bytesOf(j.Value, j.ValueBase64) }
func (h *jsonHeader) value() []byte { return bytesOf(h.Value, h.ValueBase64) }

func textOrBytes(b []byte) (*string, []byte) {
	if b == nil {
		return nil, nil
	}
	if !utf8.Valid(b) {
		return nil, b
	}
	text := string(b)
	return &text, nil
}

func bytesOf(text *string, b []byte) []byte {
	if text != nil {
		return []byte(*text)
	}
	return b
}

// formatTime writes a record's time: UTC, milliseconds, of one length.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
