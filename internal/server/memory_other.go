//go:build !linux

package server

// memoryLimit is a guess where the system is not asked: people try the broker there, they set GOMEMLIMIT where it matters.
func memoryLimit() int64 { return 4 << 30 }
