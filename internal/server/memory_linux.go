package server

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memoryLimit returns what the control group allows, or what the machine has.
func memoryLimit() int64 {
	var info unix.Sysinfo_t
	limit := int64(4 << 30)
	if unix.Sysinfo(&info) == nil {
		limit = int64(info.Totalram) * int64(info.Unit)
	}
	for _, name := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
			limit = min(limit, n)
		}
	}
	return limit
}
