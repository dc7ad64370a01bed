//go:build !race

package wire

// allocationFactor: see race_on_test.go.
const allocationFactor = 1
