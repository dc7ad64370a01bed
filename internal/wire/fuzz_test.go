package wire

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzHeader: no frame makes the header parser panic or return a body that is not the frame's end.
func FuzzHeader(f *testing.F) {
	format := kmsg.NewRequestFormatter(kmsg.FormatterClientID("fuzz"))
	eachVersion(func(key, version int16) {
		req := kmsg.RequestForKey(key)
		req.SetVersion(version)
		f.Add(format.AppendRequest(nil, req, 1)[4:])
	})
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{0, 18, 0, 99, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, frame []byte) {
		var h Header
		if err := ParseHeader(frame, &h); err == nil && !bytes.HasSuffix(frame, h.Body) {
			t.Fatalf("the body %x is not the end of %x", h.Body, frame)
		}
	})
}

// FuzzRequest: whatever Measure accepts, kmsg decodes without a panic and in no more memory than Measure said.
func FuzzRequest(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	eachVersion(func(key, version int16) {
		f.Add(key, version, randomRequest(rng, key, version).AppendTo(nil))
		f.Add(key, version, swarm(key, version, 50))
	})
	f.Add(int16(kmsg.Metadata), int16(9), []byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add(int16(kmsg.Metadata), int16(1), []byte{0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		if key < 0 || int(key) >= len(schemas) || version < schemas[key].min || version > schemas[key].max {
			return
		}
		cost, _, err := measure(key, version, body, 1<<24)
		if err != nil {
			return
		}
		req := kmsg.RequestForKey(key)
		used := allocated(func() { err = DecodeKmsg(&Request{Key: key, Version: version, Body: body}, req) })
		if err != nil {
			return // kmsg knows smallest sizes that the schema walk does not look for
		}
		if float64(used) > allocationFactor*1.5*float64(cost)+1<<16 { // the fuzzer's own goroutines allocate too
			t.Fatalf("%s v%d: %d bytes took %d bytes decoded, Measure said %d", KeyName(key), version, len(body), used, cost)
		}
	})
}

// FuzzProduceRequest: our decoder and kmsg agree on every body that fits the schema.
func FuzzProduceRequest(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for version := int16(3); version <= 13; version++ {
		f.Add(version, randomRequest(rng, int16(kmsg.Produce), version).AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		if version < 3 || version > 13 {
			return
		}
		_, err := Measure(int16(kmsg.Produce), version, body, math.MaxInt64)
		var got ProduceRequest
		if decoded := got.Decode(version, body, &Names{}); (decoded == nil) != (err == nil) {
			t.Fatalf("Measure says %v, Decode says %v", err, decoded)
		}
		want := kmsg.NewPtrProduceRequest()
		want.Version = version
		if err == nil && want.ReadFrom(body) == nil {
			checkProduce(t, &got, want)
		}
	})
}

// FuzzFetchRequest: as FuzzProduceRequest.
func FuzzFetchRequest(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for version := int16(4); version <= 18; version++ {
		f.Add(version, randomFetch(rng, version).AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		if version < 4 || version > 18 {
			return
		}
		_, err := Measure(int16(kmsg.Fetch), version, body, math.MaxInt64)
		var got, again FetchRequest
		if decoded := got.Decode(version, body, &Names{}); (decoded == nil) != (err == nil) {
			t.Fatalf("Measure says %v, Decode says %v", err, decoded)
		}
		if err != nil {
			return
		}
		if err := again.Decode(version, body, &Names{}); err != nil || !reflect.DeepEqual(got.Topics, again.Topics) {
			t.Fatalf("the same body decodes in two ways: %+v, %+v, %v", got, again, err)
		}
	})
}
