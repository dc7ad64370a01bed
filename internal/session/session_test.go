package session

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
)

// consumer speaks to a cache as a consumer does.
type consumer struct {
	t     *testing.T
	cache *Cache
	nowMs int64
	id    ID
	epoch int32
}

func newConsumer(t *testing.T, slots int) *consumer {
	return &consumer{t: t, cache: NewCache(slots, rand.New(rand.NewPCG(1, 2)))}
}

func part(topic string, index int32, offset kafka.Offset) Partition {
	return Partition{Key: Key{Topic: topic, Partition: index}, FetchOffset: offset, MaxBytes: 100}
}

// fetch sends one request; answers tells what is read, by topic. It returns the partitions that were read and those in the
// answer, by their topics' names.
func (c *consumer) fetch(r Request, answers map[string]Answer) (read, told []string, err error) {
	c.t.Helper()
	f, parts, err := c.cache.Begin(r, c.nowMs, nil)
	if err != nil {
		return nil, nil, err
	}
	list := make([]Answer, len(parts))
	for i, p := range parts {
		read = append(read, p.Topic)
		list[i] = answers[p.Topic]
	}
	id, err := c.cache.End(&f, parts, list, c.nowMs, func(i int, must bool) {
		if must {
			told = append(told, parts[i].Topic)
		}
	})
	c.id = id
	return read, told, err
}

func (c *consumer) open(parts ...Partition) {
	c.t.Helper()
	if _, _, err := c.fetch(Request{Partitions: parts}, nil); err != nil {
		c.t.Fatal(err)
	}
	c.epoch = 1
}

