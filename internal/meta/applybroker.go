package meta

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

// securityNames are Kafka's security protocols by number.
var securityNames = [...]string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}

func securityName(number int16) string {
	if number >= 0 && int(number) < len(securityNames) {
		return securityNames[number]
	}
	return strconv.Itoa(int(number))
}

func securityNumber(name string) int16 {
	if i := slices.Index(securityNames[:], name); i >= 0 {
		return int16(i)
	}
	n, _ := strconv.Atoi(name)
	return int16(n)
}

// SecurityNumber returns the number of the endpoint's security protocol.
func (e Endpoint) SecurityNumber() int16 { return securityNumber(e.Security) }

// SecurityName returns the name of a security protocol, or its number where Kafka has none of that number.
func SecurityName(number int16) string { return securityName(number) }

func (u *Update) registerBroker(r *sysrecord.RegisterBrokerRecord) {
	b := &Broker{
		ID: r.BrokerID, Epoch: r.BrokerEpoch, Incarnation: r.IncarnationID, Fenced: r.Fenced, InControlledShutdown: r.InControlledShutdown,
		Rack: r.Rack, LogDirs: r.LogDirs, CordonedDirs: r.CordonedLogDirs, migrating: r.IsMigratingZkBroker,
	}
	for _, e := range r.EndPoints {
		b.Endpoints = append(b.Endpoints, Endpoint{Name: e.Name, Host: e.Host, Port: e.Port, Security: securityName(e.SecurityProtocol)})
	}
	for _, f := range r.Features {
		b.Features = append(b.Features, FeatureRange{f.Name, f.MinSupportedVersion, f.MaxSupportedVersion})
	}
	i, known := u.im.brokerIndex(b.ID)
	u.im.brokers = slices.Clone(u.im.brokers)
	if known {
		u.im.brokers[i] = b
		return
	}
	u.im.brokers = slices.Insert(u.im.brokers, i, b)
}

func (u *Update) removeBroker(r *sysrecord.UnregisterBrokerRecord) error {
	i, known := u.im.brokerIndex(r.BrokerID)
	if !known {
		return fmt.Errorf("broker %d is unregistered but not registered", r.BrokerID)
	}
	u.im.brokers = slices.Delete(slices.Clone(u.im.brokers), i, i+1)
	return nil
}

func (u *Update) changeBroker(id kafka.NodeID, epoch kafka.BrokerEpoch, r *sysrecord.BrokerRegistrationChangeRecord) error {
	i, known := u.im.brokerIndex(id)
	if !known || u.im.brokers[i].Epoch != epoch {
		return fmt.Errorf("a change of broker %d at epoch %d, which is not registered", id, epoch)
	}
	b := *u.im.brokers[i]
	if r.Fenced != 0 {
		b.Fenced = r.Fenced > 0
	}
	if r.InControlledShutdown != 0 {
		b.InControlledShutdown = r.InControlledShutdown > 0
	}
	if len(r.LogDirs) > 0 {
		b.LogDirs = r.LogDirs
	}
	if r.CordonedLogDirs != nil {
		b.CordonedDirs = r.CordonedLogDirs
	}
	u.im.brokers = slices.Clone(u.im.brokers)
	u.im.brokers[i] = &b
	return nil
}
