package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// report collects the figures of all turns: row, broker, figure.
type report struct {
	Date   string                                     `json:"date"`
	Commit string                                     `json:"commit"`
	System string                                     `json:"system"`
	Runs   int                                        `json:"runs"`
	Warm   string                                     `json:"warm"`
	Scale  float64                                    `json:"scale"`
	Rows   map[string]map[string]map[string][]float64 `json:"rows"`
}

func newReport(o options) *report {
	commit, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		commit = []byte("unknown")
	}
	return &report{
		Date: time.Now().UTC().Format(time.DateOnly), Commit: strings.TrimSpace(string(commit)),
		System: fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
		Runs:   o.runs, Warm: o.warm.String(), Scale: o.scale, Rows: map[string]map[string]map[string][]float64{},
	}
}

func (r *report) add(row row, broker string, figures map[string]float64) {
	if r.Rows[row.name] == nil {
		r.Rows[row.name] = map[string]map[string][]float64{"raftsman": {}, "kafka": {}}
	}
	for name, value := range figures {
		r.Rows[row.name][broker][name] = append(r.Rows[row.name][broker][name], value)
	}
}

// compared is one line of the table.
type compared struct {
	title  string
	figure figure
	a, b   []float64 // Raftsman's and Kafka's
	alone  bool      // there is no Kafka's
}

// ratio is the median of a over the median of b.
func (c compared) ratio() float64 { return median(c.a) / median(c.b) }

// reaches is what the bound is for.
func (c compared) reaches() float64 {
	if c.alone {
		return median(c.a)
	}
	return c.ratio()
}

// ratioText is the ratio where there is one.
func (c compared) ratioText() string {
	if c.alone {
		return "–"
	}
	return fmt.Sprintf("%.2f", c.ratio())
}

// verdict tells whether the bound is kept, where there is one.
func (c compared) verdict() string {
	switch {
	case c.figure.bound == 0:
		return ""
	case c.figure.more && c.reaches() >= c.figure.bound, !c.figure.more && c.reaches() <= c.figure.bound:
		return "yes"
	default:
		return "no"
	}
}

func (c compared) bound() string {
	switch {
	case c.figure.bound == 0:
		return ""
	case c.figure.more:
		return fmt.Sprintf("≥ %.2f", c.figure.bound)
	default:
		return fmt.Sprintf("≤ %.2f", c.figure.bound)
	}
}

func (r *report) lines(row row) []compared {
	var all []compared
	for _, f := range row.figures {
		all = append(all, compared{row.title, f, r.Rows[row.name]["raftsman"][f.name], r.Rows[row.name]["kafka"][f.name], row.alone})
	}
	return all
}

func (r *report) print(row row) {
	fmt.Println(row.title)
	for _, c := range r.lines(row) {
		fmt.Printf("  %-14s %-14s raftsman %-24s kafka %-24s ratio %s %s %s\n", c.figure.name, c.figure.unit, spread(c.a), spread(c.b), c.ratioText(), c.bound(), c.verdict())
	}
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(v))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// spread prints the median and, behind it, the smallest and the largest.
func spread(v []float64) string {
	if len(v) == 0 {
		return "–"
	}
	return fmt.Sprintf("%s (%s–%s)", short(median(v)), short(slices.Min(v)), short(slices.Max(v)))
}

func short(v float64) string {
	switch {
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// write stores the figures and writes the page.
func (r *report) write(o options) error {
	if len(r.Rows) == 0 {
		return fmt.Errorf("no row begins with %q", o.rows)
	}
	if err := os.MkdirAll(o.results, 0o755); err != nil {
		return err
	}
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	name := filepath.Join(o.results, r.Date+"-"+r.Commit+".json")
	if err := os.WriteFile(name, append(data, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Println("figures:", name)
	if o.page == "" || o.rows != "" {
		return nil // a part of the table does not replace the whole
	}
	plot := filepath.Join(filepath.Dir(o.page), "benchmarks.svg")
	if err := os.WriteFile(plot, []byte(r.svg()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(o.page, []byte(r.page()), 0o644)
}

func (r *report) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Raftsman beside Apache Kafka 4.4

Written by `+"`make bench`"+` on %s at commit %s: %s, both brokers on one processor, the load (franz-go) on another. Kafka was
warmed with each load for %s; then the brokers took turns, %d each, with %.2g of the full load. Median (smallest–largest). Raftsman flushes before it
acknowledges; Kafka, as it comes, does not, except in the row that says so. Absolute figures on this machine are noise; the
ratios are what counts.

![ratios to Kafka](benchmarks.svg)

| load | figure | Raftsman | Kafka | ratio | wanted | reached |
|---|---|---|---|---|---|---|
`, r.Date, r.Commit, r.System, r.Warm, r.Runs, r.Scale)
	for _, row := range rows {
		for _, c := range r.lines(row) {
			fmt.Fprintf(&b, "| %s | %s, %s | %s | %s | %s | %s | %s |\n", c.title, c.figure.name, c.figure.unit, spread(c.a), spread(c.b), c.ratioText(), c.bound(), c.verdict())
		}
	}
	return b.String()
}

// svg draws one bar a figure: the ratio to Kafka's, where Kafka is the line at 1.
func (r *report) svg() string {
	const width, left, line = 900, 430, 22
	var all []compared
	for _, row := range rows {
		if !row.alone {
			all = append(all, r.lines(row)...)
		}
	}
	height := line*len(all) + 50
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	scale := func(ratio float64) float64 { return min(ratio, 2.2) / 2.2 * (width - left - 70) }
	for i, c := range all {
		y := 30 + i*line
		better := c.ratio() <= 1
		if c.figure.more {
			better = c.ratio() >= 1
		}
		colour := "#c2410c"
		if better {
			colour = "#15803d"
		}
		label := strings.ReplaceAll(strings.ReplaceAll(c.title+": "+c.figure.name, "&", "&amp;"), "<", "&lt;")
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, left-8, y+13, label)
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, left, y+2, scale(c.ratio()), line-6, colour)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d">%.2f</text>`+"\n", left+scale(c.ratio())+5, y+13, c.ratio())
	}
	fmt.Fprintf(&b, `<line x1="%.1f" y1="20" x2="%.1f" y2="%d" stroke="black"/>`, left+scale(1), left+scale(1), height-15)
	fmt.Fprintf(&b, `<text x="%.1f" y="14" text-anchor="middle">Kafka = 1</text></svg>`+"\n", left+scale(1))
	return b.String()
}
