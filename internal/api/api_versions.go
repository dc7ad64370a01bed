package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// Features is what ApiVersions says of KIP-584's features: what this node could do and what the cluster has agreed on.
type Features struct {
	Epoch     int64 // metadata offset of the finalised levels; below 0 they are unknown and not sent
	Supported []SupportedFeature
	Finalized []FinalizedFeature
}

// SupportedFeature is a range of levels that this node can serve.
type SupportedFeature struct {
	Name     string
	Min, Max int16
}

// FinalizedFeature is a level that the cluster runs at.
type FinalizedFeature struct {
	Name  string
	Level int16
}

// apiVersions answers what is served. A version that we do not know gets UNSUPPORTED_VERSION in the layout of version 0, with
// the one row that lets the client choose (KIP-511).
func (a *API) apiVersions(c call) {
	if row := c.served.entry(c.Key); c.Version < row.min || c.Version > row.max {
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.ErrorCode = int16(kafka.UnsupportedVersion)
		resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: c.Key, MinVersion: row.min, MaxVersion: row.max}}
		c.answerAt(0, resp)
		return
	}
	req := kmsg.NewPtrApiVersionsRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	if code := a.checkIdentity(req); code != kafka.None {
		resp.ErrorCode = int16(code)
		c.answer(resp)
		return
	}
	if c.Version >= 3 {
		c.Peer.SoftwareName, c.Peer.SoftwareVersion = req.ClientSoftwareName, req.ClientSoftwareVersion
	}
	resp.ApiKeys = c.served.advertised()
	if a.Features != nil && c.Version >= 3 {
		addFeatures(resp, a.Features(), c.Version)
	}
	c.answer(resp)
}

// checkIdentity judges what the client says of itself (version 3) and of the node that it means to talk to (version 5,
// KIP-1242): cluster and node are given together or not at all, and when one is wrong the client must bootstrap again.
func (a *API) checkIdentity(req *kmsg.ApiVersionsRequest) kafka.Error {
	if req.Version >= 3 && (!validSoftware(req.ClientSoftwareName) || !validSoftware(req.ClientSoftwareVersion)) {
		return kafka.InvalidRequest
	}
	if req.Version < 5 {
		return kafka.None
	}
	switch cluster, node := req.ClusterID, kafka.NodeID(req.NodeID); {
	case (cluster == nil) != (node == kafka.NoNode):
		return kafka.InvalidRequest
	case cluster != nil && (*cluster != a.ClusterID() || node != a.NodeID):
		return kafka.RebootstrapRequired
	}
	return kafka.None
}

// validSoftware tells whether s is letters, digits, '-' and '.', beginning and ending with a letter or digit.
func validSoftware(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case (c == '-' || c == '.') && i > 0 && i < len(s)-1:
		default:
			return false
		}
	}
	return s != ""
}

// advertised lists the table for ApiVersions, in key order.
func (s *served) advertised() []kmsg.ApiVersionsResponseApiKey {
	keys := make([]kmsg.ApiVersionsResponseApiKey, 0, len(s))
	for key, e := range s {
		if e == nil {
			continue
		}
		row := kmsg.ApiVersionsResponseApiKey{ApiKey: int16(key), MinVersion: e.min, MaxVersion: e.max}
		if e.key == kmsg.Produce {
			// Versions 0 to 2 are refused, but librdkafka before 2.8 takes their absence for a broker that knows no
			// compression (KAFKA-18659).
			row.MinVersion = 0
		}
		keys = append(keys, row)
	}
	return keys
}

// addFeatures fills the tagged fields. Before version 4 clients could not read a range from 0 on, and Kafka leaves those out.
func addFeatures(resp *kmsg.ApiVersionsResponse, f Features, version int16) {
	for _, s := range f.Supported {
		if s.Min == 0 && version < 4 {
			continue
		}
		row := kmsg.NewApiVersionsResponseSupportedFeature()
		row.Name, row.MinVersion, row.MaxVersion = s.Name, s.Min, s.Max
		resp.SupportedFeatures = append(resp.SupportedFeatures, row)
	}
	if f.Epoch < 0 {
		return
	}
	resp.FinalizedFeaturesEpoch = f.Epoch
	for _, s := range f.Finalized {
		row := kmsg.NewApiVersionsResponseFinalizedFeature()
		row.Name, row.MaxVersionLevel, row.MinVersionLevel = s.Name, s.Level, s.Level
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, row)
	}
}
