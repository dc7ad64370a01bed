package server

import (
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memoryLimit returns the least of what the machine has and what the control groups around this process allow.
func memoryLimit() int64 {
	limit := int64(4 << 30)
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		limit = int64(info.Totalram) * int64(info.Unit)
	}
	for _, name := range limitFiles(readText("/proc/self/cgroup")) {
		if n, err := strconv.ParseInt(readText(name), 10, 64); err == nil && n > 0 {
			limit = min(limit, n)
		}
	}
	return limit
}

// limitFiles returns where a memory limit may stand, for the content of /proc/self/cgroup: with version 2 in the process's own
// group and in each one around it, with version 1 where a container mounts its own.
func limitFiles(groups string) []string {
	const root = "/sys/fs/cgroup"
	files := []string{root + "/memory.max", root + "/memory/memory.limit_in_bytes"}
	for line := range strings.Lines(groups) {
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		for ; ok && len(group) > 1; group = path.Dir(group) {
			files = append(files, root+group+"/memory.max")
		}
	}
	return files
}

func readText(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
