package main

import (
	"testing"
	"time"
)

func TestFormatCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 7: "7", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -999: "-999"} {
		if got := formatCount(n); got != want {
			t.Errorf("formatCount(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestFormatBytes(t *testing.T) {
	for n, want := range map[int64]string{
		-1: "-", 0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 10 << 10: "10 KiB", 1023 << 10: "1.0 MiB",
		5 << 30: "5.0 GiB", 1 << 62: "4.0 EiB",
	} {
		if got := formatBytes(n); got != want {
			t.Errorf("formatBytes(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestFormatSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0ms", 340 * time.Millisecond: "340ms", 12500 * time.Millisecond: "12.5s", 3 * time.Second: "3s", 310 * time.Second: "5m10s",
		90 * time.Minute: "1h30m", 76 * time.Hour: "3d4h", -time.Minute: "-1m0s",
	} {
		if got := formatSpan(d); got != want {
			t.Errorf("formatSpan(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestFormatPercentNeverRoundsToNothingOrAll(t *testing.T) {
	for share, want := range map[float64]string{0: "0%", 0.0001: "<0.1%", 0.034: "3.4%", 0.5: "50%", 0.985: "98%", 0.9951: "99.5%", 0.99999: ">99.9%", 1: "100%"} {
		if got := formatPercent(share); got != want {
			t.Errorf("formatPercent(%v) = %q, want %q", share, got, want)
		}
	}
}

func TestParseWhen(t *testing.T) {
	now := testNow.In(time.FixedZone("", 3600)) // a local time one hour east
	for text, want := range map[string]time.Time{
		"now": now, "10m": now.Add(-10 * time.Minute), "7d": now.Add(-7 * 24 * time.Hour), "1d12h": now.Add(-36 * time.Hour),
		"1767366245123": time.UnixMilli(1767366245123), "0": time.UnixMilli(0),
		"2026-01-02T15:04:05Z":      time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC),
		"2026-01-02T15:04:05+02:00": time.Date(2026, 1, 2, 13, 4, 5, 0, time.UTC),
		"2026-01-02 15:04":          time.Date(2026, 1, 2, 14, 4, 0, 0, time.UTC),
		"2026-01-02T15:04:05.25":    time.Date(2026, 1, 2, 14, 4, 5, 250e6, time.UTC),
		"2026-01-02":                time.Date(2026, 1, 1, 23, 0, 0, 0, time.UTC),
	} {
		if got, err := parseWhen(text, now); err != nil || !got.Equal(want) {
			t.Errorf("parseWhen(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "soon", "-5m", "d", "xd", "2026-13-01", "-1", "5dd"} {
		if got, err := parseWhen(text, now); err == nil {
			t.Errorf("parseWhen(%q) = %v, want an error", text, got)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1000000": 1_000_000, "500kB": 500_000, "50MB": 50_000_000, "50 MB": 50_000_000, "50MiB": 50 << 20, "1.5GiB": 3 << 29, "2T": 2_000_000_000_000, "7B": 7,
	} {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("parseBytes(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "MB", "-1", "5 bytes", "1MM", "1iM", "inf", "nan", "99999999TiB", "5XB"} {
		if got, err := parseBytes(text); err == nil {
			t.Errorf("parseBytes(%q) = %d, want an error", text, got)
		}
	}
}
