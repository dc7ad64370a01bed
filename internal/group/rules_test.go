package group

import "testing"

// The rows of the protocol rules that a scenario covers, by number.

func TestRule83(t *testing.T) { runScenario(t, "testdata/member_id_required.txt") }

func TestRule84(t *testing.T) {
	runScenario(t, "testdata/static_members.txt")
	runScenario(t, "testdata/static_other_protocol.txt")
	runScenario(t, "testdata/static_persist_refused.txt")
}

func TestRule85(t *testing.T) { runScenario(t, "testdata/states_by_requests.txt") }

func TestRule86(t *testing.T) { runScenario(t, "testdata/offset_delete.txt") }

func TestRule88(t *testing.T) { runScenario(t, "testdata/expiry.txt") }
