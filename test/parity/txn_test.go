package parity

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
)

// minute is the timeout of transactions that end before it.
const minute = 60_000

// transactions takes transactional ids through their lives at each version of each API, and tries what producers may not.
func (c *conversation) transactions() {
	var topics []kmsg.CreateTopicsRequestTopic
	for _, name := range []string{"tx", "txflow", "txsent", "txfenced", "txmarked", "txlevels", "txread"} {
		topic := raw.NewTopic(name, 3, 1, "retention.ms", "-1", "segment.ms", "9223372036854775807")
		if name == "txsent" { // whose records are old, so that each marker begins a segment
			topic = raw.NewTopic(name, 3, 1, "retention.ms", "-1")
		}
		topics = append(topics, topic)
	}
	c.add("for transactions", raw.CreateTopics(7, topics...))
	var rows []raw.ListRow
	for _, t := range topics {
		c.waitFor(t.Topic)
		for p := range t.NumPartitions {
			rows = append(rows, raw.ListRow{Topic: t.Topic, Partition: p, Timestamp: -1})
		}
	}
	c.add("wait for leaders of transactions", raw.ListOffsets(1, rows...)).till = ledBySomebody
	c.transactionCoordinators()
	c.transactionalIDs()
	for _, v := range raw.VersionsOf(kmsg.EndTxn) {
		c.transactionFlow("", v, true)
		c.transactionFlow("", v, false)
	}
	c.readCommitted()
	c.fenced()
	c.sentInTransactions()
	c.transactionalOffsets()
	c.askedByBrokers()
	c.transactionLists()
	c.forgedMarkers()
	c.timedOut()
	c.transactionLevels()
}

// who is a producer as a step finds it when its turn comes.
type who func(w *world) raw.Txn

// producer is the one that was last told that it has a transactional id.
func producer(id string) who {
	return func(w *world) raw.Txn {
		if t, known := w.txns[id]; known {
			return t
		}
		return raw.NewTxn(id)
	}
}

// epochs is the producer so many epochs later.
func (p who) epochs(n int16) who {
	return func(w *world) raw.Txn {
		t := p(w)
		t.Epoch += n
		return t
	}
}

// strangers have producer ids so far above those that are given away.
const strangers = 1_000_000

// stranger is one with another producer id.
func (p who) stranger() who {
	return func(w *world) raw.Txn {
		t := p(w)
		t.Producer += strangers
		return t
	}
}

// under is the producer under another transactional id.
func (p who) under(id string) who {
	return func(w *world) raw.Txn {
		t := p(w)
		t.ID = id
		return t
	}
}

// newcomer is one that was told nothing.
func newcomer(id string) who { return func(*world) raw.Txn { return raw.NewTxn(id) } }

// in names partitions of a topic.
func in(topic string, numbers ...int32) raw.Partitions {
	return raw.Partitions{Topic: topic, Numbers: numbers}
}

func (c *conversation) inits(name string, v int16, p who, timeoutMs int32) *step {
	return c.with(name, kmsg.InitProducerID, v, func(w *world) kmsg.Request { return p(w).Init(v, timeoutMs) })
}

func (c *conversation) adds(name string, v int16, p who, topics ...raw.Partitions) *step {
	return c.with(name, kmsg.AddPartitionsToTxn, v, func(w *world) kmsg.Request { return p(w).Add(v, topics...) })
}

func (c *conversation) verifies(name string, v int16, p who, topics ...raw.Partitions) *step {
	return c.with(name, kmsg.AddPartitionsToTxn, v, func(w *world) kmsg.Request { return p(w).Verify(v, topics...) })
}

func (c *conversation) addsOffsets(name string, v int16, p who, group string) *step {
	return c.with(name, kmsg.AddOffsetsToTxn, v, func(w *world) kmsg.Request { return p(w).AddOffsets(v, group) })
}

func (c *conversation) ends(name string, v int16, p who, commit bool) *step {
	return c.with(name, kmsg.EndTxn, v, func(w *world) kmsg.Request { return p(w).End(v, commit) })
}

// sends produces one batch, of which n are its records.
func (c *conversation) sends(name string, v int16, p who, base kafka.Sequence, n int, topic string, partition int32) *step {
	return c.with(name, kmsg.Produce, v, func(w *world) kmsg.Request {
		t := p(w)
		return t.Produce(v, w.row(v, topic, partition, t.Batch(base, n)))
	})
}

