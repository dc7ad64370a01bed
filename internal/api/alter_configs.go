package api

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// alterConfigs makes what each resource lists all that is set on it (key 33): what it does not list goes back to its default.
func (a *API) alterConfigs(c call) {
	req := kmsg.NewPtrAlterConfigsRequest()
	if !c.decode(req) {
		return
	}
	cmd := meta.AlterConfigs{ValidateOnly: req.ValidateOnly}
	for i := range req.Resources {
		r := &req.Resources[i]
		change := meta.ConfigChange{Resource: meta.Resource{Type: meta.ResourceType(r.ResourceType), Name: r.ResourceName}}
		for j := range r.Configs {
			change.Ops = append(change.Ops, meta.ConfigOp{Name: r.Configs[j].Name, Op: meta.Set, Value: r.Configs[j].Value})
		}
		cmd.Resources = append(cmd.Resources, change)
	}
	outcome := a.alter(c, cmd)
	resp := kmsg.NewPtrAlterConfigsResponse()
	for i := range req.Resources {
		row := kmsg.NewAlterConfigsResponseResource()
		row.ResourceType, row.ResourceName = req.Resources[i].ResourceType, req.Resources[i].ResourceName
		code, message := answerOf(outcome[cmd.Resources[i].Resource])
		row.ErrorCode, row.ErrorMessage = int16(code), message
		resp.Resources = append(resp.Resources, row)
	}
	c.answer(resp)
}

// alter carries out changes and returns the error of each resource. What only this broker can judge is judged here, the rest
// by the active controller. What another broker forwards it has judged itself.
func (a *API) alter(c call, cmd meta.AlterConfigs) map[meta.Resource]error {
	outcome := map[meta.Resource]error{}
	times := map[meta.Resource]int{}
	for _, change := range cmd.Resources {
		times[change.Resource]++
	}
	own := c.served == &a.served
	forQuorum := meta.AlterConfigs{Incremental: cmd.Incremental, ValidateOnly: cmd.ValidateOnly}
	for _, change := range cmd.Resources {
		r := change.Resource
		logger := cmd.Incremental && config.Kind(r.Type) == config.KindLogger
		switch {
		case times[r] > 1:
			outcome[r] = kafka.Refuse(kafka.InvalidRequest, "each resource may come only once in a request")
		case logger:
			outcome[r] = a.alterLogger(r.Name, change.Ops, cmd.ValidateOnly)
		case own && r.Type == meta.BrokerResource && r.Name != "" && a.checkNode(r.Name) != nil:
			outcome[r] = a.checkNode(r.Name)
		default:
			forQuorum.Resources = append(forQuorum.Resources, change)
		}
	}
	if len(forQuorum.Resources) == 0 {
		return outcome
	}
	results, err := a.alterAtController(c, forQuorum)
	for i, change := range forQuorum.Resources {
		outcome[change.Resource] = err
		if err == nil {
			outcome[change.Resource] = results[i].Err
		}
	}
	return outcome
}

// alterAtController has the active controller decide on changes. There is one result for each, in their order.
func (a *API) alterAtController(c call, cmd meta.AlterConfigs) (results []meta.ConfigResult, err error) {
	if a.Forward == nil || c.served != &a.served {
		return a.Quorum.AlterConfigs(context.Background(), cmd)
	}
	answer, failed := a.askController(context.Background(), c.Peer, c.ClientID, alterRequest(c, cmd), func() bool {
		results, err = a.Quorum.AlterConfigs(context.Background(), cmd)
		return !errors.Is(err, kafka.NotController)
	})
	switch {
	case failed != nil:
		return nil, failed
	case answer == nil:
		return results, err
	}
	results = alterResults(cmd, answer)
	if len(results) != len(cmd.Resources) {
		return nil, kafka.UnknownServerError
	}
	return results, nil
}

// alterRequest writes changes as a request of the client's kind and version.
func alterRequest(c call, cmd meta.AlterConfigs) kmsg.Request {
	if cmd.Incremental {
		m := kmsg.NewPtrIncrementalAlterConfigsRequest()
		m.Version, m.ValidateOnly = c.Version, cmd.ValidateOnly
		for _, change := range cmd.Resources {
			r := kmsg.NewIncrementalAlterConfigsRequestResource()
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceType(change.Resource.Type), change.Resource.Name
			for _, op := range change.Ops {
				row := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
				row.Name, row.Op, row.Value = op.Name, kmsg.IncrementalAlterConfigOp(op.Op), op.Value
				r.Configs = append(r.Configs, row)
			}
			m.Resources = append(m.Resources, r)
		}
		return m
	}
	m := kmsg.NewPtrAlterConfigsRequest()
	m.Version, m.ValidateOnly = c.Version, cmd.ValidateOnly
	for _, change := range cmd.Resources {
		r := kmsg.NewAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceType(change.Resource.Type), change.Resource.Name
		for _, op := range change.Ops {
			row := kmsg.NewAlterConfigsRequestResourceConfig()
			row.Name, row.Value = op.Name, op.Value
			r.Configs = append(r.Configs, row)
		}
		m.Resources = append(m.Resources, r)
	}
	return m
}

