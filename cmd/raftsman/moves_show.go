package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/plan"
)

// planView is what commands that move replicas show.
type planView struct {
	Executed bool         `json:"executed"`
	Bytes    int64        `json:"bytes"` // to be copied
	Moves    []moveView   `json:"moves"`
	Brokers  []brokerLoad `json:"brokers"`
}

// moveView is one partition that goes to other brokers, or gets another leader.
type moveView struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	From      []int32 `json:"from"`
	To        []int32 `json:"to"`
	Bytes     int64   `json:"bytes"`
}

// brokerLoad is what a broker has before and after.
type brokerLoad struct {
	ID            int32  `json:"id"`
	Rack          string `json:"rack,omitempty"`
	State         string `json:"state,omitempty"` // down or cordoned
	Replicas      int    `json:"replicas"`
	ReplicasAfter int    `json:"replicasAfter"`
	Leads         int    `json:"leads"`
	LeadsAfter    int    `json:"leadsAfter"`
	Bytes         int64  `json:"bytes"`
	BytesAfter    int64  `json:"bytesAfter"`
}

func viewPlan(c *plan.Cluster, moves []plan.Move) planView {
	v := planView{Moves: []moveView{}, Brokers: []brokerLoad{}}
	for _, m := range moves {
		v.Moves = append(v.Moves, moveView{m.Topic, m.Number, numbersOf(m.From), numbersOf(m.To), m.Bytes})
		v.Bytes += m.Bytes
	}
	after := c.After(moves)
	was, is := c.Loads(), after.Loads()
	for i := range was {
		b := c.Brokers[slices.IndexFunc(c.Brokers, func(b plan.Broker) bool { return b.ID == was[i].ID })]
		state := ""
		switch {
		case b.Down:
			state = "down"
		case b.Cordoned:
			state = "cordoned"
		}
		v.Brokers = append(v.Brokers, brokerLoad{
			int32(b.ID), b.Rack, state, was[i].Replicas, is[i].Replicas, was[i].Leads, is[i].Leads, was[i].Bytes, is[i].Bytes,
		})
	}
	return v
}

const movesShown = 50 // in a table; JSON has all

// writePlan shows what is going to move, or has moved.
func (a *app) writePlan(v *planView) error {
	if a.json() {
		return a.writeJSON(v)
	}
	if len(v.Moves) == 0 {
		_, err := fmt.Fprintln(a.out, "nothing has to move")
		return err
	}
	var b strings.Builder
	moves := newTable(column{title: "TOPIC", flexible: true}, column{title: "PARTITION", right: true}, column{title: "FROM"}, column{title: "TO"}, column{title: "COPIES", right: true})
	for _, m := range v.Moves[:min(movesShown, len(v.Moves))] {
		moves.add(plain(m.Topic), number(m.Partition), plain(joinNumbers(m.From)), strong(joinNumbers(m.To)), when(m.Bytes == 0, faint("-"), plain(formatBytes(m.Bytes))))
	}
	if err := moves.write(&b, a.paint(), a.width()); err != nil {
		return err
	}
	if more := len(v.Moves) - movesShown; more > 0 {
		fmt.Fprintf(&b, "and %d more: -o json shows all\n", more)
	}
	b.WriteByte('\n')
	brokers := newTable(column{title: "BROKER", right: true}, column{title: "RACK"}, column{title: "REPLICAS", right: true}, column{title: "WAS", right: true},
		column{title: "LEADS", right: true}, column{title: "WAS", right: true}, column{title: "SIZE", right: true}, column{title: "WAS", right: true}, column{})
	for _, l := range v.Brokers {
		brokers.add(number(l.ID), when(l.Rack == "", faint("-"), plain(l.Rack)), count(int64(l.ReplicasAfter)), faint(formatCount(int64(l.Replicas))),
			count(int64(l.LeadsAfter)), faint(formatCount(int64(l.Leads))), plain(formatBytes(l.BytesAfter)), faint(formatBytes(l.Bytes)), caution(l.State))
	}
	if err := brokers.write(&b, a.paint(), a.width()); err != nil {
		return err
	}
	moved, copied := "to move", "to copy"
	if v.Executed {
		moved, copied = "moved", "copied"
	}
	fmt.Fprintf(&b, "\n%s %s, %s %s\n", plural(int64(len(v.Moves)), "partition"), moved, formatBytes(v.Bytes), copied)
	_, err := fmt.Fprint(a.out, b.String())
	return err
}

