// Package otlp sends metrics that others have made to a collector, by OTLP over HTTP: protobuf, compressed with gzip.
package otlp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/raftsman/raftsman/internal/metric"
)

// Options say where to and how much.
type Options struct {
	Endpoint   string // the whole URL, as http://127.0.0.1:4318/v1/metrics
	Headers    map[string]string
	QueueBytes int // that wait at the most; what comes when they are reached is dropped
	Log        *slog.Logger
}

// Metrics are the forwarder's numbers.
type Metrics struct {
	Sent     metric.Counter // pushes that the collector has taken
	Rejected metric.Counter // data points in these that it has left out
	Dropped  metric.Counter // pushes: the queue was full, or the collector did not want them
	Failed   metric.Counter // requests that were not answered as they should
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

	// These are run's alone.
	packed  *gzip.Writer
	pause   time.Duration // before the next request, as the last one failed; 0: it did not
	alone   int           // pushes at the queue's begin that go one by one, as a request that had them together was refused
	trouble struct{ unreachable, refuses, rejects bool }

	stop  context.CancelFunc
	ended chan struct{}
}

// How requests are made.
const (
	contentType     = "application/x-protobuf"
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
	return &Forwarder{
		o: o, filled: make(chan struct{}, 1), ended: make(chan struct{}), packed: gzip.NewWriter(nil),
		client: http.Client{Timeout: answerWait, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // to follow most of them is to ask for a page: the push would be lost, and count as sent
		}},
	}
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

// Offer queues a push, which it takes. It never waits. One that is empty is nothing to send.
func (f *Forwarder) Offer(push []byte) {
	if len(push) == 0 {
		return
	}
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

// take returns as many pushes from the queue's begin as go into one request, one at least if there is any.
func (f *Forwarder) take() (pushes [][]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, size := 0, 0
	for n < len(f.queue) && (n == 0 || f.alone == 0 && size+len(f.queue[n]) <= requestBytesMax) {
		size += len(f.queue[n])
		n++
	}
	return f.queue[:n:n]
}

// drop takes pushes off the queue's begin, when they were sent or never will be: until then they count.
func (f *Forwarder) drop(pushes [][]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range pushes {
		f.bytes -= len(p)
	}
	f.queue = append([][]byte(nil), f.queue[len(pushes):]...)
	f.alone = max(f.alone-len(pushes), 0)
}

// run sends what is queued, until ctx ends.
func (f *Forwarder) run(ctx context.Context) {
	for {
		pushes := f.take()
		if len(pushes) == 0 {
			select {
			case <-f.filled:
				continue
			case <-ctx.Done():
				return
			}
		}
		err := f.send(ctx, pushes)
		if ctx.Err() != nil {
			return
		}
		f.settle(pushes, err)
		if f.pause == 0 {
			continue
		}
		timer := time.NewTimer(f.pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// settle does with pushes what their request's outcome wants. Of several that were refused together each is sent by itself, as one
// client's may be all that the collector does not want.
func (f *Forwarder) settle(pushes [][]byte, err error) {
	var refused *refusedError
	switch isRefused := errors.As(err, &refused); {
	case err == nil:
		if f.trouble.unreachable {
			f.trouble.unreachable = false
			f.o.Log.Info("the collector of client metrics answers again", "endpoint", f.o.Endpoint)
		}
		f.metrics.Sent.Add(int64(len(pushes)))
		f.drop(pushes)
		f.pause = 0
		return
	case !isRefused:
		f.warnOnce(&f.trouble.unreachable, "client metrics do not reach their collector; it is tried on", "error", err)
	case len(pushes) > 1:
		f.alone = len(pushes)
	default:
		f.warnOnce(&f.trouble.refuses, "the collector refuses metrics of a client, which are dropped; raftsman_client_metrics_forward_dropped_total counts the next ones", "error", err)
		f.metrics.Dropped.Inc()
		f.drop(pushes)
	}
	f.metrics.Failed.Inc()
	f.pause = min(max(2*f.pause, pauseMin), pauseMax)
}

// warnOnce tells of a trouble, unless it was told of.
func (f *Forwarder) warnOnce(told *bool, message string, args ...any) {
	if !*told {
		*told = true
		f.o.Log.Warn(message, append(args, "endpoint", f.o.Endpoint)...)
	}
}

// refusedError is an answer after which there is no sense in sending the same again.
type refusedError struct{ status, says string }

func (e *refusedError) Error() string { return fmt.Sprintf("it answers %s %s", e.status, e.says) }

// send makes one request. Messages of OTLP that follow each other are one message that has all they have.
func (f *Forwarder) send(ctx context.Context, pushes [][]byte) error {
	var body bytes.Buffer
	f.packed.Reset(&body)
	for _, p := range pushes {
		if _, err := f.packed.Write(p); err != nil {
			return fmt.Errorf("compress: %w", err)
		}
	}
	if err := f.packed.Close(); err != nil {
		return fmt.Errorf("compress: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.o.Endpoint, &body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", contentType)
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
		if resp.Header.Get("Content-Type") == contentType {
			f.heed(text)
		}
		return nil
	case status == http.StatusTooManyRequests, status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return fmt.Errorf("it answers %s", resp.Status)
	case status/100 == 3:
		return &refusedError{resp.Status, "and is not followed: the endpoint has to be " + resp.Header.Get("Location")}
	default:
		return &refusedError{resp.Status, strings.ToValidUTF8(string(text[:min(len(text), 200)]), "?")}
	}
}

// heed counts what the collector has left out of what it has taken.
func (f *Forwarder) heed(answer []byte) {
	points, says := partialSuccess(answer)
	if points == 0 && says == "" {
		return
	}
	f.metrics.Rejected.Add(points)
	f.warnOnce(&f.trouble.rejects, "the collector does not take all that clients measure; raftsman_client_metrics_forward_rejected_points_total counts what it leaves out",
		"points", points, "says", says)
}
