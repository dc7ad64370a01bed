package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// formatCount writes a number with commas between thousands.
func formatCount(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	b.WriteString(sign)
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// formatBytes writes a size with a unit of 1024 and at most three digits that matter; -1 is unknown.
func formatBytes(n int64) string {
	if n < 0 {
		return "-"
	}
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n), 0
	for value >= 999.5 && unit < 6 {
		value /= 1024
		unit++
	}
	name := "BKMGTPE"[unit : unit+1]
	if value < 9.95 {
		return fmt.Sprintf("%.1f %siB", value, name)
	}
	return fmt.Sprintf("%.0f %siB", value, name)
}

// formatSpan writes a duration with the two largest units that matter: 3d4h, 5m10s, 12.5s, 340ms.
func formatSpan(d time.Duration) string {
	if d < 0 {
		return "-" + formatSpan(-d)
	}
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return strconv.FormatFloat(d.Truncate(100*time.Millisecond).Seconds(), 'f', -1, 64) + "s"
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

// formatPercent writes a share of one; only nothing is 0%, and only everything is 100%. -1 is unknown.
func formatPercent(share float64) string {
	percent := share * 100
	switch {
	case share < 0:
		return "-"
	case share == 0:
		return "0%"
	case percent < 0.1:
		return "<0.1%"
	case share < 1 && percent > 99.9:
		return ">99.9%"
	case percent < 10 || percent > 99 && share < 1:
		return fmt.Sprintf("%.1f%%", percent)
	default:
		return fmt.Sprintf("%.0f%%", percent)
	}
}

// parseSpan reads a duration as Go writes it, and days: 7d, 1d12h.
func parseSpan(text string) (time.Duration, error) {
	var days time.Duration
	if before, after, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseUint(before, 10, 16)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration like 90s, 10m, 2h or 7d", text)
		}
		days, text = time.Duration(n)*24*time.Hour, after
		if text == "" {
			return days, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a duration like 90s, 10m, 2h or 7d", text)
	}
	return days + d, nil
}

// parseWhen reads a point in time: how long ago (10m, 7d), a date or time (2026-01-02, 2026-01-02T15:04:05Z,
// "2026-01-02 15:04" in local time), milliseconds since 1970, or now.
func parseWhen(text string, now time.Time) (time.Time, error) {
	if text == "now" {
		return now, nil
	}
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms >= 0 {
		return time.UnixMilli(ms), nil
	}
	if d, err := parseSpan(text); err == nil {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	local := strings.Replace(text, "T", " ", 1)
	for _, layout := range []string{"2006-01-02 15:04:05.999", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, local, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time: give how long ago (10m, 7d), 2026-01-02T15:04:05Z or milliseconds since 1970", text)
}

// parseBytes reads a size: 1000000, 500kB, 50MB, 50MiB, 1.5GiB. A unit without i is of 1000.
func parseBytes(text string) (int64, error) {
	wrong := fmt.Errorf("%q is no size like 1000000, 50MB or 50MiB", text)
	number := strings.TrimRight(text, "BbiIkKmMgGtT ")
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || value < 0 {
		return 0, wrong
	}
	unit := strings.ToUpper(strings.TrimSpace(text[len(number):]))
	base := 1000.0
	if strings.Contains(unit, "I") {
		base = 1024
	}
	power := map[string]float64{"": 0, "B": 0, "K": 1, "KB": 1, "KIB": 1, "M": 2, "MB": 2, "MIB": 2, "G": 3, "GB": 3, "GIB": 3, "T": 4, "TB": 4, "TIB": 4}
	n, known := power[unit]
	if value *= math.Pow(base, n); !known || !(value < math.MaxInt64) {
		return 0, wrong
	}
	return int64(value), nil
}
