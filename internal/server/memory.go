package server

import (
	"math"
	"runtime/debug"
)

// defaultBudget is a quarter of the memory that this process may use.
func defaultBudget() int64 {
	limit := debug.SetMemoryLimit(-1) // GOMEMLIMIT
	if limit == math.MaxInt64 {
		limit = memoryLimit()
	}
	return max(limit/4, budgetBytesMin)
}

// budgetBytesMin keeps a broker useful where next to no memory was found.
const budgetBytesMin = 16 << 20
