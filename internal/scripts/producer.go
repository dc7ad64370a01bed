package scripts

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/raftsman/raftsman/internal/clientconf"
)

func producerScript() *script {
	return &script{
		instead: "raftsman produce",
		options: common(slices.Concat(
			values("topic", "reader-property", "property", "reader-config", "command-property", "producer-property", "producer.config", "request-required-acks",
				"request-timeout-ms"),
			flags("sync"), named(maybeValue, []string{"compression-codec"}), passedOver(),
			refuses("`raftsman produce --json`", value, "line-reader"),
		)...),
		run: runProducer,
	}
}

// passedOver are options that say how much a producer of Java keeps in memory, and how often it tries and asks: nothing that is written
// differs by them.
func passedOver() []option {
	return values("timeout", "batch-size", "max-block-ms", "max-memory-bytes", "max-partition-memory-bytes", "message-send-max-retries",
		"metadata-expiry-ms", "retry-backoff-ms", "socket-buffer-size")
}

// lineReader is how lines become records: the properties of Kafka's LineMessageReader.
type lineReader struct {
	parseKey, parseHeaders             bool
	ignoreError                        bool
	keySeparator                       string
	headersDelimiter, headersSeparator string
	headersKeySeparator, nullMarker    string
	hasNullMarker                      bool
}

func newLineReader(properties map[string]string) (*lineReader, error) {
	r := &lineReader{keySeparator: "\t", headersDelimiter: "\t", headersSeparator: ",", headersKeySeparator: ":"}
	for key, value := range properties {
		yes := strings.EqualFold(strings.TrimSpace(value), "true")
		switch key {
		case "parse.key":
			r.parseKey = yes
		case "parse.headers":
			r.parseHeaders = yes
		case "ignore.error":
			r.ignoreError = yes
		case "key.separator":
			r.keySeparator = value
		case "headers.delimiter":
			r.headersDelimiter = value
		case "headers.separator":
			r.headersSeparator = value
		case "headers.key.separator":
			r.headersKeySeparator = value
		case "null.marker":
			r.nullMarker, r.hasNullMarker = value, true
		default:
			return nil, usagef("%s is no property of the reader of lines", key)
		}
	}
	return r, nil
}

// javaError begins what Kafka's reader says of a line that it can't read.
const javaError = "org.apache.kafka.common.KafkaException: "

// read takes a line apart.
func (r *lineReader) read(line string, number int) (*kgo.Record, error) {
	record := &kgo.Record{}
	rest := line
	if r.parseHeaders {
		text, after, ok := strings.Cut(rest, r.headersDelimiter)
		switch {
		case ok:
			rest = after
		case r.ignoreError:
			text = ""
		default:
			return nil, fmt.Errorf(javaError+"No header delimiter found on line number %d: '%s'", number, line)
		}
		if err := r.headers(record, text, number); err != nil {
			return nil, err
		}
	}
	if r.parseKey {
		key, after, ok := strings.Cut(rest, r.keySeparator)
		switch {
		case ok:
			record.Key, rest = r.bytes(key), after
		case !r.ignoreError:
			return nil, fmt.Errorf(javaError+"No key separator found on line number %d: '%s'", number, line)
		}
	}
	record.Value = r.bytes(rest)
	return record, nil
}

func (r *lineReader) bytes(text string) []byte {
	if r.hasNullMarker && text == r.nullMarker {
		return nil
	}
	return []byte(text)
}

func (r *lineReader) headers(record *kgo.Record, text string, number int) error {
	if text == "" || r.hasNullMarker && text == r.nullMarker {
		return nil
	}
	for pair := range strings.SplitSeq(text, r.headersSeparator) {
		key, value, ok := strings.Cut(pair, r.headersKeySeparator)
		if !ok && !r.ignoreError {
			return fmt.Errorf(javaError+"No header key separator found in pair '%s' on line number %d", pair, number)
		}
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: key, Value: r.bytes(value)})
	}
	return nil
}

const lineBytesMax = 64 << 20

func runProducer(ctx context.Context, c *call) error {
	topic := c.opts.value("topic")
	if topic == "" {
		return usagef(`Missing required argument "[topic]"`)
	}
	properties := map[string]string{}
	if file := c.opts.value("reader-config"); file != "" {
		var err error
		if properties, err = readProperties(file); err != nil {
			return err
		}
	}
	given, err := pairs(slices.Concat(c.opts["property"], c.opts["reader-property"]))
	if err != nil {
		return err
	}
	maps.Copy(properties, given)
	reader, err := newLineReader(properties)
	if err != nil {
		return err
	}
	opts, err := c.producerOpts()
	if err != nil {
		return err
	}
	if err := c.connect(ctx, append(opts, kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation())...); err != nil {
		return err
	}
	return c.produceLines(ctx, reader)
}

func (c *call) producerOpts() ([]kgo.Opt, error) {
	for _, of := range []struct {
		option, key string
		take        func(clientconf.Settings)
	}{
		{"request-required-acks", "acks", func(s clientconf.Settings) { c.settings.Acks = s.Acks }},
		{"request-timeout-ms", "request.timeout.ms", func(s clientconf.Settings) { c.settings.RequestTimeout = s.RequestTimeout }},
	} {
		if !c.opts.has(of.option) {
			continue
		}
		settings, _, err := clientconf.Read(map[string]string{of.key: c.opts.value(of.option)})
		if err != nil {
			return nil, err
		}
		of.take(settings)
	}
	opts := c.settings.Producer()
	if c.opts.has("compression-codec") {
		codec, ok := clientconf.Codec(c.opts.value("compression-codec"))
		if !ok {
			return nil, usagef("compression codec %s is unknown: it is none, gzip, snappy, lz4 or zstd", c.opts.value("compression-codec"))
		}
		opts = append(opts, kgo.ProducerBatchCompression(codec))
	}
	return opts, nil
}

// produceLines sends a record for each line. Those before a line that can't be read are sent all the same.
func (c *call) produceLines(ctx context.Context, reader *lineReader) error {
	var mu sync.Mutex // guards failed
	var failed error
	done := func(_ *kgo.Record, err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = firstOf(failed, err)
	}
	lines := bufio.NewReader(c.env.In)
	var unread error
	for number := 1; ctx.Err() == nil; number++ {
		line, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			break
		}
		var record *kgo.Record
		if err == nil {
			record, err = reader.read(line, number)
		}
		if err != nil {
			unread = err
			break
		}
		c.cl.Produce(ctx, record, done)
		if c.opts.has("sync") {
			if err := c.cl.Flush(ctx); err != nil {
				return err
			}
		}
	}
	flushed := c.cl.Flush(ctx)
	mu.Lock()
	defer mu.Unlock()
	return errors.Join(unread, failed, flushed)
}

// firstOf keeps the first error.
func firstOf(first, next error) error {
	if first != nil {
		return first
	}
	return next
}

// readLine returns a line without its end; io.EOF when there is none left.
func readLine(r *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		part, err := r.ReadSlice('\n')
		b.Write(part)
		switch {
		case b.Len() > lineBytesMax:
			return "", fmt.Errorf("a line has more than %d bytes", lineBytesMax)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (b.Len() == 0 || !errors.Is(err, io.EOF)):
			return "", err
		}
		return strings.TrimSuffix(strings.TrimSuffix(b.String(), "\n"), "\r"), nil
	}
}
