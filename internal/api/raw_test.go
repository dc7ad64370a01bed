package api_test

import (
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
)

// link is a raw connection, with what the rules ask for in one line.
type link struct{ *raw.Conn }

func connect(t testing.TB, address string) *link {
	t.Helper()
	return &link{raw.Dial(t, address)}
}

// code compares an error code.
func code(t testing.TB, what string, got int16, want kafka.Error) {
	t.Helper()
	if kafka.Error(got) != want {
		t.Errorf("%s: got %v, want %v", what, kafka.Error(got), want)
	}
}
