package telemetry_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/raftsman/raftsman/brokertest"
)

const dashboardFile = "../../deploy/grafana/raftsman.json"

// dashboard is what of Grafana's format is looked at.
type dashboard struct {
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []struct {
		ID      int
		Type    string
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ RefID, Expr, LegendFormat string }
	}
}

var (
	selector  = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^}]*)\}`)
	matcher   = regexp.MustCompile(`^([a-z_A-Z]+)(=~|!~|!=|=)"([^"]*)"$`)
	grouping  = regexp.MustCompile(`by \(([^)]*)\)`)
	rated     = regexp.MustCompile(`\brate\(([a-z_0-9]+)\{`)
	counted   = regexp.MustCompile(`_(total|sum|count)$`)
	legend    = regexp.MustCompile(`\{\{(\w+)\}\}`)
	valuesOf  = regexp.MustCompile(`^label_values\((\w+)(?:\{.*\})?, (\w+)\)$`)
	ofSeries  = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
	byScraper = []string{"job", "instance"} // labels that Prometheus adds
)

// shown has the label sets of every metric of a scrape.
type shown map[string][]map[string]string

func (s shown) has(label, metric string) bool {
	return slices.Contains(byScraper, label) || slices.ContainsFunc(s[metric], func(labels map[string]string) bool { return labels[label] != "" })
}

// TestTheDashboardAsksForWhatThereIs: everything that the dashboard for Grafana queries is shown by a broker that has something to do.
func TestTheDashboardAsksForWhatThereIs(t *testing.T) {
	content, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(content, &d); err != nil {
		t.Fatal(err)
	}
	shown := busyBroker(t)
	vars := []string{"__rate_interval"}
	for _, v := range d.Templating.List {
		vars = append(vars, v.Name)
		if q := valuesOf.FindStringSubmatch(v.Definition); v.Type == "query" && (q == nil || len(shown[q[1]]) == 0 || !shown.has(q[2], q[1])) {
			t.Errorf("the variable %s is asked as %q", v.Name, v.Definition)
		}
	}
	ids, queries := map[int]bool{}, 0
	for i, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("the panel %q has the id of another", p.Title)
		}
		ids[p.ID] = true
		for _, o := range d.Panels[:i] {
			a, b := p.GridPos, o.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H || a.X+a.W > 24 {
				t.Errorf("the panels %q and %q lie on each other, or beyond the edge", p.Title, o.Title)
			}
		}
		if p.Type == "row" != (len(p.Targets) == 0) {
			t.Errorf("%q, a %s, has %d queries", p.Title, p.Type, len(p.Targets))
		}
		for _, q := range p.Targets {
			queries++
			for _, wrong := range shown.faults(q.Expr, q.LegendFormat, vars) {
				t.Errorf("%q asks %s: %s", p.Title, q.Expr, wrong)
			}
		}
	}
	if queries < 40 {
		t.Errorf("only %d queries were found", queries)
	}
}

// TestFaultsAreFound: the check of the dashboard can fail.
func TestFaultsAreFound(t *testing.T) {
	s := shown{"x_total": {{"topic": "t"}}, "y": {{"group": "g"}}}
	for expr, faults := range map[string]int{
		`sum by (topic) (rate(x_total{job=~"$job",instance=~"$instance"}[1m]))`: 0,
		`sum by (group) (rate(x_total{job=~"$job",instance=~"$instance"}[1m]))`: 1,
		`rate(y{job=~"$job",instance=~"$instance"}[1m])`:                        1,
		`z{job=~"$job",instance=~"$instance"}`:                                  1,
		`y{job=~"$job"}`:                                                        1,
		`y{job=~"$job",instance=~"$instance",group="other"}`:                    1,
		`y{job=~"$job",instance=~"$instance",topic="t"}`:                        1,
		`(y{job=~"$job",instance=~"$instance"}`:                                 1,
		`y{job=~"$jobs",instance=~"$instance"}`:                                 2,
		`y`:                                                                     1,
	} {
		if got := s.faults(expr, "", []string{"job", "instance"}); len(got) != faults {
			t.Errorf("%s: %q, want %d", expr, got, faults)
		}
	}
}

// faults says what is wrong with a query.
func (s shown) faults(expr, legendFormat string, vars []string) (faults []string) {
	selectors := selector.FindAllStringSubmatch(expr, -1)
	if len(selectors) == 0 || strings.Count(expr, "(") != strings.Count(expr, ")") {
		return []string{"it asks for nothing, or its brackets are not even"}
	}
	for _, name := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(expr, -1) {
		if !slices.Contains(vars, name[1]) {
			faults = append(faults, "no variable "+name[1])
		}
	}
	inAny := func(label string) bool {
		return slices.ContainsFunc(selectors, func(sel []string) bool { return s.has(label, sel[1]) })
	}
	for _, sel := range selectors {
		if len(s[sel[1]]) == 0 {
			faults = append(faults, "a busy broker does not show "+sel[1])
			continue
		}
		if !strings.HasPrefix(sel[2], `job=~"$job",instance=~"$instance"`) {
			faults = append(faults, "it is not of the brokers that were chosen")
		}
		for m := range strings.SplitSeq(sel[2], ",") {
			is := matcher.FindStringSubmatch(m)
			switch {
			case is == nil:
				faults = append(faults, "cannot read "+m)
			case !s.has(is[1], sel[1]):
				faults = append(faults, sel[1]+" has no label "+is[1])
			case is[2] == "=" && !slices.ContainsFunc(s[sel[1]], func(labels map[string]string) bool { return labels[is[1]] == is[3] }):
				faults = append(faults, sel[1]+" has no "+m)
			}
		}
	}
	for _, by := range grouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(by[1], ", ") {
			if !inAny(label) {
				faults = append(faults, "nothing has a label "+label)
			}
		}
	}
	for _, label := range legend.FindAllStringSubmatch(legendFormat, -1) {
		if !inAny(label[1]) {
			faults = append(faults, "nothing has the legend's label "+label[1])
		}
	}
	for _, of := range rated.FindAllStringSubmatch(expr, -1) {
		if !counted.MatchString(of[1]) {
			faults = append(faults, of[1]+" is no counter")
		}
	}
	return faults
}

// busyBroker returns what a broker shows that was written to and read from.
func busyBroker(t *testing.T) shown {
	b := brokertest.Start(t, brokertest.Property("raftsman.http.listener", "127.0.0.1:0"))
	cl := client(t, b)
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopics(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t"}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	var offsets kadm.Offsets
	offsets.AddOffset("t", 0, 0, -1)
	if err := adm.CommitAllOffsets(t.Context(), "g", offsets); err != nil {
		t.Fatal(err)
	}
	cl.AddConsumeTopics("t")
	for cl.PollFetches(t.Context()).NumRecords() == 0 && t.Context().Err() == nil {
	}
	got := scrape(t, b)
	for got[`kafka_network_requestmetrics_responsesendtimems_count{request="Fetch"}`] == 0 && t.Context().Err() == nil { // counted when it was written
		got = scrape(t, b)
	}
	shown := shown{}
	for series := range got {
		name, labels, _ := strings.Cut(series, "{")
		set := map[string]string{}
		for _, l := range ofSeries.FindAllStringSubmatch(labels, -1) {
			set[l[1]] = l[2]
		}
		shown[name] = append(shown[name], set)
	}
	return shown
}
