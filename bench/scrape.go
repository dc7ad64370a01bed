package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What a scrape has to tell of.
const (
	scrapeTopics     = 50
	scrapePartitions = 100 // of each topic
	scrapeGroups     = 200
	scrapeCommits    = 25 // of each group
	scrapes          = 50
	scrapeEvery      = 250 * time.Millisecond // while others produce
)

var scrapeFigures = []figure{
	{"median", "ms", false, 50},
	{"smallest", "ms", false, 0},
	{cpu, "ms/scrape", false, 0},
	{"size", "MB", false, 0},
	{"median with gzip", "ms", false, 50},
	{cpu + " with gzip", "ms/scrape", false, 0},
	{"p99 of a produce beside four scrapes a second", "ms", false, 0},
	{"p99 of a produce alone", "ms", false, 0},
}

// scrapeRow measures /metrics of a broker with 5,000 open partitions and 200 groups that lag behind.
func scrapeRow(ctx context.Context, b *broker, scale float64) (map[string]float64, error) {
	ctx, cancel := ctxFor(ctx)
	defer cancel()
	b.stop()
	one := b.node()
	was := *one
	address := fmt.Sprintf("127.0.0.1:%d", one.port+50)
	one.dir += "-scrape"
	one.command = func() *exec.Cmd {
		command := was.command()
		command.Args = append(command.Args, "--override", "raftsman.http.listener="+address)
		return command
	}
	defer func() {
		b.stop()
		one.dir, one.command = was.dir, was.command
	}()
	if err := b.start(); err != nil {
		return nil, err
	}
	cl, err := b.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	if err := prepareScrape(ctx, cl); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	n := max(int(scrapes*scale), 5)
	plain, err := scrapesOf(ctx, b, address, "identity", n)
	if err != nil {
		return nil, err
	}
	packed, err := scrapesOf(ctx, b, address, "gzip", n)
	if err != nil {
		return nil, err
	}
	alone, err := producing(ctx, cl, scale)
	if err != nil {
		return nil, err
	}
	during, err := besides(ctx, address, func() (float64, error) { return producing(ctx, cl, scale) })
	return map[string]float64{
		"median": plain.median, "smallest": plain.smallest, cpu: plain.cpu, "size": plain.size,
		"median with gzip": packed.median, cpu + " with gzip": packed.cpu,
		"p99 of a produce beside four scrapes a second": during, "p99 of a produce alone": alone,
	}, err
}

// prepareScrape makes topics and groups, where they are not there from the turn before, and opens all partitions.
func prepareScrape(ctx context.Context, cl *kgo.Client) error {
	admin := kadm.NewClient(cl)
	var failed error
	for i := range scrapeTopics {
		topic := fmt.Sprint("scrape-", i)
		_, _ = admin.CreateTopic(ctx, scrapePartitions, 1, nil, topic)
		for p := range int32(scrapePartitions) {
			cl.Produce(ctx, &kgo.Record{Topic: topic, Partition: p, Value: []byte("x")}, func(_ *kgo.Record, err error) {
				if err != nil {
					failed = err
				}
			})
		}
	}
	if err := errors.Join(cl.Flush(ctx), failed); err != nil {
		return err
	}
	var offsets kadm.Offsets
	for p := range int32(scrapeCommits) {
		offsets.AddOffset("scrape-0", p, 0, -1)
	}
	for i := range scrapeGroups {
		if err := admin.CommitAllOffsets(ctx, fmt.Sprint("group-", i), offsets); err != nil {
			return err
		}
	}
	return nil
}

// scraped is what several scrapes cost: milliseconds, and megabytes as they come.
type scraped struct{ median, smallest, cpu, size float64 }

func scrapesOf(ctx context.Context, b *broker, address, coding string, n int) (s scraped, err error) {
	before, err := b.usage()
	if err != nil {
		return s, err
	}
	var took []float64
	for range n {
		begun := time.Now()
		bytes, err := scrape(ctx, address, coding)
		if err != nil {
			return s, err
		}
		took = append(took, time.Since(begun).Seconds()*1000)
		s.size = float64(bytes) / 1e6
	}
	after, err := b.usage()
	s.median, s.smallest = median(took), slices.Min(took)
	s.cpu = (after.cpu - before.cpu).Seconds() * 1000 / float64(n)
	return s, err
}

// scrape reads /metrics and returns its size, as it comes.
func scrape(ctx context.Context, address, coding string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept-Encoding", coding)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || n < 100_000) {
		err = fmt.Errorf("/metrics: %s, %d bytes", resp.Status, n)
	}
	return n, err
}

// producing produces records one after the other for some seconds and returns the 99th percentile, in milliseconds.
func producing(ctx context.Context, cl *kgo.Client, scale float64) (float64, error) {
	var took []float64
	for until := time.Now().Add(time.Duration(4 * scale * float64(time.Second))); time.Now().Before(until); {
		begun := time.Now()
		r := &kgo.Record{Topic: "scrape-1", Partition: int32(len(took)) % scrapePartitions, Value: []byte("x")}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(begun).Seconds()*1000)
	}
	slices.Sort(took)
	return took[len(took)*99/100], nil
}

// besides scrapes while a load runs.
func besides(ctx context.Context, address string, load func() (float64, error)) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		for {
			select {
			case <-ctx.Done():
				ended <- nil
				return
			case <-time.After(scrapeEvery):
			}
			if _, err := scrape(ctx, address, "gzip"); err != nil && ctx.Err() == nil {
				ended <- err
				return
			}
		}
	}()
	p99, err := load()
	cancel()
	return p99, errors.Join(err, <-ended)
}
