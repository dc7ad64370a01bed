package api

// repeatsMax is how often, all in all, a request may name again what it has named before. Kafka answers each time. But where the answer
// is many times as long as the name, a small request would take all memory there is.
const repeatsMax = 100

// repeats counts what a request names again.
type repeats[K comparable] struct {
	seen map[K]bool // nil where the request names too little for it to matter
	left int
}

// newRepeats is for a request that names n things.
func newRepeats[K comparable](n int) repeats[K] {
	if n <= repeatsMax {
		return repeats[K]{}
	}
	return repeats[K]{seen: make(map[K]bool), left: repeatsMax}
}

// tooMany takes note of a name, and tells whether it is not answered any more.
func (r *repeats[K]) tooMany(name K) bool {
	switch {
	case r.seen == nil:
		return false
	case !r.seen[name]:
		r.seen[name] = true
		return false
	}
	r.left--
	return r.left < 0
}
