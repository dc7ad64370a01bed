package record

import (
	"math/rand/v2"
	"testing"
)

// TestQuickIsTheLongWay reads sound, cut and damaged records both ways: the short way may only be faster.
func TestQuickIsTheLongWay(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	fast := 0
	for i := range 200_000 {
		b := quickRecord(random)
		switch random.IntN(4) {
		case 0:
			b = b[:random.IntN(len(b)+1)]
		case 1:
			b[random.IntN(min(len(b), 12))] = byte(random.Uint32())
		case 2:
			b = append(b, b...)
		}
		delta, offset, hasKey, n := quick(b)
		wantDelta, wantOffset, wantKey, want := quickLong(b)
		if delta != wantDelta || offset != wantOffset || hasKey != wantKey || n != want {
			t.Fatalf("record %d of seed %d: % x\nread as %d %d %v %d, want %d %d %v %d", i, seed, b, delta, offset, hasKey, n,
				wantDelta, wantOffset, wantKey, want)
		}
		if n > 0 {
			fast++
		}
	}
	if fast < 50_000 {
		t.Errorf("seed %d: only %d of 200000 records were sound: the test shows little", seed, fast)
	}
}

// quickRecord is a record without headers, its numbers of any size.
func quickRecord(random *rand.Rand) []byte {
	sized := func(body []byte) []byte { // a key or a value
		size := random.IntN(200>>random.IntN(8)+1) - 1
		body = appendVarint(body, int64(size))
		return append(body, make([]byte, max(size, 0))...)
	}
	body := appendVarint([]byte{0}, (random.Int64()-1<<62)>>random.IntN(64))
	body = appendVarint(body, int64(int32(random.Uint32())>>random.IntN(32)))
	body = append(sized(sized(body)), 0)
	return append(appendVarint(nil, int64(len(body))), body...)
}
