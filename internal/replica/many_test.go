package replica

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
	"github.com/raftsman/raftsman/internal/vfs/faultfs"
)

// operations counts what is done to files.
func operations(t *testing.T, partitions int32, of faultfs.Op, prepare, do func(w *world, id kafka.TopicID)) int {
	in := faultfs.Inject(vfs.NewMemory())
	w := newWorldOn(t, in)
	id := w.topic("t", partitions)
	prepare(w, id)
	before := in.Count(of)
	do(w, id)
	return in.Count(of) - before
}

// TestPartitionsThatNobodyUsesCostNoFileOperations: neither a start nor a stop, nor what goes on in the background, touches their files.
// And many are deleted with as many flushes as few.
func TestPartitionsThatNobodyUsesCostNoFileOperations(t *testing.T) {
	asleep := func(w *world, _ kafka.TopicID) {
		w.restart()
		w.m.background.retain(time.Now()) // which looks into each folder once
	}
	for name, c := range map[string]struct {
		of          faultfs.Op
		prepare, do func(w *world, id kafka.TopicID)
	}{
		"a stop and a start": {faultfs.OpAny, asleep, func(w *world, _ kafka.TopicID) { w.restart() }},
		"background": {faultfs.OpAny, asleep, func(w *world, _ kafka.TopicID) {
			now := time.Now().Add(time.Minute)
			for _, d := range w.m.background.duties {
				d.do(now)
			}
		}},
		"one that is used": {faultfs.OpAny, asleep, func(w *world, _ kafka.TopicID) {
			w.mustProduce("t", 0, plain("x"))
			w.m.background.checkpoint(time.Now())
			w.m.background.sweep(time.Now())
			w.restart()
		}},
		"deletion": {faultfs.OpAnySync, asleep, func(w *world, id kafka.TopicID) { w.deleteTopic(id) }},
		"a topic made anew": {faultfs.OpAnySync, asleep, func(w *world, id kafka.TopicID) {
			partitions := int32(len(w.m.table.named("t").slots))
			w.deleteTopic(id)
			w.topic("t", partitions)
		}},
	} {
		few, many := operations(t, 3, c.of, c.prepare, c.do), operations(t, 300, c.of, c.prepare, c.do)
		if many > few {
			t.Errorf("%s: %d operations with 300 partitions, %d with 3", name, many, few)
		}
	}
}

// TestIdlePartitionsTakeLittleMemory: asleep, and awake with nothing going on. Each holds a record of two producers.
func TestIdlePartitionsTakeLittleMemory(t *testing.T) {
	const partitions, mostAsleep, mostAwake = 4_000, 800, 2200
	files := &openFS{FS: vfs.NewMemory()}
	w := newWorldOn(t, files)
	w.topic("t", partitions)
	for i := range int32(partitions) {
		w.mustProduce("t", i, sequenced(1, 0, 0, 1))
		w.mustProduce("t", i, sequenced(2, 0, 0, 1))
	}
	w.restart()
	taken := w.heap()
	if err := w.m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.m = nil
	without := w.heap()
	w.start()
	if each := (int64(taken) - int64(without)) / partitions; each > mostAsleep {
		t.Errorf("a partition that sleeps takes %d bytes, want no more than %d", each, mostAsleep)
	}
	rest := files.open.Load() // none: sleepers have none
	for i := range int32(partitions) {
		if _, err := w.m.find(kafka.TopicID{}, "t", i); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		w.m.background.sweep(time.Now())
	}
	if each := (int64(w.heap()) - int64(without)) / partitions; each > mostAwake {
		t.Errorf("an idle partition takes %d bytes, want no more than %d", each, mostAwake)
	}
	if n := files.open.Load() - rest; n > 0 {
		t.Errorf("%d files are open though nobody uses a partition", n)
	}
}

// openFS counts the files that are open.
type openFS struct {
	vfs.FS
	open atomic.Int64
}

func (o *openFS) Open(name string, flag int) (vfs.File, error) {
	f, err := o.FS.Open(name, flag)
	if err != nil {
		return nil, err
	}
	o.open.Add(1)
	return &openFile{f, o}, nil
}

type openFile struct {
	vfs.File
	fs *openFS
}

func (f *openFile) Close() error {
	f.fs.open.Add(-1)
	return f.File.Close()
}

// heap is how many bytes are in use.
func (w *world) heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
