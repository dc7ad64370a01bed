package wire

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0 takes a new one")

// newRandom returns a source that a failing test can be repeated with.
func newRandom(t testing.TB) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with: go test ./internal/wire -run '^%s$' -seed %d", t.Name(), seed)
		}
	})
	return rand.New(rand.NewPCG(seed, seed))
}

// fill puts random values into every field of a kmsg struct. Unknown tags are set where flexible says that they are sent.
func fill(rng *rand.Rand, v reflect.Value, flexible bool) {
	if tags, ok := v.Addr().Interface().(*kmsg.Tags); ok {
		if flexible && rng.IntN(4) == 0 {
			for range 1 + rng.IntN(3) {
				tags.Set(100+uint32(rng.IntN(1000)), randomBytes(rng))
			}
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Version" {
				fill(rng, v.Field(i), flexible)
			}
		}
	case reflect.Pointer:
		if rng.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(rng, v.Elem(), flexible)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(randomBytes(rng))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), rng.IntN(4), 4))
		for i := range v.Len() {
			fill(rng, v.Index(i), flexible)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(rng, v.Index(i), flexible)
		}
	case reflect.String:
		v.SetString(string(randomBytes(rng)))
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(rng.Uint64()))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(rng.Uint64() >> (64 - v.Type().Bits()))
	case reflect.Float64:
		v.SetFloat(rng.Float64())
	default:
		panic(fmt.Sprintf("no random %s", v.Type()))
	}
}

// randomBytes are mostly few, sometimes more than a compact length of one byte can say.
func randomBytes(rng *rand.Rand) []byte {
	n := rng.IntN(12)
	if rng.IntN(20) == 0 {
		n = 100 + rng.IntN(300)
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + rng.IntN(26))
	}
	return b
}

// randomRequest returns a filled request of that key and version.
func randomRequest(rng *rand.Rand, key, version int16) kmsg.Request {
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	fill(rng, reflect.ValueOf(req).Elem(), Flexible(key, version))
	return req
}

// eachVersion calls visit for every version of every request that Kafka 4.4 knows.
func eachVersion(visit func(key, version int16)) {
	for key, s := range schemas {
		for version := s.min; version <= s.max && s.fields != nil; version++ {
			visit(int16(key), version)
		}
	}
}
