package replica

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// unmade are partitions whose log could not be created, or opened at the start, for want of something that comes back: space, or file
// descriptors. They sleep, and answer KAFKA_STORAGE_ERROR, until somebody asks for them when it is there again, or this does.
type unmade struct {
	count atomic.Int64

	mu    sync.Mutex // guards slots
	slots []*slot
}

// unmadeAtOnce is how many are tried at a time.
const unmadeAtOnce = 1_000

func (u *unmade) add(s *slot) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.slots = append(u.slots, s)
	u.count.Add(1)
}

// make tries some of them again, and says so when the last one is there. One that fails leaves the others of its directory to the next time.
func (b *background) make(time.Time) {
	u := &b.m.unmade
	if u.count.Load() == 0 {
		return
	}
	u.mu.Lock()
	slots := u.slots
	u.mu.Unlock()
	short := map[*logDir]bool{}
	tried, served := 0, 0
	left := slices.DeleteFunc(slices.Clone(slots), func(s *slot) bool {
		d := s.dir()
		if short[d] || tried == unmadeAtOnce {
			return s.awakened() != nil // somebody else has woken it
		}
		tried++
		p, err := s.replica()
		if err == nil && p.serves() == nil {
			served++
		}
		short[d] = err != nil
		return err == nil
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	u.slots = append(left, u.slots[len(slots):]...)
	u.count.Store(int64(len(u.slots)))
	if len(u.slots) == 0 && served > 0 {
		b.m.log.Info("partitions that could not be created or opened, as the system had run out of something, are there now")
	}
}
