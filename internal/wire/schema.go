package wire

import "fmt"

//go:generate go run ./gen

// schema is the shape of a request in Kafka's specification.
type schema struct {
	min, max, flexible int16
	fields             []field
}

// versions is a range, both ends included. The zero value of a field's nullable is never asked for: see field.
type versions struct{ from, to int16 }

func (v versions) has(version int16) bool { return version >= v.from && version <= v.to }

type kind uint8

const (
	fixed     kind = iota + 1 // wireBytes bytes
	text                      // a string
	blob                      // bytes or records
	structure                 // fields
	array                     // of elements: of, wireBytes, fields
)

type field struct {
	versions    versions
	nullable    versions // {0, 0} for never: no field of Kafka's is nullable in version 0 only
	tagged      bool     // stands in the tags, under tag
	tag         uint32
	kind, of    kind
	wireBytes   int     // of a fixed value or element
	memoryBytes int     // of an element of an array, as kmsg holds it
	fields      []field // of the structure, or of each element
}

func (f *field) nullableAt(version int16) bool {
	return f.nullable != versions{} && f.nullable.has(version)
}

// What decoded values cost beyond the structs that hold them.
const (
	allocationBytes = 16  // the least that a string, or a pointer to one, occupies
	firstTagBytes   = 336 // a map with its first group of entries
	tagBytes        = 96  // a further entry, the garbage of growing included
)

// answerBytes is what a handler keeps for each element of a request while it answers it: most elements get a row of their own.
const answerBytes = 256

// Measure walks the body of a request by Kafka's schema and returns how many bytes its decoded form, and the rows that answer its
// elements, will occupy, beside the body itself. It allocates nothing. The error wraps ErrMalformed when the body does not fit the schema, as null
// where nothing may be null or a length beyond the end; bytes after the end are ignored, as in Kafka. The walk ends with
// ErrTooLarge once the cost exceeds limit: a frame can claim millions of elements of two bytes each. The body of a version that
// Kafka does not have costs nothing: nobody will decode it, only ApiVersions is answered at any version.
func Measure(key, version int16, body []byte, limit int64) (int64, error) {
	decoded, elements, err := measure(key, version, body, limit)
	return decoded + elements*answerBytes, err
}

// measure is Measure, with what is decoded at most and the number of elements apart.
func measure(key, version int16, body []byte, limit int64) (decoded, elements int64, err error) {
	if key < 0 || int(key) >= len(schemas) || schemas[key].fields == nil {
		return 0, 0, fmt.Errorf("%w: unknown api key %d", ErrMalformed, key)
	}
	s := &schemas[key]
	if version < s.min || version > s.max {
		return 0, 0, nil
	}
	w := walk{reader: reader{src: body}, version: version, flexible: version >= s.flexible, limit: limit}
	w.structure(s.fields)
	switch {
	case w.tooLarge():
		return w.cost, w.elements, fmt.Errorf("%w: %s v%d of %d bytes takes more than %d bytes decoded", ErrTooLarge, KeyName(key), version, len(body), limit)
	case w.bad:
		return w.cost, w.elements, fmt.Errorf("%w: %s v%d of %d bytes does not fit its schema", ErrMalformed, KeyName(key), version, len(body))
	}
	return w.cost, w.elements, nil
}

// walk is one pass over a body. It ends by failing its reader.
type walk struct {
	reader
	version  int16
	flexible bool
	cost     int64
	elements int64 // of arrays
	limit    int64
}

func (w *walk) tooLarge() bool { return w.cost+w.elements*answerBytes > w.limit }

func (w *walk) charge(n int64) {
	if w.cost += n; w.tooLarge() {
		w.fail()
	}
}

// structure walks fields and, in flexible versions, the tags that follow them.
func (w *walk) structure(fields []field) {
	for i := range fields {
		if f := &fields[i]; !f.tagged && f.versions.has(w.version) {
			w.value(f)
		}
		if w.bad {
			return
		}
	}
	if w.flexible {
		w.tags(fields)
	}
}

func (w *walk) tags(fields []field) {
	n := w.uvarint()
	unknown := int64(firstTagBytes)
	for ; n > 0 && !w.bad; n-- {
		tag := w.uvarint()
		content := w.span(int(w.uvarint()))
		if f := taggedField(fields, tag, w.version); f != nil {
			rest := w.src
			w.src = content
			if w.value(f); !w.bad {
				w.src = rest
			}
			continue
		}
		w.charge(unknown)
		unknown = tagBytes
	}
}

func taggedField(fields []field, tag uint32, version int16) *field {
	for i := range fields {
		if f := &fields[i]; f.tagged && f.tag == tag && f.versions.has(version) {
			return f
		}
	}
	return nil
}

func (w *walk) value(f *field) {
	switch f.kind {
	case fixed:
		w.span(f.wireBytes)
	case text:
		w.text(f.nullableAt(w.version))
	case blob:
		w.blob(f.nullableAt(w.version))
	case structure:
		if f.nullableAt(w.version) {
			if w.int8() < 0 {
				return
			}
			w.charge(structureBytesMax)
		}
		w.structure(f.fields)
	case array:
		w.array(f)
	}
}

// structureBytesMax is more than any of the few structs occupies that kmsg holds by a pointer.
const structureBytesMax = 256

func (w *walk) text(nullable bool) {
	n := w.stringLength(w.flexible)
	if n < 0 && nullable {
		return
	}
	w.span(n)
	w.charge(2*allocationBytes + int64(max(n, 0)))
}

func (w *walk) blob(nullable bool) {
	n := w.length(w.flexible)
	if n < 0 && nullable {
		return
	}
	w.span(n)
}

func (w *walk) array(f *field) {
	n := w.length(w.flexible)
	if n < 0 && f.nullableAt(w.version) {
		return
	}
	if n < 0 || n > len(w.src) { // an element takes at least one byte
		w.fail()
		return
	}
	w.elements += int64(n)
	w.charge(int64(n) * int64(f.memoryBytes))
	if f.of == fixed {
		w.span(n * f.wireBytes)
		return
	}
	for ; n > 0 && !w.bad; n-- {
		switch f.of {
		case text:
			w.text(false)
		case blob:
			w.blob(false)
		default:
			w.structure(f.fields)
		}
	}
}
