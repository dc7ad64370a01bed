package server

import (
	"slices"
	"testing"
)

func TestMemoryLimitOfControlGroups(t *testing.T) {
	got := limitFiles("12:memory:/user\n0::/system.slice/raftsman.service\n")
	for _, want := range []string{
		"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/system.slice/memory.max", "/sys/fs/cgroup/system.slice/raftsman.service/memory.max",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not looked at: %q", want, got)
		}
	}
	if n := memoryLimit(); n < 64<<20 || n > 1<<50 {
		t.Errorf("this machine is said to allow %d bytes", n)
	}
	if n := defaultBudget(); n < budgetBytesMin {
		t.Errorf("the default budget is %d bytes", n)
	}
}
