package telemetry

import (
	"bytes"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/raftsman/raftsman/internal/vfs"
)

// started is taken for the start of the process.
type started time.Time

// clockTicks is Linux's unit of processor time for those who read /proc.
const clockTicks = 100

// processTable has what Prometheus's own library tells of every Go program, under the names that it uses.
var processTable = []family{
	{"go_info", gauge, []string{"version"}, "The Go release that the broker was built with.", func(_ *scene, e emit) { e.value(1, runtime.Version()) }},
	{"go_goroutines", gauge, nil, "Goroutines.", fromRuntime("/sched/goroutines:goroutines")},
	{"go_memstats_alloc_bytes", gauge, nil, "Bytes of objects on the heap.", fromRuntime("/memory/classes/heap/objects:bytes")},
	{"go_memstats_alloc_bytes_total", counter, nil, "Bytes that were allocated, freed ones included.", fromRuntime("/gc/heap/allocs:bytes")},
	{"go_memstats_heap_objects", gauge, nil, "Objects on the heap.", fromRuntime("/gc/heap/objects:objects")},
	{"go_memstats_sys_bytes", gauge, nil, "Bytes that Go's runtime has from the system.", fromRuntime("/memory/classes/total:bytes")},
	{"raftsman_gc_cycles_total", counter, nil, "Rounds of the garbage collector.", fromRuntime("/gc/cycles/total:gc-cycles")},
	{"raftsman_gc_cpu_seconds_total", counter, nil, "Processor time of the garbage collector, as known at the end of its last round.", fromRuntime("/cpu/classes/gc/total:cpu-seconds")},
	{"raftsman_gc_heap_goal_bytes", gauge, nil, "How large the heap is when the next round begins.", fromRuntime("/gc/heap/goal:bytes")},
	{"process_start_time_seconds", gauge, nil, "When the broker started, in seconds since 1970.", func(s *scene, e emit) {
		e.value(float64(time.Time(s.started).UnixMilli()) / 1000)
	}},
	{"process_max_fds", gauge, nil, "Files that the process may have open.", func(_ *scene, e emit) { e.count(int64(vfs.OpenFilesMax())) }},
	{"process_open_fds", gauge, nil, "Files that it has open. This one and those below are known on Linux.", func(_ *scene, e emit) {
		if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
			e.count(int64(len(entries)) - 1) // the one that lists them
		}
	}},
	{"process_cpu_seconds_total", counter, nil, "Processor time.", func(_ *scene, e emit) {
		if user, ok := stat(13); ok {
			system, _ := stat(14)
			e.value(float64(user+system) / clockTicks)
		}
	}},
	{"process_virtual_memory_bytes", gauge, nil, "Address space.", func(_ *scene, e emit) {
		if n, ok := stat(22); ok {
			e.count(n)
		}
	}},
	{"process_resident_memory_bytes", gauge, nil, "Memory in use, the executable's pages included.", func(_ *scene, e emit) {
		if pages, ok := stat(23); ok {
			e.count(pages * int64(os.Getpagesize()))
		}
	}},
}

// fromRuntime reads one of the runtime's own metrics, which does not stop the world.
func fromRuntime(name string) func(*scene, emit) {
	return func(_ *scene, e emit) {
		sample := []metrics.Sample{{Name: name}}
		metrics.Read(sample)
		switch value := sample[0].Value; value.Kind() {
		case metrics.KindUint64:
			e.value(float64(value.Uint64()))
		case metrics.KindFloat64:
			e.value(value.Float64())
		}
	}
}

// stat returns a field of /proc/self/stat, the first is 0. The name of the program, which is the second, may hold anything.
func stat(field int) (int64, bool) {
	content, err := os.ReadFile("/proc/self/stat")
	end := bytes.LastIndexByte(content, ')')
	if err != nil || end < 0 {
		return 0, false
	}
	fields := strings.Fields(string(content[end+1:]))
	if field-2 >= len(fields) {
		return 0, false
	}
	n, err := strconv.ParseInt(fields[field-2], 10, 64)
	return n, err == nil
}
