package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
)

// updateFeatures changes the levels of features, all or none (key 57). As in Kafka, version 0 can only raise them: its
// allow_downgrade is passed over.
func (a *API) updateFeatures(c call) {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	if !c.decode(req) {
		return
	}
	cmd := meta.UpdateFeatures{ValidateOnly: req.ValidateOnly}
	for _, u := range req.FeatureUpdates {
		kind := meta.UpgradeOnly
		if c.Version >= 1 {
			kind = meta.UpgradeType(u.UpgradeType)
		}
		cmd.Updates = append(cmd.Updates, meta.FeatureUpdate{Name: u.Feature, Level: u.MaxVersionLevel, Type: kind})
	}
	code, message := answerOf(a.Quorum.UpdateFeatures(context.Background(), cmd))
	resp := kmsg.NewPtrUpdateFeaturesResponse()
	resp.ErrorCode, resp.ErrorMessage = int16(code), message
	for _, u := range req.FeatureUpdates {
		if code != kafka.None {
			break
		}
		row := kmsg.NewUpdateFeaturesResponseResult()
		row.Feature, row.ErrorMessage = u.Feature, new("the level is set")
		resp.Results = append(resp.Results, row)
	}
	c.answer(resp)
}
