package scripts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// quotaTypes are the types of the protocol; others have no quotas.
var quotaTypes = map[string]string{"users": "user", "clients": "client-id", "ips": "ip"}

func (c *call) describeQuotas(ctx context.Context, found []entity) error {
	var wanted []kadm.DescribeClientQuotaComponent
	for _, e := range found {
		match := kmsg.QuotasMatchTypeExact
		switch {
		case !e.named:
			match = kmsg.QuotasMatchTypeAny
		case e.name == nil:
			match = kmsg.QuotasMatchTypeDefault
		}
		wanted = append(wanted, kadm.DescribeClientQuotaComponent{Type: quotaTypes[e.kind], MatchName: e.name, MatchType: match})
	}
	described, err := c.adm.DescribeClientQuotas(ctx, true, wanted)
	if err != nil {
		return err
	}
	var lines []string
	for _, d := range described {
		var whose, quotas []string
		for _, kind := range []struct{ of, called string }{{"user", "user-principal"}, {"client-id", "client-id"}, {"ip", "ip"}} {
			for _, part := range d.Entity {
				switch {
				case part.Type != kind.of:
				case part.Name == nil:
					whose = append(whose, "the default "+kind.called)
				default:
					whose = append(whose, fmt.Sprintf("%s '%s'", kind.called, *part.Name))
				}
			}
		}
		for _, v := range d.Values {
			quotas = append(quotas, v.Key+"="+doubleText(v.Value))
		}
		slices.Sort(quotas)
		lines = append(lines, fmt.Sprintf("Quota configs for %s are %s\n", strings.Join(whose, ", "), strings.Join(quotas, ", ")))
	}
	slices.Sort(lines)
	for _, line := range lines {
		c.print("%s", line)
	}
	return nil
}

// doubleText writes a number as Java's Double.toString does: always with a fraction, and with E from ten millions on.
func doubleText(value float64) string {
	if magnitude := max(value, -value); magnitude != 0 && (magnitude < 1e-3 || magnitude >= 1e7) {
		mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(value, 'E', -1, 64), "E")
		if !strings.Contains(mantissa, ".") {
			mantissa += ".0"
		}
		n, _ := strconv.Atoi(exponent) // written by FormatFloat
		return fmt.Sprintf("%sE%d", mantissa, n)
	}
	text := strconv.FormatFloat(value, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// quotaKeys are the quotas of each type.
var quotaKeys = map[string][]string{
	"users":   {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"},
	"clients": {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"},
	"ips":     {"connection_creation_rate"},
}

func (c *call) alterQuotas(ctx context.Context, found []entity) error {
	values, err := c.added()
	if err != nil {
		return err
	}
	entry := kadm.AlterClientQuotaEntry{}
	for _, e := range found {
		entry.Entity = append(entry.Entity, kadm.ClientQuotaEntityComponent{Type: quotaTypes[e.kind], Name: e.name})
	}
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if strings.HasPrefix(key, "SCRAM-") {
			return errors.New("passwords of users are not served by this script yet: clients need none here; `raftsman quota set` sets quotas of users")
		}
		if !slices.Contains(quotaKeys[found[0].kind], key) {
			unknown = append(unknown, key)
			continue
		}
		n, err := strconv.ParseFloat(values[key], 64)
		if err != nil {
			return usagef("Cannot parse quota configuration value for %s: %s", key, values[key])
		}
		entry.Ops = append(entry.Ops, kadm.AlterClientQuotaOp{Key: key, Value: n})
	}
	if len(unknown) > 0 {
		return usagef("Only quota configs can be added for '%s' using --bootstrap-server. Unexpected config names: %s", found[0].kind, strings.Join(unknown, ","))
	}
	for _, key := range c.deleted() {
		entry.Ops = append(entry.Ops, kadm.AlterClientQuotaOp{Key: key, Remove: true})
	}
	results, err := c.adm.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{entry})
	if err != nil {
		return err
	}
	for _, r := range results {
		if r.Err != nil {
			return &saidError{r.Err, r.ErrMessage}
		}
	}
	c.tellUpdated(found[0])
	return nil
}
