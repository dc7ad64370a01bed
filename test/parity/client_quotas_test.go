package parity

import (
	"fmt"
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

// clientQuotas sets client quotas, describes them, and takes them away again. Their values are too large to throttle anybody.
func (c *conversation) clientQuotas() {
	const much = 1 << 40
	entities := [][]string{
		{"user=alice"},
		{"user"},
		{"client-id=app"},
		{"client-id"},
		{"user=alice", "client-id=app"},
		{"user=alice", "client-id"},
		{"client-id=app", "user"},
		{"client-id", "user"},
		{"user=al ice@x", "client-id=<default>"},
	}
	addresses := [][]string{{"ip=10.0.0.1"}, {"ip"}, {"ip=::1"}}
	for _, v := range raw.VersionsOf(kmsg.AlterClientQuotas) {
		c.add("nothing is set", raw.DescribeClientQuotas(v, false))
		c.add("no entries", raw.AlterClientQuotas(v))
		for _, e := range entities {
			c.add(fmt.Sprintf("set for %.40q", e), raw.AlterClientQuotas(v, raw.QuotaChange(raw.QuotaOf(e...),
				raw.SetQuota("producer_byte_rate", much), raw.SetQuota("consumer_byte_rate", much+1),
				raw.SetQuota("request_percentage", much+0.5), raw.SetQuota("controller_mutation_rate", much+0.25))))
		}
		for _, e := range addresses {
			c.add(fmt.Sprintf("set for %.40q", e), raw.AlterClientQuotas(v, raw.QuotaChange(raw.QuotaOf(e...), raw.SetQuota("connection_creation_rate", 1<<20))))
		}
		c.badQuotas(v)
		trial := raw.AlterClientQuotas(v, raw.QuotaChange(raw.QuotaOf("user=trial"), raw.SetQuota("producer_byte_rate", much)),
			raw.QuotaChange(raw.QuotaOf("user=trial 2"), raw.SetQuota("producer_byte_rate", 0)))
		trial.ValidateOnly = true
		c.add("validate only", trial)
		c.add("good and bad in one request", raw.AlterClientQuotas(v, raw.QuotaChange(raw.QuotaOf("user=half"), raw.SetQuota("producer_byte_rate", much)),
			raw.QuotaChange(raw.QuotaOf("user=half 2"), raw.SetQuota("nope", 1)), raw.QuotaChange(raw.QuotaOf("user=half 3"), raw.SetQuota("producer_byte_rate", much))))
		c.settle()
		c.describedQuotas(v)
		c.add("change one, remove one, remove one that is not there", raw.AlterClientQuotas(v, raw.QuotaChange(raw.QuotaOf("user=alice"),
			raw.SetQuota("producer_byte_rate", 2*much), raw.RemoveQuota("consumer_byte_rate"), raw.RemoveQuota("nope"))))
		c.settle()
		c.add("after a change and a removal", raw.DescribeClientQuotas(v, true, "user=alice"))
		for _, e := range append(entities, []string{"user=half"}, []string{"user=half 3"}) {
			c.add(fmt.Sprintf("remove from %q", e), raw.AlterClientQuotas(v, raw.QuotaChange(raw.QuotaOf(e...), raw.RemoveQuota("producer_byte_rate"),
				raw.RemoveQuota("consumer_byte_rate"), raw.RemoveQuota("request_percentage"), raw.RemoveQuota("controller_mutation_rate"))))
		}
		for _, e := range addresses {
			c.add(fmt.Sprintf("remove from %q", e), raw.AlterClientQuotas(v, raw.QuotaChange(raw.QuotaOf(e...), raw.RemoveQuota("connection_creation_rate"))))
		}
		c.settle()
		c.add("nothing is left", raw.DescribeClientQuotas(v, false))
	}
}

// badQuotas asks for what Apache Kafka refuses, or takes in spite of its looks.
func (c *conversation) badQuotas(v int16) {
	user, ip := raw.QuotaOf("user=bad"), raw.QuotaOf("ip=10.0.0.9")
	one := func(name string, entity []kmsg.AlterClientQuotasRequestEntryEntity, ops ...kmsg.AlterClientQuotasRequestEntryOp) {
		c.add(name, raw.AlterClientQuotas(v, raw.QuotaChange(entity, ops...)))
	}
	for _, value := range []float64{0, -1, 0.5, 1.5, 1e-7, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxInt64, 1e19, math.SmallestNonzeroFloat64, 1.0000001} {
		for _, key := range []string{"producer_byte_rate", "request_percentage", "controller_mutation_rate"} {
			one(fmt.Sprintf("%s = %v", key, value), user, raw.SetQuota(key, value))
		}
		one(fmt.Sprintf("connection_creation_rate = %v", value), ip, raw.SetQuota("connection_creation_rate", value))
	}
	one("too many connections", ip, raw.SetQuota("connection_creation_rate", 1<<31))
	one("as many connections as there may be", ip, raw.SetQuota("connection_creation_rate", 1<<31-1))
	one("an unknown key", user, raw.SetQuota("nope", 1))
	one("an empty key", user, raw.SetQuota("", 1))
	one("a connection rate for a user", user, raw.SetQuota("connection_creation_rate", 1))
	one("a byte rate for an address", ip, raw.SetQuota("producer_byte_rate", 1))
	one("an unknown key is removed", user, raw.RemoveQuota("nope"))
	one("a key twice", user, raw.SetQuota("producer_byte_rate", 1<<40), raw.SetQuota("producer_byte_rate", 1<<41))
	one("a key set and removed", user, raw.SetQuota("producer_byte_rate", 1<<40), raw.RemoveQuota("producer_byte_rate"))
	one("no operations", user)
	one("one good key, one bad one", user, raw.SetQuota("consumer_byte_rate", 1<<40), raw.SetQuota("nope", 1))
	for _, entity := range [][]string{
		{},
		{"nope=x"},
		{"nope"},
		{"=x"},
		{"user="},
		{"client-id="},
		{"ip="},
		{"ip=10.0.0.1", "user=x"},
		{"ip=10.0.0.1", "client-id=x"},
		{"ip", "user"},
		{"user=a", "user=b"},
		{"user=a", "user=a"},
		{"ip=not an address"},
		{"ip=999.1.1.1"},
		{"ip=10.0.0.0/8"},
		{"ip=localhost"},
		{"User=x"},
		{"user=" + strings.Repeat("n", 300)},
		{"ip=10.0.0.1", "user=x", "client-id=x"},
	} {
		key := "producer_byte_rate"
		if len(entity) > 0 && strings.HasPrefix(entity[0], "ip") {
			key = "connection_creation_rate"
		}
		one(fmt.Sprintf("entity %.40q", entity), raw.QuotaOf(entity...), raw.SetQuota(key, 1<<20))
	}
	c.add("an entity twice", raw.AlterClientQuotas(v, raw.QuotaChange(raw.QuotaOf("user=twice"), raw.SetQuota("producer_byte_rate", 1<<40)),
		raw.QuotaChange(raw.QuotaOf("user=twice"), raw.SetQuota("consumer_byte_rate", 1<<40))))
	c.add("an entity twice in another order", raw.AlterClientQuotas(v, raw.QuotaChange(raw.QuotaOf("user=twice", "client-id=x"), raw.SetQuota("producer_byte_rate", 1<<40)),
		raw.QuotaChange(raw.QuotaOf("client-id=x", "user=twice"), raw.SetQuota("producer_byte_rate", 1<<40))))
	// What of it was taken is taken away again.
	all := []kmsg.AlterClientQuotasRequestEntryOp{
		raw.RemoveQuota("producer_byte_rate"), raw.RemoveQuota("consumer_byte_rate"), raw.RemoveQuota("request_percentage"), raw.RemoveQuota("controller_mutation_rate"),
	}
	c.settle()
	c.add("what could be set", raw.DescribeClientQuotas(v, false, "user=bad"))
	for _, e := range [][]string{{"user=bad"}, {"user=a"}, {"user=b"}, {"user=" + strings.Repeat("n", 300)}, {"user=twice"}, {"user=twice", "client-id=x"}} {
		one(fmt.Sprintf("take from %.40q", e), raw.QuotaOf(e...), all...)
	}
	for _, e := range []string{"ip=10.0.0.9", "ip=localhost", "ip="} {
		one("take from "+e, raw.QuotaOf(e), raw.RemoveQuota("connection_creation_rate"))
	}
}

func (c *conversation) describedQuotas(v int16) {
	for _, strict := range []bool{false, true} {
		for _, filters := range [][]string{
			{},
			{"user=alice"},
			{"user"},
			{"user*"},
			{"client-id=app"},
			{"client-id"},
			{"client-id*"},
			{"user=alice", "client-id=app"},
			{"user*", "client-id*"},
			{"user", "client-id"},
			{"client-id", "user*"},
			{"user=alice", "client-id*"},
			{"user=nobody"},
			{"ip*"},
			{"ip"},
			{"ip=10.0.0.1"},
			{"ip=::1"},
			{"ip=0:0:0:0:0:0:0:1"},
			{"user=al ice@x", "client-id*"},
			{"user="},
			{"ip*", "user*"},
			{"client-id=x", "ip"},
			{"user*", "user*"},
			{"user=a", "user"},
			{"nope*"},
			{"nope=x"},
			{"=x"},
			{"*"},
			{"user", "nope*"},
		} {
			c.add(fmt.Sprintf("%q, strict %t", filters, strict), raw.DescribeClientQuotas(v, strict, filters...))
		}
	}
	for _, match := range []int8{-1, 0, 1, 2, 3} {
		for _, name := range []*string{nil, new("alice")} {
			req := raw.DescribeClientQuotas(v, false, "user")
			req.Components[0].MatchType, req.Components[0].Match = kmsg.QuotasMatchType(match), name
			c.add(fmt.Sprintf("match type %d, with a name %t", match, name != nil), req)
		}
	}
}
