package server

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// logLimit lets a few lines of one kind through and says how many it held back: what clients do wrong must not fill the disk.
type logLimit struct {
	mu      sync.Mutex // guards what follows
	since   time.Time
	lines   int
	dropped int
}

const (
	logLinesMax = 5
	logInterval = 10 * time.Second
)

func (l *logLimit) log(log *slog.Logger, level slog.Level, message string, args ...any) {
	l.mu.Lock()
	now := time.Now()
	if now.Sub(l.since) >= logInterval {
		if l.dropped > 0 {
			args = append(args, "similar", l.dropped)
		}
		l.since, l.lines, l.dropped = now, 0, 0
	}
	pass := l.lines < logLinesMax
	if pass {
		l.lines++
	} else {
		l.dropped++
	}
	l.mu.Unlock()
	if pass {
		log.Log(context.Background(), level, message, args...)
	}
}
