//go:build race

package wire

// allocationFactor: under the race detector append(s, make(...)...) allocates twice.
const allocationFactor = 2
