package meta

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// DecideAlterConfigs judges each resource by itself, whole or not at all. There is one result for each distinct resource, in
// the order of the request.
func DecideAlterConfigs(im *Image, cmd AlterConfigs, env Env) ([]Entry, []ConfigResult) {
	resources := make([]Resource, len(cmd.Resources))
	for i, c := range cmd.Resources {
		resources[i] = c.Resource
	}
	times := counts(resources)
	var entries []Entry
	var results []ConfigResult
	for _, c := range cmd.Resources {
		n := times[c.Resource]
		if n == 0 {
			continue
		}
		times[c.Resource] = 0
		result := ConfigResult{Resource: c.Resource}
		if n > 1 {
			result.Err = kafka.Refuse(kafka.InvalidRequest, "each resource may come only once in a request")
		} else {
			var changed []Entry
			changed, result.Err = alterResource(im, c, cmd.Incremental, env)
			entries = append(entries, changed...)
		}
		results = append(results, result)
	}
	if len(entries) > requestRecordsMax {
		for i := range results {
			results[i].Err = tooManyRecords()
		}
		return nil, results
	}
	if cmd.ValidateOnly {
		return nil, results
	}
	return append(entries, settleELR(im, entries, env)...), results
}

// settleELR forgets eligible leader replicas where the in-sync set is large enough by a new min.insync.replicas: it goes on without
// them from now on. Where it is not, and where nobody is in sync, they still have everything. (Kafka forgets them all.)
func settleELR(im *Image, changed []Entry, env Env) (entries []Entry) {
	if !slices.ContainsFunc(changed, func(e Entry) bool {
		r, ok := e.Record.(*sysrecord.ConfigRecord)
		return ok && r.Name == minInsyncReplicas
	}) {
		return nil
	}
	with := electionsOf(im.after(changed), &env)
	for t := range im.Topics() {
		for i := range t.Partitions {
			if len(t.Partitions[i].ELR) > 0 {
				entries = append(entries, with.change(t, int32(i)).entries()...)
			}
		}
	}
	return entries
}

func alterResource(im *Image, c ConfigChange, incremental bool, env Env) ([]Entry, error) {
	if err := checkKind(c.Resource); err != nil {
		return nil, err
	}
	if err := checkOps(c.Ops, incremental); err != nil {
		return nil, err
	}
	before := im.Config(c.Resource)
	after, err := applyOps(c, before, incremental, env)
	if err != nil {
		return nil, err
	}
	if err := checkName(c.Resource); err != nil { // Kafka's controller looks at it after the operations
		return nil, err
	}
	changed := changedNames(c, before, after)
	if err := env.Configs.Validate(c.Resource, changed, after); err != nil {
		return nil, err
	}
	if err := checkChange(im, c.Resource, changed, after); err != nil {
		return nil, err
	}
	if err := checkExists(im, c.Resource); err != nil {
		return nil, err
	}
	var entries []Entry
	for _, name := range changed {
		value, set := after[name]
		if set {
			entries = append(entries, setConfig(c.Resource, name, &value))
		} else if _, was := before[name]; was {
			entries = append(entries, setConfig(c.Resource, name, nil))
		}
	}
	return entries, nil
}

// checkKind refuses resources that cannot be altered, whatever their names, and brokers without a number.
func checkKind(r Resource) error {
	switch r.Type {
	case TopicResource, ClientMetricsResource, GroupResource:
		return nil
	case BrokerResource:
		if _, err := strconv.ParseInt(r.Name, 10, 32); r.Name != "" && err != nil {
			return kafka.Refuse(kafka.InvalidRequest, "Node id must be an integer, but it is: %s", r.Name)
		}
		return nil
	}
	return kafka.Refuse(kafka.InvalidRequest, "unknown resource type %d", r.Type)
}

func checkName(r Resource) error {
	switch {
	case r.Type == TopicResource && r.Name == "":
		return kafka.Refuse(kafka.InvalidRequest, "Default topic resources are not allowed. Name a topic")
	case r.Type == TopicResource:
		return CheckTopicName(r.Name)
	case r.Type == ClientMetricsResource && r.Name == "":
		return kafka.Refuse(kafka.InvalidRequest, "a client-metrics subscription needs a name")
	case r.Type == GroupResource && r.Name == "":
		return kafka.Refuse(kafka.InvalidRequest, "Default group resources are not allowed. Name a group")
	}
	return nil
}

