//go:build race

package commitlog

// seedsUnderRace: the engine has no goroutines, and the race detector makes its crash tests ten times slower.
const seedsUnderRace = 10
