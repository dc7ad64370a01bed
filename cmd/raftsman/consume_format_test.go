package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var formatted = &kgo.Record{
	Topic: "orders", Partition: 2, Offset: 4711, LeaderEpoch: 5, Timestamp: time.UnixMilli(1767366245123), Key: []byte("k"), Value: []byte("v\x1b\n"),
	Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte("\xff")}},
}

func TestFormatStrings(t *testing.T) {
	for format, want := range map[string]string{
		`%v\n`:             "v\x1b\n\n",
		`%t/%p@%o %e`:      "orders/2@4711 5",
		`%T %m`:            "2026-01-02T15:04:05.123Z 1767366245123",
		`%k=%s (%K, %V)`:   "k=v\x1b\n (1, 3)",
		`%h`:               "a=1,b=\xff",
		`100%%\t\x41\0\\|`: "100%\tA\x00\\|",
		``:                 "",
	} {
		write, err := compileFormat(format, false)
		if err != nil {
			t.Errorf("format %q: %v", format, err)
			continue
		}
		if got := string(write(nil, formatted)); got != want {
			t.Errorf("format %q gave %q, want %q", format, got, want)
		}
	}
	for _, format := range []string{"%q", "%", `\q`, `\`, `\x1`, `\xzz`} {
		if _, err := compileFormat(format, false); err == nil {
			t.Errorf("format %q was taken", format)
		}
	}
}

func TestTerminalIsProtectedFromValues(t *testing.T) {
	write, err := compileFormat(`%v %h`, true)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(write(nil, formatted)), "v\\x1b\n a=1,b=\\xff"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNullHasLengthMinusOne(t *testing.T) {
	write, err := compileFormat(`%K %V`, false)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(write(nil, &kgo.Record{Value: []byte{}})), "-1 0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestJSONLinesReadBackAsTheSameRecord(t *testing.T) {
	for _, r := range []*kgo.Record{
		formatted,
		{Key: nil, Value: nil, Timestamp: time.UnixMilli(1)},
		{Key: []byte{}, Value: []byte{}, Timestamp: time.UnixMilli(1)},
		{Key: []byte{0xff, 0}, Value: []byte("<&>\u2028"), Timestamp: time.UnixMilli(1), Headers: []kgo.RecordHeader{{Key: "null"}}},
	} {
		line := writeJSONLine(nil, r)
		if strings.Count(string(line), "\n") != 1 || !json.Valid(line) {
			t.Errorf("%q is not one line of JSON", line)
		}
		source := &recordSource{o: produceOptions{json: true}}
		got, err := source.record(line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if !reflect.DeepEqual(got.Key, r.Key) || !reflect.DeepEqual(got.Value, r.Value) || !got.Timestamp.Equal(r.Timestamp) || !reflect.DeepEqual(got.Headers, r.Headers) {
			t.Errorf("%s read back as %+v, want %+v", line, got, r)
		}
	}
}
