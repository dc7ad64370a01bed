package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func quotaCommand(a *app) *cobra.Command {
	return family("quota", "Show and change how much clients may use", quotaListCommand(a), quotaSetCommand(a), quotaUnsetCommand(a))
}

const quotaEntities = `A quota belongs to a user, a client id, a user's client id or an address. --default user is for all users that have none of their own,
--default client-id and --default ip likewise.`

// quotaKeys are the quotas that there are; a broker refuses others.
var quotaKeys = []string{"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate", "connection_creation_rate"}

// quotaFlags say whose quotas are meant.
type quotaFlags struct {
	names    map[string]*string // by type of entity
	defaults []string
}

// quotaTypes are the types of entities, as the protocol calls them.
var quotaTypes = []string{"user", "client-id", "ip"}

func addQuotaFlags(c *cobra.Command) *quotaFlags {
	f := &quotaFlags{names: map[string]*string{}}
	f.names["user"] = c.Flags().String("user", "", "of this user")
	f.names["client-id"] = c.Flags().String("client-id", "", "of clients with this id")
	f.names["ip"] = c.Flags().String("ip", "", "of connections from this address")
	c.Flags().StringSliceVar(&f.defaults, "default", nil, "of those that have none of their own: user, client-id or ip")
	completeFlag(c, "default", quotaTypes...)
	return f
}

// entity returns whom the flags name, in the order of quotaTypes.
func (f *quotaFlags) entity(given func(string) bool) (kadm.ClientQuotaEntity, error) {
	if err := spell("--default", f.defaults, quotaTypes); err != nil {
		return nil, err
	}
	var entity kadm.ClientQuotaEntity
	for _, kind := range quotaTypes {
		named, byDefault := given(kind), slices.Contains(f.defaults, kind)
		switch {
		case named && byDefault:
			return nil, usagef("--%s and --default %s say different things: choose one", kind, kind)
		case named && *f.names[kind] == "":
			return nil, usagef("--%s names nobody: --default %s is for those that have no quota of their own", kind, kind)
		case named:
			entity = append(entity, kadm.ClientQuotaEntityComponent{Type: kind, Name: f.names[kind]})
		case byDefault:
			entity = append(entity, kadm.ClientQuotaEntityComponent{Type: kind})
		}
	}
	if len(entity) > 1 && entity[len(entity)-1].Type == "ip" {
		return nil, usagef("--ip does not go with --user and --client-id: quotas of addresses count connections, whoever they are")
	}
	return entity, nil
}

// wantEntity is entity for those that need one.
func (f *quotaFlags) wantEntity(given func(string) bool) (kadm.ClientQuotaEntity, error) {
	entity, err := f.entity(given)
	if err == nil && len(entity) == 0 {
		return nil, usagef("whose quota is missing: --user, --client-id, --ip or --default")
	}
	return entity, err
}

// quotaView is the quotas of one entity. A nil name stands for those that have none of their own.
type quotaView struct {
	Entity []quotaEntity      `json:"entity"`
	Quotas map[string]float64 `json:"quotas"`
}

type quotaEntity struct {
	Type string  `json:"type"`
	Name *string `json:"name"`
}

func quotaListCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "Show the quotas that are set",
		Long:    "Show the quotas that are set: all, or those in which what is named has a part.\n\n" + quotaEntities,
		Args:    wants(0, 0),
	}
	f := addQuotaFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		entity, err := f.entity(c.Flags().Changed)
		if err != nil {
			return err
		}
		var wanted []kadm.DescribeClientQuotaComponent
		for _, part := range entity {
			match := kmsg.QuotasMatchTypeExact
			if part.Name == nil {
				match = kmsg.QuotasMatchTypeDefault
			}
			wanted = append(wanted, kadm.DescribeClientQuotaComponent{Type: part.Type, MatchName: part.Name, MatchType: match})
		}
		return a.admin(c.Context(), func(ctx context.Context, adm *kadm.Client) error {
			described, err := adm.DescribeClientQuotas(ctx, false, wanted)
			if err != nil {
				return err
			}
			views := []quotaView{}
			for _, d := range described {
				views = append(views, viewQuota(d))
			}
			slices.SortFunc(views, func(x, y quotaView) int { return strings.Compare(x.whose(), y.whose()) })
			return a.writeQuotas(views)
		})
	}
	return c
}

func viewQuota(d kadm.DescribedClientQuota) quotaView {
	v := quotaView{Quotas: map[string]float64{}}
	for _, kind := range quotaTypes {
		for _, part := range d.Entity {
			if part.Type == kind {
				v.Entity = append(v.Entity, quotaEntity{part.Type, part.Name})
			}
		}
	}
	for _, value := range d.Values {
		v.Quotas[value.Key] = value.Value
	}
	return v
}

// whose names an entity: "user ann, client-id shop".
func (v *quotaView) whose() string {
	var parts []string
	for _, e := range v.Entity {
		if e.Name == nil {
			parts = append(parts, "default "+e.Type)
			continue
		}
		parts = append(parts, e.Type+" "+*e.Name)
	}
	return strings.Join(parts, ", ")
}

func (a *app) writeQuotas(views []quotaView) error {
	if a.json() {
		return a.writeJSON(views)
	}
	if len(views) == 0 {
		a.note("no quota is set: `raftsman quota set` sets one")
		return nil
	}
	t := newTable(column{title: "WHOSE", flexible: true}, column{title: "QUOTA"}, column{title: "VALUE", right: true}, column{title: ""})
	for _, v := range views {
		for _, key := range sortedKeys(v.Quotas) {
			t.add(plain(v.whose()), plain(key), plain(formatQuota(v.Quotas[key])), faint(quotaUnit(key, v.Quotas[key])))
		}
	}
	return t.write(a.out, a.paint(), a.width())
}