// row is a row of a Produce: version 13 names topics by their ids.
func (w *world) row(v int16, topic string, partition int32, records []byte) raw.ProduceRow {
	if v >= 13 {
		return raw.ProduceRow{ID: w.id(topic), Partition: partition, Records: records}
	}
	return to(topic, partition, records)
}

// begins makes a producer of the id, or of the same the next one.
func (c *conversation) begins(id string) who {
	c.inits("of "+id, 4, newcomer(id), minute).till = calm
	return producer(id)
}

// over waits until the markers of a transaction are written.
func (c *conversation) over(id string) {
	c.add("until "+id+" is over", raw.DescribeTransactions(id)).till = func(resp kmsg.Response) bool {
		return !strings.HasPrefix(resp.(*kmsg.DescribeTransactionsResponse).TransactionStates[0].State, "Prepare")
	}
}

// calm tells whether an answer is not that the coordinator is busy.
func calm(resp kmsg.Response) bool {
	code := kafka.None
	switch resp := resp.(type) {
	case *kmsg.InitProducerIDResponse:
		code = kafka.Error(resp.ErrorCode)
	case *kmsg.EndTxnResponse:
		code = kafka.Error(resp.ErrorCode)
	case *kmsg.AddOffsetsToTxnResponse:
		code = kafka.Error(resp.ErrorCode)
	case *kmsg.AddPartitionsToTxnResponse:
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				code = max(code, kafka.Error(p.ErrorCode))
			}
		}
	}
	return code != kafka.ConcurrentTransactions && code != kafka.NotCoordinator && code != kafka.CoordinatorNotAvailable &&
		code != kafka.CoordinatorLoadInProgress
}

// look shows what a transactional id and the partitions of a topic are at, from all sides.
func (c *conversation) look(when, id, topic string, partitions ...int32) {
	c.add(when, raw.DescribeTransactions(id))
	c.add(when, describeProducers(topic, partitions...))
	for _, isolation := range []int8{0, 1} {
		name := fmt.Sprintf("%s, isolation %d", when, isolation)
		var reads []raw.FetchRow
		var rows []raw.ListRow
		for _, n := range partitions {
			reads = append(reads, from(topic, n, 0))
			rows = append(rows, raw.ListRow{Topic: topic, Partition: n, Timestamp: -1})
		}
		c.fetch(name, 12, func(_ *world, r *kmsg.FetchRequest) { r.IsolationLevel = isolation }, reads...)
		list := raw.ListOffsets(5, rows...)
		list.IsolationLevel = isolation
		c.add(name, list)
	}
}

func (c *conversation) transactionCoordinators() {
	for _, v := range raw.VersionsOf(kmsg.FindCoordinator) {
		for _, key := range []string{"tx", "", "grüppe ☃"} {
			req := raw.At(v, kmsg.NewPtrFindCoordinatorRequest())
			req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = 1, key, []string{key, "another", key}
			c.add(fmt.Sprintf("type 1, key %q", key), req).till = raw.Found
		}
	}
}

// transactionalIDs asks for producer ids at each version: for the first time, again, with any timeout, and as one that has one.
func (c *conversation) transactionalIDs() {
	for _, v := range raw.VersionsOf(kmsg.InitProducerID) {
		id := fmt.Sprint("init", v)
		me := producer(id)
		c.inits("a new transactional id", v, newcomer(id), minute).till = calm
		c.inits("a transactional id again", v, newcomer(id), minute)
		for _, timeout := range []int32{0, -1, 1, 900_000, 900_001, 1<<31 - 1} {
			c.inits(fmt.Sprint("transactional, timeout ", timeout), v, newcomer(fmt.Sprint("init-timeout", v)), timeout)
		}
		c.inits("an old transactional id, timeout 0", v, newcomer(id), 0)
		c.inits("an old transactional id, another timeout", v, newcomer(id), 30_000)
		c.add("with another timeout, asked at version "+fmt.Sprint(v), raw.DescribeTransactions(id))
		if v >= 3 {
			c.inits("as it is", v, me, minute)
			c.inits("as it was", v, me.epochs(-1), minute)
			c.inits("as it was once more", v, me.epochs(-1), minute)
			c.inits("as it was long ago", v, me.epochs(-2), minute)
			c.inits("an epoch ahead", v, me.epochs(1), minute)
			c.inits("another producer id", v, me.stranger(), minute)
			c.inits("an id nobody knows, as a producer", v, me.under(fmt.Sprint("init-unheard-of", v)), minute)
			c.inits("as it is, timeout -1", v, me, -1)
		}
		c.adds("before it is taken over, at version "+fmt.Sprint(v), 3, me, in("tx", 0)).till = calm
		c.inits("rule 57: over an open transaction", v, newcomer(id), minute)
		c.over(id)
		c.add("rule 57: taken over at version "+fmt.Sprint(v), raw.DescribeTransactions(id))
		c.inits("rule 57: when it was aborted", v, newcomer(id), minute).till = calm
		if v >= 3 {
			c.adds("before it goes on, at version "+fmt.Sprint(v), 3, me, in("tx", 0)).till = calm
			c.inits("as it is, over its open transaction", v, me, minute)
			c.over(id)
			c.add("went on at version "+fmt.Sprint(v), raw.DescribeTransactions(id))
			c.inits("as it is, when that was aborted", v, me, minute).till = calm
			c.inits("as it was when that was aborted", v, me.epochs(-1), minute)
			c.inits("as it was when it was begun", v, me.epochs(-2), minute)
		}
	}
}

