package replica

import (
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
)

// TestNoWakeIsLost lets a long poll begin at every moment while the record that it waits for becomes readable.
func TestNoWakeIsLost(t *testing.T) {
	const wakes, steps = 5_000, 10_000
	for _, durability := range []string{"flush", "os"} {
		t.Run(durability, func(t *testing.T) {
			w := newWorld(t, "raftsman.durability="+durability)
			w.topic("t", 1)
			late := 0
			for i := range kafka.Offset(wakes) {
				begin, sent := make(chan struct{}), make(chan (<-chan ProduceResult), 1)
				go func() {
					<-begin
					sent <- w.send("t", 0, 1, plain("a"))
				}()
				close(begin)
				for range int(i) * 7919 % steps {
					late++
				}
				answer(t, w.poll(1, at("t", 0, i)))
				answer(t, answer(t, sent))
			}
		})
	}
}
