package broker

import (
	"context"
	"fmt"
	"log/slog"
	"unicode/utf8"
)

// loggedBytesMax is how much of a value is logged: a client may give a group, a member or itself a name of 32 KiB, and what it asks
// for may name thousands of topics.
const loggedBytesMax = 1000

// briefHandler hands on what is logged with the middle of long values left out. Stacks stay whole.
type briefHandler struct{ slog.Handler }

func (h briefHandler) Handle(ctx context.Context, r slog.Record) error {
	long := len(r.Message) > loggedBytesMax
	r.Attrs(func(a slog.Attr) bool {
		_, cut := brief(a)
		long = long || cut
		return !long
	})
	if !long {
		return h.Handler.Handle(ctx, r)
	}
	cut := slog.NewRecord(r.Time, r.Level, shortened(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		a, _ = brief(a)
		cut.AddAttrs(a)
		return true
	})
	return h.Handler.Handle(ctx, cut)
}

func (h briefHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	cut := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		cut[i], _ = brief(a)
	}
	return briefHandler{h.Handler.WithAttrs(cut)}
}

func (h briefHandler) WithGroup(name string) slog.Handler {
	return briefHandler{h.Handler.WithGroup(name)}
}

// brief returns the attribute as it is logged, and whether something is left out of it.
func brief(a slog.Attr) (slog.Attr, bool) {
	if a.Key == "stack" {
		return a, false
	}
	v := a.Value.Resolve()
	var text string
	switch v.Kind() {
	case slog.KindString:
		text = v.String()
	case slog.KindAny:
		text = fmt.Sprintf("%+v", v.Any())
	case slog.KindGroup:
		some, members := false, make([]slog.Attr, 0, len(v.Group()))
		for _, m := range v.Group() {
			m, cut := brief(m)
			members, some = append(members, m), some || cut
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(members...)}, some
	default:
		return a, false
	}
	if len(text) <= loggedBytesMax {
		return a, false
	}
	return slog.String(a.Key, shortened(text)), true
}

// shortened leaves out the middle of a long text: what it is shows at its begin, why something failed often at its end.
func shortened(text string) string {
	if len(text) <= loggedBytesMax {
		return text
	}
	head, tail := loggedBytesMax*3/4, len(text)-loggedBytesMax/4
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return fmt.Sprintf("%s ... %d bytes ... %s", text[:head], tail-head, text[tail:])
}
