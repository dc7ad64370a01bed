package test

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
)

// owning waits until the members own so many partitions, in any order.
func owning(t testing.TB, members []*member, want ...int) {
	t.Helper()
	eventually(t, atLast, fmt.Sprintf("members own %v partitions", want), func() error {
		var got []int
		for i, m := range members {
			owned := m.partitions(t)
			if owned == nil {
				return fmt.Errorf("member %d has not joined", i)
			}
			got = append(got, len(owned))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("members own %v", got)
		}
		return nil
	})
}

// valuesRead waits until the members have read value-0 … value-(n-1), and returns how often each.
func valuesRead(t testing.TB, members []*member, n int) map[string]int {
	t.Helper()
	var seen map[string]int
	eventually(t, atLast, fmt.Sprintf("%d values are read", n), func() error {
		seen = map[string]int{}
		for _, m := range members {
			_, read := m.state()
			for _, r := range read {
				seen[*r.Value]++
			}
		}
		for i := range n {
			if name := fmt.Sprintf("value-%d", i); seen[name] == 0 {
				return fmt.Errorf("%s of %d was not read", name, n)
			}
		}
		return nil
	})
	return seen
}

// TestSubscribedPattern: members of the consumer protocol subscribe to a regular expression, which the broker resolves: they share
// what it matches, a topic that comes later with it, read nothing else, and nothing twice; who leaves hands over at once.
func TestSubscribedPattern(t *testing.T) {
	t.Parallel()
	broker := startBroker(t, t.TempDir(), quickConsumers...)
	for _, lib := range consumerProtocol(t) {
		t.Run(lib.name, func(t *testing.T) {
			t.Parallel()
			prefix := "pattern-" + lib.name
			topic := func(name string, partitions, first, count int) {
				t.Helper()
				lib.run(t, broker.addr, "create", name, fmt.Sprint(partitions))
				lib.run(t, broker.addr, "produce", name, "none", fmt.Sprint(first), fmt.Sprint(count), "7")
			}
			topic(prefix+"-a", 2, 0, 30)
			topic(prefix+"-b", 2, 30, 30)
			topic("other-"+prefix+"-c", 1, 100, 1)
			members := []*member{startMember(t, lib, broker.addr, prefix, "^"+prefix+"-[a-z]")}
			owning(t, members, 4)
			valuesRead(t, members, 60)
			members = append(members, startMember(t, lib, broker.addr, prefix, "^"+prefix+"-[a-z]"))
			owning(t, members, 2, 2)
			topic(prefix+"-d", 2, 60, 10)
			owning(t, members, 3, 3)
			for value, times := range valuesRead(t, members, 70) {
				if value == "value-100" {
					t.Error("a topic was read that the expression does not match")
				}
				if times > 1 {
					t.Errorf("%s was read %d times", value, times)
				}
			}
			_ = syscall.Kill(-members[0].process.command.Process.Pid, syscall.SIGTERM)
			owning(t, members[1:], 6)
		})
	}
}

// TestStaticMembers: a member with an instance id that ends and comes again, or in the classic protocol is killed, has the partitions
// that it had, and the other member is not disturbed. A second member of that name is refused in the consumer protocol, and takes over in the classic one.
func TestStaticMembers(t *testing.T) {
	t.Parallel()
	broker := startBroker(t, t.TempDir(), "--override", "group.consumer.heartbeat.interval.ms=500", "--override",
		"group.consumer.min.heartbeat.interval.ms=500")
	for _, lib := range libraries(t) {
		if lib.name != "java" && lib.name != "confluent-kafka" {
			continue
		}
		for _, protocol := range []string{"classic", "consumer"} {
			t.Run(lib.name+"/"+protocol, func(t *testing.T) {
				t.Parallel()
				lib := lib.with("GROUP_PROTOCOL=" + protocol)
				topic := fmt.Sprintf("static-%s-%s-%d", lib.name, protocol, os.Getpid())
				lib.run(t, broker.addr, "create", topic, "4")
				stop := produceSteadily(t, broker.addr, topic)
				start := func(instance string) *member {
					return startMember(t, lib.with("GROUP_INSTANCE="+instance), broker.addr, topic, topic)
				}
				one, two := start("one"), start("two")
				members := []*member{one, two}
				owning(t, members, 2, 2)
				had, changes := two.sorted(), one.told()
				ends := []syscall.Signal{syscall.SIGTERM}
				if protocol == "classic" { // else a member that is killed must first be missed
					ends = append(ends, syscall.SIGKILL)
				}
				for _, signal := range ends {
					_ = syscall.Kill(-two.process.command.Process.Pid, signal)
					<-two.process.exited
					two = start("two")
					members = append(members, two)
					owning(t, []*member{two}, 2)
					if has := two.sorted(); !slices.Equal(has, had) {
						t.Errorf("after %v it has %v, had %v", signal, has, had)
					}
				}
				if again := one.told(); again != changes {
					t.Errorf("the other member was told %d times what it owns, after %d at first", again, changes)
				}
				double := start("one")
				loser, winner := double, one
				if protocol == "classic" {
					loser, winner = one, double
				}
				members = append(members, double)
				eventually(t, atLast, "one of two members of a name ends", func() error {
					select {
					case <-loser.process.exited:
						return nil
					default:
						return fmt.Errorf("it owns %v, the other %v", loser.sorted(), winner.sorted())
					}
				})
				owning(t, []*member{two, winner}, 2, 2)
				valuesRead(t, members, stop())
				for i, m := range members {
					_, read := m.state()
					checkOrder(t, fmt.Sprintf("member %d", i), read)
				}
			})
		}
	}
}

func (m *member) sorted() []int {
	owned, _ := m.state()
	return slices.Sorted(slices.Values(owned))
}

func (m *member) told() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changes
}