func checkExists(im *Image, r Resource) error {
	switch r.Type {
	case TopicResource:
		if _, exists := im.Topic(r.Name); !exists {
			return kafka.Refuse(kafka.UnknownTopicOrPartition, "The topic '%s' does not exist.", r.Name)
		}
	case BrokerResource:
		if id, err := strconv.ParseInt(r.Name, 10, 32); err == nil {
			if _, registered := im.Broker(kafka.NodeID(id)); !registered {
				return kafka.Refuse(kafka.BrokerIdNotRegistered, "no broker has the id %s", r.Name)
			}
		}
	}
	return nil
}

func checkOps(ops []ConfigOp, incremental bool) error {
	names := map[string]bool{}
	var nulls []string
	for _, op := range ops {
		if names[op.Name] {
			return kafka.Refuse(kafka.InvalidRequest, "configuration %s comes more than once", op.Name)
		}
		names[op.Name] = true
		if incremental && (op.Op < Set || op.Op > Subtract) {
			return kafka.Refuse(kafka.InvalidRequest, "unknown operation %d on configuration %s", op.Op, op.Name)
		}
		if op.Value == nil && (!incremental || op.Op != Delete) {
			nulls = append(nulls, op.Name)
		}
	}
	if len(nulls) > 0 {
		return kafka.Refuse(kafka.InvalidRequest, "Null value not supported for : %s", strings.Join(nulls, ", "))
	}
	return nil
}

// applyOps returns what the resource has afterwards.
func applyOps(c ConfigChange, before map[string]string, incremental bool, env Env) (map[string]string, error) {
	after := map[string]string{}
	if incremental {
		maps.Copy(after, before)
	}
	for _, op := range c.Ops {
		kind := op.Op
		if !incremental {
			kind = Set
		}
		switch kind {
		case Set:
			after[op.Name] = *op.Value
		case Delete:
			delete(after, op.Name)
		case Append, Subtract:
			unset, isList := env.Configs.ListDefault(c.Resource.Type, op.Name)
			if !isList {
				return nil, kafka.Refuse(kafka.InvalidConfig, "Can't %s to key %s because its type is not LIST.", operationName(kind), op.Name)
			}
			value, set := after[op.Name]
			if !set {
				value = unset
			}
			after[op.Name] = changeList(value, *op.Value, kind)
		}
		if err := checkValueLength(after[op.Name]); err != nil {
			return nil, err
		}
	}
	return after, nil
}

func operationName(kind OpKind) string {
	if kind == Append {
		return "APPEND"
	}
	return "SUBTRACT"
}

// changeList adds the items that are not there yet to a list, or takes out those that are.
func changeList(list, items string, kind OpKind) string {
	var parts []string
	if list != "" {
		parts = strings.Split(list, ",")
	}
	for _, item := range strings.Split(items, ",") {
		at := slices.Index(parts, item)
		switch {
		case kind == Append && at < 0:
			parts = append(parts, item)
		case kind == Subtract && at >= 0:
			parts = slices.Delete(parts, at, at+1)
		}
	}
	return strings.Join(parts, ",")
}

func checkValueLength(value string) error {
	if len(value) > math.MaxInt16 {
		return kafka.Refuse(kafka.InvalidConfig, "a configuration value has at most %d bytes", math.MaxInt16)
	}
	return nil
}

// changedNames returns the names whose values differ, sorted; and of a broker all that were set, as setting a value again
// makes the brokers read the files that it names again.
func changedNames(c ConfigChange, before, after map[string]string) []string {
	names := map[string]bool{}
	for name, value := range before {
		if now, still := after[name]; !still || now != value {
			names[name] = true
		}
	}
	for name := range after {
		if _, was := before[name]; !was {
			names[name] = true
		}
	}
	if c.Resource.Type == BrokerResource {
		for _, op := range c.Ops {
			names[op.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// checkChange refuses what would take the ground from under the eligible leader replicas (KIP-966): they are defined by one
// min.insync.replicas for the whole cluster.
func checkChange(im *Image, r Resource, changed []string, after map[string]string) error {
	if r.Type != BrokerResource || im.features[ELRVersion] == 0 || !slices.Contains(changed, minInsyncReplicas) {
		return nil
	}
	if r.Name != "" {
		return kafka.Refuse(kafka.InvalidConfig, "min.insync.replicas is the same for all brokers while eligible leader replicas are kept")
	}
	if _, kept := after[minInsyncReplicas]; !kept {
		return kafka.Refuse(kafka.InvalidConfig, "min.insync.replicas of the cluster cannot be removed while eligible leader replicas are kept")
	}
	return nil
}
