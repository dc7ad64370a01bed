package api

import (
	"context"
	"log/slog"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/kraft"
	"github.com/raftsman/raftsman/internal/peer"
	"github.com/raftsman/raftsman/internal/wire"
)

// withCode returns an answer to an API that has a code, its own or of one row.
func withCode(t *testing.T, key kmsg.Key, code kafka.Error) (kmsg.Response, *int16) {
	t.Helper()
	response := kmsg.ResponseForKey(key.Int16())
	of := reflect.ValueOf(response).Elem()
	if !of.FieldByName("ErrorCode").IsValid() {
		for i := range of.NumField() {
			if rows := of.Field(i); rows.Kind() == reflect.Slice && rows.Type().Elem().Kind() == reflect.Struct && rows.Type().Elem().Name() != "Tags" {
				rows.Set(reflect.MakeSlice(rows.Type(), 1, 1))
				of = rows.Index(0)
				break
			}
		}
	}
	field := of.FieldByName("ErrorCode")
	if !field.IsValid() {
		t.Fatalf("%s has no code", wire.KeyName(key.Int16()))
	}
	field.SetInt(int64(code))
	return response, field.Addr().Interface().(*int16)
}

// Of every API that is forwarded it can be read, and said, what became of that.
func TestForwardedAnswersTellOfTheController(t *testing.T) {
	for _, e := range append(append([]entry{}, table...), controllerTable...) {
		if !e.forwarded {
			continue
		}
		for _, code := range []kafka.Error{kafka.None, kafka.InvalidRequest, kafka.NotController} {
			response, at := withCode(t, e.key, code)
			if got := saysNotController(response); got != (code == kafka.NotController) {
				t.Errorf("%s with %v says that this is not the controller: %v", wire.KeyName(e.key.Int16()), code, got)
			}
			want := code
			if code == kafka.NotController {
				want = kafka.RequestTimedOut
			}
			if sayTimedOut(response); kafka.Error(*at) != want {
				t.Errorf("%s with %v becomes %v, want %v", wire.KeyName(e.key.Int16()), code, kafka.Error(*at), want)
			}
		}
	}
}

// leaderless is a node of a quorum that has no leader.
type leaderless struct{ Controller }

func (leaderless) IsActive() bool { return false }
func (leaderless) Leader() (kraft.Node, kafka.Epoch, bool) {
	return kraft.Node{ID: kafka.NoNode}, 1, false
}

func (leaderless) Handle(context.Context, kraft.Request) (kraft.Response, error) {
	return &kraft.AddVoterResponse{Error: kafka.NotLeaderOrFollower}, nil
}

// Kafka's brokers tell whoever waits for a controller that it took too long.
func TestNoControllerInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(slog.New(slog.DiscardHandler))
		a.NodeID, a.ClusterID, a.Controller = 1, func() string { return "c" }, leaderless{}
		a.Forward = func(context.Context, kraft.Node, peer.Envelope) ([]byte, error) { return nil, kafka.NotController }
		request := kmsg.NewPtrAddRaftVoterRequest()
		request.Version = 1
		began := time.Now()
		var got *wire.Response
		a.handleOrForward(a.served.entry(request.Key()), call{
			Request: &wire.Request{Key: request.Key(), Version: 1, Body: request.AppendTo(nil), Peer: &wire.Peer{}},
			served:  &a.served, reply: func(r *wire.Response) { got = r },
		})
		if got == nil || got.Body == nil {
			t.Fatal("no answer")
		}
		answer := got.Body.(*kmsg.AddRaftVoterResponse)
		if kafka.Error(answer.ErrorCode) != kafka.RequestTimedOut || answer.ErrorMessage == nil || *answer.ErrorMessage != kafka.RequestTimedOut.Error() {
			t.Errorf("it answers %+v, want REQUEST_TIMED_OUT", answer)
		}
		if took := time.Since(began); took < forwardMax || took > forwardMax+time.Second {
			t.Errorf("it answers after %v, want %v", took, forwardMax)
		}
	})
}
