package meta

import (
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// Controller is a registered controller. The voters of the quorum are no part of the image: not all of them need be registered.
type Controller struct {
	ID          kafka.NodeID
	Incarnation kafka.UUID
	Endpoints   []Endpoint
	Features    []FeatureRange
}

// Controllers returns all registered controllers, by id.
func (im *Image) Controllers() (all []Controller) {
	im.keptFrom(keptControllers, func(f sysrecord.Frame) bool {
		record, err := f.Record()
		r, ok := record.(*sysrecord.RegisterControllerRecord)
		if err != nil || !ok {
			return true
		}
		c := Controller{ID: r.ControllerID, Incarnation: r.IncarnationID}
		for _, e := range r.EndPoints {
			c.Endpoints = append(c.Endpoints, Endpoint{Name: e.Name, Host: e.Host, Port: e.Port, Security: securityName(e.SecurityProtocol)})
		}
		for _, f := range r.Features {
			c.Features = append(c.Features, FeatureRange{f.Name, f.MinSupportedVersion, f.MaxSupportedVersion})
		}
		all = append(all, c)
		return true
	})
	return all
}

// DecideRegisterController makes a controller known. UNSUPPORTED_VERSION: below metadata.version 3.7-IV0.
func DecideRegisterController(im *Image, reg RegisterController) ([]Entry, error) {
	if im.level() < levelControllers {
		return nil, kafka.Refuse(kafka.UnsupportedVersion, "controllers are not in the metadata below metadata.version 3.7-IV0")
	}
	r := sysrecord.NewRegisterControllerRecord()
	r.ControllerID, r.IncarnationID = reg.ID, reg.Incarnation
	for _, e := range reg.Endpoints {
		r.EndPoints = append(r.EndPoints, sysrecord.RegisterControllerRecordControllerEndpoint{
			Name: e.Name, Host: e.Host, Port: e.Port, SecurityProtocol: securityNumber(e.Security),
		})
	}
	for _, f := range reg.Features {
		r.Features = append(r.Features, sysrecord.RegisterControllerRecordControllerFeature{
			Name: f.Name, MinSupportedVersion: f.Min, MaxSupportedVersion: f.Max,
		})
	}
	return []Entry{{Record: r}}, nil
}

// DecideUnregisterController removes a controller's registration. The one that decides can't be removed.
func DecideUnregisterController(im *Image, id, active kafka.NodeID) ([]Entry, error) {
	switch _, registered := im.kept.get(keptControllers + number(int32(id))); {
	case !registered:
		return nil, kafka.Refuse(kafka.ControllerIdNotRegistered, "no controller has the id %d", id)
	case id == active:
		return nil, kafka.Refuse(kafka.InvalidRequest, "controller %d votes in the metadata quorum: it can't be unregistered", id)
	}
	return []Entry{{Record: &sysrecord.UnregisterControllerRecord{ControllerID: id}}}, nil
}
