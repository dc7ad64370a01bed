package clientconf

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Opts are the options of a client that every tool needs. The servers are the caller's business.
func (s *Settings) Opts() []kgo.Opt {
	var opts []kgo.Opt
	if s.ClientID != "" {
		opts = append(opts, kgo.ClientID(s.ClientID))
	}
	if s.RequestTimeout > 0 {
		opts = append(opts, kgo.RequestTimeoutOverhead(max(s.RequestTimeout, 100*time.Millisecond)))
	}
	if s.DialTimeout > 0 {
		opts = append(opts, kgo.DialTimeout(s.DialTimeout))
	}
	return opts
}

// Consumer are the options of a client that reads.
func (s *Settings) Consumer() []kgo.Opt {
	var opts []kgo.Opt
	if s.Rack != "" {
		opts = append(opts, kgo.Rack(s.Rack))
	}
	if s.Isolation == "read_committed" {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if s.Instance != "" {
		opts = append(opts, kgo.InstanceID(s.Instance))
	}
	return opts
}

// Producer are the options of a client that writes.
func (s *Settings) Producer() []kgo.Opt {
	var opts []kgo.Opt
	switch s.Acks {
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	}
	if s.Linger > 0 {
		opts = append(opts, kgo.ProducerLinger(s.Linger))
	}
	if s.RequestBytes > 0 {
		opts = append(opts, kgo.ProducerBatchMaxBytes(s.RequestBytes))
	}
	if codec, ok := codecs[s.Compression]; ok {
		opts = append(opts, kgo.ProducerBatchCompression(codec))
	}
	return opts
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// Codec returns the codec of a name; nothing means Kafka's gzip for the console producer's bare flag.
func Codec(name string) (kgo.CompressionCodec, bool) {
	if name == "" {
		name = "gzip"
	}
	codec, ok := codecs[strings.ToLower(name)]
	return codec, ok
}
