package main

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestJoiningAGroupIsNoStall: who waits long for its partitions still waits for their records.
func TestJoiningAGroupIsNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := spans{"orders": {0: span{from: 4, bound: 5, end: 5}}}
		r := newConsumeRun(newSession().app, consumeOptions{topics: []string{"orders"}, group: "billing", toEnd: true, count: -1}, plan)
		time.Sleep(2 * stallPatience) // in the bubble's time
		if r.stalled() {
			t.Error("it gives up before the group has given it a partition")
		}
		r.assigned(map[string][]int32{"orders": {0}})
		time.Sleep(stallPatience - time.Second)
		if r.stalled() {
			t.Error("it gives up before it has waited for records")
		}
		time.Sleep(time.Second)
		if !r.stalled() {
			t.Errorf("it goes on %v after it got a partition from which nothing comes", stallPatience)
		}
	})
}
