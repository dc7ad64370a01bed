package telemetry

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/raftsman/raftsman/internal/metric"
)

func TestPrometheusReadsWhatIsWritten(t *testing.T) {
	f := family{"x_total", counter, []string{"a", "b"}, "A \\ and a\nline.", nil}
	var text bytes.Buffer
	out := newPage(&text)
	e := emit{&f, out}
	e.begin()
	odd := []string{"", `"`, `\`, "\n", "\\n", "ü€", "\xff", `a="b",c="d"} 7`, "{}", " "}
	for i, label := range odd {
		e.value(float64(i)+0.5, label, fmt.Sprint(i))
	}
	h, hist := family{"y_seconds", summary, []string{"a"}, "Y.", nil}, metric.Histogram{}
	for v := range int64(100) {
		hist.Observe(v * 1000)
	}
	e = emit{&h, out}
	e.begin()
	e.summary(&hist, 1000, "1")
	out.flush()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text.Bytes()))
	if err != nil {
		t.Fatalf("%v:\n%s", err, text.Bytes())
	}
	if got := families["x_total"]; len(got.GetMetric()) != len(odd) || got.GetHelp() != f.help {
		t.Fatalf("%d values, help %q", len(got.GetMetric()), got.GetHelp())
	}
	for i, m := range families["x_total"].GetMetric() {
		want := strings.ToValidUTF8(odd[i], "\uFFFD")
		if got := m.GetLabel()[0].GetValue(); got != want || m.GetCounter().GetValue() != float64(i)+0.5 {
			t.Errorf("label %q with %v, want %q with %v", got, m.GetCounter().GetValue(), want, float64(i)+0.5)
		}
	}
	s := families["y_seconds"].GetMetric()[0].GetSummary()
	if s.GetSampleCount() != 100 || s.GetSampleSum() != 4950 || len(s.GetQuantile()) != len(quantiles) || s.GetQuantile()[0].GetValue() < 49 {
		t.Errorf("the summary is %v", s)
	}
}

// The names of our own metrics follow Prometheus's rules; those that dashboards know are as they are.
func TestNamesFollowPrometheusRules(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range slices.Concat(table, processTable) {
		if seen[f.name] {
			t.Errorf("%s is there twice", f.name)
		}
		seen[f.name] = true
		var text bytes.Buffer
		out := newPage(&text)
		e := emit{&f, out}
		e.begin()
		if f.kind == summary {
			e.summary(&metric.Histogram{}, 1, f.labels...)
		} else {
			e.value(1, f.labels...)
		}
		out.flush()
		problems, err := promlint.New(&text).Lint()
		if err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		for _, p := range problems {
			if strings.HasPrefix(f.name, "raftsman_") {
				t.Errorf("%s: %s", p.Metric, p.Text)
			}
		}
	}
}

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestANodeThatStartsLivesAndIsNotReady(t *testing.T) {
	h := New(time.Unix(1_700_000_000, 0))
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/metrics": 200, "/": 404, "/metrics/x": 404} {
		if code, body := get(t, h, path); code != want {
			t.Errorf("%s: %d %q, want %d", path, code, body, want)
		}
	}
	_, body := get(t, h, "/metrics")
	if !strings.Contains(body, "\nprocess_start_time_seconds 1700000000\n") || strings.Contains(body, "kafka_") {
		t.Errorf("the numbers of a process that starts are\n%s", body)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/metrics", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST is answered %d", w.Code)
	}
	h.Fail("the disk is gone")
	h.Fail("later")
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, body := get(t, h, path); code != 503 || body != "the disk is gone\n" {
			t.Errorf("%s of a node that can't go on: %d %q", path, code, body)
		}
	}
}

func TestScrapesAreLimited(t *testing.T) {
	h := New(time.Now())
	for range scrapesAtOnce {
		h.scrapes <- struct{}{}
	}
	if code, _ := get(t, h, "/metrics"); code != 503 {
		t.Errorf("one too many is answered %d", code)
	}
	<-h.scrapes
	if code, _ := get(t, h, "/metrics"); code != 200 {
		t.Errorf("the next one is answered %d", code)
	}
}
