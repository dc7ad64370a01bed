package api

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/server"
	"github.com/raftsman/raftsman/internal/wire"
)

// handshake is a raw connection to a server whose API has nothing behind it: enough for ApiVersions.
type handshake struct {
	t  *testing.T
	nc net.Conn
	in *bufio.Reader
}

func shakeHands(t *testing.T) *handshake {
	t.Helper()
	a := New(slog.New(slog.DiscardHandler))
	a.NodeID = 1
	a.ClusterID = func() string { return "cluster" }
	a.Features = func() Features {
		return Features{
			Epoch:     7,
			Supported: []SupportedFeature{{"kraft.version", 0, 1}, {"metadata.version", 7, 33}},
			Finalized: []FinalizedFeature{{"metadata.version", 33}},
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(server.Config{}, a)
	s.Serve(server.Listener{Listener: l, Name: "PLAINTEXT"})
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = nc.Close()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	return &handshake{t, nc, bufio.NewReader(nc)}
}

// send writes a request with a body made by hand and returns what follows the length of the answer.
func (h *handshake) send(key kmsg.Key, version int16, body string) ([]byte, error) {
	b := binary.BigEndian.AppendUint16([]byte{0, 0, 0, 0}, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = append(b, "\x00\x00\x00\x07\x00\x03raw"...)
	if wire.Flexible(int16(key), version) {
		b = append(b, 0)
	}
	b = append(b, body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	if _, err := h.nc.Write(b); err != nil {
		return nil, err
	}
	var length [4]byte
	if _, err := io.ReadFull(h.in, length[:]); err != nil {
		return nil, err
	}
	answer := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(h.in, answer)
	return answer, err
}

func (h *handshake) versions(version int16, body string) *kmsg.ApiVersionsResponse {
	h.t.Helper()
	answer, err := h.send(kmsg.ApiVersions, version, body)
	if err != nil {
		h.t.Fatal(err)
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = version
	if err := resp.ReadFrom(answer[4:]); err != nil {
		h.t.Fatalf("%v in %x", err, answer)
	}
	return resp
}

const client30 = "\x05test\x043.0\x00" // name, version, no tags

// Rules 1 and 2: a version too new is answered as version 0, with the one row that lets the client choose, and the connection
// stays open.
func TestRule01Rule02ApiVersionsTooNew(t *testing.T) {
	h := shakeHands(t)
	for _, version := range []int16{99, 6, -1} {
		const want = "\x00\x00\x00\x07\x00\x23\x00\x00\x00\x01\x00\x12\x00\x00\x00\x05"
		if got, err := h.send(kmsg.ApiVersions, version, "whatever that may be"); err != nil || string(got) != want {
			t.Errorf("v%d: %x, %v; want %x", version, got, err, want)
		}
		if resp := h.versions(3, client30); resp.ErrorCode != 0 || len(resp.ApiKeys) != len(table) {
			t.Errorf("v3 on the same connection: error %d, %d keys", resp.ErrorCode, len(resp.ApiKeys))
		}
	}
}

// Rule 3: the error code follows the correlation id at once, also in flexible versions.
func TestRule03ApiVersionsHeader(t *testing.T) {
	got, err := shakeHands(t).send(kmsg.ApiVersions, 3, client30)
	if err != nil || !strings.HasPrefix(string(got), "\x00\x00\x00\x07\x00\x00"+string(byte(len(table)+1))) {
		t.Errorf("%x, %v; want the correlation id, no error, %d keys", got, err, len(table))
	}
}

// Rule 4: client software names and versions are letters, digits, dots and dashes.
func TestRule04ClientSoftwareIsChecked(t *testing.T) {
	h := shakeHands(t)
	for _, c := range []struct {
		name, version string
		valid         bool
	}{
		{"my-client", "1.0", true},
		{"a..b", "1", true},
		{"A9", "v1.0-x", true},
		{"a", "1", true},
		{"my client", "1", false},
		{"", "1", false},
		{"a", "", false},
		{"-a", "1", false},
		{"a-", "1", false},
		{".", "1", false},
		{"a_b", "1", false},
		{"a", "1 2", false},
		{"a", "1+x", false},
		{"ä", "1", false},
	} {
		req := kmsg.NewApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, c.name, c.version
		resp := h.versions(3, string(req.AppendTo(nil)))
		if code := kafka.Error(resp.ErrorCode); (code == kafka.None) != c.valid || !c.valid && (code != kafka.InvalidRequest || len(resp.ApiKeys) != 0) {
			t.Errorf("%q %q: %v with %d keys, want valid %v", c.name, c.version, code, len(resp.ApiKeys), c.valid)
		}
	}
}

// Rule 5: Produce is advertised from 0, and refused below 3 by closing.
func TestRule05ProduceIsAdvertisedFrom0(t *testing.T) {
	h := shakeHands(t)
	if row := h.versions(0, "").ApiKeys[0]; row.ApiKey != 0 || row.MinVersion != 0 || row.MaxVersion != 13 {
		t.Errorf("first row %+v, want Produce 0 to 13", row)
	}
	if _, err := h.send(kmsg.Produce, 2, "\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00"); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Produce v2: %v, want the connection closed", err)
	}
}

// Rule 7: versions with topic ids are served only where Metadata tells the ids.
func TestRule07VersionsAreCoherent(t *testing.T) {
	max := map[kmsg.Key]int16{}
	last := kmsg.Key(-1)
	for _, e := range table {
		max[e.key] = e.max
		if e.key <= last {
			t.Errorf("%s stands behind %s: the table is in key order", e.key.Name(), last.Name())
		}
		last = e.key
		if known := e.key.Request(); e.min > e.max || e.max > known.MaxVersion() {
			t.Errorf("%s: versions %d to %d; kmsg knows up to %d", e.key.Name(), e.min, e.max, known.MaxVersion())
		}
	}
	for key, withIDs := range map[kmsg.Key]int16{kmsg.Produce: 13, kmsg.Fetch: 13, kmsg.OffsetCommit: 10, kmsg.OffsetFetch: 10} {
		if max[key] >= withIDs && max[kmsg.Metadata] < 10 {
			t.Errorf("%s v%d has topic ids, Metadata v%d has none", key.Name(), max[key], max[kmsg.Metadata])
		}
	}
}

// Rule 8: features are sent as they are finalised, with an epoch, and never beyond what is supported.
func TestRule08Features(t *testing.T) {
	h := shakeHands(t)
	for version, supported := range map[int16]int{3: 1, 4: 2, 5: 2} { // before version 4 a range from 0 is left out
		body := client30
		if version == 5 {
			body = "\x05test\x043.0\x00\xff\xff\xff\xff\x00"
		}
		resp := h.versions(version, body)
		if len(resp.SupportedFeatures) != supported || resp.FinalizedFeaturesEpoch != 7 || len(resp.FinalizedFeatures) != 1 {
			t.Errorf("v%d: %+v", version, resp)
			continue
		}
		if f := resp.FinalizedFeatures[0]; f.Name != "metadata.version" || f.MaxVersionLevel != 33 || f.MinVersionLevel != 33 {
			t.Errorf("v%d: finalised %+v", version, f)
		}
	}
	if resp := h.versions(2, ""); len(resp.SupportedFeatures)+len(resp.FinalizedFeatures) != 0 {
		t.Errorf("v2: %+v, want no features", resp)
	}
}

// KIP-1242: a client that means another cluster or node must bootstrap again; it names both or neither.
func TestApiVersionsChecksIdentity(t *testing.T) {
	h := shakeHands(t)
	for _, c := range []struct {
		cluster string // compact
		node    int32
		want    kafka.Error
	}{
		{"\x00", -1, kafka.None},
		{"\x08cluster", 1, kafka.None},
		{"\x08cluster", 2, kafka.RebootstrapRequired},
		{"\x06other", 1, kafka.RebootstrapRequired},
		{"\x01", 1, kafka.RebootstrapRequired},
		{"\x08cluster", -2, kafka.RebootstrapRequired},
		{"\x08cluster", -1, kafka.InvalidRequest},
		{"\x01", -1, kafka.InvalidRequest},
		{"\x00", 1, kafka.InvalidRequest},
		{"\x00", -2, kafka.InvalidRequest},
	} {
		body := "\x05test\x043.0" + c.cluster + string(binary.BigEndian.AppendUint32(nil, uint32(c.node))) + "\x00"
		if resp := h.versions(5, body); kafka.Error(resp.ErrorCode) != c.want || (len(resp.ApiKeys) > 0) != (c.want == kafka.None) {
			t.Errorf("cluster %q node %d: %v with %d keys, want %v", c.cluster, c.node, kafka.Error(resp.ErrorCode), len(resp.ApiKeys), c.want)
		}
	}
}

// A body that does not fit closes the connection, as of any other request.
func TestApiVersionsMalformed(t *testing.T) {
	for _, body := range []string{"\x05tes", "\x00\x041.0\x00", "\x05test\x043.0"} {
		if _, err := shakeHands(t).send(kmsg.ApiVersions, 3, body); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: %v, want the connection closed", body, err)
		}
	}
}
