package test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// eitherProtocol are the clients that speak KIP-848 when they are told to.
func eitherProtocol(t testing.TB) []library {
	t.Helper()
	return slices.DeleteFunc(libraries(t), func(l library) bool {
		return !slices.Contains([]string{"java", "confluent-kafka", "franz-go"}, l.name)
	})
}

// toldConsumer tells a client to speak KIP-848.
const toldConsumer = "GROUP_PROTOCOL=consumer"

// consumerProtocol are the clients that speak KIP-848, told to do so.
func consumerProtocol(t testing.TB) []library {
	t.Helper()
	libraries := eitherProtocol(t)
	for i, l := range libraries {
		libraries[i] = l.with(toldConsumer)
	}
	return libraries
}

// quickConsumers has members beat often, and be taken out soon.
var quickConsumers = []string{
	"--override", "group.consumer.min.session.timeout.ms=6000", "--override", "group.consumer.session.timeout.ms=6000",
	"--override", "group.consumer.min.heartbeat.interval.ms=500", "--override", "group.consumer.heartbeat.interval.ms=500",
	"--override", "num.partitions=3",
}

// TestConsumerProtocolClients has each client read all in a group of the consumer protocol, go on where the group stopped, and
// read again in another group; Kafka's tools see a group of that type.
func TestConsumerProtocolClients(t *testing.T) {
	t.Parallel()
	broker := startBroker(t, t.TempDir(), quickConsumers...)
	for _, lib := range consumerProtocol(t) {
		t.Run(lib.name, func(t *testing.T) {
			t.Parallel()
			topic := fmt.Sprintf("consumers-%s", lib.name)
			lib.run(t, broker.addr, "create", topic, "3")
			lib.run(t, broker.addr, "produce", topic, "none", "0", "60", "7")
			checkAll(t, lib.run(t, broker.addr, "consume", topic+"-group", topic, "60"), 0, 60, 7, 60)
			lib.run(t, broker.addr, "produce", topic, "none", "60", "10", "7")
			checkAll(t, lib.run(t, broker.addr, "consume", topic+"-group", topic, "10"), 60, 10, 7, 70)
			if again := lib.run(t, broker.addr, "consume", topic+"-again", topic, "70"); len(again) != 70 {
				t.Errorf("a second group read %d records, want 70", len(again))
			}
			listed := kafkaTool(t, "", "consumer-groups", "--bootstrap-server", broker.addr, "--list", "--state", "--type")
			if !strings.Contains(strings.Join(strings.Fields(listed), " "), topic+"-group Consumer Empty") {
				t.Errorf("the tool lists %s", listed)
			}
		})
	}
}

// TestConsumerProtocolMembers: members share the partitions; one is killed and its partitions go to the others; the broker is
// killed and started again, and the members go on; nothing is lost, and the records of a key stay in order.
func TestConsumerProtocolMembers(t *testing.T) {
	t.Parallel()
	for _, lib := range consumerProtocol(t) {
		t.Run(lib.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			broker := startBroker(t, dir, quickConsumers...)
			topic := fmt.Sprintf("shared-%s-%d", lib.name, os.Getpid())
			group := topic
			lib.run(t, broker.addr, "create", topic, "4")
			stop := produceSteadily(t, broker.addr, topic)
			members := []*member{startMember(t, lib, broker.addr, group, topic)}
			shares := func(want ...int) {
				t.Helper()
				owning(t, members, want...)
			}
			shares(4)
			members = append(members, startMember(t, lib, broker.addr, group, topic))
			shares(2, 2)
			members = append(members, startMember(t, lib, broker.addr, group, topic))
			shares(1, 1, 2)
			described := kafkaTool(t, "", "consumer-groups", "--bootstrap-server", broker.addr, "--describe", "--state", "--group", group)
			if !strings.Contains(described, "uniform") || !strings.Contains(described, "Stable") {
				t.Errorf("the tool describes %s", described)
			}

			broker.kill()
			broker = startBrokerAt(t, dir, portOf(t, broker.addr), quickConsumers...)
			before := readBy(members)
			eventually(t, atLast, "members read on", func() error {
				if now := readBy(members); now <= before+20 {
					return fmt.Errorf("%d records read, %d before", now, before)
				}
				return nil
			})
			shares(1, 1, 2)

			gone := members[0]
			_ = syscall.Kill(-gone.process.command.Process.Pid, syscall.SIGKILL)
			members = members[1:]
			shares(2, 2)
			sent := stop()
			all := append([]*member{gone}, members...)
			valuesRead(t, all, sent)
			for i, m := range all {
				_, read := m.state()
				checkOrder(t, fmt.Sprintf("member %d", i), read)
			}
			for _, m := range members {
				_ = syscall.Kill(-m.process.command.Process.Pid, syscall.SIGTERM)
			}
			eventually(t, atLast, "the members have left", func() error {
				if kind, state := groupNow(t, broker.addr, group); kind != "consumer" || state != "Empty" {
					return fmt.Errorf("it is a %s group, %s", kind, state)
				}
				return nil
			})
		})
	}
}

