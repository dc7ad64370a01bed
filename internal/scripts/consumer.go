package scripts

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func consumerScript() *script {
	return &script{
		instead: "raftsman consume",
		options: common(slices.Concat(
			values("topic", "include", "partition", "offset", "max-messages", "timeout-ms", "group", "formatter-property", "property", "isolation-level",
				"command-property", "consumer-property", "consumer.config", "key-deserializer", "value-deserializer", "formatter"),
			flags("from-beginning", "skip-message-on-error"),
			refuses("`raftsman consume -o json`", nothing, "enable-systest-events"), refuses("`raftsman consume --format`", value, "formatter-config"),
		)...),
		run: runConsumer,
	}
}

// formatter is how records are printed: the properties of Kafka's DefaultMessageFormatter.
type formatter struct {
	timestamp, partition, offset, delivery bool
	epoch, headers, key, value             bool
	keySeparator, lineSeparator            string
	headersSeparator, nullLiteral          string
	keyAs, valueAs, headerAs               deserializer
}

// deserializer writes bytes as text.
type deserializer func([]byte) (string, error)

// deserializers are those of Kafka's that are common, by the name of their class.
var deserializers = map[string]deserializer{
	"StringDeserializer": func(b []byte) (string, error) { return string(b), nil },
	"IntegerDeserializer": func(b []byte) (string, error) {
		if len(b) != 4 {
			return "", fmt.Errorf("Size of data received by IntegerDeserializer is not 4")
		}
		return fmt.Sprint(int32(binary.BigEndian.Uint32(b))), nil
	},
	"LongDeserializer": func(b []byte) (string, error) {
		if len(b) != 8 {
			return "", fmt.Errorf("Size of data received by LongDeserializer is not 8")
		}
		return fmt.Sprint(int64(binary.BigEndian.Uint64(b))), nil
	},
	"DoubleDeserializer": func(b []byte) (string, error) {
		if len(b) != 8 {
			return "", fmt.Errorf("Size of data received by DoubleDeserializer is not 8")
		}
		return doubleText(math.Float64frombits(binary.BigEndian.Uint64(b))), nil
	},
}

func findDeserializer(class string) (deserializer, error) {
	name := class[strings.LastIndex(class, ".")+1:]
	if name == "" || name == "ByteArrayDeserializer" {
		name = "StringDeserializer"
	}
	found, ok := deserializers[name]
	if !ok {
		return nil, fmt.Errorf("%s is a class of Java, which this script does not have: it has those for String, Integer, Long and Double; `raftsman consume --format` prints bytes as hex", class)
	}
	return found, nil
}

func newFormatter(properties map[string]string) (*formatter, error) {
	f := &formatter{value: true, keySeparator: "\t", lineSeparator: "\n", headersSeparator: ",", nullLiteral: "null"}
	f.keyAs, f.valueAs, f.headerAs = deserializers["StringDeserializer"], deserializers["StringDeserializer"], deserializers["StringDeserializer"]
	switches := map[string]*bool{
		"print.timestamp": &f.timestamp, "print.partition": &f.partition, "print.offset": &f.offset, "print.delivery": &f.delivery,
		"print.epoch": &f.epoch, "print.headers": &f.headers, "print.key": &f.key, "print.value": &f.value,
	}
	texts := map[string]*string{
		"key.separator": &f.keySeparator, "line.separator": &f.lineSeparator, "headers.separator": &f.headersSeparator, "null.literal": &f.nullLiteral,
	}
	classes := map[string]*deserializer{"key.deserializer": &f.keyAs, "value.deserializer": &f.valueAs, "headers.deserializer": &f.headerAs}
	for key, text := range properties {
		switch {
		case switches[key] != nil:
			*switches[key] = strings.EqualFold(strings.TrimSpace(text), "true")
		case texts[key] != nil:
			*texts[key] = text
		case classes[key] != nil:
			found, err := findDeserializer(text)
			if err != nil {
				return nil, err
			}
			*classes[key] = found
		default:
			return nil, usagef("%s is no property of the formatter", key)
		}
	}
	return f, nil
}

