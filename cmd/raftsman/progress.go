package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	progressAfter = time.Second            // short work shows none
	progressEvery = 200 * time.Millisecond // and long work no more often than an eye follows
)

// progress keeps one changing line at the bottom of a terminal while work goes on. Its goroutine ends in stop.
type progress struct {
	w     io.Writer
	paint paint
	width int                                // of the terminal; a longer line could not be taken away again
	line  func(elapsed time.Duration) string // nothing to show: ""
	quit  chan struct{}
	done  chan struct{}

	mu    sync.Mutex // guards shown and the terminal's last line
	shown string
}

func (p *progress) active() bool { return p.done != nil }

// startProgress shows what line returns, which is called from another goroutine. Where standard error is no terminal it
// shows nothing and costs nothing.
func (a *app) startProgress(line func(elapsed time.Duration) string) *progress {
	p := &progress{w: a.err, paint: a.paintErr(), width: a.tty.width, line: line}
	if !a.tty.err {
		return p
	}
	p.quit, p.done = make(chan struct{}), make(chan struct{})
	go p.run()
	return p
}

func (p *progress) run() {
	defer close(p.done)
	start := time.Now()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-tick.C:
			if elapsed := time.Since(start); elapsed >= progressAfter {
				p.show(p.line(elapsed))
			}
		}
	}
}

func (p *progress) show(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width > 0 {
		text = shorten(text, p.width-1)
	}
	if text != p.shown {
		fmt.Fprint(p.w, "\r\x1b[K"+p.paint.dim(text))
	}
	p.shown = text
}

// clear takes the line away, for other output to take its place.
func (p *progress) clear() {
	if p.active() {
		p.show("")
	}
}

// stop takes the line away and waits for the goroutine. It may be called again.
func (p *progress) stop() {
	if !p.active() {
		return
	}
	close(p.quit)
	<-p.done
	p.clear()
	p.done = nil
}
