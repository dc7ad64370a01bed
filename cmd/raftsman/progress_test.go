package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgressShowsOnlyLongWorkAndOnlyOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := "working"
		for _, c := range []struct {
			name     string
			terminal bool
			takes    time.Duration
			want     string
		}{
			{"no terminal", false, 3 * time.Second, ""},
			{"short", true, 900 * time.Millisecond, ""},
			{"long", true, 3 * time.Second, "\r\x1b[Kworking\r\x1b[K"},
		} {
			s := newSession()
			s.app.noColor = true
			s.app.tty.err = c.terminal
			p := s.app.startProgress(func(time.Duration) string { return line })
			<-time.After(c.takes)
			p.stop()
			p.stop()
			if got := s.err.String(); got != c.want {
				t.Errorf("%s: printed %q, want %q", c.name, got, c.want)
			}
		}
	})
}

func TestProgressFitsTheWindowAndGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession()
		s.app.noColor = true
		s.app.tty = terminal{err: true, width: 10}
		p := s.app.startProgress(func(elapsed time.Duration) string { return strings.Repeat("x", int(elapsed.Seconds())*8) })
		<-time.After(1500 * time.Millisecond)
		p.clear()
		<-time.After(time.Second)
		p.stop()
		want := "\r\x1b[Kxxxxxxxx" + "\r\x1b[K" + "\r\x1b[Kxxxxxxxx" + "\r\x1b[Kxxxxxxxx…" + "\r\x1b[K"
		if got := s.err.String(); got != want {
			t.Errorf("printed %q, want %q", got, want)
		}
	})
}
