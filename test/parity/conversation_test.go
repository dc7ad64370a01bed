package parity

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/raw"
)

// step is one request of the conversation and how its answer is taken.
type step struct {
	name   string
	key    kmsg.Key
	v      int16
	conn   int // of the two connections
	make   func(w *world) kmsg.Request
	park   bool                          // do not read the answer yet
	take   bool                          // make nothing, read what was parked on conn
	till   func(resp kmsg.Response) bool // ask again until it holds
	settle bool                          // let the broker learn of all changes first: Apache Kafka's does a moment after it has answered
}

func (s *step) title() string { return fmt.Sprintf("%s v%d: %s", s.key.Name(), s.v, s.name) }

// conversation is what is asked, in order.
type conversation struct {
	steps     []step
	settled   bool
	instances int // of clients that push metrics
}

// add appends a request that does not depend on earlier answers.
func (c *conversation) add(name string, req kmsg.Request) *step {
	return c.with(name, kmsg.Key(req.Key()), req.GetVersion(), func(*world) kmsg.Request { return req })
}

// with appends a request that is made when its turn comes.
func (c *conversation) with(name string, key kmsg.Key, version int16, make func(w *world) kmsg.Request) *step {
	c.steps = append(c.steps, step{name: name, key: key, v: version, make: make, settle: c.settled})
	c.settled = false
	return &c.steps[len(c.steps)-1]
}

// take appends the reading of a parked answer.
func (c *conversation) take(name string, key kmsg.Key, version int16, conn int) {
	c.steps = append(c.steps, step{name: name, key: key, v: version, conn: conn, take: true})
}

// settle makes the next step wait until the broker has learned of all changes.
func (c *conversation) settle() { c.settled = true }

// nameApart numbers cases of one API and version that have one name.
func (c *conversation) nameApart() {
	titles := map[string]int{}
	for i := range c.steps {
		s := &c.steps[i]
		titles[s.title()]++
		if n := titles[s.title()]; n > 1 {
			s.name += fmt.Sprint(" #", n)
		}
	}
}

// world is one broker in the conversation, and what it has chosen so far.
type world struct {
	testing.TB
	links    [2]*raw.Conn
	parked   [2]kmsg.Request
	ids      map[string][16]byte // topic ids by name
	member   map[string]string   // the last member id that a group gave away
	given    map[string]int      // how many member ids each group gave away
	producer []int64             // the producer ids given away
	txns     map[string]raw.Txn  // the producers of transactional ids, as they were last told
	names    map[int64]string    // of producer ids with transactional ids
	session  int32               // the fetch session opened last
	asked    int32               // the subscription of clients' metrics that was answered last
	words    map[string]string   // what the broker chose → what the conversation calls it
	markers  int                 // of settle
	voter    [16]byte            // the directory of the only one
}

func newWorld(t *testing.T, address string) *world {
	return &world{
		TB: t, links: [2]*raw.Conn{raw.Dial(t, address), raw.Dial(t, address)},
		ids: map[string][16]byte{}, member: map[string]string{}, given: map[string]int{}, words: map[string]string{},
		txns: map[string]raw.Txn{}, names: map[int64]string{},
	}
}

func (w *world) patience(d time.Duration) {
	for _, l := range w.links {
		l.Patience = d
	}
}

// silence is how long a Kafka that does not answer is waited for.
const silence = 10 * time.Second

// run makes one step and returns its answer.
func (w *world) run(s *step) answer {
	w.Helper()
	l := w.links[s.conn]
	for i, req := range w.parked {
		if req != nil && i != s.conn && w.links[i].HasAnswer() {
			w.Errorf("before %q a broker has answered %s, which should wait", s.title(), raw.Describe(req))
		}
	}
	if s.take {
		req := w.parked[s.conn]
		w.parked[s.conn] = nil
		return w.fields(req, l.Answer(req, l.Last))
	}
	if s.settle {
		w.settle()
	}
	req := s.make(w)
	req.SetVersion(s.v)
	if s.park {
		l.Send(req)
		w.parked[s.conn] = req
		return parked
	}
	resp, err := l.TryAsk(req)
	for deadline := time.Now().Add(raw.Patience); s.till != nil && err == nil && !s.till(resp); resp, err = l.TryAsk(req) {
		if time.Now().After(deadline) {
			w.Fatalf("%s: what is waited for does not come: %+v", s.title(), resp)
		}
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return silent
	case err != nil:
		return closed
	}
	return w.fields(req, resp)
}

// settle changes a setting, undoes it, and returns when the broker shows neither: changes are seen in the order in which they
// are made.
func (w *world) settle() {
	w.Helper()
	l := w.links[0]
	marker := func(set string) kmsg.Request {
		return raw.IncrementalAlterConfigs(1, false, raw.Assignments{Kind: config.KindGroup, Name: "marker", Sets: []string{set}})
	}
	value := func(r *kmsg.DescribeConfigsResponse) string { return *r.Resources[0].Configs[0].Value }
	shown := raw.DescribeConfigs(4, raw.Resource{Kind: config.KindGroup, Name: "marker", Keys: []string{"consumer.session.timeout.ms"}})
	before := value(l.Ask(shown).(*kmsg.DescribeConfigsResponse))
	l.Ask(marker("consumer.session.timeout.ms=50001"))
	raw.Until(l, shown, "the marker", func(r *kmsg.DescribeConfigsResponse) bool { return value(r) == "50001" })
	l.Ask(marker("-consumer.session.timeout.ms"))
	raw.Until(l, shown, "the marker's end", func(r *kmsg.DescribeConfigsResponse) bool { return value(r) == before })
}

