package broker

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// TestLongNamesAreLoggedShort, wherever they stand; where nothing is long the line is as it was.
func TestLongNamesAreLoggedShort(t *testing.T) {
	long := strings.Repeat("é", 16<<10)
	for name, line := range map[string]func(*slog.Logger){
		"a name":        func(l *slog.Logger) { l.Info("member joined", "group", "g"+long, "members", 3) },
		"an error":      func(l *slog.Logger) { l.Info("refused", "error", errors.New(long)) },
		"a list":        func(l *slog.Logger) { l.Info("created", "topics", []string{long, "b"}) },
		"of the logger": func(l *slog.Logger) { l.With("client", long).Info("came") },
		"of a group":    func(l *slog.Logger) { l.Info("came", slog.Group("client", "id", long, "port", 1)) },
		"a grouped one": func(l *slog.Logger) { l.WithGroup("client").Info("came", "id", long) },
		"the message":   func(l *slog.Logger) { l.Info(long + "!") },
	} {
		var said strings.Builder
		line(slog.New(briefHandler{slog.NewTextHandler(&said, nil)}))
		if n := said.Len(); n < loggedBytesMax || n > loggedBytesMax+200 || strings.ContainsAny(said.String(), "\ufffd\\") || !strings.Contains(said.String(), " bytes ... ") {
			t.Errorf("%s: %d bytes: %s", name, n, said.String())
		}
	}
	var brief, plain strings.Builder
	for handler, l := range map[*strings.Builder]*slog.Logger{
		&plain: slog.New(slog.NewTextHandler(&plain, options)), &brief: slog.New(briefHandler{slog.NewTextHandler(&brief, options)}),
	} {
		l.With("a", 1).WithGroup("g").Info("short", "name", "é", "list", []int{1, 2}, "error", errors.New("why"), slog.Group("in", "b", true))
		l.Info("a panic", "stack", strings.Repeat("goroutine\n", 1000))
		if handler.Len() < 10_000 {
			t.Errorf("a stack was cut: %d bytes", handler.Len())
		}
	}
	if brief.String() != plain.String() {
		t.Errorf("logged\n%s\nwant\n%s", brief.String(), plain.String())
	}
}

var options = &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}}
