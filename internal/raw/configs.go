package raw

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/meta"
)

// Resource is one whose settings are asked for: some keys, or all with nil.
type Resource struct {
	Kind config.Kind
	Name string
	Keys []string
}

// DescribeConfigs asks for settings with their synonyms, without documentation.
func DescribeConfigs(version int16, resources ...Resource) kmsg.Request {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms, req.IncludeDocumentation = version, true, false
	for _, r := range resources {
		row := kmsg.NewDescribeConfigsRequestResource()
		row.ResourceType, row.ResourceName, row.ConfigNames = kmsg.ConfigResourceType(r.Kind), r.Name, r.Keys
		req.Resources = append(req.Resources, row)
	}
	return req
}

// Assignments are the settings of one resource, as key=value, or key for null; key+=value and key-=value for lists; -key deletes.
type Assignments struct {
	Kind config.Kind
	Name string
	Sets []string
}

// AlterConfigs replaces all settings of its resources.
func AlterConfigs(version int16, validateOnly bool, resources ...Assignments) kmsg.Request {
	req := kmsg.NewPtrAlterConfigsRequest()
	req.Version, req.ValidateOnly = version, validateOnly
	for _, r := range resources {
		row := kmsg.NewAlterConfigsRequestResource()
		row.ResourceType, row.ResourceName = kmsg.ConfigResourceType(r.Kind), r.Name
		for _, set := range r.Sets {
			op := parseAssignment(set)
			row.Configs = append(row.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: op.Name, Value: op.Value})
		}
		req.Resources = append(req.Resources, row)
	}
	return req
}

// IncrementalAlterConfigs changes the settings that it names.
func IncrementalAlterConfigs(version int16, validateOnly bool, resources ...Assignments) kmsg.Request {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version, req.ValidateOnly = version, validateOnly
	for _, r := range resources {
		row := kmsg.NewIncrementalAlterConfigsRequestResource()
		row.ResourceType, row.ResourceName = kmsg.ConfigResourceType(r.Kind), r.Name
		for _, set := range r.Sets {
			row.Configs = append(row.Configs, parseAssignment(set))
		}
		req.Resources = append(req.Resources, row)
	}
	return req
}

func parseAssignment(text string) kmsg.IncrementalAlterConfigsRequestResourceConfig {
	op := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	if name, ok := strings.CutPrefix(text, "-"); ok {
		op.Name, op.Op = name, kmsg.IncrementalAlterConfigOp(meta.Delete)
		return op
	}
	name, value, ok := strings.Cut(text, "=")
	op.Name = strings.TrimRight(name, "+-")
	if ok {
		op.Value = &value
	}
	switch strings.TrimPrefix(name, op.Name) {
	case "+":
		op.Op = kmsg.IncrementalAlterConfigOp(meta.Append)
	case "-":
		op.Op = kmsg.IncrementalAlterConfigOp(meta.Subtract)
	}
	return op
}
