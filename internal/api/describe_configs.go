package api

import (
	"log/slog"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/invariant"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// describeConfigs shows the configuration of topics, of this broker, of groups and of client-metrics subscriptions (key 32), and
// the level of this process's log. Each resource of the request gets a row, also one that comes twice.
func (a *API) describeConfigs(c call) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrDescribeConfigsResponse()
	whole := checkKinds(req)
	type resource struct {
		kind kmsg.ConfigResourceType
		name string
	}
	named := newRepeats[resource](len(req.Resources))
	for i := range req.Resources {
		r := &req.Resources[i]
		row := kmsg.NewDescribeConfigsResponseResource()
		row.ResourceType, row.ResourceName = r.ResourceType, r.ResourceName
		var entries []config.Entry
		err := whole
		if err == nil && named.tooMany(resource{r.ResourceType, r.ResourceName}) {
			err = kafka.Refuse(kafka.InvalidRequest, "the request names resources again more than %d times", repeatsMax)
		}
		if err == nil {
			entries, err = a.describeResource(config.Kind(r.ResourceType), r.ResourceName)
		}
		code, message := answerOf(err)
		row.ErrorCode, row.ErrorMessage = int16(code), message
		if message == nil {
			row.ErrorMessage = new("") // as Kafka says it, not null
		}
		for j := range entries {
			if e := &entries[j]; len(r.ConfigNames) == 0 || slices.Contains(r.ConfigNames, e.Name) {
				row.Configs = append(row.Configs, configRow(config.Kind(r.ResourceType), e, req))
			}
		}
		resp.Resources = append(resp.Resources, row)
	}
	c.answer(resp)
}

// checkKinds refuses a request that asks for a resource of a kind that does not exist: as in Kafka, none of it is answered.
func checkKinds(req *kmsg.DescribeConfigsRequest) error {
	for i := range req.Resources {
		switch kind := config.Kind(req.Resources[i].ResourceType); kind {
		case config.KindTopic, config.KindBroker, config.KindLogger, config.KindClientMetrics, config.KindGroup:
		default:
			return kafka.Refuse(kafka.InvalidRequest, "unknown resource type %d", kind)
		}
	}
	return nil
}

func configRow(kind config.Kind, e *config.Entry, req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	row := kmsg.NewDescribeConfigsResponseResourceConfig()
	row.Name, row.Value, row.ReadOnly, row.IsSensitive = e.Name, e.Value, e.ReadOnly, e.Sensitive
	row.Source, row.ConfigType = kmsg.ConfigSource(e.Source), kmsg.ConfigType(e.Type)
	switch {
	case kind == config.KindLogger:
		row.Documentation = new("") // as Kafka says it of every logger, not null
	case req.IncludeDocumentation && e.Doc != "":
		row.Documentation = &e.Doc
	}
	if !req.IncludeSynonyms {
		return row
	}
	for _, s := range e.Synonyms {
		synonym := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		synonym.Name, synonym.Value, synonym.Source = s.Name, s.Value, kmsg.ConfigSource(s.Source)
		row.ConfigSynonyms = append(row.ConfigSynonyms, synonym)
	}
	return row
}

// describeResource returns the keys of one resource. All of them are decided on one image.
func (a *API) describeResource(kind config.Kind, name string) ([]config.Entry, error) {
	image := a.Quorum.Image()
	dynamic := dynamicOf(image, a.Config.NodeID())
	switch kind {
	case config.KindTopic:
		if err := meta.CheckTopicName(name); err != nil {
			return nil, err
		}
		if _, ok := image.Topic(name); !ok {
			return nil, kafka.UnknownTopicOrPartition
		}
		return a.Config.DescribeTopic(dynamic, configOf(image, kind, name)), nil
	case config.KindBroker:
		if name == "" {
			return a.Config.DescribeCluster(dynamic), nil
		}
		if err := a.checkNode(name); err != nil {
			return nil, err
		}
		return a.Config.DescribeBroker(dynamic), nil
	case config.KindLogger:
		if err := a.checkNode(name); err != nil {
			return nil, err
		}
		return a.describeLogger(), nil
	case config.KindClientMetrics:
		if name == "" {
			return nil, kafka.Refuse(kafka.InvalidRequest, "a client-metrics subscription needs a name")
		}
		return config.DescribeClientMetrics(configOf(image, kind, name)), nil
	case config.KindGroup:
		if name == "" {
			return nil, kafka.Refuse(kafka.InvalidRequest, "a group needs a name")
		}
		return a.Config.DescribeGroup(dynamic, configOf(image, kind, name)), nil
	}
	invariant.Check(false, "resource type %d was not refused", kind)
	return nil, nil
}

// checkNode refuses a broker's resource that is not this broker's: only a broker knows its own configuration.
func (a *API) checkNode(name string) error {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return kafka.Refuse(kafka.InvalidRequest, "a broker's name is its id, a number, not %q", name)
	}
	if own := a.Config.NodeID(); kafka.NodeID(id) != own {
		return kafka.Refuse(kafka.InvalidRequest, "this is broker %d, not %d: ask the broker itself", own, id)
	}
	return nil
}

// rootLogger is the one logger there is. Its levels have Kafka's names.
const rootLogger = "root"

func (a *API) describeLogger() []config.Entry {
	level := levelName(a.LogLevel.Level())
	return []config.Entry{{Name: rootLogger, Value: &level, Source: config.SourceLogger}}
}

func levelName(level slog.Level) string {
	switch {
	case level < slog.LevelDebug:
		return "TRACE"
	case level < slog.LevelInfo:
		return "DEBUG"
	case level < slog.LevelWarn:
		return "INFO"
	case level < slog.LevelError:
		return "WARN"
	case level == slog.LevelError:
		return "ERROR"
	}
	return "FATAL"
}

// configOf returns what is set on a resource.
func configOf(image *meta.Image, kind config.Kind, name string) map[string]string {
	return image.Config(meta.Resource{Type: meta.ResourceType(kind), Name: name})
}

// dynamicOf returns what is set for a broker and for all.
func dynamicOf(image *meta.Image, id kafka.NodeID) config.Dynamic {
	all, own := image.BrokerConfig(id)
	return config.Dynamic{Cluster: all, Node: own}
}
