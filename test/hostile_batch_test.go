package test

import (
	"bytes"
	"compress/gzip"
	"context"
	enc "encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Codecs, as the lowest bits of a batch's attributes.
const (
	codecGzip   = 1
	codecSnappy = 2
	codecLZ4    = 3
	codecZstd   = 4
)

// changed is a batch of one record with a field of its header changed before it is sealed.
func changed(change func(*kmsg.RecordBatch)) []byte {
	b := newBatch(1, appendRecord(nil, 0, "hostile"))
	change(b)
	return seal(b)
}

// damaged is a batch of one record with its bytes changed after it was sealed.
func damaged(change func([]byte)) []byte {
	raw := batch("hostile")
	change(raw)
	return raw
}

// holding is a sealed batch with records as they are.
func holding(codec int16, count int, records []byte) []byte {
	b := newBatch(count, records)
	b.Attributes = codec
	return seal(b)
}

// compressed compresses what write writes.
func compressed(t testing.TB, codec int16, write func(io.Writer)) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	switch codec {
	case codecGzip:
		w = must(gzip.NewWriterLevel(&out, gzip.BestSpeed))(t)
	case codecSnappy:
		w = &xerial{out: &out}
	case codecLZ4:
		w = lz4.NewWriter(&out)
	case codecZstd:
		w = must(zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20)))(t)
	}
	write(w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// xerial writes the framing that Java's clients put around snappy blocks.
type xerial struct {
	out   *bytes.Buffer
	block []byte
}

const xerialBlock = 1 << 20

func (x *xerial) Write(p []byte) (int, error) {
	for written := 0; written < len(p); {
		n := min(xerialBlock-len(x.block), len(p)-written)
		x.block = append(x.block, p[written:written+n]...)
		written += n
		if len(x.block) == xerialBlock {
			x.flush()
		}
	}
	return len(p), nil
}

func (x *xerial) flush() {
	if x.out.Len() == 0 {
		x.out.WriteString("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
	}
	block := snappyBlock(x.block)
	_ = enc.Write(x.out, enc.BigEndian, uint32(len(block)))
	x.out.Write(block)
	x.block = x.block[:0]
}

func (x *xerial) Close() error { x.flush(); return nil }

// zeros writes n records whose values are so many zeros.
func zeros(n, size int) func(io.Writer) {
	value := strings.Repeat("\x00", size)
	return func(w io.Writer) {
		for i := range n {
			_, _ = w.Write(appendRecord(nil, i, value))
		}
	}
}

// repeat writes n records whose values are so many zeros, in large pieces; all say that they are the first, which a broker that
// reads them puts right.
func repeat(n, size int) func(io.Writer) {
	return func(w io.Writer) {
		one := appendRecord(nil, 0, strings.Repeat("\x00", size))
		piece := bytes.Repeat(one, max(1, min(n, 1<<20/len(one))))
		for rest := n; rest > 0; rest -= len(piece) / len(one) {
			_, _ = w.Write(piece[:min(len(piece), rest*len(one))])
		}
	}
}

// hostileBatch is what no honest producer sends.
type hostileBatch struct {
	records []byte
	code    int16 // that Apache Kafka 4.4 answers
	// Kafka stumbles over it and answers UNKNOWN_SERVER_ERROR, which clients may take for a passing fault of the server.
	stumbles bool
}

func hostileBatches(t testing.TB) map[string]hostileBatch {
	const invalidRecord = 87
	corrupt := kerr.CorruptMessage.Code
	record := func(fields ...byte) []byte { return append(enc.AppendVarint(nil, int64(len(fields))), fields...) }
	long := enc.AppendVarint(nil, 1<<31-1)
	return map[string]hostileBatch{
		"no bytes":                     {[]byte{}, invalidRecord, false},
		"wrong CRC":                    {damaged(func(b []byte) { b[20] ^= 1 }), corrupt, false},
		"a flipped bit in a record":    {damaged(func(b []byte) { b[len(b)-3] ^= 1 }), corrupt, false},
		"cut off":                      {batch("hostile")[:65], invalidRecord, false},
		"length of 2 GB":               {damaged(func(b []byte) { enc.BigEndian.PutUint32(b[8:], 1<<31-1) }), invalidRecord, true},
		"negative length":              {damaged(func(b []byte) { enc.BigEndian.PutUint32(b[8:], 1<<31) }), corrupt, false},
		"length of a header's part":    {damaged(func(b []byte) { enc.BigEndian.PutUint32(b[8:], 20) }), corrupt, false},
		"magic 0":                      {damaged(func(b []byte) { b[16] = 0 }), invalidRecord, false},
		"magic 1":                      {damaged(func(b []byte) { b[16] = 1 }), invalidRecord, false},
		"magic 3":                      {damaged(func(b []byte) { b[16] = 3 }), corrupt, false},
		"two batches":                  {append(batch("a"), batch("b")...), invalidRecord, false},
		"base offset of 7":             {changed(func(b *kmsg.RecordBatch) { b.FirstOffset = 7 }), invalidRecord, false},
		"count of 2":                   {changed(func(b *kmsg.RecordBatch) { b.NumRecords = 2 }), invalidRecord, false},
		"count of 2 billion":           {changed(func(b *kmsg.RecordBatch) { b.NumRecords = 1<<31 - 1 }), invalidRecord, false},
		"count and delta of 2 billion": {changed(func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = 1<<31-1, 1<<31-2 }), invalidRecord, false},
		"count and delta of 5":         {changed(func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = 5, 4 }), invalidRecord, false},
		"count of -1":                  {changed(func(b *kmsg.RecordBatch) { b.NumRecords = -1 }), invalidRecord, false},
		"count of 0":                   {changed(func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta, b.Records = 0, -1, nil }), invalidRecord, false},
		"control batch":                {changed(func(b *kmsg.RecordBatch) { b.Attributes = 0x20 }), invalidRecord, false},
		"transaction without an id":    {changed(func(b *kmsg.RecordBatch) { b.Attributes = 0x10 }), kerr.TransactionalIDAuthorizationFailed.Code, false},
		"codec 7":                      {changed(func(b *kmsg.RecordBatch) { b.Attributes = 7 }), kerr.UnsupportedCompressionType.Code, true},
		"negative sequence":            {changed(func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = 5, 0, -5 }), invalidRecord, false},
		"time of the year 292 million": {changed(func(b *kmsg.RecordBatch) { b.FirstTimestamp, b.MaxTimestamp = 1<<62, 1<<62 }), kerr.InvalidTimestamp.Code, false},
		"record of length -1":          {holding(0, 1, []byte{1}), invalidRecord, false},
		"record of 2 GB":               {holding(0, 1, append(long, "x"...)), invalidRecord, false},
		"record beyond the batch":      {holding(0, 1, []byte{60, 0, 0, 0, 1, 2, 'x', 0}), invalidRecord, false},
		"key of 2 GB":                  {holding(0, 1, record(append([]byte{0, 0, 0}, long...)...)), invalidRecord, false},
		"headers of 2 billion":         {holding(0, 1, record(append([]byte{0, 0, 0, 1, 2, 'x'}, long...)...)), invalidRecord, false},
		"header with a null key":       {holding(0, 1, record(0, 0, 0, 1, 2, 'x', 2, 1, 1)), invalidRecord, false},
		"varint without an end":        {holding(0, 1, bytes.Repeat([]byte{0xff}, 20)), invalidRecord, true},
		"bytes behind the records":     {holding(0, 1, append(appendRecord(nil, 0, "x"), 1, 2, 3)), invalidRecord, false},
		"gzip that is none":            {holding(codecGzip, 1, []byte("not gzip at all, not a bit of it")), invalidRecord, true},
		"gzip cut off":                 {holding(codecGzip, 1, compressed(t, codecGzip, zeros(1, 1000))[:20]), invalidRecord, true},
		"snappy that is none":          {holding(codecSnappy, 1, []byte("\xff\xff\xff\xff\xff\xff\xff\xff")), invalidRecord, true},
		"snappy block of 2 GB":         {holding(codecSnappy, 1, []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x7f\xff\xff\xff\x00")), invalidRecord, true},
		"snappy that unpacks to 4 GB":  {holding(codecSnappy, 1, []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x06\xff\xff\xff\xff\x0f\x00")), invalidRecord, true},
		"lz4 that is none":             {holding(codecLZ4, 1, []byte("not lz4 at all, not a bit of it")), invalidRecord, true},
		"lz4 block of 2 GB":            {holding(codecLZ4, 1, []byte("\x04\x22\x4d\x18\x60\x40\x82\xff\xff\xff\x7f")), invalidRecord, true},
		"zstd that is none":            {holding(codecZstd, 1, []byte("not zstd at all, not a bit of it")), invalidRecord, true},
		"zstd window of 2 TB":          {holding(codecZstd, 1, []byte("\x28\xb5\x2f\xfd\x00\xff\x01\x00\x00")), invalidRecord, true},
		"zstd size of 2^63":            {holding(codecZstd, 1, []byte("\x28\xb5\x2f\xfd\xe0\xff\xff\xff\xff\xff\xff\xff\x7f\x01\x00\x00")), invalidRecord, true},
		"compressed records cut off":   {holding(codecZstd, 3, compressed(t, codecZstd, zeros(2, 1000))), invalidRecord, false},
		"more records than counted":    {holding(codecZstd, 2, compressed(t, codecZstd, zeros(3, 1000))), invalidRecord, false},
	}
}

// TestHostileBatchesGetKafkasCodes sends them all; with RAFTSMAN_TEST_BOOTSTRAP to a Kafka, to see what that answers.
func TestHostileBatchesGetKafkasCodes(t *testing.T) {
	t.Parallel()
	addr, calm := os.Getenv("RAFTSMAN_TEST_BOOTSTRAP"), func() {}
	kafka := addr != ""
	topic := fmt.Sprint("hostile-", os.Getpid())
	if !kafka {
		p := startBroker(t, t.TempDir())
		addr = p.addr
		calm = p.expectCalm(calmBytes)
	}
	createTopic(t, addr, topic, 1)
	for range 5 {
		for name, c := range hostileBatches(t) {
			for _, acks := range []int16{-1, 1} {
				req := produceRequest(topic, 0, acks, c.records)
				resp := ask[*kmsg.ProduceResponse](dialRaw(t, addr), req, atLast).Topics[0].Partitions[0]
				want := c.code
				if kafka && c.stumbles {
					want = kerr.UnknownServerError.Code
				}
				if resp.ErrorCode != want {
					t.Errorf("%s: answered %d (%v), want %d", name, resp.ErrorCode, kerr.ErrorForCode(resp.ErrorCode), want)
				}
			}
		}
	}
	calm()
	if got := len(readTopic(t, addr, topic)[0]); got != 0 {
		t.Errorf("%d hostile batches were stored", got)
	}
}

// createLarge creates a topic that takes batches of 64 MiB as they come.
func createLarge(t testing.TB, addr, topic string) {
	t.Helper()
	limit := "67108864"
	if r := must(kadm.NewClient(crashClient(t, addr)).CreateTopic(t.Context(), 1, 1, map[string]*string{"max.message.bytes": &limit}, topic))(t); r.Err != nil {
		t.Fatal(r.Err)
	}
}

// TestBombsAreRefused sends batches that unpack to more than raftsman.batch.decompressed.bytes.max, in every codec: a record of
// zeros, a thousand, and millions of tiny ones.
func TestBombsAreRefused(t *testing.T) {
	t.Parallel()
	p := startBroker(t, t.TempDir())
	createLarge(t, p.addr, "bombs")
	for name, codec := range map[string]int16{"gzip": codecGzip, "snappy": codecSnappy, "lz4": codecLZ4, "zstd": codecZstd} {
		for shape, bomb := range map[string]struct{ count, size int }{
			"one record":   {1, 300 << 20},
			"records":      {300, 1 << 20},
			"tiny records": {15 << 20, 14},
		} {
			t.Run(name+", "+shape, func(t *testing.T) {
				records := holding(codec, bomb.count, compressed(t, codec, repeat(bomb.count, bomb.size)))
				c := dialRaw(t, p.addr)
				calm := p.expectCalm(calmBytes + 2*int64(len(records)))
				began := time.Now()
				resp := ask[*kmsg.ProduceResponse](c, produceRequest("bombs", 0, -1, records), atLast).Topics[0].Partitions[0]
				t.Logf("%d bytes: refused within %v: %v, %s", len(records), time.Since(began).Round(time.Millisecond),
					kerr.ErrorForCode(resp.ErrorCode), *resp.ErrorMessage)
				if err := kerr.ErrorForCode(resp.ErrorCode); err == nil || kerr.IsRetriable(err) {
					t.Errorf("answered %v, want a code that is not tried again", err)
				}
				calm()
			})
		}
	}
	if got := len(readTopic(t, p.addr, "bombs")[0]); got != 0 {
		t.Errorf("%d bombs were stored", got)
	}
}

// TestHonestLargeBatchesAreServed: what Java's producer makes at zstd's level 22, which declares a window of 128 MiB and unpacks
// to 200 times its size, is no bomb: it is stored as it came, several at a time, and read back.
func TestHonestLargeBatchesAreServed(t *testing.T) {
	t.Parallel()
	const records, size, times = 140, 1_000_000, 6
	file := filepath.Join(t.TempDir(), "batch")
	run(t, 2*atLast, nil, "kafka/kafka", "jvm", "-Xmx1g", "kafka/HonestBatch.java", file, fmt.Sprint(records), fmt.Sprint(size))
	made, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := startBroker(t, t.TempDir())
	createTopic(t, p.addr, "honest", 1)
	// The decoder needs the window, and one has it after the other.
	calm := p.expectCalm(calmBytes + 128<<20)
	began := time.Now()
	var all sync.WaitGroup
	for range times {
		c := dialRaw(t, p.addr)
		all.Go(func() {
			req := produceRequest("honest", 0, -1, made)
			if _, err := c.Write(c.frame(req)); err != nil {
				t.Error(err)
				return
			}
			resp, err := receive[*kmsg.ProduceResponse](c, req, atLast)
			if err != nil {
				t.Error(err)
			} else if part := resp.Topics[0].Partitions[0]; part.ErrorCode != 0 {
				t.Errorf("refused: %v, %s", kerr.ErrorForCode(part.ErrorCode), *part.ErrorMessage)
			}
		})
	}
	all.Wait()
	t.Logf("%d batches of %d bytes that unpack to %d MB: taken within %v", times, len(made), records*size/1_000_000, time.Since(began).Round(time.Millisecond))
	calm()

	reader := crashClient(t, p.addr, kgo.ConsumeTopics("honest"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(t.Context(), atLast)
	defer cancel()
	for got := 0; got < records*times; {
		fetches := reader.PollRecords(ctx, 50)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset != int64(got) || len(r.Value) != size || !bytes.Equal(r.Value[:5000], r.Value[5000:10_000]) {
				t.Fatalf("offset %d, %d bytes, where offset %d with %d bytes is next", r.Offset, len(r.Value), got, size)
			}
			got++
		})
	}
	// And by the client that made it.
	out := run(t, atLast, []string{"LC_ALL=C"}, "kafka/kafka", "jvm", "-Xmx1g", "org.apache.kafka.tools.consumer.ConsoleConsumer",
		"--bootstrap-server", p.addr, "--topic", "honest", "--from-beginning", "--max-messages", "150", "--timeout-ms", "30000")
	if len(out) < 150*size {
		t.Errorf("Kafka's consumer read %d bytes, want at least %d", len(out), 150*size)
	}
}
