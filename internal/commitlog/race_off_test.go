//go:build !race

package commitlog

const seedsUnderRace = 1
