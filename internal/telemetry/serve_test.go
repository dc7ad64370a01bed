package telemetry

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestGzipForWhoTakesIt(t *testing.T) {
	h := New(time.Now())
	for accepts, want := range map[string]bool{
		"": false, "gzip": true, "deflate, gzip;q=1.0": true, "gzip;q=0.5": true, "gzip; q=0": false, "gzip;q=0.000": false, "br,identity": false, "xgzip": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("Accept-Encoding", accepts)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		packed := w.Header().Get("Content-Encoding") == "gzip"
		if packed != want {
			t.Errorf("Accept-Encoding %q: packed %v, want %v", accepts, packed, want)
		}
		var text io.Reader = w.Body
		if packed {
			var err error
			if text, err = gzip.NewReader(w.Body); err != nil {
				t.Fatal(err)
			}
		}
		if all, err := io.ReadAll(text); err != nil || !strings.HasSuffix(string(all), "\n") || !strings.Contains(string(all), "\ngo_goroutines ") {
			t.Errorf("Accept-Encoding %q: %v, %d bytes", accepts, err, len(all))
		}
	}
}

// goneWriter is a client that takes some bytes and goes.
type goneWriter struct{ takes, writes int }

func (w *goneWriter) Write(b []byte) (int, error) {
	w.writes++
	if w.takes -= len(b); w.takes < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(b), nil
}

// Of a scrape whose client has gone nothing more is made, and no more than a piece of the text is ever in memory.
func TestAScrapeEndsWithItsClient(t *testing.T) {
	gone := &goneWriter{takes: 3 * pageBytes}
	p := newPage(gone)
	f := family{name: "x", kind: gauge, labels: []string{"a"}}
	e := emit{&f, p}
	for range 100_000 {
		e.count(1, "some label")
		if cap(p.buf) > 2*pageBytes {
			t.Fatalf("%d bytes are kept", cap(p.buf))
		}
	}
	p.flush()
	if p.err == nil || gone.writes > 4 {
		t.Errorf("after %d writes the error is %v", gone.writes, p.err)
	}
}
