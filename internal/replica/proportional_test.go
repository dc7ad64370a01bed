package replica

import (
	"fmt"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// TestAChangeCostsNoMoreWithManyTopics: what Apply allocates for one topic's change does not grow with the topics that stay.
func TestAChangeCostsNoMoreWithManyTopics(t *testing.T) {
	cost := func(topics int) float64 {
		w := newWorld(t)
		var records []sysrecord.Record
		ids := make([]kafka.TopicID, topics)
		for i := range topics {
			ids[i] = kafka.NewUUID(randomBytes)
			created := sysrecord.NewTopicRecord()
			created.Name, created.TopicID = fmt.Sprintf("t%05d", i), ids[i]
			records = append(records, created) // topics without partitions: the logs are not what is measured
		}
		w.change(records...)
		setting, value := configRecord("t00000", "retention.ms=1000"), 0
		return testing.AllocsPerRun(20, func() {
			value++
			setting.Value = new(fmt.Sprint(value))
			u := w.image.Update()
			if err := u.Apply(meta.Entry{Record: setting}); err != nil {
				t.Fatal(err)
			}
			old := w.image
			w.image = u.Image(old.Offset()+1, 1, 0)
			w.m.Apply(old, w.image)
		})
	}
	few, many := cost(10), cost(5000)
	if many > 2*few+100 {
		t.Errorf("a change costs %v allocations among 10 topics and %v among 5000", few, many)
	}
}
