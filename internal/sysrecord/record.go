// Package sysrecord holds the records that Kafka's controller, coordinators and quorum write to their own logs, generated
// from the message specifications inside Kafka's jars.
//
//go:generate go run ./gen
package sysrecord

// Record is one of Kafka's own records, or the key or value of one.
type Record interface {
	// RecordName returns Kafka's name of the record.
	RecordName() string
	// RecordKey returns the number that tells records of one log apart: Kafka's apiKey; -1 where the kind has none.
	RecordKey() int16
	// Versions returns the lowest and the highest version that can be read and written.
	Versions() (lowest, highest int16)
	// AppendTo appends the record's body in the given version. Fields that the version lacks are left out. A string above
	// 32767 bytes in a version without compact lengths is the caller's mistake and panics: Kafka has no encoding for it.
	AppendTo(dst []byte, version int16) []byte
	// ReadFrom sets all fields: those that the version lacks get their defaults. Nothing of src is kept. Bytes after the
	// record are ignored.
	ReadFrom(src []byte, version int16) error

	read(r *reader, version int16)
}
