package raw

import (
	"encoding/binary"
	"math"
)

// Field is a field of a protobuf message.
type Field []byte

// Message puts fields together.
func Message(fields ...Field) (m []byte) {
	for _, f := range fields {
		m = append(m, f...)
	}
	return m
}

// Bytes is a field of text, bytes or a message.
func Bytes(number int, content string) Field {
	f := binary.AppendUvarint(nil, uint64(number)<<3|2)
	return append(binary.AppendUvarint(f, uint64(len(content))), content...)
}

// Within is a field with a message of fields.
func Within(number int, fields ...Field) Field { return Bytes(number, string(Message(fields...))) }

// Varint is a field of a whole number.
func Varint(number int, v uint64) Field {
	return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(number)<<3), v)
}

// Fixed64 is a field of eight bytes.
func Fixed64(number int, v uint64) Field {
	return binary.LittleEndian.AppendUint64(binary.AppendUvarint(nil, uint64(number)<<3|1), v)
}

// Double is a field of a floating-point number.
func Double(number int, v float64) Field { return Fixed64(number, math.Float64bits(v)) }

// OTLPAttribute is a KeyValue with a text, in the field of that number.
func OTLPAttribute(number int, name, value string) Field {
	return Within(number, Bytes(1, name), Within(2, Bytes(1, value)))
}

// OTLPPush is the MetricsData that a client pushes, one resource for all metrics.
func OTLPPush(resource []Field, metrics ...Field) []byte {
	return Message(Within(1, Within(1, resource...), Within(2, metrics...)))
}

// OTLPGauge is a metric of one point.
func OTLPGauge(name string, v float64, attributes ...Field) Field {
	return Within(2, Bytes(1, name), Within(5, Within(1, append([]Field{Double(4, v)}, attributes...)...)))
}

// What the values of a sum are.
const (
	OTLPDelta      = 1
	OTLPCumulative = 2
)

// OTLPCounter is a sum that only grows.
func OTLPCounter(name string, temporality uint64, v int64, attributes ...Field) Field {
	return Within(2, Bytes(1, name), Within(7, Within(1, append([]Field{Fixed64(6, uint64(v))}, attributes...)...), Varint(2, temporality), Varint(3, 1)))
}
