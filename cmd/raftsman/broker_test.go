package main

import (
	"os"
	"testing"

	"github.com/raftsman/raftsman/brokertest"
)

// startBroker returns the address of a broker of the test's own. RAFTSMAN_TEST_BROKER names another one, a fresh Apache Kafka
// say, to see that the same command lines do the same there.
func startBroker(t *testing.T) string {
	t.Helper()
	if address := os.Getenv("RAFTSMAN_TEST_BROKER"); address != "" {
		return address
	}
	return brokertest.Start(t).Addr()
}
