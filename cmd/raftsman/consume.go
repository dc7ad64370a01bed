package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// consumeOptions is the command line of `consume`, once understood.
type consumeOptions struct {
	topics     []string
	group      string
	instance   string
	partitions []int32
	from       startingPoint
	until      time.Time // zero: no limit
	toEnd      bool      // stop where the partitions end now
	count      int64     // -1: no limit
	committed  bool      // read_committed
	write      recordWriter
}

// consumeFlags is the command line of `consume` as it was typed.
type consumeFlags struct {
	from, since, until, isolation, format string
	exit                                  bool
}

func consumeCommand(a *app) *cobra.Command {
	var o consumeOptions
	var f consumeFlags
	c := &cobra.Command{
		Use:   "consume TOPIC...",
		Short: "Read records and print them",
		Long: `Read records and print them, from the start unless told otherwise, until interrupted unless told where to stop.

With --group the partitions are shared with the other members, reading goes on where the group committed (--from and
--since count where nothing is committed yet), and what was printed is committed.

` + formatHelp + `
On a terminal, control characters of keys and values are shown escaped; in a pipe or file they are written as they are.
-o json prints a JSON object a line.`,
		Example: `  raftsman consume orders -e                 # all there is now
  raftsman consume orders --from -10 -e      # the last 10 of each partition
  raftsman consume orders --since 10m -f '%T %k %v\n'
  raftsman consume orders --since 2026-01-02 --until 2026-01-03
  raftsman consume orders -p 2 --from 4711 -n 1 -o json
  raftsman consume orders --group billing`,
		Args: wants(1, -1),
		RunE: func(c *cobra.Command, topics []string) error {
			o.topics = slices.Compact(slices.Sorted(slices.Values(topics)))
			if err := a.understand(c, f, &o); err != nil {
				return err
			}
			return a.consume(c.Context(), o)
		},
		ValidArgsFunction: a.completeTopics,
	}
	flags := c.Flags()
	flags.StringVar(&f.from, "from", "start", "start, end, an offset, or -N for the last N records of each partition")
	flags.StringVar(&f.since, "since", "", "begin at this time: how long ago (10m, 7d), 2026-01-02T15:04:05Z, or milliseconds since 1970")
	flags.StringVar(&f.until, "until", "", "stop at this time, given as for --since, or at \"end\"")
	flags.BoolVarP(&f.exit, "exit", "e", false, "stop at what is now the end, as --until end")
	flags.Int64VarP(&o.count, "count", "n", -1, "stop after so many records")
	flags.StringVarP(&o.group, "group", "g", "", "read as a member of this group, and commit")
	flags.StringVar(&o.instance, "instance", "", "static member name in the group (group.instance.id)")
	flags.Int32SliceVarP(&o.partitions, "partition", "p", nil, "only these partitions")
	flags.StringVarP(&f.format, "format", "f", `%v\n`, "how a record is printed")
	flags.StringVar(&f.isolation, "isolation", "uncommitted", "uncommitted, or committed: leave out aborted and open transactions")
	completeFlag(c, "isolation", "uncommitted", "committed")
	completeFlag(c, "from", "start", "end")
	return c
}

// understand turns what was typed into what is meant.
func (a *app) understand(c *cobra.Command, f consumeFlags, o *consumeOptions) error {
	given := c.Flags().Changed
	switch {
	case given("from") && given("since"):
		return usagef("--from and --since both say where to begin: choose one")
	case given("exit") && given("until"):
		return usagef("-e and --until both say where to stop: choose one")
	case o.group != "" && len(o.partitions) > 0:
		return usagef("-p does not go with --group: the group assigns partitions")
	case o.group == "" && o.instance != "":
		return usagef("--instance needs --group")
	case given("count") && o.count < 1:
		return usagef("-n %d is no number of records", o.count)
	case given("format") && a.json():
		return usagef("-f and -o json both say how to print: choose one")
	}
	var err error
	if o.from, err = parseFrom(f.from); err != nil {
		return err
	}
	if f.since != "" {
		at, err := parseWhen(f.since, a.now())
		if err != nil {
			return usagef("--since %w", err)
		}
		o.from = startingPoint{kind: fromTime, time: at}
	}
	o.toEnd = f.exit || f.until == "end"
	if f.until != "" && f.until != "end" {
		if o.until, err = parseWhen(f.until, a.now()); err != nil {
			return usagef("--until %w", err)
		}
		if o.until.After(a.now()) {
			return usagef("--until %s is in the future: it has to be past", f.until)
		}
		o.toEnd = true // where no record is younger yet
	}
	switch f.isolation {
	case "uncommitted", "read_uncommitted":
	case "committed", "read_committed":
		o.committed = true
	default:
		return usagef("--isolation %s is unknown: it is uncommitted or committed", f.isolation)
	}
	if a.json() {
		o.write = writeJSONLine
		return nil
	}
	o.write, err = compileFormat(f.format, a.tty.out)
	return err
}

// clientOptions are the options of the consuming client. Control records are kept, and not printed: with them, reading
// reaches the end of a partition that ends in one.
func (o *consumeOptions) clientOptions() []kgo.Opt {
	opts := []kgo.Opt{kgo.KeepControlRecords(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
	if o.committed {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if o.group == "" {
		return opts
	}
	opts = append(opts,
		kgo.ConsumerGroup(o.group), kgo.ConsumeTopics(o.topics...), kgo.ConsumeStartOffset(o.from.groupOffset()),
		kgo.AutoCommitMarks(), kgo.BlockRebalanceOnPoll(),
		// Range first, as every other client offers it: members of other programs may be in the group.
		kgo.Balancers(kgo.RangeBalancer(), kgo.CooperativeStickyBalancer(), kgo.RoundRobinBalancer()))
	if o.instance != "" {
		opts = append(opts, kgo.InstanceID(o.instance))
	}
	return opts
}

func (a *app) consume(ctx context.Context, o consumeOptions) error {
	plan, err := a.planConsume(ctx, o)
	if err != nil {
		return err
	}
	if plan.beyond(o.from) {
		a.note("offset %d lies beyond the end of %s: reading begins at the end", o.from.offset, plan.name())
	}
	run := newConsumeRun(a, o, plan)
	if o.group == "" && run.finished() {
		return nil
	}
	opts := append(o.clientOptions(), kgo.WithHooks(&outageHook{app: a}))
	if o.group == "" {
		opts = append(opts, kgo.ConsumePartitions(plan.offsets()))
	} else {
		opts = append(opts, run.groupOptions()...)
	}
	cl, err := a.connect(ctx, opts...)
	if err != nil {
		return err
	}
	defer cl.CloseAllowingRebalance()
	run.show = a.startProgress(run.status)
	defer run.show.stop()
	err = run.loop(ctx, cl)
	run.show.stop()
	if commitErr := run.leave(ctx, cl); err == nil {
		err = commitErr
	}
	run.summary()
	return err
}

// planConsume looks at the topics before anything is read, so that a wrong name is told at once.
func (a *app) planConsume(ctx context.Context, o consumeOptions) (spans, error) {
	var plan spans
	err := a.admin(ctx, func(ctx context.Context, adm *kadm.Client) (err error) {
		plan, err = planSpans(ctx, adm, o)
		return err
	})
	return plan, err
}