// next sends the session's next incremental request.
func (c *consumer) next(answers map[string]Answer, forget []Key, parts ...Partition) (read, told []string) {
	c.t.Helper()
	read, told, err := c.fetch(Request{ID: c.id, Epoch: c.epoch, Partitions: parts, Forget: forget}, answers)
	if err != nil {
		c.t.Fatalf("incremental fetch at epoch %d: %v", c.epoch, err)
	}
	c.epoch++
	return read, told
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestRule74SessionEpochs(t *testing.T) {
	c := newConsumer(t, 10)
	one := []Partition{part("a", 0, 0)}
	if _, _, err := c.fetch(Request{ID: 77, Epoch: 1}, nil); err != kafka.FetchSessionIdNotFound {
		t.Errorf("unknown session: %v, want FETCH_SESSION_ID_NOT_FOUND", err)
	}
	if _, _, err := c.fetch(Request{ID: None, Epoch: EpochFinal, Partitions: one}, nil); err != nil || c.id != None || c.cache.Len() != 0 {
		t.Errorf("(0, -1): id %d, %d sessions, %v, want none", c.id, c.cache.Len(), err)
	}
	c.open(one...)
	id := c.id
	if id == None || c.cache.Len() != 1 {
		t.Fatalf("(0, 0): id %d, %d sessions, want one", id, c.cache.Len())
	}
	for _, epoch := range []int32{2, 7} {
		if _, _, err := c.fetch(Request{ID: id, Epoch: epoch}, nil); err != kafka.InvalidFetchSessionEpoch {
			t.Errorf("epoch %d instead of 1: %v, want INVALID_FETCH_SESSION_EPOCH", epoch, err)
		}
	}
	if _, _, err := c.fetch(Request{ID: id, Epoch: 1, ByID: true}, nil); err != kafka.FetchSessionTopicIdError {
		t.Errorf("ids in a session of names: %v, want FETCH_SESSION_TOPIC_ID_ERROR", err)
	}
	c.id = id
	if read, _ := c.next(nil, nil); len(read) != 1 {
		t.Errorf("the session after all that reads %v, want its partition", read)
	}
	if _, _, err := c.fetch(Request{ID: id, Epoch: EpochFinal, Partitions: one}, nil); err != nil || c.id != None || c.cache.Len() != 0 {
		t.Errorf("(id, -1): id %d, %d sessions, %v, want it closed", c.id, c.cache.Len(), err)
	}
	if _, _, err := c.fetch(Request{ID: id, Epoch: 2}, nil); err != kafka.FetchSessionIdNotFound {
		t.Errorf("closed session: %v, want FETCH_SESSION_ID_NOT_FOUND", err)
	}
}

func TestRule74EpochWrapsToOne(t *testing.T) {
	c := newConsumer(t, 10)
	c.open(part("a", 0, 0))
	c.cache.sessions[c.id].epoch = math.MaxInt32
	c.epoch = math.MaxInt32
	c.next(nil, nil)
	c.epoch = 1
	c.next(nil, nil)
}

func TestFullFetchClosesTheSessionItNames(t *testing.T) {
	c := newConsumer(t, 10)
	c.open(part("a", 0, 0))
	old := c.id
	if _, _, err := c.fetch(Request{ID: old, Epoch: EpochInitial, Partitions: []Partition{part("a", 0, 0)}}, nil); err != nil {
		t.Fatal(err)
	}
	if c.id == old || c.id == None || c.cache.Len() != 1 {
		t.Errorf("id %d after %d, %d sessions, want a new one alone", c.id, old, c.cache.Len())
	}
}

func TestIncrementalAnswerHoldsOnlyWhatChanged(t *testing.T) {
	c := newConsumer(t, 10)
	quiet := Answer{HighWatermark: 5}
	c.open(part("a", 0, 0), part("b", 0, 0), part("c", 0, 0))
	// What was told with the first answer is all zeros: the watermark of 5 is news once.
	all := map[string]Answer{"a": quiet, "b": quiet, "c": quiet}
	_, told := c.next(all, nil)
	same(t, "first watermark", told, []string{"a", "b", "c"})
	_, told = c.next(all, nil)
	same(t, "nothing new", told, nil)

	_, told = c.next(map[string]Answer{"a": quiet, "b": {HighWatermark: 5, Bytes: 10}, "c": quiet}, nil)
	same(t, "records", told, []string{"b"})
	_, told = c.next(map[string]Answer{"a": {HighWatermark: 6}, "b": quiet, "c": {HighWatermark: 5, LogStart: 2}}, nil)
	same(t, "watermark of a, log start of c", told, []string{"a", "c"})
	_, told = c.next(map[string]Answer{"a": {HighWatermark: 6}, "b": {HighWatermark: 5, Diverging: true}, "c": {HighWatermark: 5, LogStart: 2}}, nil)
	same(t, "diverging epoch", told, []string{"b"})

	failed := map[string]Answer{"a": {HighWatermark: 6}, "b": quiet, "c": {Error: kafka.NotLeaderOrFollower, HighWatermark: -1, LogStart: -1}}
	_, told = c.next(failed, nil)
	same(t, "error", told, []string{"c"})
	_, told = c.next(failed, nil)
	same(t, "error again", told, []string{"c"})
	_, told = c.next(map[string]Answer{"a": {HighWatermark: 6}, "b": quiet, "c": {HighWatermark: 5, LogStart: 2}}, nil)
	same(t, "error gone", told, []string{"c"})
}

func TestPartitionsWithRecordsMoveToTheEnd(t *testing.T) {
	c := newConsumer(t, 10)
	c.open(part("a", 0, 0), part("b", 0, 0), part("c", 0, 0))
	c.next(map[string]Answer{"a": {Bytes: 1}}, nil)
	read, _ := c.next(map[string]Answer{"b": {Bytes: 1}}, nil)
	same(t, "after records of a", read, []string{"b", "c", "a"})
	read, _ = c.next(nil, nil)
	same(t, "after records of b", read, []string{"c", "a", "b"})
}

func TestSessionAddsUpdatesAndForgets(t *testing.T) {
	c := newConsumer(t, 10)
	c.open(part("a", 0, 0), part("b", 0, 0))
	read, _ := c.next(nil, []Key{{Topic: "a"}}, part("d", 0, 3))
	same(t, "a forgotten, d added", read, []string{"b", "d"})
	_, parts, err := c.cache.Begin(Request{ID: c.id, Epoch: c.epoch, Partitions: []Partition{part("b", 0, 42)}}, 0, nil)
	if err != nil || parts[0].FetchOffset != 42 {
		t.Errorf("b is read from %v, %v, want 42", parts, err)
	}
	c.epoch++
	c.next(nil, []Key{{Topic: "b"}, {Topic: "d"}})
	if c.id != None || c.cache.Len() != 0 {
		t.Errorf("a session without partitions: id %d, %d sessions, want it closed", c.id, c.cache.Len())
	}
}

func TestRule75SessionRemembersEpochsAndIDs(t *testing.T) {
	c := newConsumer(t, 10)
	id := kafka.TopicID{1, 2, 3}
	p := Partition{Key: Key{ID: id, Partition: 4}, CurrentLeaderEpoch: 7, LastFetchedEpoch: 6, FetchOffset: 9, MaxBytes: 11}
	if _, _, err := c.fetch(Request{ByID: true, Partitions: []Partition{p}}, nil); err != nil {
		t.Fatal(err)
	}
	_, parts, err := c.cache.Begin(Request{ID: c.id, Epoch: 1, ByID: true}, 0, nil)
	if err != nil || len(parts) != 1 {
		t.Fatalf("incremental fetch: %v, %v", parts, err)
	}
	got := parts[0]
	got.entry = nil
	if got != p {
		t.Errorf("the session reads %+v, want %+v", got, p)
	}
	if _, _, err := c.cache.Begin(Request{ID: c.id, Epoch: 2}, 0, nil); err != kafka.FetchSessionTopicIdError {
		t.Errorf("names in a session of ids: %v, want FETCH_SESSION_TOPIC_ID_ERROR", err)
	}
}

func TestOvertakenRequestIsTold(t *testing.T) {
	c := newConsumer(t, 10)
	c.open(part("a", 0, 0))
	f, parts, err := c.cache.Begin(Request{ID: c.id, Epoch: 1}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.epoch = 2
	c.next(nil, nil)
	if _, err := c.cache.End(&f, parts, make([]Answer, 1), 0, func(int, bool) {}); err == nil {
		t.Error("the request that was overtaken ends well")
	}
}

func TestNewcomersMakePlaceByAgeAndSize(t *testing.T) {
	big := []Partition{part("a", 0, 0), part("b", 0, 0), part("c", 0, 0)}
	c := newConsumer(t, 2)
	c.open(big[:1]...)
	small := c.id
	c.open(big[:2]...)
	middle := c.id

	c.open(big...)
	if c.id != None {
		t.Error("a large session took the place of one that has not had its two minutes")
	}
	// Both are older than two minutes and in use: the smallest goes, but not for one of its own size.
	c.nowMs = evictAfterMs + 1
	for _, id := range []ID{small, middle} {
		if _, _, err := c.fetch(Request{ID: id, Epoch: 1}, nil); err != nil {
			t.Fatal(err)
		}
	}
	c.open(part("x", 0, 0))
	if c.id != None {
		t.Error("a session of one partition took the place of another of one")
	}
	c.open(big...)
	if _, alive := c.cache.sessions[small]; c.id == None || alive || c.cache.Evicted() != 1 {
		t.Errorf("id %d, smallest alive %v, want it replaced", c.id, alive)
	}
	// Unused for two minutes: any newcomer takes its place.
	c.nowMs += evictAfterMs + 1
	c.open(part("x", 0, 0))
	if _, alive := c.cache.sessions[middle]; c.id == None || alive {
		t.Errorf("id %d, unused alive %v, want it replaced", c.id, alive)
	}
}

func TestFollowersTakeConsumersPlaces(t *testing.T) {
	c := newConsumer(t, 1)
	c.open(part("a", 0, 0), part("b", 0, 0))
	if _, _, err := c.fetch(Request{Follower: true, Partitions: []Partition{part("r", 0, 0)}}, nil); err != nil || c.id == None {
		t.Fatalf("follower: id %d, %v, want a session", c.id, err)
	}
	c.open(part("a", 0, 0), part("b", 0, 0))
	if c.id != None {
		t.Error("a consumer took a follower's place")
	}
}

func TestNoSlotsMeansNoSessions(t *testing.T) {
	c := newConsumer(t, 0)
	_, told, err := c.fetch(Request{Partitions: []Partition{part("a", 0, 0)}}, nil)
	if err != nil || c.id != None {
		t.Errorf("id %d, %v, want a full answer without a session", c.id, err)
	}
	same(t, "full answer", told, []string{"a"})
}

// TestSessionsAgainstAModel fetches at random and compares what is read with a plain map.
func TestSessionsAgainstAModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	c := newConsumer(t, 4)
	names := []string{"a", "b", "c", "d", "e", "f"}
	model := map[string]kafka.Offset{}
	for range 2000 {
		var parts []Partition
		var forget []Key
		for _, name := range names {
			switch random.IntN(6) {
			case 0:
				parts = append(parts, part(name, 0, kafka.Offset(random.IntN(100))))
			case 1:
				forget = append(forget, Key{Topic: name})
			}
		}
		if c.id == None {
			forget = nil
			model = map[string]kafka.Offset{}
		}
		for _, p := range parts {
			model[p.Topic] = p.FetchOffset
		}
		for _, k := range forget {
			delete(model, k.Topic)
		}
		r := Request{ID: c.id, Epoch: c.epoch, Partitions: parts, Forget: forget}
		if c.id == None {
			r.Epoch = EpochInitial
		}
		f, read, err := c.cache.Begin(r, 0, nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(model) > 0 {
			for _, p := range read {
				if offset, ok := model[p.Topic]; !ok || offset != p.FetchOffset {
					t.Fatalf("seed %d: reads %s from %d, want %d, %v", seed, p.Topic, p.FetchOffset, offset, ok)
				}
			}
			if len(read) != len(model) {
				t.Fatalf("seed %d: reads %d partitions, want %d", seed, len(read), len(model))
			}
		}
		c.id, err = c.cache.End(&f, read, make([]Answer, len(read)), 0, func(int, bool) {})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		c.epoch = nextEpoch(r.Epoch)
		if c.cache.Len() > 1 {
			t.Fatalf("seed %d: %d sessions of one consumer", seed, c.cache.Len())
		}
	}
}

// TestPartitionsOfAllSessionsAreLimited: slots alone would let a client keep as many as its requests can name.
func TestPartitionsOfAllSessionsAreLimited(t *testing.T) {
	many := make([]Partition, partitionsPerSlot)
	for i := range many {
		many[i] = part("a", int32(i), 0)
	}
	c := newConsumer(t, 2)
	c.cache.weightMax = 2 * partitionsPerSlot
	c.open(many...)
	first := c.id
	c.open(many[:partitionsPerSlot-1]...)
	second := c.id
	if first == None || second == None {
		t.Fatalf("sessions %d and %d within the limit", first, second)
	}
	// One more is the last, two are too many: that session ends, and its consumer begins anew.
	if _, _, err := c.fetch(Request{ID: first, Epoch: 1, Partitions: []Partition{part("b", 0, 0)}}, nil); err != nil {
		t.Fatalf("at the limit: %v", err)
	}
	_, _, err := c.fetch(Request{ID: first, Epoch: 2, Partitions: []Partition{part("c", 0, 0)}}, nil)
	if !errors.Is(err, kafka.FetchSessionIdNotFound) || c.cache.Len() != 1 || c.cache.weight != partitionsPerSlot-1 {
		t.Fatalf("beyond the limit: %v, %d sessions of weight %d; want %v, 1 of %d",
			err, c.cache.Len(), c.cache.weight, kafka.FetchSessionIdNotFound, partitionsPerSlot-1)
	}
	// A name that is no topic's counts for what it takes.
	c.open(part(strings.Repeat("x", 32_000), 0, 0), part(strings.Repeat("y", 20_000), 0, 0))
	if c.id != None {
		t.Error("long names make a session beyond the limit")
	}
	c.nowMs = evictAfterMs + 1
	c.open(many...)
	c.open(many...)
	if c.id == None || c.cache.Len() != 2 || c.cache.weight != 2*partitionsPerSlot {
		t.Errorf("%d sessions of weight %d; want the unused one gone for two of %d", c.cache.Len(), c.cache.weight, partitionsPerSlot)
	}
	if _, _, err := c.fetch(Request{ID: c.id, Epoch: EpochFinal}, nil); err != nil || c.cache.weight != partitionsPerSlot {
		t.Errorf("one closed: %v, weight %d, want %d", err, c.cache.weight, partitionsPerSlot)
	}
}
