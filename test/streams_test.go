package test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// words is a Kafka Streams application (clients/streams/Words.java), and what a count by hand says of the lines written so far.
type words struct {
	t       *testing.T
	addr    string
	state   string
	once    bool // the application is exactly-once
	written int
	counts  map[string]int64  // by word
	minutes map[string]string // the numbers of lines by writer and minute
	joined  map[string]string // by number of the line
}

var (
	writers    = map[string]string{"ann": "Ann of Arden", "bob": "Bob of Bern", "cat": "Cat of Cork"}
	vocabulary = strings.Fields("to be or not to be that is the question whether it is nobler in the mind")
	wordsBegan = time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
)

// start starts the application, on the state that an earlier one has left.
func (w *words) start() *process {
	w.t.Helper()
	guarantee := "at_least_once"
	if w.once {
		guarantee = "exactly_once_v2"
	}
	return startProcess(w.t, w.addr, exec.Command("kafka/kafka", "jvm", "-Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
		"clients/streams/Words.java", w.addr, w.state, guarantee))
}

// write writes lines, a hundred to the minute, and counts.
func (w *words) write(lines int) {
	w.t.Helper()
	cl := crashClient(w.t, w.addr, kgo.DefaultProduceTopic("lines"))
	defer cl.Close()
	names := []string{"ann", "bob", "cat"}
	var records []*kgo.Record
	for ; lines > 0; lines-- {
		n, who := w.written, names[w.written%3]
		at := wordsBegan.Add(time.Duration(n) * 600 * time.Millisecond)
		text := []string{vocabulary[n%len(vocabulary)], vocabulary[n*n%len(vocabulary)], vocabulary[n*7%len(vocabulary)]}
		line := fmt.Sprint(n, " ", strings.Join(text, " "))
		records = append(records, &kgo.Record{Key: []byte(who), Value: []byte(line), Timestamp: at})
		for _, word := range text {
			w.counts[word]++
		}
		window := fmt.Sprintf("%s@%d", who, at.Truncate(time.Minute).UnixMilli())
		w.minutes[window] = strings.TrimPrefix(fmt.Sprint(w.minutes[window], ",", n), ",")
		w.joined[fmt.Sprint(n)] = line + " by " + writers[who]
		w.written++
	}
	if err := cl.ProduceSync(w.t.Context(), records...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// check waits until the application has written what was counted by hand. After something was killed an application that is
// at-least-once may have counted twice.
func (w *words) check(app *process, killed bool) {
	w.t.Helper()
	eventually(w.t, atLast, fmt.Sprintf("the results of %d lines", w.written), func() error {
		select {
		case <-app.exited:
			w.t.Fatalf("the application ended: %v", app.err)
		default:
		}
		killed := killed && !w.once
		minutes, err := w.last("minutes")
		if killed {
			for window, numbers := range minutes {
				minutes[window] = eachOnce(numbers)
			}
		}
		if err == nil && !maps.Equal(minutes, w.minutes) {
			err = fmt.Errorf("minutes are %.500v, want %.500v", minutes, w.minutes)
		}
		counts, more := w.last("counts")
		for word, want := range w.counts {
			got := int64(0)
			if v := counts[word]; len(v) == 8 {
				got = new(big.Int).SetBytes([]byte(v)).Int64()
			}
			if got < want || got > want && !killed {
				err = errors.Join(err, fmt.Errorf("%q was counted %d times, want %d", word, got, want))
			}
		}
		return errors.Join(err, more, w.checkJoined(killed))
	})
}

func (w *words) checkJoined(killed bool) error {
	joined, err := w.values("joined")
	for n, want := range w.joined {
		if joined[want] == 0 || joined[want] > 1 && !killed {
			return errors.Join(err, fmt.Errorf("line %s is joined %d times: %q", n, joined[want], want))
		}
	}
	return err
}

// eachOnce is a list of numbers, sorted, without those that come again.
func eachOnce(numbers string) string {
	all := strings.Split(numbers, ",")
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return strings.Join(slices.Compact(all), ",")
}

// last is the latest value of each key of a topic, values are the values with their counts.
func (w *words) last(topic string) (map[string]string, error) {
	last := map[string]string{}
	return last, w.each(topic, func(r *kgo.Record) { last[string(r.Key)] = string(r.Value) })
}

func (w *words) values(topic string) (map[string]int, error) {
	values := map[string]int{}
	return values, w.each(topic, func(r *kgo.Record) { values[string(r.Value)]++ })
}

// each reads a topic to its end, without what was aborted.
func (w *words) each(topic string, do func(*kgo.Record)) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		return err
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
	missing := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			missing[o.Partition] = o.Offset
		}
	})
	for err == nil && len(missing) > 0 {
		fetches := cl.PollFetches(ctx)
		err = errors.Join(ctx.Err(), fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				do(r)
			}
			if r.Offset+1 >= missing[r.Partition] {
				delete(missing, r.Partition)
			}
		})
	}
	return err
}