// alterResults reads the answer to an alterRequest, in the order of the changes.
func alterResults(cmd meta.AlterConfigs, answer kmsg.Response) (results []meta.ConfigResult) {
	said := map[meta.Resource]error{}
	switch r := answer.(type) {
	case *kmsg.IncrementalAlterConfigsResponse:
		for _, row := range r.Resources {
			said[meta.Resource{Type: meta.ResourceType(row.ResourceType), Name: row.ResourceName}] = toldError(row.ErrorCode, row.ErrorMessage)
		}
	case *kmsg.AlterConfigsResponse:
		for _, row := range r.Resources {
			said[meta.Resource{Type: meta.ResourceType(row.ResourceType), Name: row.ResourceName}] = toldError(row.ErrorCode, row.ErrorMessage)
		}
	}
	for _, change := range cmd.Resources {
		if err, told := said[change.Resource]; told {
			results = append(results, meta.ConfigResult{Resource: change.Resource, Err: err})
		}
	}
	return results
}

// toldError is the way back from [answerOf].
func toldError(code int16, message *string) error {
	switch e := kafka.Error(code); {
	case e == kafka.None:
		return nil
	case message != nil:
		return kafka.Refuse(e, "%s", *message)
	default:
		return e
	}
}

// alterLogger sets the level of this process's log. It lasts until the process ends.
func (a *API) alterLogger(name string, ops []meta.ConfigOp, validateOnly bool) error {
	if err := a.checkNode(name); err != nil {
		return err
	}
	if len(ops) > 1 && ops[0].Name == ops[1].Name {
		return kafka.Refuse(kafka.InvalidRequest, "logger %s comes more than once", ops[0].Name)
	}
	for _, op := range ops {
		switch {
		case op.Op < meta.Set || op.Op > meta.Subtract:
			return kafka.Refuse(kafka.InvalidRequest, "unknown operation %d on logger %s", op.Op, op.Name)
		case op.Value == nil && op.Op != meta.Delete:
			return kafka.Refuse(kafka.InvalidRequest, "the level of logger %s cannot be null", op.Name)
		case op.Op == meta.Append || op.Op == meta.Subtract:
			return kafka.Refuse(kafka.InvalidRequest, "a log level can be set, but not appended to or subtracted from")
		case op.Name != rootLogger:
			return kafka.Refuse(kafka.InvalidConfig, "there is no logger %s: all logging has the level of %s", op.Name, rootLogger)
		case op.Op == meta.Delete:
			return kafka.Refuse(kafka.InvalidRequest, "the level of %s can be changed, not removed", rootLogger)
		}
		level, ok := levels[*op.Value]
		if !ok {
			return kafka.Refuse(kafka.InvalidConfig, "%s is no log level: DEBUG, ERROR, FATAL, INFO, TRACE and WARN are", *op.Value)
		}
		if !validateOnly {
			a.LogLevel.Set(level)
		}
	}
	return nil
}

// levels are Kafka's log levels. There is nothing above an error here that FATAL could still let through but what is logged
// as such.
var levels = map[string]slog.Level{
	"TRACE": slog.LevelDebug - 4, "DEBUG": slog.LevelDebug, "INFO": slog.LevelInfo, "WARN": slog.LevelWarn,
	"ERROR": slog.LevelError, "FATAL": slog.LevelError + 4,
}

// ConfigRules returns what the table of configurations says of changes, for the quorum to decide by. The image is the one that
// is published when a change is decided.
func ConfigRules(broker *config.Broker, image func() *meta.Image) meta.ConfigRules {
	return configRules{broker, image}
}

type configRules struct {
	broker *config.Broker
	image  func() *meta.Image
}

func (r configRules) Validate(resource meta.Resource, changed []string, all map[string]string) error {
	change := config.Change{Kind: config.Kind(resource.Type), Name: resource.Name, Changed: changed, Next: all}
	if resource.Type == meta.BrokerResource {
		change.Before = dynamicOf(r.image(), r.broker.NodeID())
		change.After = change.Before
		if resource.Name == "" {
			change.After.Cluster = maps.Clone(all)
		} else if resource.Name == strconv.Itoa(int(r.broker.NodeID())) {
			change.After.Node = maps.Clone(all)
		}
	}
	return r.broker.Check(change)
}

func (r configRules) ListDefault(kind meta.ResourceType, name string) (string, bool) {
	return config.ListDefault(config.Kind(kind), name)
}