func (f *formatter) text(as deserializer, b []byte) (string, error) {
	if b == nil {
		return f.nullLiteral, nil
	}
	return as(b)
}

// format writes a record as Kafka's formatter does.
func (f *formatter) format(r *kgo.Record) (string, error) {
	var parts []string
	if f.timestamp {
		kind := "CreateTime"
		if r.Attrs.TimestampType() == 1 {
			kind = "LogAppendTime"
		}
		parts = append(parts, fmt.Sprintf("%s:%d", kind, r.Timestamp.UnixMilli()))
	}
	if f.partition {
		parts = append(parts, fmt.Sprintf("Partition:%d", r.Partition))
	}
	if f.offset {
		parts = append(parts, fmt.Sprintf("Offset:%d", r.Offset))
	}
	if f.delivery { // of share groups
		parts = append(parts, "Delivery:NOT_PRESENT")
	}
	if f.epoch { // Kafka's script does not hand it to the formatter
		parts = append(parts, "Epoch:NOT_PRESENT")
	}
	if f.headers {
		text, err := f.headersText(r.Headers)
		if err != nil {
			return "", err
		}
		parts = append(parts, text)
	}
	for _, part := range []struct {
		shown bool
		as    deserializer
		bytes []byte
	}{{f.key, f.keyAs, r.Key}, {f.value, f.valueAs, r.Value}} {
		if !part.shown {
			continue
		}
		text, err := f.text(part.as, part.bytes)
		if err != nil {
			return "", err
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, f.keySeparator) + f.lineSeparator, nil
}

func (f *formatter) headersText(headers []kgo.RecordHeader) (string, error) {
	if len(headers) == 0 {
		return "NO_HEADERS", nil
	}
	var pairs []string
	for _, h := range headers {
		text, err := f.text(f.headerAs, h.Value)
		if err != nil {
			return "", err
		}
		pairs = append(pairs, h.Key+":"+text)
	}
	return strings.Join(pairs, f.headersSeparator), nil
}

func runConsumer(ctx context.Context, c *call) error {
	for _, option := range []string{"property", "consumer-property", "consumer.config"} {
		if c.opts.has(option) {
			c.print("Option --%s is deprecated and will be removed in a future version. Use --%s instead.\n", option,
				map[string]string{"property": "formatter-property", "consumer-property": "command-property", "consumer.config": "command-config"}[option])
		}
	}
	if c.opts.has("topic") == c.opts.has("include") {
		return usagef("Exactly one of the following arguments is required: [topic], [include]")
	}
	properties, err := pairs(slices.Concat(c.opts["property"], c.opts["formatter-property"]))
	if err != nil {
		return err
	}
	for _, part := range []string{"key", "value"} {
		if c.opts.has(part + "-deserializer") {
			properties[part+".deserializer"] = c.opts.value(part + "-deserializer")
		}
	}
	if class := c.opts.value("formatter"); class != "" && !strings.HasSuffix(class, "DefaultMessageFormatter") {
		return fmt.Errorf("--formatter %s is a class of Java, which this script does not have: leave it out, or use `raftsman consume --format`", class)
	}
	f, err := newFormatter(properties)
	if err != nil {
		return err
	}
	opts, err := c.consumerOpts()
	if err != nil {
		return err
	}
	if err := c.connect(ctx, opts...); err != nil {
		return err
	}
	return c.consume(ctx, f)
}

// consumerOpts says what is read, and from where.
func (c *call) consumerOpts() ([]kgo.Opt, error) {
	from := kgo.NewOffset().AtEnd()
	if c.opts.has("from-beginning") || c.settings.OffsetReset == "earliest" {
		from = kgo.NewOffset().AtStart()
	}
	if c.opts.has("isolation-level") {
		c.settings.Isolation = c.opts.value("isolation-level")
	}
	opts := c.settings.Consumer()
	topic, group := c.opts.value("topic"), c.opts.value("group")
	if group == "" {
		group = c.settings.Group
	}
	if c.opts.has("offset") && !c.opts.has("partition") {
		return nil, usagef("The partition is required when offset is specified.")
	}
	if c.opts.has("partition") {
		if c.opts.has("group") {
			return nil, usagef("Options group and partition cannot be specified together.")
		}
		if topic == "" {
			return nil, usagef("The topic is required when partition is specified.")
		}
		partition, err := c.number("partition")
		if err != nil || partition < 0 || partition > math.MaxInt32 {
			return nil, usagef("--partition %s is no partition", c.opts.value("partition"))
		}
		switch text := strings.ToLower(c.opts.value("offset")); text {
		case "", "latest":
		case "earliest":
			from = kgo.NewOffset().AtStart()
		default:
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil || n < 0 {
				return nil, usagef("The provided offset value '%s' is incorrect. Valid values are 'earliest', 'latest', or a non-negative long.", text)
			}
			from = kgo.NewOffset().At(n)
		}
		return append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {int32(partition): from}})), nil
	}
	if include := c.opts.value("include"); include != "" {
		re, err := pattern(include)
		if err != nil {
			return nil, err
		}
		topic = re.String()
		opts = append(opts, kgo.ConsumeRegex())
	}
	opts = append(opts, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(from))
	if group != "" {
		opts = append(opts, kgo.ConsumerGroup(group), kgo.AutoCommitMarks())
		if c.settings.NoAutoCommit {
			opts = append(opts, kgo.DisableAutoCommit())
		}
	}
	return opts, nil
}

