package api

import (
	"cmp"
	"context"
	"net/netip"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// The kinds of coordinator that a client may ask for.
const (
	groupCoordinator       = 0
	transactionCoordinator = 1
	shareCoordinator       = 2
)

// findCoordinatorWait is how long a client waits while the coordinators' topic is created for it.
const findCoordinatorWait = 5 * time.Second

// findCoordinator names the node that answers for a group or a transactional id: one key up to version 3, many from version 4 on.
func (a *API) findCoordinator(c call) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	if !c.decode(req) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), findCoordinatorWait)
	defer cancel()
	resp := kmsg.NewPtrFindCoordinatorResponse()
	if c.Version < 4 {
		one := a.coordinator(ctx, c, req.CoordinatorType, req.CoordinatorKey)
		resp.NodeID, resp.Host, resp.Port, resp.ErrorCode = one.NodeID, one.Host, one.Port, one.ErrorCode
		resp.ErrorMessage = new(messageOf(one))
		c.answer(resp)
		return
	}
	resp.Coordinators = make([]kmsg.FindCoordinatorResponseCoordinator, len(req.CoordinatorKeys))
	for i, key := range req.CoordinatorKeys {
		resp.Coordinators[i] = a.coordinator(ctx, c, req.CoordinatorType, key)
	}
	c.answer(resp)
}

func (a *API) coordinator(ctx context.Context, c call, kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	found := kmsg.NewFindCoordinatorResponseCoordinator()
	found.Key, found.NodeID, found.Port, found.ErrorMessage = key, int32(kafka.NoNode), -1, new("")
	node, err := a.findNode(ctx, c.Version, kind, key)
	if err == nil {
		if broker, ok := a.Coord.Image().Broker(node); ok && !broker.Fenced {
			if host, port, ok := a.addressOn(c, broker); ok {
				found.NodeID, found.Host, found.Port = int32(node), host, port
				return found
			}
		}
		err = kafka.CoordinatorNotAvailable
	}
	code, message := kafka.Answer(err)
	found.ErrorCode, found.ErrorMessage = int16(code), &message
	return found
}

// messageOf is what versions 1 to 3 say beside the code, "NONE" when all is well, as Kafka does.
func messageOf(found kmsg.FindCoordinatorResponseCoordinator) string {
	switch kafka.Error(found.ErrorCode) {
	case kafka.None:
		return "NONE"
	case kafka.CoordinatorNotAvailable:
		return "The coordinator is not there yet; ask again."
	}
	return cmp.Or(*found.ErrorMessage, kafka.Error(found.ErrorCode).Error())
}

func (a *API) findNode(ctx context.Context, version int16, kind int8, key string) (kafka.NodeID, error) {
	switch kind {
	case groupCoordinator:
		return a.Coord.Find(ctx, key)
	case transactionCoordinator:
		return a.Coord.FindTransactional(ctx, key)
	case shareCoordinator:
		if version < 6 || !isShareKey(key) {
			return kafka.NoNode, kafka.InvalidRequest
		}
		return kafka.NoNode, kafka.CoordinatorNotAvailable
	}
	return kafka.NoNode, kafka.Refuse(kafka.InvalidRequest, "There is no coordinator of type %d: groups are 0, transactions 1, "+
		"share partitions 2 (from version 6).", kind)
}

// isShareKey tells whether a key reads group:topicId:partition; a group's name may hold colons itself.
func isShareKey(key string) bool {
	rest, partition, ok := cutLast(key)
	if !ok || partition == "" || len(partition) > 10 || strings.Trim(partition, "0123456789") != "" {
		return false
	}
	groupID, topicID, ok := cutLast(rest)
	if !ok || groupID == "" {
		return false
	}
	_, err := kafka.ParseUUID(topicID)
	return err == nil
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// anyAddress tells whether a host names no node in particular.
func anyAddress(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "" || err == nil && addr.IsUnspecified()
}
