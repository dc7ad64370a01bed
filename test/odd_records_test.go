package test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// oddRecord is a record that tries the format. A slice that is nil is null in Kafka's.
type oddRecord struct {
	what       string
	key, value []byte
	headers    []kgo.RecordHeader
}

// odd are the records that each client writes with each of its codecs, and reads.
func odd() []oddRecord {
	large := make([]byte, 999_000) // librdkafka takes a million bytes with all that is around them
	for i := range large {
		large[i] = 'a' + byte(i*i%65521%26)
	}
	return []oddRecord{
		{what: "null key", value: []byte("no key")},
		{what: "null value", key: []byte("tombstone")},
		{what: "both null"},
		{what: "empty", key: []byte{}, value: []byte{}},
		{what: "binary", key: []byte{0, 0xff, '\n'}, value: []byte{0xfe, 0, '\r', 0x80}},
		{what: "headers", key: []byte("k"), value: []byte("v"), headers: []kgo.RecordHeader{{Key: "one", Value: []byte("1")}, {Key: "two", Value: []byte("2")}}},
		{what: "empty header", key: []byte("k"), value: []byte("v"), headers: []kgo.RecordHeader{{Key: "empty", Value: []byte{}}}},
		{what: "header twice", key: []byte("k"), value: []byte("v"), headers: []kgo.RecordHeader{{Key: "twice", Value: []byte("1")}, {Key: "twice", Value: []byte("2")}}},
		{what: "null header", key: []byte("k"), value: []byte("v"), headers: []kgo.RecordHeader{{Key: "null", Value: nil}}},
		{what: "a megabyte", key: []byte("large"), value: large},
	}
}

// String is the line by which the client programs are told a record, and tell one.
func (r oddRecord) String() string {
	word := func(content []byte) string {
		if content == nil {
			return "-"
		}
		return ":" + base64.StdEncoding.EncodeToString(content)
	}
	words := []string{word(r.key), word(r.value)}
	for _, h := range r.headers {
		words = append(words, word([]byte(h.Key)), word(h.Value))
	}
	return strings.Join(words, " ")
}

// checkOdd has the client write the odd records with each codec, reads them, and has the client read those that another wrote,
// in a group that commits by itself: all with the settings that the library has by default.
func (l library) checkOdd(t *testing.T, broker string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atLast)
	defer cancel()
	adm := kadm.NewClient(crashClient(t, broker))
	written, given := fmt.Sprintf("written-%s-%d", l.name, os.Getpid()), fmt.Sprintf("given-%s-%d", l.name, os.Getpid())
	for _, topic := range []string{written, given} {
		if _, err := adm.CreateTopic(ctx, 1, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
	}
	records := slices.DeleteFunc(odd(), func(r oddRecord) bool { return slices.Contains(l.unable, r.what) })
	var file bytes.Buffer
	for _, r := range records {
		fmt.Fprintln(&file, r)
	}
	name := filepath.Join(t.TempDir(), "records")
	write(t, name, file.String())
	l.output(t, broker, "write", written, name, strings.Join(l.codecs, ","))
	reader := crashClient(t, broker, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{written: {0: kgo.NewOffset().AtStart()}}))
	for i, codec := range l.codecs {
		for _, want := range records {
			fetches := reader.PollRecords(ctx, 1)
			if err := fetches.Err(); err != nil {
				t.Fatalf("after %d of the records written with %s: %v", i*len(records), codec, err)
			}
			r := fetches.Records()[0]
			if got := (oddRecord{key: r.Key, value: r.Value, headers: r.Headers}).String(); got != want.String() {
				t.Errorf("%s, %s was written as\n%.300s, want\n%.300s", codec, want.what, got, want)
			}
			if got := r.Attrs.CompressionType(); int(got) != slices.Index(everyCodec, codec) && want.what == "a megabyte" { // small ones may stay as they are
				t.Errorf("%s, %s was written with codec %d", codec, want.what, got)
			}
		}
		writer := crashClient(t, broker, kgo.DefaultProduceTopic(given), kgo.ProducerBatchCompression(txnCodecs[slices.Index(everyCodec, codec)]))
		for _, r := range records {
			if err := writer.ProduceSync(ctx, &kgo.Record{Key: r.key, Value: r.value, Headers: r.headers}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	count := len(records) * len(l.codecs)
	told := strings.Split(strings.TrimSpace(l.output(t, broker, "read", given, given, fmt.Sprint(count))), "\n")
	if len(told) != count {
		t.Fatalf("read %d of the records that another wrote, want %d", len(told), count)
	}
	for i, line := range told {
		if want := records[i%len(records)]; line != want.String() {
			t.Errorf("%s, %s was read as\n%.300s, want\n%.300s", l.codecs[i/len(records)], want.what, line, want)
		}
	}
	committed := must(adm.FetchOffsets(ctx, given))(t)
	if at, ok := committed.Lookup(given, 0); !ok || at.At != int64(count) {
		t.Errorf("it has committed %d (%v), want %d", at.At, ok, count)
	}
}
