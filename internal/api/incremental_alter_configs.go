package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/meta"
)

// incrementalAlterConfigs changes single keys of resources (key 44) and leaves all others. The changes of one resource are made
// together or not at all.
func (a *API) incrementalAlterConfigs(c call) {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	if !c.decode(req) {
		return
	}
	cmd := meta.AlterConfigs{Incremental: true, ValidateOnly: req.ValidateOnly}
	for i := range req.Resources {
		r := &req.Resources[i]
		change := meta.ConfigChange{Resource: meta.Resource{Type: meta.ResourceType(r.ResourceType), Name: r.ResourceName}}
		for j := range r.Configs {
			op := &r.Configs[j]
			change.Ops = append(change.Ops, meta.ConfigOp{Name: op.Name, Op: meta.OpKind(op.Op), Value: op.Value})
		}
		cmd.Resources = append(cmd.Resources, change)
	}
	outcome := a.alter(c, cmd)
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	for i := range req.Resources {
		row := kmsg.NewIncrementalAlterConfigsResponseResource()
		row.ResourceType, row.ResourceName = req.Resources[i].ResourceType, req.Resources[i].ResourceName
		code, message := answerOf(outcome[cmd.Resources[i].Resource])
		row.ErrorCode, row.ErrorMessage = int16(code), message
		resp.Resources = append(resp.Resources, row)
	}
	c.answer(resp)
}
