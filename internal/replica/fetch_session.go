package replica

import (
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/peer"
)

// fetchSession is the follower's side of a fetch session (KIP-227): what the leader's broker remembers, so that a request names only what has
// changed.
type fetchSession struct {
	id    int32
	epoch int32 // of the next request; 0: it names everything

	in      map[partKey]*followed // what the leader's broker fetches for
	forgets []partKey
}

func (s *fetchSession) len() int { return len(s.in) }

// forget takes a partition out, from the next request on.
func (s *fetchSession) forget(key partKey) {
	if x, ok := s.in[key]; ok {
		x.inSession = false
		delete(s.in, key)
		s.forgets = append(s.forgets, key)
	}
}

// restart has the next request name everything, and open another session in the place of this one.
func (s *fetchSession) restart() {
	s.epoch, s.in, s.forgets = 0, nil, nil
}

// lost is restart after an error of the session.
func (s *fetchSession) lost(code kafka.Error) {
	s.restart()
	if code == kafka.FetchSessionIdNotFound {
		s.id = 0
	}
}

// answered takes over that a request was answered. It is false if there is no session: there was no room for one, or it has ended.
func (s *fetchSession) answered(id int32) bool {
	switch {
	case id == 0:
		s.id = 0
		s.restart()
		return false
	case s.epoch == 0:
		s.id, s.epoch = id, 1
	case s.epoch == 1<<31-1:
		s.epoch = 1
	default:
		s.epoch++
	}
	return true
}

// request makes the next request's part about sessions and partitions. A topic may be named more than once.
func (s *fetchSession) request(asks []*followed, req *peer.FetchRequest) {
	req.SessionID, req.SessionEpoch = s.id, s.epoch
	if s.in == nil {
		s.in = map[partKey]*followed{}
	}
	for _, x := range asks {
		x.inSession = true
		s.in[x.key] = x
		n := len(req.Topics)
		if n == 0 || req.Topics[n-1].ID != x.key.topic {
			req.Topics = append(req.Topics, peer.FetchTopic{ID: x.key.topic})
			n++
		}
		req.Topics[n-1].Partitions = append(req.Topics[n-1].Partitions, x.asked)
	}
	for _, key := range s.forgets {
		if s.epoch == 0 || s.in[key] != nil { // nothing is remembered yet, or it is in again
			continue
		}
		n := len(req.Forgotten)
		if n == 0 || req.Forgotten[n-1].ID != key.topic {
			req.Forgotten = append(req.Forgotten, peer.ForgottenTopic{ID: key.topic})
			n++
		}
		req.Forgotten[n-1].Partitions = append(req.Forgotten[n-1].Partitions, key.index)
	}
	s.forgets = s.forgets[:0]
}
