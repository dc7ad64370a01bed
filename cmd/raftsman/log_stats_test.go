package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/commitlog/verify"
)

func TestLogStatsCountsWhatWasProduced(t *testing.T) {
	dir := filledDirectory(t)
	s := newSession()
	if code := s.run("log", "stats", dir+"/orders-0", "-o", "json"); code != exitOK {
		t.Fatalf("ends with %d and says %q", code, s.err.String())
	}
	var got []verify.Stats
	if err := json.Unmarshal([]byte(s.out.String()), &got); err != nil || len(got) != 1 {
		t.Fatalf("%v: %s", err, s.out.String())
	}
	const keysValuesHeaders = 2*len("eu"+"a1") + len("first"+"second")
	if g := got[0]; g.Partition != "orders-0" || g.Records != 2 || g.Segments != 1 || g.ValueBytes != int64(keysValuesHeaders) || g.Bytes <= g.ValueBytes || g.MinMs <= 0 || g.MaxMs < g.MinMs {
		t.Errorf("counts %+v", g)
	}
	s = newSession()
	if code := s.run("log", "stats", dir); code != exitOK || !strings.Contains(s.out.String(), "orders-0") || !strings.Contains(s.out.String(), "__cluster_metadata-0") {
		t.Errorf("ends with %d and prints %s", code, s.out.String())
	}
}
