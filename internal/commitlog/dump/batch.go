package dump

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/record"
	"github.com/raftsman/raftsman/internal/vfs"
)

// Batch is a record batch.
type Batch struct {
	BaseOffset      kafka.Offset        `json:"baseOffset"`
	LastOffset      kafka.Offset        `json:"lastOffset"`
	Count           int32               `json:"count"`
	Position        int64               `json:"position"`
	Bytes           int                 `json:"size"`
	LeaderEpoch     kafka.Epoch         `json:"partitionLeaderEpoch"`
	Codec           string              `json:"compression"`
	TimestampType   string              `json:"timestampType"`
	BaseTimestampMs int64               `json:"baseTimestampMs"`
	MaxTimestampMs  int64               `json:"maxTimestampMs"`
	ProducerID      kafka.ProducerID    `json:"producerId"`
	ProducerEpoch   kafka.ProducerEpoch `json:"producerEpoch"`
	BaseSequence    kafka.Sequence      `json:"baseSequence"`
	LastSequence    kafka.Sequence      `json:"lastSequence"`
	Transactional   bool                `json:"isTransactional"`
	Control         bool                `json:"isControl"`
	CRC             uint32              `json:"crc"`
	Damage          string              `json:"damage,omitempty"` // what is wrong, such as the CRC
	Records         []Record            `json:"records,omitempty"`
}

// Record is a record of a batch. Control is what a control record is.
type Record struct {
	Offset      kafka.Offset `json:"offset"`
	TimestampMs int64        `json:"timestampMs"`
	Control     string       `json:"control,omitempty"`
	Key         Bytes        `json:"key"`
	Value       Bytes        `json:"value"`
	Headers     []Header     `json:"headers,omitempty"`
}

// Header is a header of a record.
type Header struct {
	Key   string `json:"key"`
	Value Bytes  `json:"value"`
}

// Bytes are a key or value: null, text, or if they are none, anything. In JSON they are null, a string, or {"base64": …}.
type Bytes []byte

// MarshalJSON makes a string of what is text.
func (b Bytes) MarshalJSON() ([]byte, error) {
	switch {
	case b == nil:
		return []byte("null"), nil
	case utf8.Valid(b):
		return json.Marshal(string(b))
	default:
		return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString(b)})
	}
}

// Text quotes what is text; other bytes are hexadecimal.
func (b Bytes) Text() string {
	switch {
	case b == nil:
		return "null"
	case utf8.Valid(b):
		return strconv.Quote(string(b))
	default:
		return "0x" + hex.EncodeToString(b)
	}
}

// batches walks a file of batches.
func batches(fs vfs.FS, name string, o Options) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for b, err := range commitlog.FileBatches(fs, name) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(newBatch(b, o), nil) {
				return
			}
		}
	}
}

func newBatch(p commitlog.PositionedBatch, o Options) Batch {
	b := p.Batch
	e := Batch{
		BaseOffset: b.BaseOffset(), LastOffset: b.LastOffset(), Count: b.Count(), Position: p.At, Bytes: len(b), LeaderEpoch: b.LeaderEpoch(),
		Codec: b.Codec().String(), TimestampType: "CreateTime", BaseTimestampMs: b.BaseTimestampMs(), MaxTimestampMs: b.MaxTimestampMs(),
		ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), BaseSequence: b.BaseSequence(), LastSequence: b.LastSequence(),
		Transactional: b.IsTransactional(), Control: b.IsControl(), CRC: b.CRC(),
	}
	if b.LogAppendTime() {
		e.TimestampType = "LogAppendTime"
	}
	if err := b.Check(); err != nil {
		e.Damage = err.Error()
		return e
	}
	if o.Deep {
		e.addRecords(b, o)
	}
	return e
}

func (e *Batch) addRecords(b record.Batch, o Options) {
	limit := o.DecompressedMax
	if limit == 0 {
		limit = record.DecompressedMaxDefault
	}
	for r, err := range b.Records(limit) {
		if err != nil {
			e.Damage = err.Error()
			return
		}
		shown := Record{Offset: r.Offset, TimestampMs: r.TimestampMs, Key: keep(r.Key), Value: keep(r.Value)}
		if b.IsControl() {
			if kind, ok := record.ParseControlKey(r.Key); ok {
				shown.Control = kind.String()
			}
		}
		for _, h := range r.Headers {
			shown.Headers = append(shown.Headers, Header{h.Key, keep(h.Value)})
		}
		e.Records = append(e.Records, shown)
	}
}

// keep copies what is valid for one step only.
func keep(b []byte) Bytes {
	if b == nil {
		return nil
	}
	return append(Bytes{}, b...)
}

// Text is a line for the batch and one for each record.
func (e Batch) Text() string {
	var s strings.Builder
	fmt.Fprintf(&s, "offset %d to %d  records %d  at %d  bytes %d  epoch %d  %s  %s %s", e.BaseOffset, e.LastOffset, e.Count,
		e.Position, e.Bytes, e.LeaderEpoch, e.Codec, e.TimestampType, timeText(e.MaxTimestampMs))
	if e.ProducerID != kafka.NoProducer {
		fmt.Fprintf(&s, "  producer %d/%d sequence %d to %d", e.ProducerID, e.ProducerEpoch, e.BaseSequence, e.LastSequence)
	}
	if e.Transactional {
		s.WriteString("  transactional")
	}
	if e.Control {
		s.WriteString("  control")
	}
	fmt.Fprintf(&s, "  crc %08x", e.CRC)
	if e.Damage != "" {
		s.WriteString("  DAMAGED: " + e.Damage)
	}
	for _, r := range e.Records {
		s.WriteString("\n" + r.text())
	}
	return s.String()
}

func (r Record) text() string {
	var s strings.Builder
	fmt.Fprintf(&s, "  offset %d  time %s", r.Offset, timeText(r.TimestampMs))
	if r.Control != "" {
		s.WriteString("  " + r.Control)
	}
	fmt.Fprintf(&s, "  key %s  value %s", r.Key.Text(), r.Value.Text())
	for _, h := range r.Headers {
		fmt.Fprintf(&s, "  header %s=%s", strconv.Quote(h.Key), h.Value.Text())
	}
	return s.String()
}