// transactionFlow takes a producer of some age through a transaction, and tries at each station what must not be done there.
func (c *conversation) transactionFlow(mark string, v int16, commit bool) {
	id := fmt.Sprintf("flow%s%d-%v", mark, v, commit)
	topic, partition := "txflow", int32(v%3)
	if mark != "" {
		topic = "txlevels"
	}
	av, pv := min(v, 3), []int16{3, 7, 9, 10, 11, 12}[v]
	me := c.begins(id)
	c.look(id+" is new", id, topic, partition)
	c.ends(id+": nothing to end", v, me, commit)
	c.over(id)
	c.ends(id+": nothing to end again", v, me, commit).till = calm
	c.over(id)
	c.inits(id+": once more", min(v, 5), newcomer(id), minute).till = calm
	c.sends(id+": before it was added", pv, me, 0, 1, topic, partition)
	c.adds(id+": right and wrong", av, me, in(topic, partition), in("nope", 0), in(topic, 9, -1))
	c.adds(id+": unknown topic", av, me, in("nope", 0, 1))
	c.adds(id+": no topics", av, me)
	c.adds(id+": no partitions", av, me, in(topic))
	c.adds(id+": the brokers' own", av, me, in("__consumer_offsets", 0))
	c.adds(id+": an epoch ago", av, me.epochs(-1), in(topic, partition))
	c.adds(id+": an epoch ahead", av, me.epochs(1), in(topic, partition))
	c.adds(id+": another producer id", av, me.stranger(), in(topic, partition))
	c.adds(id+": nobody knows the id", av, me.under("unheard-of"), in(topic, partition))
	c.adds(id+": no id", av, me.under(""), in(topic, partition))
	c.adds(id+": right", av, me, in(topic, partition))
	c.adds(id+": again", av, me, in(topic, partition))
	c.add(id+" has begun", raw.DescribeTransactions(id))
	c.sends(id+": first", pv, me, kafka.Sequence(b2i(v >= 5)), 2, topic, partition)
	c.sends(id+": first again", pv, me, kafka.Sequence(b2i(v >= 5)), 2, topic, partition)
	c.sends(id+": of a gap", pv, me, 7, 1, topic, partition)
	c.look(id+" is open", id, topic, partition)
	c.ends(id+": another producer id", v, me.stranger(), commit)
	c.ends(id+": an epoch ago", v, me.epochs(-1), commit)
	c.ends(id+": an epoch ahead", v, me.epochs(1), commit)
	c.ends(id+": nobody knows the id", v, me.under("unheard-of"), commit)
	c.ends(id+": no id", v, me.under(""), commit)
	c.ends(id+": right", v, me, commit)
	c.over(id)
	c.look(id+" has ended", id, topic, partition)
	bumped := int16(b2i(v >= 5))
	c.ends(id+": a second time, as before", v, me.epochs(-bumped), commit).till = calm
	c.over(id)
	c.ends(id+": the opposite, as before", v, me.epochs(-bumped), !commit).till = calm
	c.over(id)
	c.ends(id+": a second time", v, me, commit).till = calm
	c.over(id)
	c.ends(id+": the opposite", v, me, !commit).till = calm
	c.over(id)
	c.sends(id+": rule 67: of the old epoch", pv, me.epochs(-1), 2, 1, topic, partition)
	c.look(id+" has ended twice", id, topic, partition)
	c.adds(id+": the next", av, me, in(topic, partition)).till = calm
	c.sends(id+": of the next, sequence 0", pv, me, 0, 1, topic, partition)
	c.sends(id+": of the next, sequence 2", pv, me, 2, 1, topic, partition)
	c.ends(id+": the next", v, me, !commit)
	c.over(id)
	c.look(id+" has ended again", id, topic, partition)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// readCommitted reads a partition in which transactions have ended in another order than they began, at each version.
func (c *conversation) readCommitted() {
	for i, id := range []string{"read0", "read1", "read2", "read3"} {
		me := c.begins(id)
		c.sends("of "+id, 12, me, 0, 2, "txread", 0)
		c.sends("more of "+id, 12, me, kafka.Sequence(2-i%2*2), 1, "txread", int32(i%2))
	}
	c.produce("between transactions", 9, -1, to("txread", 0, raw.Values("plain")))
	c.readAtEachVersion("four open")
	for _, end := range []struct {
		id     string
		commit bool
	}{{"read1", false}, {"read0", true}, {"read3", false}, {"read2", false}} {
		c.ends("of "+end.id, 5, producer(end.id), end.commit)
		c.over(end.id)
		c.readAtEachVersion(end.id + " has ended")
	}
}

func (c *conversation) readAtEachVersion(when string) {
	for _, v := range raw.VersionsOf(kmsg.Fetch) {
		for _, offset := range []int64{0, 3, 5, 9, 13} {
			c.fetch(fmt.Sprintf("%s, committed from %d", when, offset), v, func(_ *world, r *kmsg.FetchRequest) {
				r.IsolationLevel = 1
			}, from("txread", 0, offset), from("txread", 1, 0))
		}
		c.fetch(when+", a limit of 1", v, func(_ *world, r *kmsg.FetchRequest) { r.IsolationLevel, r.MaxBytes = 1, 1 }, from("txread", 0, 0))
		c.fetch(when+", all", v, nil, from("txread", 0, 0))
	}
	for _, v := range raw.VersionsOf(kmsg.ListOffsets) {
		for _, at := range []int64{-1, -2, -3, raw.LongAgoMs, raw.LongAgoMs + 1} {
			if at == -3 && v < 7 {
				continue
			}
			req := raw.ListOffsets(v, raw.ListRow{Topic: "txread", Timestamp: at}, raw.ListRow{Topic: "txread", Partition: 1, Timestamp: at})
			req.IsolationLevel = 1
			c.add(fmt.Sprintf("%s, committed, at %d", when, at), req)
		}
	}
}

// fenced has a producer that another one has taken the place of try everything.
func (c *conversation) fenced() {
	old := producer("fenced").epochs(-2)
	c.adds("before a fence", 3, c.begins("fenced"), in("txfenced", 0))
	c.sends("before a fence", 11, producer("fenced"), 0, 1, "txfenced", 0)
	c.addsOffsets("before a fence", 3, producer("fenced"), "fenced-group")
	c.inits("a fence", 4, newcomer("fenced"), minute)
	c.over("fenced")
	c.inits("behind a fence", 4, newcomer("fenced"), minute).till = calm
	for _, p := range []struct {
		name string
		who
	}{{"rule 56: fenced", old}, {"rule 56: the epoch of the fence", producer("fenced").epochs(-1)}} {
		for _, v := range raw.VersionsOf(kmsg.InitProducerID) {
			if v >= 3 {
				c.inits(p.name, v, p.who, minute)
			}
		}
		for _, v := range raw.VersionsOf(kmsg.AddPartitionsToTxn) {
			c.adds(p.name, v, p.who, in("txfenced", 0))
			if v >= 4 {
				c.verifies(p.name+", verified", v, p.who, in("txfenced", 0))
			}
		}
		for _, v := range raw.VersionsOf(kmsg.AddOffsetsToTxn) {
			c.addsOffsets(p.name, v, p.who, "fenced-group")
		}
		for _, v := range raw.VersionsOf(kmsg.Produce) {
			c.sends(p.name, v, p.who, 0, 1, "txfenced", 0)
			c.sends(p.name+", goes on", v, p.who, 1, 1, "txfenced", 0)
			c.sends(p.name+", elsewhere", v, p.who, 0, 1, "txfenced", 1)
		}
		for _, v := range raw.VersionsOf(kmsg.TxnOffsetCommit) {
			c.commits(p.name, v, p.who, "fenced-group", nobody, "tx", 0)
		}
		for _, v := range raw.VersionsOf(kmsg.EndTxn) {
			c.ends(p.name+" commits", v, p.who, true)
			c.ends(p.name+" aborts", v, p.who, false)
		}
	}
	c.look("after a fence", "fenced", "txfenced", 0, 1)
}

// sentInTransactions produces at each version what belongs to a transaction and what does not.
func (c *conversation) sentInTransactions() {
	for _, v := range raw.VersionsOf(kmsg.Produce) {
		id := fmt.Sprint("sent", v)
		me := c.begins(id)
		send := func(name string, make func(w *world, t raw.Txn) kmsg.Request) {
			c.with(name, kmsg.Produce, v, func(w *world) kmsg.Request { return make(w, me(w)) })
		}
		c.sends("rule 67: not added, nothing is open", v, me, 0, 1, "txsent", 0)
		c.ends("whatever was begun by version "+fmt.Sprint(v), 4, me, false).till = calm
		c.over(id)
		c.inits("for sending at version "+fmt.Sprint(v), 4, newcomer(id), minute).till = calm
		c.adds("for sending at version "+fmt.Sprint(v), 3, me, in("txsent", 0, 1)).till = calm
		c.sends("rule 67: not added, another is", v, me, 0, 1, "txsent", 2)
		c.sends("in a transaction", v, me, 0, 1, "txsent", 0)
		c.sends("in a transaction, again", v, me, 0, 1, "txsent", 0)
		c.sends("in a transaction, goes on", v, me, 1, 2, "txsent", 0)
		c.sends("in a transaction, a gap", v, me, 9, 1, "txsent", 0)
		c.sends("in a transaction, a gap at the beginning", v, me, 3, 1, "txsent", 1)
		c.sends("in a transaction, an epoch ahead", v, me.epochs(1), 0, 1, "txsent", 0)
		c.sends("in a transaction, an epoch ago", v, me.epochs(-1), 0, 1, "txsent", 0)
		c.sends("in a transaction, another producer id", v, me.stranger(), 0, 1, "txsent", 0)
		c.sends("in a transaction, under another id", v, me.under("unheard-of"), 0, 1, "txsent", 1)
		c.sends("in a transaction, under no id", v, me.under(""), 0, 1, "txsent", 1)
		c.sends("in a transaction, an unknown partition", v, me, 0, 1, "txsent", 9)
		c.sends("in a transaction, an unknown topic", v, me, 0, 1, "nope", 0)
		if v < 12 { // from which on Kafka adds the partition, and refuses the records then
			c.sends("in a transaction, the brokers' own topic", v, me, 0, 1, "__consumer_offsets", 0)
		}
		send("in a transaction, no transactional id", func(w *world, t raw.Txn) kmsg.Request {
			return raw.Produce(v, -1, w.row(v, "txsent", 0, t.Batch(3, 1)))
		})
		send("a transactional id, a batch that is in none", func(w *world, t raw.Txn) kmsg.Request {
			return t.Produce(v, w.row(v, "txsent", 1, raw.Sequenced(kafka.ProducerID(t.Producer), kafka.ProducerEpoch(t.Epoch), 0, 1)))
		})
		send("a transactional id, a batch of no producer", func(w *world, t raw.Txn) kmsg.Request {
			return t.Produce(v, w.row(v, "txsent", 0, raw.Values("plain")))
		})
		send("right and wrong in a transaction", func(w *world, t raw.Txn) kmsg.Request {
			return t.Produce(v, w.row(v, "txsent", 0, t.Batch(3, 1)), w.row(v, "txsent", 2, t.Batch(0, 1)), w.row(v, "nope", 0, t.Batch(0, 1)))
		})
		send("two producers in one request", func(w *world, t raw.Txn) kmsg.Request {
			other := t
			other.Producer++
			return t.Produce(v, w.row(v, "txsent", 0, t.Batch(4, 1)), w.row(v, "txsent", 1, other.Batch(0, 1)))
		})
		for _, acks := range []int16{0, 1} {
			send(fmt.Sprint("in a transaction, acks ", acks), func(w *world, t raw.Txn) kmsg.Request {
				req := t.Produce(v, w.row(v, "txsent", 1, t.Batch(0, 1)))
				if req.Acks = acks; acks == 0 {
					req.Acks = 2
				}
				return req
			})
		}
		c.add("while version "+fmt.Sprint(v)+" sends", raw.DescribeTransactions(id))
		c.ends("what version "+fmt.Sprint(v)+" has sent", 4, me, true)
		c.over(id)
		c.sends("rule 67: of the epoch that has ended", v, me, 5, 1, "txsent", 0)
		c.sends("rule 67: once more what was sent", v, me, 0, 1, "txsent", 0)
		c.sends("rule 67: the last that was sent", v, me, 4, 1, "txsent", 0)
		c.sends("rule 67: where nothing was sent", v, me, 0, 1, "txsent", 2)
		c.ends("after version "+fmt.Sprint(v)+" has sent too late", 4, me, false).till = calm
		c.over(id)
		c.look("after version "+fmt.Sprint(v)+" has sent", id, "txsent", 0, 1, 2)
	}
}

// askedByBrokers adds and verifies partitions as brokers do, for several transactions at once.
func (c *conversation) askedByBrokers() {
	for _, v := range []int16{4, 5} {
		one, two := c.begins(fmt.Sprint("broker-one", v)), c.begins(fmt.Sprint("broker-two", v))
		ids := []string{fmt.Sprint("broker-one", v), fmt.Sprint("broker-two", v)}
		c.verifies("nothing is open", v, one, in("tx", 0))
		c.adds("right", v, one, in("tx", 0, 1))
		c.adds("again", v, one, in("tx", 0))
		c.adds("right and wrong", v, one, in("tx", 2), in("nope", 0), in("tx", 9))
		c.adds("no topics", v, one)
		c.adds("an epoch ago", v, one.epochs(-1), in("tx", 0))
		c.adds("an epoch ahead", v, one.epochs(1), in("tx", 0))
		c.adds("another producer id", v, one.stranger(), in("tx", 0))
		c.adds("nobody knows the id", v, one.under("unheard-of"), in("tx", 0))
		c.adds("no id", v, one.under(""), in("tx", 0))
		c.verifies("verified", v, one, in("tx", 0, 1))
		c.verifies("verified, one is not in it", v, one, in("tx", 0, 2))
		c.verifies("verified, right and wrong", v, one, in("tx", 0), in("nope", 0), in("tx", 9))
		c.verifies("verified, an epoch ago", v, one.epochs(-1), in("tx", 0))
		c.verifies("verified, an epoch ahead", v, one.epochs(1), in("tx", 0))
		c.verifies("verified, another producer id", v, one.stranger(), in("tx", 0))
		c.verifies("verified, nobody knows the id", v, one.under("unheard-of"), in("tx", 0))
		c.verifies("verified, no id", v, one.under(""), in("tx", 0))
		c.verifies("verified, no topics", v, one)
		batch := func(name string, make func(w *world) []kmsg.AddPartitionsToTxnRequestTransaction) {
			c.with(name, kmsg.AddPartitionsToTxn, v, func(w *world) kmsg.Request { return raw.Batched(v, make(w)...) })
		}
		batch("no transactions", func(*world) []kmsg.AddPartitionsToTxnRequestTransaction { return nil })
		batch("several", func(w *world) []kmsg.AddPartitionsToTxnRequestTransaction {
			return []kmsg.AddPartitionsToTxnRequestTransaction{
				one(w).Verify(v, in("tx", 0, 2)).Transactions[0], two(w).Add(v, in("tx", 2)).Transactions[0],
				one.under("unheard-of")(w).Add(v, in("tx", 0)).Transactions[0],
			}
		})
		batch("one twice", func(w *world) []kmsg.AddPartitionsToTxnRequestTransaction {
			return []kmsg.AddPartitionsToTxnRequestTransaction{two(w).Verify(v, in("tx", 0)).Transactions[0], two(w).Verify(v, in("tx", 2)).Transactions[0]}
		})
		c.add("after brokers have asked at version "+fmt.Sprint(v), raw.DescribeTransactions(ids...))
		for i, p := range []who{one, two} {
			c.ends("of "+ids[i], 5, p, i == 0)
			c.over(ids[i])
			c.verifies("verified, it has ended", v, p, in("tx", 0))
			c.verifies("verified, it has ended, the epoch before", v, p.epochs(-1), in("tx", 0))
			c.adds("it has ended, the epoch before", v, p.epochs(-1), in("tx", 0))
		}
	}
}

// transactionLists looks at transactional ids in each state, and asks for them by all the filters there are.
func (c *conversation) transactionLists() {
	c.begins("list-empty")
	for _, id := range []string{"list-open", "list-committed", "list-aborted"} {
		c.adds("of "+id, 3, c.begins(id), in("tx", 0), in("txsent", 1, 0))
	}
	for i, id := range []string{"list-aborted", "list-committed"} {
		c.ends("of "+id, 4, producer(id), i == 1)
		c.over(id)
	}
	ids := []string{"list-empty", "list-open", "list-committed", "list-aborted"}
	c.add("each state", raw.DescribeTransactions(ids...))
	c.add("right and wrong", raw.DescribeTransactions("list-open", "unheard-of", "", "list-open"))
	c.add("nobody", raw.DescribeTransactions())
	for _, v := range raw.VersionsOf(kmsg.ListTransactions) {
		c.add("all", raw.ListTransactions(v))
		for _, state := range []string{
			"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence", "ongoing", "ONGOING", "", "nonsense",
		} {
			c.add(fmt.Sprintf("state %q", state), raw.ListTransactions(v, state))
		}
		c.add("several states", raw.ListTransactions(v, "Ongoing", "Empty", "nonsense", "more nonsense", "nonsense"))
		c.with("by producer id", kmsg.ListTransactions, v, func(w *world) kmsg.Request {
			req := raw.ListTransactions(v)
			req.ProducerIDFilters = []int64{w.txns["list-open"].Producer, w.txns["list-empty"].Producer, -1}
			return req
		})
		c.with("by producer id and state", kmsg.ListTransactions, v, func(w *world) kmsg.Request {
			req := raw.ListTransactions(v, "Empty", "nonsense")
			req.ProducerIDFilters = []int64{w.txns["list-open"].Producer, w.txns["list-empty"].Producer}
			return req
		})
		for _, id := range []int64{-1, 1 << 60} {
			req := raw.ListTransactions(v)
			req.ProducerIDFilters = []int64{id}
			c.add(fmt.Sprint("by producer id ", id), req)
		}
		for _, ms := range []int64{-2, 0, 3_600_000, 1<<63 - 1} {
			if v >= 1 {
				req := raw.ListTransactions(v)
				req.DurationFilterMillis = ms
				c.add(fmt.Sprint("open for ms ", ms), req)
			}
		}
		for _, pattern := range []string{"list-.*", "list-", ".*open", "^list-(open|empty)$", "", "(", "[", "unheard-of", "list-open", "LIST-.*", "(?i)LIST-.*", `\Qlist-open\E`, "list-o*pen|", "(?=list)list-.*", `(l)ist-.*\1?`} {
			if v >= 2 {
				req := raw.ListTransactions(v)
				req.TransactionalIDPattern = &pattern
				c.add(fmt.Sprintf("pattern %q", pattern), req)
			}
		}
	}
	c.ends("of list-open", 4, producer("list-open"), false)
	c.over("list-open")
}

// forgedMarkers has a client end transactions in partitions, as their coordinator would, and as nobody should.
func (c *conversation) forgedMarkers() {
	for _, v := range raw.VersionsOf(kmsg.WriteTxnMarkers) {
		id := fmt.Sprint("marked", v)
		me := c.begins(id)
		mark := func(name string, p who, commit bool, epoch int32, level int8, topics ...raw.Partitions) {
			c.with(name, kmsg.WriteTxnMarkers, v, func(w *world) kmsg.Request {
				return raw.WriteMarkers(v, p(w).Marker(commit, epoch, level, topics...))
			})
		}
		open := func(base kafka.Sequence, partitions ...int32) {
			c.adds("to be marked at version "+fmt.Sprint(v), 3, me, in("txmarked", partitions...)).till = calm
			for _, n := range partitions {
				c.sends("to be marked at version "+fmt.Sprint(v), 11, me, base, 1, "txmarked", n)
			}
		}
		mark("no transaction, nobody has sent", me, false, 0, 0, in("txmarked", 0))
		open(0, 0, 1)
		mark("an epoch ago", me.epochs(-1), false, 0, 0, in("txmarked", 0))
		mark("unknown partition and a known one", me, false, 0, 0, in("txmarked", 0, 9, -1), in("nope", 0))
		c.look("marked beside an unknown partition at version "+fmt.Sprint(v), id, "txmarked", 0, 1)
		mark("no transaction any more", me, false, 0, 0, in("txmarked", 0))
		mark("no transaction any more, the opposite", me, true, 0, 0, in("txmarked", 0))
		mark("no partitions", me, false, 0, 0)
		mark("no partitions of a topic", me, false, 0, 0, in("txmarked"))
		mark("a coordinator ahead", me, false, 7, 0, in("txmarked", 1))
		mark("a coordinator that is behind", me, false, 3, 0, in("txmarked", 1))
		mark("a coordinator below 0", me, false, -1, 0, in("txmarked", 1))
		mark("an epoch ahead", me.epochs(1), true, 7, 0, in("txmarked", 1))
		mark("level 2, the same epoch", me.epochs(1), true, 7, 2, in("txmarked", 1))
		mark("level 2, an epoch ahead", me.epochs(2), true, 7, 2, in("txmarked", 1))
		mark("another producer id", me.stranger(), true, 0, 0, in("txmarked", 0, 1))
		mark("offsets' topic, of nobody", me.stranger(), false, 0, 0, in("__consumer_offsets", 0))
		mark("transactions' own topic", me.stranger(), false, 0, 0, in("__transaction_state", 0))
		c.with("several", kmsg.WriteTxnMarkers, v, func(w *world) kmsg.Request {
			return raw.WriteMarkers(v, me(w).Marker(false, 0, 0, in("txmarked", 0)), me.stranger()(w).Marker(true, 0, 0, in("nope", 0), in("txmarked", 2)))
		})
		c.add("none", raw.WriteMarkers(v))
		c.look("marked at version "+fmt.Sprint(v), id, "txmarked", 0, 1, 2)
		c.sends("after forged markers at version "+fmt.Sprint(v), 11, me, 1, 1, "txmarked", 0)
		c.ends("after forged markers at version "+fmt.Sprint(v), 4, me, true)
	}
}

// timedOut has transactions end by themselves.
func (c *conversation) timedOut() {
	for _, v := range []int16{1, 4, 5} {
		id := fmt.Sprint("timed-out", v)
		c.inits("of "+id, 4, newcomer(id), 1).till = calm
		me := producer(id)
		c.adds("of "+id, 3, me, in("txfenced", 2)).till = calm
		c.add("until "+id+" is aborted", raw.DescribeTransactions(id)).till = func(resp kmsg.Response) bool {
			return resp.(*kmsg.DescribeTransactionsResponse).TransactionStates[0].State == "CompleteAbort"
		}
		c.sends("too late", 9, me, 0, 1, "txfenced", 2)
		c.sends("too late", 12, me, 0, 1, "txfenced", 2)
		c.adds("too late: "+id, 3, me, in("txfenced", 2))
		c.ends("too late: "+id, v, me, true)
		c.ends("too late, to abort: "+id, v, me, false)
		c.inits("too late", 4, me, minute)
		c.inits("too late, from the beginning", 4, newcomer(id), minute).till = calm
	}
}

// transactionLevels goes through transactions while the cluster has agreed on less.
func (c *conversation) transactionLevels() {
	for _, level := range []int16{1, 0} {
		mark := fmt.Sprint("-level", level, "-")
		c.add(fmt.Sprint("transactions at level ", level), raw.UpdateFeatures(1, raw.UnsafeDowngrade, fmt.Sprint("transaction.version=", level)))
		c.featuresNow(fmt.Sprint("transactions at level ", level))
		for _, v := range []int16{1, 4} {
			c.transactionFlow(mark, v, v == 1)
		}
		me := c.begins("flow" + mark)
		c.sends("first of all at level "+fmt.Sprint(level), 12, me, 0, 1, "txlevels", 0)
		c.ends("of protocol 2 at level "+fmt.Sprint(level), 5, me, true)
		c.over("flow" + mark)
		c.look(fmt.Sprint("after protocol 2 at level ", level), "flow"+mark, "txlevels", 0)
	}
	c.add("transactions at level 2", raw.UpdateFeatures(1, raw.Upgrade, "transaction.version=2"))
	c.featuresNow("transactions at level 2")
	c.transactionFlow("-again", 5, true)
}