// reassignmentFile is what kafka-reassign-partitions.sh reads and writes.
type reassignmentFile struct {
	Version    int                    `json:"version"`
	Partitions []reassignmentFileItem `json:"partitions"`
}

type reassignmentFileItem struct {
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Replicas  []int32  `json:"replicas"`
	LogDirs   []string `json:"log_dirs,omitempty"`
}

// exportPlan writes the plan for kafka-reassign-partitions.sh --execute, and for --from-file.
func (a *app) exportPlan(moves []plan.Move) error {
	f := reassignmentFile{Version: 1, Partitions: []reassignmentFileItem{}}
	for _, m := range moves {
		f.Partitions = append(f.Partitions, reassignmentFileItem{Topic: m.Topic, Partition: m.Number, Replicas: numbersOf(m.To)})
	}
	return a.writeJSON(f)
}

// readPlan reads what exportPlan and Kafka's tool have written.
func readPlan(path string) (reassignmentFile, error) {
	var f reassignmentFile
	text, err := os.ReadFile(path)
	if err != nil {
		return f, usagef("read --from-file: %w", err)
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return f, usagef("--from-file %s: %w", path, err)
	}
	seen := map[topicPartition]bool{}
	for _, p := range f.Partitions {
		tp := topicPartition{p.Topic, p.Partition}
		switch {
		case p.Topic == "" || len(p.Replicas) == 0:
			return f, usagef("--from-file %s: partition %d of topic %q has no replicas", path, p.Partition, p.Topic)
		case seen[tp]:
			return f, usagef("--from-file %s: %s partition %d is there twice", path, p.Topic, p.Partition)
		case slices.ContainsFunc(p.LogDirs, func(dir string) bool { return dir != "any" }):
			return f, usagef("--from-file %s: %s partition %d names log directories: only brokers can be chosen here", path, p.Topic, p.Partition)
		}
		seen[tp] = true
	}
	if len(f.Partitions) == 0 {
		return f, usagef("--from-file %s has no partitions", path)
	}
	return f, nil
}

// wishes turns what a file says into moves. What is there already is left out.
func (p *placement) wishes(f reassignmentFile) ([]plan.Move, error) {
	var moves []plan.Move
	for _, item := range f.Partitions {
		m, err := p.wish(topicPartition{item.Topic, item.Partition}, nodeIDs(item.Replicas))
		if err != nil {
			return nil, err
		}
		if !slices.Equal(m.From, m.To) {
			moves = append(moves, m)
		}
	}
	return moves, nil
}

// wish is the move of one partition to brokers that are named.
func (p *placement) wish(tp topicPartition, to []kafka.NodeID) (plan.Move, error) {
	q := p.partitionOf(tp)
	if q == nil {
		return plan.Move{}, fmt.Errorf("there is no partition %d of topic %s: `raftsman topic list` shows what there is", tp.partition, tp.topic)
	}
	for i, id := range to {
		if slices.Contains(to[:i], id) {
			return plan.Move{}, usagef("broker %d is named twice for %s partition %d", id, tp.topic, tp.partition)
		}
		if p.broker(id) == nil {
			return plan.Move{}, noBroker(id)
		}
	}
	m := plan.Move{Topic: tp.topic, Number: tp.partition, From: q.Replicas, To: to}
	m.Bytes = int64(len(m.Adding())) * q.Bytes
	return m, nil
}

func noBroker(id kafka.NodeID) error {
	return fmt.Errorf("there is no broker %d: `raftsman cluster describe` shows who is there", id)
}