// TestStreams runs a Kafka Streams application, which is killed and loses its disk, and whose broker is killed: its results are those
// of a count by hand, exactly where it asked for that, its topics are as it asked, and what it has processed is purged.
func TestStreams(t *testing.T) {
	for _, once := range []bool{false, true} {
		t.Run(map[bool]string{false: "at least once", true: "exactly once"}[once], func(t *testing.T) {
			t.Parallel()
			testStreams(t, once)
		})
	}
}

func testStreams(t *testing.T, once bool) {
	broker := newCopyBroker(t)
	broker.start()
	w := &words{
		t: t, once: once, addr: broker.home.addr(), state: filepath.Join(t.TempDir(), "state"),
		counts: map[string]int64{}, minutes: map[string]string{}, joined: map[string]string{},
	}
	adm := kadm.NewClient(crashClient(t, w.addr))
	for _, topic := range []string{"lines", "writers", "counts", "minutes", "joined"} {
		if _, err := adm.CreateTopic(t.Context(), 2, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
	}
	cl := crashClient(t, w.addr, kgo.DefaultProduceTopic("writers"))
	for name, text := range writers {
		r := &kgo.Record{Key: []byte(name), Value: []byte(text), Timestamp: wordsBegan.Add(-time.Hour)}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	app := w.start()
	w.write(300)
	w.check(app, false)
	checkStreamsTopics(t, adm)

	w.write(100)
	broker.kill()
	broker.start()
	w.write(200)
	w.check(app, true)

	w.write(100)
	app.kill()
	if err := os.RemoveAll(w.state); err != nil {
		t.Fatal(err)
	}
	w.write(100)
	app = w.start() // and takes its state from the changelog topics
	w.check(app, true)
	if once { // with the state that it leaves, and amid transactions
		for range 2 {
			w.write(100)
			app.kill()
			app = w.start()
			w.write(100)
			broker.kill()
			broker.start()
			w.write(100)
		}
		w.check(app, true)
	}
	app.terminate()
}

// checkStreamsTopics checks the topics that the application has made for itself.
func checkStreamsTopics(t *testing.T, adm *kadm.Client) {
	t.Helper()
	for topic, policy := range map[string]string{
		"words-counts-store-changelog": "compact", "words-minutes-store-changelog": "compact,delete", "words-counts-store-repartition": "delete",
	} {
		configs := must(adm.DescribeTopicConfigs(t.Context(), topic))(t)
		if got := configOf(configs[0], "cleanup.policy"); configs[0].Err != nil || got != policy {
			t.Errorf("%s has cleanup.policy %s (%v), want %s", topic, got, configs[0].Err, policy)
		}
	}
	eventually(t, atLast, "what was repartitioned is purged", func() error {
		starts, err := adm.ListStartOffsets(t.Context(), "words-counts-store-repartition")
		if err != nil {
			return err
		}
		for p := range int32(2) {
			if o, _ := starts.Lookup("words-counts-store-repartition", p); o.Offset == 0 {
				return fmt.Errorf("partition %d still begins at 0", p)
			}
		}
		return nil
	})
}
