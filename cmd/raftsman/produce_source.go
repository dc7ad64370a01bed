package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// recordSource yields the records of one command, from arguments or from lines.
type recordSource struct {
	o       produceOptions
	headers []kgo.RecordHeader
	name    string // of the input, for messages
	typed   bool   // a person types the lines
	line    int
	lines   <-chan inputLine
	input   io.Closer
	quit    chan struct{}
}

type inputLine struct {
	text []byte
	err  error
}

// lineAhead is how many lines are read ahead of the client.
const lineAhead = 256

func (a *app) openRecords(o produceOptions) (*recordSource, error) {
	s := &recordSource{o: o, name: "standard input", quit: make(chan struct{})}
	pairs, err := parseHeaders(o.headers)
	if err != nil {
		return nil, err
	}
	s.headers = pairs
	lines := make(chan inputLine, lineAhead)
	s.lines = lines
	if len(o.values) > 0 {
		s.name, s.input = "the arguments", io.NopCloser(nil)
		go s.pump(lines, valuesReader(o.values))
		return s, nil
	}
	if o.file != "" && o.file != "-" {
		s.name = o.file
	}
	input, err := a.openInput(o.file)
	if err != nil {
		return nil, err
	}
	s.input = input
	s.typed = a.tty.in && s.name == "standard input"
	read := lineReader(input, int(o.batchBytes))
	if o.whole {
		read = wholeReader(input, int(o.batchBytes))
	}
	go s.pump(lines, read)
	return s, nil
}

// close ends the pump, unless it waits for input: a read from a terminal or pipe can't be called back, and ends with the
// process.
func (s *recordSource) close() {
	close(s.quit)
	_ = s.input.Close() // it was only read
}

func (s *recordSource) pump(lines chan<- inputLine, read func() ([]byte, error)) {
	for {
		text, err := read()
		select {
		case lines <- inputLine{text, err}:
		case <-s.quit:
			return
		}
		if err != nil {
			return
		}
	}
}

func (s *recordSource) next(ctx context.Context) (*kgo.Record, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case line := <-s.lines:
		s.line++
		var long *longLineError
		if errors.As(line.err, &long) {
			return nil, fmt.Errorf("line %d of %s is longer than %s: raise --batch-bytes, and max.message.bytes of the topic", s.line, s.name, formatBytes(int64(long.limit)))
		}
		if line.err != nil {
			return nil, line.err
		}
		return s.record(line.text)
	}
}

// record makes the record of one line.
func (s *recordSource) record(line []byte) (*kgo.Record, error) {
	if s.o.json {
		return s.jsonRecord(line)
	}
	r := &kgo.Record{Value: line, Headers: s.headers}
	if s.o.hasKey {
		r.Key = []byte(s.o.key)
	}
	if s.o.separator != "" {
		key, value, ok := bytes.Cut(line, []byte(s.o.separator))
		if !ok {
			return nil, fmt.Errorf("line %d of %s has no key separator %q: every line needs one with -K", s.line, s.name, s.o.separator)
		}
		r.Key, r.Value = key, value
	}
	if s.o.hasNull && string(r.Value) == s.o.null {
		r.Value = nil
	}
	return r, nil
}

// jsonRecord reads a line as `consume -o json` writes it. Topic, partition and offset are where the record was, not where
// it goes.
func (s *recordSource) jsonRecord(line []byte) (*kgo.Record, error) {
	var in jsonRecord
	if err := json.Unmarshal(line, &in); err != nil {
		return nil, fmt.Errorf("line %d of %s is not a record in JSON: %w", s.line, s.name, err)
	}
	r := &kgo.Record{Key: in.key(), Value: in.value(), Headers: s.headers}
	if in.TimestampMs > 0 {
		r.Timestamp = time.UnixMilli(in.TimestampMs)
	}
	if s.o.hasKey {
		r.Key = []byte(s.o.key)
	}
	for _, h := range in.Headers {
		r.Headers = append(r.Headers[:len(r.Headers):len(r.Headers)], kgo.RecordHeader{Key: h.Key, Value: h.value()})
	}
	return r, nil
}

func parseHeaders(pairs []string) ([]kgo.RecordHeader, error) {
	var headers []kgo.RecordHeader
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, usagef("-H %q is not key=value", pair)
		}
		headers = append(headers, kgo.RecordHeader{Key: key, Value: []byte(value)})
	}
	return headers, nil
}

type longLineError struct{ limit int }

func (e *longLineError) Error() string { return fmt.Sprintf("a line is longer than %d bytes", e.limit) }

// lineReader returns a function that yields one line after the other, without its end (\n or \r\n). Each is a copy.
func lineReader(r io.Reader, limit int) func() ([]byte, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	return func() ([]byte, error) {
		var line []byte
		for {
			part, err := b.ReadSlice('\n')
			if len(line)+len(part) > limit {
				return nil, &longLineError{limit}
			}
			line = append(line, part...)
			switch {
			case errors.Is(err, bufio.ErrBufferFull):
				continue
			case errors.Is(err, io.EOF) && len(line) > 0:
				return line, nil
			case err != nil:
				return nil, err
			}
			return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), nil
		}
	}
}

// wholeReader returns a function that yields all input once.
func wholeReader(r io.Reader, limit int) func() ([]byte, error) {
	done := false
	return func() ([]byte, error) {
		if done {
			return nil, io.EOF
		}
		done = true
		all, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
		if err == nil && len(all) > limit {
			return nil, fmt.Errorf("the input is longer than %s: raise --batch-bytes, and max.message.bytes of the topic", formatBytes(int64(limit)))
		}
		return all, err
	}
}

func valuesReader(values []string) func() ([]byte, error) {
	return func() ([]byte, error) {
		if len(values) == 0 {
			return nil, io.EOF
		}
		value := values[0]
		values = values[1:]
		return []byte(value), nil
	}
}
