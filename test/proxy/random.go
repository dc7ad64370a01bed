package proxy

import (
	"math/rand/v2"
	"time"
)

// Random chooses faults by a seed: a request in five is delayed, lost, or delivered again. What has not befallen a kind of request
// yet befalls its next ones, so that a rare kind is not spared.
//
// A late EndTxn or TxnOffsetCommit of the flow before KIP-890 part 2 can't be told from one of the transaction that the producer has
// open by then, for its epoch is the same: that flow is not safe from it, in no broker. So what is late of it is delivered again
// before the client goes on (Repeat), or is lost (DropRequest).
func Random(seed uint64) func(Request) Choice {
	random := rand.New(rand.NewPCG(seed, 0x70726f7879))
	spared := map[Count]bool{}
	for _, key := range Kinds() {
		for fault := Delay; fault <= Late; fault++ {
			spared[Count{key, fault}] = true
		}
	}
	return func(r Request) Choice {
		if random.IntN(5) > 0 {
			return Choice{}
		}
		faults := []Fault{Delay, Delay, Delay, DropRequest, DropAnswer, Duplicate, Late}
		fault := faults[random.IntN(len(faults))]
		for f := Delay; f <= Late; f++ {
			if of := (Count{r.Key, f}); spared[of] && f != Repeat {
				fault = f
				break
			}
		}
		delete(spared, Count{r.Key, fault})
		if late := r.Key == EndTxn && r.Version < 5 || r.Key == TxnOffsetCommit && r.Version < 5; late {
			switch fault {
			case Duplicate:
				fault = Repeat
			case Late:
				fault = DropRequest
			default:
			}
		}
		after := time.Duration(random.IntN(300)) * time.Millisecond
		if fault != Delay && random.IntN(2) == 0 { // after several transactions
			after += time.Duration(random.IntN(4000)) * time.Millisecond
		}
		return Choice{fault, after}
	}
}
