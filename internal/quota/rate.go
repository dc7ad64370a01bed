package quota

import "math"

// Window is over what time a rate is taken: Count samples of SizeMs each, the newest of which is not over yet.
type Window struct {
	Count  int
	SizeMs int64
}

// rate adds up amounts in samples. As in Kafka there is one sample more than the window has, so that the oldest one, which the
// window covers in part only, still counts; a sample begins with the first amount after the one before is over.
type rate struct {
	samples []sample
	current int
}

type sample struct {
	beginMs, lastMs int64
	sum             float64
}

func (r *rate) record(w Window, amount float64, nowMs int64) {
	if len(r.samples) == 0 {
		r.samples = append(r.samples, sample{beginMs: nowMs})
	}
	if nowMs-r.samples[r.current].beginMs >= w.SizeMs {
		r.current = (r.current + 1) % (w.Count + 1)
		if r.current >= len(r.samples) {
			r.samples = append(r.samples, sample{})
		}
		r.samples[r.current] = sample{beginMs: nowMs}
	}
	s := &r.samples[r.current]
	s.sum += amount
	s.lastMs = nowMs
}

// measure returns the amount a second and the time that it is taken over. A window that is not full yet counts as full but for its
// last sample: a client may begin with a burst.
func (r *rate) measure(w Window, nowMs int64) (perSecond float64, overMs int64) {
	sum, begin := 0.0, nowMs
	for i := range r.samples {
		s := &r.samples[i]
		if nowMs-s.lastMs >= int64(w.Count)*w.SizeMs {
			*s = sample{beginMs: nowMs, lastMs: nowMs}
		}
		sum += s.sum
		begin = min(begin, s.beginMs)
	}
	overMs = nowMs - begin
	if full, least := overMs/w.SizeMs, int64(w.Count-1); full < least {
		overMs += (least - full) * w.SizeMs
	}
	overMs = max(overMs, 1)
	return sum / (float64(overMs) / 1000), overMs
}

// excess returns how long it takes until the rate is down at the limit if nothing more comes, 0 when it is not above.
func (r *rate) excess(w Window, limit float64, nowMs int64) (waitMs int64) {
	perSecond, overMs := r.measure(w, nowMs)
	if perSecond <= limit {
		return 0
	}
	return toMs((perSecond - limit) / limit * float64(overMs))
}

// toMs rounds to whole milliseconds, of which an answer can say 2³¹-1.
func toMs(ms float64) int64 { return int64(min(math.Floor(ms+0.5), math.MaxInt32)) }

// bucket holds the tokens that mutations take. It may be overdrawn, by one taker that finds it not empty.
type bucket struct {
	used   bool
	tokens float64
	atMs   int64
}

// refill adds what has come since it was last looked at. A new bucket is full.
func (b *bucket) refill(w Window, limit float64, nowMs int64) {
	full := limit * float64(w.Count) * float64(w.SizeMs) / 1000
	if !b.used {
		b.used, b.tokens = true, full
	}
	b.tokens = min(full, b.tokens+limit*float64(nowMs-b.atMs)/1000)
	b.atMs = nowMs
}

// debtMs returns how long it takes until the bucket is not overdrawn any more.
func (b *bucket) debtMs(limit float64) int64 {
	if b.tokens >= 0 {
		return 0
	}
	return int64(min(math.Ceil(-b.tokens*1000/limit), math.MaxInt32)) // up: who comes then is not to be refused again
}
