package kraft

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkAlone is what the quorum of one costs for each batch: told that it is appended, told that it is flushed.
func BenchmarkAlone(b *testing.B) {
	log := &simLog{}
	h := History{}
	h.Restore(SnapshotID{}, Membership{Version: 1, Voters: []Voter{{ID: 1, Directory: directory("A"), Endpoints: hosts("n1"), MaxVersion: 1}}})
	m := NewMember(Config{ID: 1, Directory: directory("A"), Endpoints: hosts("n1"), MaxVersion: 1, Rand: rand.New(rand.NewPCG(1, 1))}, NewState(), h, log)
	m.Start(1)
	log.append(simBatch{end: 3, epoch: 1})
	b.ReportAllocs()
	for b.Loop() {
		log.batches[0].end++
		m.Appended(2, Batch{Base: log.batches[0].end - 1, End: log.batches[0].end, Epoch: 1})
		log.flush()
		m.Flushed(2)
	}
}
