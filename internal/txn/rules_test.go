package txn

import "testing"

// The rules of what brokers most often get wrong, by their numbers, that need a log which refuses.

func TestRule58(t *testing.T) { runScenario(t, "testdata/epochs_not_burnt.txt") }

func TestRule60AndRule61(t *testing.T) { runScenario(t, "testdata/refused.txt") }
