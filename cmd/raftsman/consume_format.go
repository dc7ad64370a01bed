package main

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// formatHelp says what a format string may hold.
const formatHelp = `Format: %t topic, %p partition, %o offset, %k key, %v value, %h headers, %T time, %m time in milliseconds,
%e leader epoch, %K bytes of the key, %V bytes of the value (-1: null), %% a percent sign; \n \t \r \0 \\ \xHH bytes.`

// recordWriter appends one record to a buffer, ready to print.
type recordWriter func(dst []byte, r *kgo.Record) []byte

// compileFormat reads a format string. For a terminal, bytes that would move its cursor or change its state are escaped;
// elsewhere keys and values are written as they are.
func compileFormat(format string, forTerminal bool) (recordWriter, error) {
	data := func(dst, value []byte) []byte { return append(dst, value...) }
	if forTerminal {
		data = func(dst, value []byte) []byte { return append(dst, printableLines(string(value))...) }
	}
	var steps []recordWriter
	literal := []byte{}
	flush := func() {
		if len(literal) > 0 {
			text := bytes.Clone(literal)
			steps = append(steps, func(dst []byte, _ *kgo.Record) []byte { return append(dst, text...) })
			literal = literal[:0]
		}
	}
	for i := 0; i < len(format); i++ {
		switch c := format[i]; c {
		case '\\':
			b, used, err := escapeSequence(format[i:])
			if err != nil {
				return nil, err
			}
			literal = append(literal, b)
			i += used - 1
		case '%':
			i++
			if i == len(format) {
				return nil, usagef("the format %q ends in the middle of a field: %%%% is a percent sign", format)
			}
			if format[i] == '%' {
				literal = append(literal, '%')
				continue
			}
			step := field(format[i], data)
			if step == nil {
				return nil, usagef("the format %q has %%%c, which is no field: `raftsman consume --help` lists them", format, format[i])
			}
			flush()
			steps = append(steps, step)
		default:
			literal = append(literal, c)
		}
	}
	flush()
	return func(dst []byte, r *kgo.Record) []byte {
		for _, step := range steps {
			dst = step(dst, r)
		}
		return dst
	}, nil
}

func field(letter byte, data func(dst, value []byte) []byte) recordWriter {
	switch letter {
	case 't':
		return func(dst []byte, r *kgo.Record) []byte { return append(dst, r.Topic...) }
	case 'p':
		return func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, int64(r.Partition), 10) }
	case 'o':
		return func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, r.Offset, 10) }
	case 'e':
		return func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, int64(r.LeaderEpoch), 10) }
	case 'k':
		return func(dst []byte, r *kgo.Record) []byte { return data(dst, r.Key) }
	case 'v', 's':
		return func(dst []byte, r *kgo.Record) []byte { return data(dst, r.Value) }
	case 'K':
		return func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, length(r.Key), 10) }
	case 'V', 'S':
		return func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, length(r.Value), 10) }
	case 'm':
		return func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, r.Timestamp.UnixMilli(), 10) }
	case 'T':
		return func(dst []byte, r *kgo.Record) []byte { return append(dst, formatTime(r.Timestamp)...) }
	case 'h':
		return func(dst []byte, r *kgo.Record) []byte {
			for i, h := range r.Headers {
				if i > 0 {
					dst = append(dst, ',')
				}
				dst = append(data(dst, []byte(h.Key)), '=')
				dst = data(dst, h.Value)
			}
			return dst
		}
	}
	return nil
}

func length(b []byte) int64 {
	if b == nil {
		return -1
	}
	return int64(len(b))
}

// escapeSequence reads the backslash sequence that text begins with.
func escapeSequence(text string) (b byte, used int, err error) {
	if len(text) > 1 {
		if i := strings.IndexByte(`ntr0\`, text[1]); i >= 0 {
			return "\n\t\r\x00\\"[i], 2, nil
		}
		if text[1] == 'x' && len(text) >= 4 {
			if n, err := strconv.ParseUint(text[2:4], 16, 8); err == nil {
				return byte(n), 4, nil
			}
		}
	}
	return 0, 0, usagef(`the format has %q, which is no escape: there are \n \t \r \0 \\ and \xHH`, shorten(text, 4))
}

// writeJSONLine is the recordWriter of -o json.
func writeJSONLine(dst []byte, r *kgo.Record) []byte {
	b := bytes.NewBuffer(dst)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(newJSONRecord(r)); err != nil {
		panic(err) // strings, numbers and bytes always encode
	}
	return b.Bytes()
}
