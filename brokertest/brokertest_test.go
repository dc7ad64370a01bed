package brokertest_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/raftsman/raftsman/brokertest"
)

// TestProduceAndConsume goes once through the whole broker, in memory and on disk: topic, records, a group, its commits.
func TestProduceAndConsume(t *testing.T) {
	for name, opts := range map[string][]brokertest.Option{"memory": nil, "disk": {brokertest.Dir(t.TempDir())}} {
		t.Run(name, func(t *testing.T) {
			b := brokertest.Start(t, opts...)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.ConsumeTopics("orders"), kgo.ConsumerGroup("billing"), kgo.DefaultProduceTopic("orders"))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			if _, err := kadm.NewClient(cl).CreateTopic(ctx, 3, 1, nil, "orders"); err != nil {
				t.Fatal(err)
			}
			const count = 100
			for i := range count {
				if err := cl.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
					t.Fatalf("produce: %v", err)
				}
			}
			seen := map[string]bool{}
			for len(seen) < count {
				fetches := cl.PollFetches(ctx)
				if err := fetches.Err(); err != nil {
					t.Fatalf("poll after %d records: %v", len(seen), err)
				}
				fetches.EachRecord(func(r *kgo.Record) { seen[string(r.Value)] = true })
			}
			if err := cl.CommitUncommittedOffsets(ctx); err != nil {
				t.Fatal(err)
			}
			lag, err := kadm.NewClient(cl).Lag(ctx, "billing")
			if err != nil {
				t.Fatal(err)
			}
			if got := lag["billing"].Lag.Total(); got != 0 {
				t.Errorf("lag is %d after everything was read and committed, want 0", got)
			}
		})
	}
}

// TestMistakesFailTheTest: what is misspelt or can't be is not passed over.
func TestMistakesFailTheTest(t *testing.T) {
	for want, option := range map[string]brokertest.Option{
		"num.partitons; did you mean num.partitions?": brokertest.Property("num.partitons", "3"),
		"a path with a comma":                         brokertest.Dir(filepath.Join(t.TempDir(), "one,two")),
	} {
		failed := &failing{TB: t}
		done := make(chan struct{})
		go func() { // Fatalf ends the goroutine
			defer close(done)
			brokertest.Start(failed, option)
		}()
		<-done
		if !strings.Contains(failed.said, want) {
			t.Errorf("the test was failed with %q, want it with %q", failed.said, want)
		}
	}
}

// failing keeps what a test is failed with.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
