// Package otlp sends metrics that others have made to a collector, by OTLP over HTTP: protobuf, compressed with gzip.
package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/raftsman/raftsman/internal/metric"
)

// Options say where to and how much.
type Options struct {
	Endpoint   string // the whole URL, as http://127.0.0.1:4318/v1/metrics
	Headers    map[string]string
	QueueBytes int // that wait at the most; what comes when they are reached is dropped
	Log        *slog.Logger
}

// Metrics are the forwarder's numbers, in pushes.
type Metrics struct {
	Sent    metric.Counter
	Dropped metric.Counter // the queue was full, or the collector did not want it
	Failed  metric.Counter // requests that were not answered as they should; they are made again
}

// Forwarder has a queue and one request under way. Create one with [Start]; its methods are safe for concurrent use.
type Forwarder struct {
	o       Options
	client  http.Client
	metrics Metrics

	mu     sync.Mutex // guards queue, bytes
	queue  [][]byte
	bytes  int
	filled chan struct{} // has room for one token: the queue is not empty

	stop  context.CancelFunc
	ended chan struct{}
}

// How requests are made.
const (
	requestBytesMax = 4 << 20 // before compression, of several pushes
	answerWait      = 10 * time.Second
	answerBytesMax  = 64 << 10
	pauseMin        = time.Second // after a request that failed, doubled each time
	pauseMax        = 30 * time.Second
)

// Start returns a forwarder that sends until Close.
func Start(o Options) *Forwarder {
	f := prepare(o)
	f.begin()
	return f
}

func prepare(o Options) *Forwarder {
	return &Forwarder{o: o, client: http.Client{Timeout: answerWait}, filled: make(chan struct{}, 1), ended: make(chan struct{})}
}

func (f *Forwarder) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	go func() {
		defer close(f.ended)
		f.run(ctx)
	}()
}

// Close ends what is under way. What waits is dropped.
func (f *Forwarder) Close() {
	f.stop()
	<-f.ended
	f.client.CloseIdleConnections()
}

// Metrics returns the numbers, which keep changing.
func (f *Forwarder) Metrics() *Metrics { return &f.metrics }

// Offer queues a push, which it takes. It never waits.
func (f *Forwarder) Offer(push []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bytes+len(push) > f.o.QueueBytes {
		f.metrics.Dropped.Inc()
		return
	}
	f.queue = append(f.queue, push)
	f.bytes += len(push)
	select {
	case f.filled <- struct{}{}:
	default:
	}
}

// take returns as many pushes from the queue's begin as go into one request, one at least.
func (f *Forwarder) take() (pushes [][]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, size := 0, 0
	for n < len(f.queue) && (n == 0 || size+len(f.queue[n]) <= requestBytesMax) {
		size += len(f.queue[n])
		n++
	}
	return f.queue[:n:n]
}

// drop takes pushes off the queue's begin, when they were sent or never will be: until then they count.
func (f *Forwarder) drop(pushes [][]byte) (left bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range pushes {
		f.bytes -= len(p)
	}
	f.queue = append([][]byte(nil), f.queue[len(pushes):]...)
	return len(f.queue) > 0
}

// run sends what is queued. Trouble is told when it begins and when it is over.
func (f *Forwarder) run(ctx context.Context) {
	pause := time.Duration(0)
	for left := false; ; {
		if !left {
			select {
			case <-f.filled:
			case <-ctx.Done():
				return
			}
		}
		pushes := f.take()
		if len(pushes) == 0 {
			left = false
			continue
		}
		err := f.send(ctx, pushes)
		var refused *refusedError
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if pause > 0 {
				f.o.Log.Info("the collector of client metrics answers again", "endpoint", f.o.Endpoint)
			}
			f.metrics.Sent.Add(int64(len(pushes)))
			left, pause = f.drop(pushes), 0
			continue
		case pause == 0:
			f.o.Log.Warn("client metrics do not reach their collector; it is tried on", "endpoint", f.o.Endpoint, "error", err)
		}
		f.metrics.Failed.Inc()
		pause = min(max(2*pause, pauseMin), pauseMax)
		left = true
		if errors.As(err, &refused) {
			f.metrics.Dropped.Add(int64(len(pushes)))
			left = f.drop(pushes)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// refusedError is an answer after which there is no sense in sending the same again.
type refusedError struct{ status, says string }

func (e *refusedError) Error() string { return fmt.Sprintf("it answers %s %s", e.status, e.says) }

// send makes one request. Messages of OTLP that follow each other are one message that has all they have.
func (f *Forwarder) send(ctx context.Context, pushes [][]byte) error {
	var body bytes.Buffer
	packed := gzip.NewWriter(&body)
	for _, p := range pushes {
		if _, err := packed.Write(p); err != nil {
			return fmt.Errorf("compress: %w", err)
		}
	}
	if err := packed.Close(); err != nil {
		return fmt.Errorf("compress: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.o.Endpoint, &body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "gzip")
	req.Header.Set("User-Agent", "raftsman")
	for name, value := range f.o.Headers {
		req.Header.Set(name, value)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, answerBytesMax)) // what it says is a help only
	switch status := resp.StatusCode; {
	case status/100 == 2:
		return nil
	case status == http.StatusTooManyRequests, status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return fmt.Errorf("it answers %s", resp.Status)
	default:
		return &refusedError{resp.Status, strings.ToValidUTF8(string(text[:min(len(text), 200)]), "?")}
	}
}