// waitFor asks until every one of the topics can be seen: Apache Kafka publishes them a moment after it has answered.
func (c *conversation) waitFor(names ...string) {
	c.add("wait for "+strings.Join(names, ", "), raw.Metadata(12, names)).till = func(resp kmsg.Response) bool {
		for _, t := range resp.(*kmsg.MetadataResponse).Topics {
			if t.ErrorCode != 0 {
				return false
			}
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return false
				}
			}
		}
		return true
	}
}

func (c *conversation) waitGone(names ...string) {
	c.add("wait until there is no "+strings.Join(names, ", "), raw.Metadata(12, names)).till = func(resp kmsg.Response) bool {
		for _, t := range resp.(*kmsg.MetadataResponse).Topics {
			if t.ErrorCode == 0 {
				return false
			}
		}
		return true
	}
}

// id is a topic's, or a strange one if there is no such topic.
func (w *world) id(topic string) [16]byte {
	if id, ok := w.ids[topic]; ok {
		return id
	}
	return raw.StrangeID
}

// learn keeps what the broker has chosen: ids of topics, members, producers and sessions.
func (w *world) learn(req kmsg.Request, resp kmsg.Response) {
	switch resp := resp.(type) {
	case *kmsg.CreateTopicsResponse:
		for _, t := range resp.Topics {
			if t.TopicID != [16]byte{} {
				w.ids[t.Topic] = t.TopicID
			}
		}
	case *kmsg.MetadataResponse:
		for _, t := range resp.Topics {
			if t.TopicID != [16]byte{} && t.Topic != nil && t.ErrorCode == 0 {
				w.ids[*t.Topic] = t.TopicID
			}
		}
	case *kmsg.JoinGroupResponse:
		group := req.(*kmsg.JoinGroupRequest).Group
		if id := resp.MemberID; id != "" && w.words[id] == "" && id != req.(*kmsg.JoinGroupRequest).MemberID {
			w.given[group]++
			w.words[id] = fmt.Sprintf("<member %d of %s>", w.given[group], group)
		}
		if resp.MemberID != "" {
			w.member[group] = resp.MemberID
		}
	case *kmsg.ConsumerGroupHeartbeatResponse:
		if beat := req.(*kmsg.ConsumerGroupHeartbeatRequest); beat.MemberID == "" && resp.MemberID != nil && *resp.MemberID != "" {
			w.words[*resp.MemberID] = "<a member of " + beat.Group + ">"
		}
	case *kmsg.InitProducerIDResponse:
		if resp.ErrorCode == 0 {
			w.producer = append(w.producer, resp.ProducerID)
			w.learnTxn(req.(*kmsg.InitProducerIDRequest).TransactionalID, resp.ProducerID, resp.ProducerEpoch)
		}
	case *kmsg.EndTxnResponse:
		if resp.ErrorCode == 0 && resp.ProducerID >= 0 {
			w.learnTxn(&req.(*kmsg.EndTxnRequest).TransactionalID, resp.ProducerID, resp.ProducerEpoch)
		}
	case *kmsg.GetTelemetrySubscriptionsResponse:
		if resp.ErrorCode == 0 {
			w.asked = resp.SubscriptionID
		}
	case *kmsg.DescribeQuorumResponse:
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if len(p.CurrentVoters) > 0 && resp.Version > 1 {
					w.voter = p.CurrentVoters[0].ReplicaDirectoryID
				}
			}
		}
	case *kmsg.FetchResponse:
		if resp.SessionID != 0 {
			w.session = resp.SessionID
		}
	}
}

// learnTxn keeps whom the broker calls the producer of a transactional id.
func (w *world) learnTxn(id *string, producer int64, epoch int16) {
	if id == nil {
		return
	}
	if w.names[producer] == "" {
		given := 1
		for _, name := range w.names {
			if strings.HasSuffix(name, " of "+*id+">") {
				given++
			}
		}
		w.names[producer] = fmt.Sprintf("<producer %d of %s>", given, *id)
	}
	w.txns[*id] = raw.Txn{ID: *id, Producer: producer, Epoch: epoch}
}

// producerName is what the conversation calls a producer id of a transactional id, or of a stranger to it; nothing for all others.
func (w *world) producerName(id int64) string {
	if name := w.names[id-strangers]; name != "" {
		return "<a stranger to " + name + ">"
	}
	return w.names[id]
}

// found is the field of a request with this name, if it has one.
func found(req kmsg.Request, name string) reflect.Value {
	return reflect.ValueOf(req).Elem().FieldByName(name)
}
