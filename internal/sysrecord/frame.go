package sysrecord

import (
	"encoding/binary"
	"fmt"
	"math"
)

// frameVersion is the version of the frame around a metadata record.
const frameVersion = 1

// Frame is a metadata record's head and its body.
type Frame struct {
	Key     int16 // the record's number
	Version int16
	Body    []byte // aliases what was parsed
}

// AppendMetadata appends the record as it stands in the value of a __cluster_metadata record: frame version, number, version,
// body.
func AppendMetadata(dst []byte, v Record, version int16) []byte {
	dst = append(dst, frameVersion)
	dst = binary.AppendUvarint(dst, uint64(v.RecordKey()))
	dst = binary.AppendUvarint(dst, uint64(version))
	return v.AppendTo(dst, version)
}

// AppendFrame appends a frame as it was parsed.
func AppendFrame(dst []byte, f Frame) []byte {
	dst = append(dst, frameVersion)
	dst = binary.AppendUvarint(dst, uint64(f.Key))
	dst = binary.AppendUvarint(dst, uint64(f.Version))
	return append(dst, f.Body...)
}

// ParseFrame takes the value of a __cluster_metadata record apart.
func ParseFrame(b []byte) (Frame, error) {
	r := &reader{rest: b, record: "metadata record", total: len(b)}
	version, key, recordVersion := r.uvarint(), r.uvarint(), r.uvarint()
	switch {
	case r.fault != nil:
		return Frame{}, r.fault
	case version != frameVersion:
		return Frame{}, fmt.Errorf("metadata record with frame version %d, want %d: %w", version, frameVersion, ErrVersion)
	case key > math.MaxInt16 || recordVersion > math.MaxInt16:
		r.fail("number or version out of range")
		return Frame{}, r.fault
	}
	return Frame{Key: int16(key), Version: int16(recordVersion), Body: r.rest}, nil
}

// Record decodes the frame's body. It returns nil and no error for a number that this build does not know. Bytes after the
// record are refused, as Kafka refuses them.
func (f Frame) Record() (Record, error) {
	v := NewMetadata(f.Key)
	if v == nil {
		return nil, nil
	}
	if lowest, highest := v.Versions(); f.Version < lowest || f.Version > highest {
		return nil, fmt.Errorf("%s version %d, want %d to %d: %w", v.RecordName(), f.Version, lowest, highest, ErrVersion)
	}
	r := &reader{rest: f.Body, record: v.RecordName(), total: len(f.Body)}
	v.read(r, f.Version)
	if r.fault == nil && len(r.rest) > 0 {
		r.fail("bytes after the record")
	}
	return v, r.err()
}

// AppendKey appends the key of a coordinator's record: its number, then the body.
func AppendKey(dst []byte, v Record) []byte {
	dst = appendInt16(dst, v.RecordKey())
	_, highest := v.Versions()
	return v.AppendTo(dst, highest)
}

// AppendValue appends the value of a coordinator's record: its version, then the body.
func AppendValue(dst []byte, v Record, version int16) []byte {
	return v.AppendTo(appendInt16(dst, version), version)
}

// ReadKey decodes the key of a coordinator's record. The caller's table ([NewGroupKey], [NewTransactionKey], [NewShareKey])
// says which log it is from. The error wraps [ErrVersion] for a number that the table lacks.
func ReadKey(b []byte, table func(int16) Record) (Record, error) {
	r := &reader{rest: b, record: "coordinator key", total: len(b)}
	key := r.int16()
	if r.fault != nil {
		return nil, r.fault
	}
	v := table(key)
	if v == nil {
		return nil, fmt.Errorf("coordinator key with number %d: %w", key, ErrVersion)
	}
	_, highest := v.Versions()
	return v, v.ReadFrom(r.rest, highest)
}

// ReadValue decodes the value of a coordinator's record into v, which belongs to the record's key.
func ReadValue(b []byte, v Record) error {
	r := &reader{rest: b, record: v.RecordName(), total: len(b)}
	version := r.int16()
	if r.fault != nil {
		return r.fault
	}
	return v.ReadFrom(r.rest, version)
}
