package wire

import (
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestSchemaAgreesWithKmsg(t *testing.T) {
	for key, s := range schemas {
		req := kmsg.RequestForKey(int16(key))
		if req == nil {
			t.Fatalf("kmsg has no key %d", key)
		}
		if s.fields != nil && (req.MaxVersion() < s.max || s.flexible != firstFlexible[key]) {
			t.Errorf("%s: kmsg has versions to %d, flexible from %d; Kafka 4.4 to %d and %d",
				KeyName(int16(key)), req.MaxVersion(), firstFlexible[key], s.max, s.flexible)
		}
	}
}

func TestMeasureAcceptsWhatKmsgEncodes(t *testing.T) {
	rng := newRandom(t)
	eachVersion(func(key, version int16) {
		for range 20 {
			body := randomRequest(rng, key, version).AppendTo(nil)
			if _, err := Measure(key, version, body, math.MaxInt64); err != nil {
				t.Fatalf("%v\nbody %x", err, body)
			}
			if _, err := Measure(key, version, append(body, 1, 2, 3), math.MaxInt64); err != nil {
				t.Fatalf("with three bytes behind it: %v", err)
			}
			if len(body) == 0 {
				continue
			}
			cut := body[:rng.IntN(len(body))]
			if _, err := Measure(key, version, cut, math.MaxInt64); !errors.Is(err, ErrMalformed) {
				t.Fatalf("%s v%d cut to %d of %d bytes: error %v, want ErrMalformed\nbody %x",
					KeyName(key), version, len(cut), len(body), err, body)
			}
		}
	})
}

// TestMeasureIsNotBelowTheCost decodes bodies that hold as many elements as their bytes can, at every place where the schema
// has an array, and compares what kmsg allocated with what Measure said.
func TestMeasureIsNotBelowTheCost(t *testing.T) {
	rng := newRandom(t)
	eachVersion(func(key, version int16) {
		bodies := [][]byte{swarm(key, version, 3000)}
		for range 3 {
			bodies = append(bodies, randomRequest(rng, key, version).AppendTo(nil))
		}
		for _, body := range bodies {
			cost, _, err := measure(key, version, body, math.MaxInt64)
			if err != nil {
				t.Fatal(err)
			}
			decode := func() {
				if err := DecodeKmsg(&Request{Key: key, Version: version, Body: body}, kmsg.RequestForKey(key)); err != nil {
					t.Fatal(err)
				}
			}
			const some = 4000 // size classes of few small objects
			most := uint64(allocationFactor*1.3*float64(cost)) + some
			used := allocated(decode)
			for try := 0; used > most && try < 10; try++ { // the runtime allocates for itself, too, now and then
				used = min(used, allocated(decode))
			}
			if used > most {
				t.Errorf("%s v%d: a body of %d bytes took %d bytes decoded, Measure said %d", KeyName(key), version, len(body), used, cost)
			}
		}
	})
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// swarm encodes a request whose arrays have n elements at the first place, then one each, with the smallest values possible,
// and one unknown tag in every structure that takes tags.
func swarm(key, version int16, n int) []byte {
	s := &schemas[key]
	e := swarmer{version: version, flexible: version >= s.flexible, n: n}
	e.structure(s.fields)
	return e.b
}

type swarmer struct {
	b        []byte
	version  int16
	flexible bool
	n        int
}

func (e *swarmer) structure(fields []field) {
	for i := range fields {
		if f := &fields[i]; !f.tagged && f.versions.has(e.version) {
			e.value(f)
		}
	}
	if e.flexible {
		e.b = append(e.b, 1, 99, 0)
	}
}

func (e *swarmer) value(f *field) {
	switch f.kind {
	case fixed:
		e.b = append(e.b, make([]byte, f.wireBytes)...)
	case text:
		e.b = appendString(e.b, "", e.flexible)
	case blob:
		e.b = appendLength(e.b, 0, e.flexible)
	case structure:
		if f.nullableAt(e.version) {
			e.b = append(e.b, 1)
		}
		e.structure(f.fields)
	case array:
		n := e.n
		e.n = 1
		e.b = appendLength(e.b, n, e.flexible)
		element := *f
		element.kind, element.nullable = f.of, versions{}
		for range n {
			e.value(&element)
		}
	}
}

func TestMeasureStopsAtTheLimit(t *testing.T) {
	const limit = 1 << 20
	body := swarm(int16(kmsg.Metadata), 12, 1_000_000)
	var err error
	used := allocated(func() { _, err = Measure(int16(kmsg.Metadata), 12, body, limit) })
	if !errors.Is(err, ErrTooLarge) || used > 64<<10 { // the runtime allocates some, too, now and then
		t.Errorf("a million topics in %d bytes: error %v, %d bytes allocated; want ErrTooLarge and none", len(body), err, used)
	}
}

// TestMeasureCountsTheAnswers: a number of four bytes is answered by a row, of which the memory is what counts.
func TestMeasureCountsTheAnswers(t *testing.T) {
	const partitions, limit = 1_000_000, 64 << 20
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = 7
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: make([]int32, partitions)}}
	body := req.AppendTo(nil)
	if _, err := Measure(int16(kmsg.OffsetFetch), 7, body, limit); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%d partitions in %d bytes: %v, want ErrTooLarge", partitions, len(body), err)
	}
	req.Topics[0].Partitions = req.Topics[0].Partitions[:partitions/10]
	cost, err := Measure(int16(kmsg.OffsetFetch), 7, req.AppendTo(nil), limit)
	if err != nil || cost < partitions/10*answerBytes {
		t.Errorf("%d partitions cost %d bytes, %v", partitions/10, cost, err)
	}
}

func TestMeasureRefusesHostileLengths(t *testing.T) {
	topics := func(n uint32) []byte { return append(binary.BigEndian.AppendUint32(nil, n), "0123456789"...) }
	for _, c := range []struct {
		name         string
		key, version int16
		body         []byte
	}{
		{"array of 2^31-1", int16(kmsg.Metadata), 1, topics(math.MaxInt32)},
		{"array of -2 where null is not allowed", int16(kmsg.Heartbeat), 4, []byte{0}},
		{"null array where null is not allowed", int16(kmsg.Metadata), 0, topics(math.MaxUint32)},
		{"compact array of 2^32-1", int16(kmsg.Metadata), 9, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}},
		{"length of six bytes", int16(kmsg.Metadata), 9, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0x01}},
		{"null string where null is not allowed", int16(kmsg.ApiVersions), 3, []byte{0, 2, '1', 0}},
		{"tags of 2^32-1", int16(kmsg.ApiVersions), 3, []byte{2, 'a', 2, '1', 0xff, 0xff, 0xff, 0xff, 0x0f}},
		{"removed key", int16(kmsg.LeaderAndISR), 0, make([]byte, 100)},
		{"negative key", -1, 0, make([]byte, 100)},
		{"key beyond the last", int16(len(schemas)), 0, make([]byte, 100)},
	} {
		if _, err := Measure(c.key, c.version, c.body, math.MaxInt64); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: error %v, want ErrMalformed", c.name, err)
		}
	}
}
