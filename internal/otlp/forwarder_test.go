package otlp

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// collector answers requests in turn with what it is told, the last of it for ever.
type collector struct {
	t       testing.TB
	answers []int    // status; 0: no answer at all
	says    []string // in answers with 200, in turn; nil: nothing
	poison  string   // a request that holds it is refused
	got     []string
	at      []time.Time
	hold    chan struct{} // nil: answers at once
}

func (c *collector) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.hold != nil {
		select {
		case <-c.hold:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	packed, err := gzip.NewReader(r.Body)
	if err != nil {
		c.t.Errorf("%v", err)
		return nil, err
	}
	body, err := io.ReadAll(packed)
	if err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" || r.Header.Get("Content-Encoding") != "gzip" || r.Method != http.MethodPost {
		c.t.Errorf("%s %v, %v", r.Method, r.Header, err)
	}
	c.got, c.at = append(c.got, string(body)), append(c.at, time.Now())
	status := c.answers[0]
	c.answers = c.answers[min(1, len(c.answers)-1):]
	if status == 0 {
		return nil, errors.New("connection refused")
	}
	answer := &http.Response{StatusCode: status, Status: fmt.Sprint(status, " said"), Body: io.NopCloser(strings.NewReader("why not"))}
	switch {
	case c.poison != "" && strings.Contains(string(body), c.poison):
		answer.StatusCode, answer.Status = 400, "400 said"
	case status == 200 && len(c.says) > 0:
		answer.Header = http.Header{"Content-Type": {contentType}}
		answer.Body = io.NopCloser(strings.NewReader(c.says[0]))
		c.says = c.says[1:]
	}
	return answer, nil
}

// start returns a forwarder to c, and what it has logged.
func (c *collector) start(queueBytes int) (*Forwarder, *bytes.Buffer) {
	var log bytes.Buffer
	f := prepare(Options{Endpoint: "http://collector/v1/metrics", QueueBytes: queueBytes, Log: slog.New(slog.NewTextHandler(&log, nil))})
	f.client.Transport = c
	f.begin()
	return f, &log
}

// Trouble is told once, the same is sent again after a pause that grows, and what came meanwhile goes out together.
func TestCollectorThatDoesNotAnswerIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{t: t, answers: []int{0, 503, 429, 200}}
		f, log := c.start(1000)
		f.Offer([]byte("one "))
		synctest.Wait()
		f.Offer([]byte("two "))
		f.Offer([]byte("three "))
		time.Sleep(time.Minute)
		f.Offer([]byte("four "))
		synctest.Wait()
		f.Close()
		if got, want := strings.Join(c.got, "|"), "one |one two three |one two three |one two three |four "; got != want {
			t.Errorf("requests\n%s\nwant\n%s", got, want)
		}
		for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			if got := c.at[i+1].Sub(c.at[i]); got != want {
				t.Errorf("pause %d is %v, want %v", i, got, want)
			}
		}
		if m := f.Metrics(); m.Sent.Value() != 4 || m.Dropped.Value() != 0 || m.Failed.Value() != 3 {
			t.Errorf("%d sent, %d dropped, %d failed", m.Sent.Value(), m.Dropped.Value(), m.Failed.Value())
		}
		if said := log.String(); strings.Count(said, "\n") != 2 || !strings.Contains(said, "connection refused") || !strings.Contains(said, "answers again") {
			t.Errorf("log:\n%s", said)
		}
	})
}

// What the collector does not want is not sent again.
func TestCollectorThatRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{t: t, answers: []int{400, 200}}
		f, log := c.start(1000)
		f.Offer([]byte("one "))
		time.Sleep(10 * time.Second)
		f.Offer([]byte("two "))
		synctest.Wait()
		f.Close()
		if got := strings.Join(c.got, "|"); got != "one |two " || f.Metrics().Dropped.Value() != 1 || f.Metrics().Sent.Value() != 1 {
			t.Errorf("requests %s, %d dropped", got, f.Metrics().Dropped.Value())
		}
		if !strings.Contains(log.String(), "400 said why not") {
			t.Errorf("log:\n%s", log)
		}
	})
}

// One client's push that the collector can't read costs no other client its own.
func TestPushesThatAreRefusedTogetherGoOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{t: t, answers: []int{503, 200}, poison: "bad"}
		f, log := c.start(1000)
		for _, push := range []string{"one ", "two ", "bad ", "three "} {
			f.Offer([]byte(push))
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		f.Offer([]byte("four "))
		synctest.Wait()
		f.Close()
		if got, want := strings.Join(c.got, "|"), "one |one two bad three |one |two |bad |three |four "; got != want {
			t.Errorf("requests\n%s\nwant\n%s", got, want)
		}
		if m := f.Metrics(); m.Sent.Value() != 4 || m.Dropped.Value() != 1 || m.Failed.Value() != 3 || f.bytes != 0 {
			t.Errorf("%d sent, %d dropped, %d failed, %d bytes left", m.Sent.Value(), m.Dropped.Value(), m.Failed.Value(), f.bytes)
		}
		if said := log.String(); strings.Count(said, "refuses metrics") != 1 {
			t.Errorf("log:\n%s", said)
		}
	})
}

// What a collector leaves out of what it takes is counted, and told once.
func TestPartialSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		partly := "\x0a\x0a" + "\x08\x05" + "\x12\x06too ol"
		c := &collector{t: t, answers: []int{200}, says: []string{"", "{}", "\x0a\x00", partly, "\x0a\x02\x08\x07", "\x0a\x7f", "\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"}}
		f, log := c.start(1000)
		for range len(c.says) {
			f.Offer([]byte("push "))
			synctest.Wait()
		}
		f.Close()
		if m := f.Metrics(); m.Sent.Value() != 7 || m.Rejected.Value() != 12 || m.Failed.Value() != 0 {
			t.Errorf("%d sent, %d points rejected, %d failed", m.Sent.Value(), m.Rejected.Value(), m.Failed.Value())
		}
		if said := log.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "points=5") || !strings.Contains(said, "too ol") {
			t.Errorf("log:\n%s", said)
		}
	})
}