func formatQuota(value float64) string { return strconv.FormatFloat(value, 'f', -1, 64) }

// quotaUnit says what a value means.
func quotaUnit(key string, value float64) string {
	switch key {
	case "producer_byte_rate", "consumer_byte_rate":
		if value < 1<<62 {
			return formatBytes(int64(value)) + "/s"
		}
	case "request_percentage":
		return "% of one thread"
	case "controller_mutation_rate":
		return "partitions/s"
	case "connection_creation_rate":
		return "connections/s"
	}
	return ""
}

func quotaSetCommand(a *app) *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use:   "set KEY=VALUE...",
		Short: "Set quotas; all others stay as they are",
		Long:  "Set quotas; all others stay as they are. The keys are " + strings.Join(quotaKeys, ", ") + ".\n\n" + quotaEntities,
		Example: `  raftsman quota set --client-id reports consumer_byte_rate=1048576
  raftsman quota set --default user producer_byte_rate=10485760
  raftsman quota set --user ann --client-id shop request_percentage=50`,
		Args:              wants(1, -1),
		ValidArgsFunction: completeQuotaKeys("="),
	}
	f := addQuotaFlags(c)
	c.Flags().BoolVar(&dryRun, "dry-run", false, "have the broker check it, change nothing")
	c.RunE = func(c *cobra.Command, args []string) error {
		entity, err := f.wantEntity(c.Flags().Changed)
		if err != nil {
			return err
		}
		values, err := parsePairs(args, "set")
		if err != nil {
			return err
		}
		var ops []kadm.AlterClientQuotaOp
		for _, key := range sortedKeys(values) {
			value, err := strconv.ParseFloat(*values[key], 64)
			if err != nil || value <= 0 {
				return usagef("%s=%s: a quota is a number above 0; `raftsman quota unset` takes it away", key, *values[key])
			}
			ops = append(ops, kadm.AlterClientQuotaOp{Key: key, Value: value})
		}
		return a.alterQuotas(c.Context(), entity, ops, dryRun)
	}
	return c
}

func quotaUnsetCommand(a *app) *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use:               "unset KEY...",
		Short:             "Take quotas back: more general ones count again",
		Long:              "Take quotas back: more general ones count again. The keys are " + strings.Join(quotaKeys, ", ") + ".\n\n" + quotaEntities,
		Example:           `  raftsman quota unset --client-id reports consumer_byte_rate`,
		Args:              wants(1, -1),
		ValidArgsFunction: completeQuotaKeys(""),
	}
	f := addQuotaFlags(c)
	c.Flags().BoolVar(&dryRun, "dry-run", false, "have the broker check it, change nothing")
	c.RunE = func(c *cobra.Command, keys []string) error {
		entity, err := f.wantEntity(c.Flags().Changed)
		if err != nil {
			return err
		}
		var ops []kadm.AlterClientQuotaOp
		for _, key := range slices.Compact(slices.Sorted(slices.Values(keys))) {
			ops = append(ops, kadm.AlterClientQuotaOp{Key: key, Remove: true})
		}
		return a.alterQuotas(c.Context(), entity, ops, dryRun)
	}
	return c
}

func completeQuotaKeys(suffix string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var offered []string
		for _, key := range quotaKeys {
			offered = append(offered, key+suffix)
		}
		return offered, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// changedQuota is what set and unset tell. Before is nil where the entity had none of its own, Value after an unset.
type changedQuota struct {
	Key    string   `json:"key"`
	Before *float64 `json:"before"`
	Value  *float64 `json:"value"`
}

func (a *app) alterQuotas(ctx context.Context, entity kadm.ClientQuotaEntity, ops []kadm.AlterClientQuotaOp, dryRun bool) error {
	return a.admin(ctx, func(ctx context.Context, adm *kadm.Client) error {
		whose := viewQuota(kadm.DescribedClientQuota{Entity: entity})
		described, err := adm.DescribeClientQuotas(ctx, false, nil)
		if err != nil {
			return err
		}
		before := map[string]float64{}
		for _, d := range described {
			if v := viewQuota(d); v.whose() == whose.whose() {
				before = v.Quotas
			}
		}
		alter := adm.AlterClientQuotas
		if dryRun {
			alter = adm.ValidateAlterClientQuotas
		}
		results, err := alter(ctx, []kadm.AlterClientQuotaEntry{{Entity: entity, Ops: ops}})
		if err != nil {
			return err
		}
		for _, r := range results {
			if r.Err != nil {
				return refused("change the quotas of "+whose.whose(), r.Err, r.ErrMessage)
			}
		}
		changes := []changedQuota{}
		for _, op := range ops {
			changed := changedQuota{Key: op.Key}
			if value, was := before[op.Key]; was {
				changed.Before = &value
			}
			if !op.Remove {
				changed.Value = &op.Value
			}
			changes = append(changes, changed)
		}
		return a.writeQuotaChanges(&whose, changes, dryRun)
	})
}

func (a *app) writeQuotaChanges(whose *quotaView, changes []changedQuota, dryRun bool) error {
	if a.json() {
		return a.writeJSON(map[string]any{"entity": whose.Entity, "changes": changes, "dryRun": dryRun})
	}
	note := ""
	if dryRun {
		note = " (dry run: not done)"
	}
	for _, c := range changes {
		was := "was not set"
		if c.Before != nil {
			was = "was " + formatQuota(*c.Before)
		}
		now := " unset"
		if c.Value != nil {
			now = "=" + formatQuota(*c.Value)
		}
		if _, err := fmt.Fprintln(a.out, printable(whose.whose()+": "+c.Key+now+", "+was+note)); err != nil {
			return err
		}
	}
	return nil
}
