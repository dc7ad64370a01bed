package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func groupDescribeCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "describe GROUP...",
		Short: "Show members, partitions and how far behind they are",
		Long: `Show members, partitions and how far behind they are. LAG is in records, BEHIND is the age of the oldest record that is
not consumed yet.`,
		Args: wants(1, -1),
		RunE: func(c *cobra.Command, groups []string) error {
			return a.admin(c.Context(), func(ctx context.Context, adm *kadm.Client) error {
				views := []groupView{}
				var failed failures
				for _, group := range groups {
					v, err := viewGroup(ctx, adm, group)
					if err == nil {
						err = v.addAges(ctx, a)
					}
					if err != nil {
						failed = append(failed, err)
						continue
					}
					views = append(views, v)
				}
				if err := a.writeGroupViews(views); err != nil {
					return err
				}
				for _, v := range views {
					if v.Type == "share" || v.Type == "streams" {
						a.note("%s is a %s group: its members and positions are not shown yet", v.Group, v.Type)
					}
				}
				return failed.join()
			})
		},
		ValidArgsFunction: a.completeGroups,
	}
	return c
}

func (a *app) writeGroupViews(views []groupView) error {
	if a.json() {
		return a.writeJSON(views)
	}
	for i, v := range views {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		if err := v.write(a.out, a.paint(), a.width()); err != nil {
			return err
		}
	}
	return nil
}

func (v *groupView) write(w io.Writer, p paint, width int) error {
	state := stateCell(v.State)
	head := []string{p.bold(printable(v.Group)) + "  ", "state "}
	if state.paint != nil {
		state.text = state.paint(p, state.text)
	}
	head[1] += state.text + ", " + v.Type + " protocol"
	if v.Epoch != nil {
		head = append(head, fmt.Sprintf(", epoch %d", *v.Epoch))
	}
	if v.Assignor != "" {
		head = append(head, ", assignor "+printable(v.Assignor))
	}
	head = append(head, fmt.Sprintf(", coordinator %d, %s, %s\n", v.Coordinator, plural(int64(len(v.Members)), "member"), v.lagText()))
	if _, err := io.WriteString(w, strings.Join(head, "")); err != nil {
		return err
	}
	if len(v.Partitions) > 0 {
		fmt.Fprintln(w)
		if err := v.partitionTable().write(w, p, width); err != nil {
			return err
		}
	}
	for _, m := range v.Members {
		if m.Partitions == 0 {
			if _, err := fmt.Fprintf(w, "\n%s %s has no partition: there are more members than partitions\n", p.yellow("!"), printable(m.String())); err != nil {
				return err
			}
		}
	}
	return nil
}

// lagText says how far the group is behind, where that can be known.
func (v *groupView) lagText() string {
	committed, known := false, false
	for _, p := range v.Partitions {
		committed = committed || p.Committed >= 0
		known = known || p.Lag >= 0
	}
	switch {
	case known:
		return "lag " + formatCount(v.Lag)
	case committed:
		return "lag unknown"
	}
	return "nothing committed"
}

func (v *groupView) partitionTable() *table {
	t := newTable(column{title: "TOPIC"}, column{title: "PARTITION", right: true}, column{title: "COMMITTED", right: true},
		column{title: "END", right: true}, column{title: "LAG", right: true}, column{title: "BEHIND", right: true}, column{title: "MEMBER", flexible: true})
	for _, l := range v.Partitions {
		lag := known(l.Lag)
		if l.Lag > 0 {
			lag = caution(formatCount(l.Lag))
		}
		behind := faint("-")
		if l.LagMs != nil {
			behind = plain(formatSpan(time.Duration(*l.LagMs) * time.Millisecond))
		}
		if l.Lag == 0 {
			behind = faint("0")
		}
		member := when(l.Member == "", faint("-"), plain(l.Member))
		t.add(plain(l.Topic), number(l.Partition), known(l.Committed), known(l.End), lag, behind, member)
	}
	return t
}