// A push of nothing takes no place: it would not count among the bytes that wait.
func TestEmptyPushIsNotQueued(t *testing.T) {
	f := prepare(Options{QueueBytes: 10})
	f.Offer(nil)
	f.Offer([]byte{})
	if len(f.queue) != 0 {
		t.Errorf("%d pushes wait", len(f.queue))
	}
}

// What waits is bounded, what is under way included, and Offer does not wait for the collector; neither does Close.
func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{t: t, answers: []int{200}, hold: make(chan struct{})}
		f, _ := c.start(100)
		began := time.Now()
		for range 5 {
			f.Offer(make([]byte, 30))
			synctest.Wait()
		}
		if n := f.Metrics().Dropped.Value(); n != 2 || f.bytes != 90 {
			t.Errorf("%d dropped, %d bytes wait", n, f.bytes)
		}
		f.Close()
		if took := time.Since(began); took != 0 || f.Metrics().Sent.Value() != 0 {
			t.Errorf("took %v, %d sent", took, f.Metrics().Sent.Value())
		}
	})
}

// A request has several pushes, but not any number.
func TestRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{t: t, answers: []int{200}, hold: make(chan struct{})}
		f, _ := c.start(20 << 20)
		for range 5 {
			f.Offer(make([]byte, 3<<20))
		}
		f.Offer(make([]byte, 5<<20))
		close(c.hold)
		synctest.Wait()
		f.Close()
		for i, r := range c.got {
			if len(r) > requestBytesMax && i < len(c.got)-1 {
				t.Errorf("request %d has %d bytes", i, len(r))
			}
		}
		if len(c.got) != 6 {
			t.Errorf("%d requests", len(c.got))
		}
	})
}

// Over a real connection.
func TestForwardsOverHTTP(t *testing.T) {
	got := make(chan *http.Request, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r }))
	defer s.Close()
	f := Start(Options{Endpoint: s.URL + "/v1/metrics", Headers: map[string]string{"x-api-key": "secret"}, QueueBytes: 1000, Log: slog.New(slog.DiscardHandler)})
	defer f.Close()
	f.Offer([]byte("x"))
	if r := <-got; r.URL.Path != "/v1/metrics" || r.Header.Get("X-Api-Key") != "secret" {
		t.Errorf("%s %v", r.URL, r.Header)
	}
}

// A redirect is a refusal that says where to: followed as a page is, it would lose the push and pass for an answer.
func TestRedirectIsNotFollowed(t *testing.T) {
	asked := make(chan string, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.URL.Path
		if r.URL.Path == "/v1/metrics" {
			http.Redirect(w, r, "/elsewhere", http.StatusMovedPermanently)
		}
	}))
	defer s.Close()
	f := prepare(Options{Endpoint: s.URL + "/v1/metrics", QueueBytes: 1000, Log: slog.New(slog.DiscardHandler)})
	err := f.send(t.Context(), [][]byte{[]byte("x")})
	if _, refused := errors.AsType[*refusedError](err); !refused || !strings.Contains(err.Error(), "/elsewhere") {
		t.Errorf("%v, want a refusal that names /elsewhere", err)
	}
	if got := <-asked; got != "POST /v1/metrics" || len(asked) != 0 {
		t.Errorf("asked %s, and %d more", got, len(asked))
	}
}

// A collector that hangs, wherever in its answer, holds up neither who offers metrics nor the end.
func TestACollectorThatHangs(t *testing.T) {
	release := make(chan struct{})
	reached := make(chan struct{}, 100)
	hang := func() {
		reached <- struct{}{}
		<-release
	}
	for stage, handle := range map[string]http.HandlerFunc{
		"before its answer": func(http.ResponseWriter, *http.Request) { hang() },
		"in the middle of it": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "not all")
			w.(http.Flusher).Flush()
			hang()
		},
	} {
		s := httptest.NewServer(handle)
		f := prepare(Options{Endpoint: s.URL, QueueBytes: 1000, Log: slog.New(slog.DiscardHandler)})
		f.client.Timeout = time.Hour // it is not this that ends it
		f.begin()
		f.Offer(make([]byte, 100))
		<-reached
		for range 100 {
			f.Offer(make([]byte, 100))
		}
		if m := f.Metrics(); m.Dropped.Value() != 91 || m.Sent.Value() != 0 {
			t.Errorf("%s: %d pushes were dropped, %d sent; want 91, for which there is no room, and none", stage, m.Dropped.Value(), m.Sent.Value())
		}
		f.Close()
		s.CloseClientConnections()
		defer s.Close()
	}
	close(release)
}

// One that hangs is given up after a while, and tried again.
func TestACollectorThatHangsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{t: t, answers: []int{200}, hold: make(chan struct{})}
		f, log := c.start(1000)
		f.Offer([]byte("one "))
		time.Sleep(answerWait + pauseMin/2)
		if m := f.Metrics(); m.Failed.Value() != 1 {
			t.Errorf("%d requests have failed, want one", m.Failed.Value())
		}
		close(c.hold)
		time.Sleep(pauseMin)
		synctest.Wait()
		f.Close()
		if m := f.Metrics(); m.Sent.Value() != 1 || m.Dropped.Value() != 0 || strings.Count(log.String(), "do not reach their collector") != 1 {
			t.Errorf("%d sent, %d dropped, log:\n%s", m.Sent.Value(), m.Dropped.Value(), log.String())
		}
	})
}
