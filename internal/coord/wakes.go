package coord

import (
	"runtime"
	"sync"
)

// worker is a shard, or the queue of a partition's markers.
type worker interface{ work(turn int) }

// wakes are the shards that have something to do and nobody yet who does it: mostly those whose batches a flush has committed, and those
// with offset commits to write. One goroutine goes through all that one flush leaves. While it is busy with a shard another stands by,
// which the scheduler lets have the next if that takes long: no shard waits for a slow one.
type wakes struct {
	start func(func()) bool // on a goroutine of the Coordinator; false when that is closing

	mu      sync.Mutex // guards what follows; held for memory only
	due     []worker   // from next on: whoever takes one is its executor
	next    int
	standby bool // a goroutine is on its way to take the next
}

// add lets a shard that nobody executes have an executor.
func (w *wakes) add(s worker) {
	w.mu.Lock()
	w.due = append(w.due, s)
	call := !w.standby
	w.standby = true
	w.mu.Unlock()
	if call {
		w.call()
	}
}

func (w *wakes) call() {
	if !w.start(w.run) {
		w.run()
	}
}

// run executes shards until none is due. Those go first who are ready to run: what they commit goes into the same batches.
func (w *wakes) run() {
	runtime.Gosched()
	w.mu.Lock()
	w.standby = false
	for {
		if w.next == len(w.due) {
			w.due, w.next = w.due[:0], 0
			w.mu.Unlock()
			return
		}
		s := w.due[w.next]
		w.due[w.next] = nil
		w.next++
		call := !w.standby && w.next < len(w.due)
		w.standby = w.standby || call
		w.mu.Unlock()
		if call {
			w.call()
		}
		s.work(0)
		w.mu.Lock()
	}
}