func readBy(members []*member) (n int) {
	for _, m := range members {
		_, read := m.state()
		n += len(read)
	}
	return n
}

// TestConsumerProtocolMigration: members of the classic protocol and of the new one share a group, in both directions, under
// records that come all the while; the group has the type of the last that are left.
func TestConsumerProtocolMigration(t *testing.T) {
	t.Parallel()
	broker := startBroker(t, t.TempDir(), quickConsumers...)
	for _, classic := range eitherProtocol(t) {
		lib := classic.with(toldConsumer)
		t.Run(lib.name, func(t *testing.T) {
			t.Parallel()
			topic := "migrated-" + lib.name
			lib.run(t, broker.addr, "create", topic, "4")
			stop := produceSteadily(t, broker.addr, topic)
			is := func(kind string) {
				t.Helper()
				eventually(t, atLast, "the group is "+kind, func() error {
					if now, state := groupNow(t, broker.addr, topic); now != kind || state != "Stable" {
						return fmt.Errorf("it is a %s group, %s", now, state)
					}
					return nil
				})
			}
			old := startMember(t, classic, broker.addr, topic, topic)
			is("classic")
			young := startMember(t, lib, broker.addr, topic, topic)
			eventually(t, atLast, "both own two partitions", func() error {
				if a, b := len(old.partitions(t)), len(young.partitions(t)); a != 2 || b != 2 {
					return fmt.Errorf("they own %d and %d", a, b)
				}
				return nil
			})
			is("consumer")
			_ = syscall.Kill(-young.process.command.Process.Pid, syscall.SIGTERM)
			eventually(t, atLast, "the classic member has all", func() error {
				if n := len(old.partitions(t)); n != 4 {
					return fmt.Errorf("it owns %d", n)
				}
				return nil
			})
			is("classic")
			third := startMember(t, lib, broker.addr, topic, topic)
			eventually(t, atLast, "the third owns two partitions", func() error {
				if n := len(third.partitions(t)); n != 2 {
					return fmt.Errorf("it owns %d", n)
				}
				return nil
			})
			_ = syscall.Kill(-old.process.command.Process.Pid, syscall.SIGTERM)
			sent := stop()
			members := []*member{old, young, third}
			again := 0
			for _, times := range valuesRead(t, members, sent) {
				again += times - 1
			}
			t.Logf("%d of %d records were read again", again, sent)
			for i, m := range members {
				_, read := m.state()
				checkOrder(t, fmt.Sprintf("member %d", i), read)
			}
			is("consumer")
		})
	}
}

// groupNow is the type and the state of a group.
func groupNow(t testing.TB, broker, group string) (kind, state string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	req := kmsg.NewPtrListGroupsRequest()
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil {
		return "", err.Error()
	}
	for _, g := range resp.Groups {
		if g.Group == group {
			return g.GroupType, g.GroupState
		}
	}
	return "", "not listed"
}