// consume prints records until there are as many as wanted, none came for as long as is waited, or ctx ends.
func (c *call) consume(ctx context.Context, f *formatter) error {
	most, err := c.number("max-messages")
	if err != nil {
		return err
	}
	wait, err := c.number("timeout-ms")
	if err != nil {
		return err
	}
	count := int64(0)
	defer func() { c.say("Processed a total of %d messages", count) }()
	for most < 0 || count < most {
		polling, cancel := ctx, context.CancelFunc(func() {})
		if wait >= 0 {
			polling, cancel = context.WithTimeout(ctx, time.Duration(wait)*time.Millisecond)
		}
		records, err := c.poll(polling, most-count, most >= 0)
		cancel()
		if err != nil {
			return err
		}
		if len(records) == 0 {
			break // the time is over
		}
		for _, r := range records {
			text, err := f.format(r)
			switch {
			case err == nil:
				c.print("%s", text)
			case !c.opts.has("skip-message-on-error"):
				return err
			}
			count++
		}
		c.cl.MarkCommitRecords(records...)
		if err := c.out.Flush(); err != nil {
			return err
		}
	}
	if c.settings.NoAutoCommit {
		return nil
	}
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialPatience)
	defer cancel()
	return c.cl.CommitMarkedOffsets(leaving)
}

// poll waits for records; there are none when the time of ctx is over.
func (c *call) poll(ctx context.Context, most int64, limited bool) ([]*kgo.Record, error) {
	limit := 0 // no limit
	if limited {
		limit = int(min(most, 10_000))
	}
	for {
		fetches := c.cl.PollRecords(ctx, limit)
		records := fetches.Records()
		if len(records) > 0 || over(ctx) {
			return records, nil
		}
		for _, e := range fetches.Errors() {
			if !errors.Is(e.Err, context.DeadlineExceeded) {
				return nil, fmt.Errorf("%s partition %d: %w", e.Topic, e.Partition, e.Err)
			}
		}
	}
}

// over tells whether the time of ctx has come.
func over(ctx context.Context) bool { return ctx.Err() != nil }
