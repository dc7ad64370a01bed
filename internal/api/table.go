package api

import "github.com/twmb/franz-go/pkg/kmsg"

// table lists every API that is served, in key order: one line each, its file is named as its handler. Versions are Kafka
// 4.4's unless a line says why not.
var table = []entry{
	{key: kmsg.ApiVersions, min: 0, max: 5, handle: (*API).apiVersions},
}

// entry is one row of the table. handle must call reply (through the call's answer, silence or close, or with a response
// made by wire's own codecs) exactly once.
type entry struct {
	key      kmsg.Key
	min, max int16
	handle   func(*API, call)
}

// served finds an entry by key.
type served [kmsg.MaxKey + 1]*entry

func index(rows []entry) (s served) {
	for i := range rows {
		s[rows[i].key] = &rows[i]
	}
	return s
}

func (s *served) entry(key int16) *entry {
	if key < 0 || int(key) >= len(s) {
		return nil
	}
	return s[key]
}
