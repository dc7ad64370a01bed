package api_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
)

// patience is how long a test waits for what must come: far more than a busy machine needs.
const patience = time.Minute

// link is one raw connection to a broker: frames are made and read by hand, so that a test sees what is on the wire.
type link struct {
	testing.TB
	address string
	conn    net.Conn
	in      *bufio.Reader
	last    int32 // correlation id
}

// connect opens a connection and closes it when the test ends.
func connect(t testing.TB, address string) *link {
	t.Helper()
	l := &link{TB: t, address: address}
	l.dial()
	t.Cleanup(func() { l.conn.Close() })
	return l
}

func (l *link) dial() {
	l.Helper()
	conn, err := net.Dial("tcp", l.address)
	if err != nil {
		l.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		l.Fatal(err)
	}
	l.conn, l.in = conn, newReader(conn)
}

func newReader(conn net.Conn) *bufio.Reader { return bufio.NewReaderSize(conn, 1<<16) }

// send writes a request and does not wait.
func (l *link) send(req kmsg.Request) {
	l.Helper()
	l.last++
	l.sendBytes(kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw")).AppendRequest(nil, req, l.last))
}

// sendBytes writes what may be no frame at all.
func (l *link) sendBytes(b []byte) {
	l.Helper()
	if err := l.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		l.Fatal(err)
	}
	if _, err := l.conn.Write(b); err != nil {
		l.Fatal(err)
	}
}

// receive reads one frame and returns its correlation id and what follows it.
func (l *link) receive() (correlation int32, body []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(l.in, head[:]); err != nil {
		return 0, nil, err
	}
	body = make([]byte, int(binary.BigEndian.Uint32(head[:]))-4)
	_, err = io.ReadFull(l.in, body)
	return int32(binary.BigEndian.Uint32(head[4:])), body, err
}

// answer reads the next answer, which must be to req, the correlation-th request, and must hold nothing that its version's
// schema does not.
func (l *link) answer(req kmsg.Request, correlation int32) kmsg.Response {
	l.Helper()
	got, body, err := l.receive()
	if err != nil {
		l.Fatalf("answer to %s: %v", describeRequest(req), err)
	}
	if got != correlation {
		l.Fatalf("answer to %s has correlation id %d, want %d", describeRequest(req), got, correlation)
	}
	resp, err := decodeAnswer(req, body)
	if err != nil {
		l.Fatal(err)
	}
	return resp
}

// ask sends a request and reads its answer.
func (l *link) ask(req kmsg.Request) kmsg.Response {
	l.Helper()
	l.send(req)
	return l.answer(req, l.last)
}

// tryAsk is ask for a request that may end the connection: it then returns io.EOF, or os.ErrDeadlineExceeded if nothing at all
// comes, and opens another connection.
func (l *link) tryAsk(req kmsg.Request) (kmsg.Response, error) {
	l.Helper()
	l.send(req)
	got, body, err := l.receive()
	if err != nil {
		l.conn.Close()
		l.dial()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, os.ErrDeadlineExceeded
		}
		return nil, io.EOF
	}
	if got != l.last {
		l.Fatalf("answer to %s has correlation id %d, want %d", describeRequest(req), got, l.last)
	}
	resp, err := decodeAnswer(req, body)
	if err != nil {
		l.Fatal(err)
	}
	return resp, nil
}

// ended waits until the broker closes the connection, and tells how many bytes came before.
func (l *link) ended() int {
	l.Helper()
	rest, err := io.Copy(io.Discard, l.in)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		l.Fatal("the broker did not close the connection")
	}
	return int(rest)
}

// decodeAnswer reads a response, header included, and refuses bytes that are left over.
func decodeAnswer(req kmsg.Request, body []byte) (kmsg.Response, error) {
	if req.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		if len(body) == 0 || body[0] != 0 {
			return nil, fmt.Errorf("answer to %s: header of a flexible version without its empty list of tags: %x", describeRequest(req), head(body))
		}
		body = body[1:]
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("answer to %s: %w: %x", describeRequest(req), err, head(body))
	}
	// kmsg does not tell what it left unread; what it writes again is what it has read.
	if again := resp.AppendTo(nil); len(again) != len(body) {
		return nil, fmt.Errorf("answer to %s: %d bytes, its content is %d: got %x want %x", describeRequest(req), len(body), len(again), head(body), head(again))
	}
	return resp, nil
}

func head(b []byte) []byte { return b[:min(len(b), 200)] }

func describeRequest(req kmsg.Request) string {
	return fmt.Sprintf("%s v%d", kmsg.NameForKey(req.Key()), req.GetVersion())
}

// frame makes a request by hand: header version 1 or 2 and whatever body.
func frame(key kmsg.Key, version int16, correlation int32, flexible bool, body string) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0, 0, 0, 0}, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	b = append(b, "\x00\x03raw"...)
	if flexible {
		b = append(b, 0)
	}
	b = append(b, body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// at sets a request's version.
func at[R kmsg.Request](version int16, req R) R {
	req.SetVersion(version)
	return req
}

// until asks again until the answer is as wanted.
func until[R kmsg.Response](l *link, req kmsg.Request, what string, wanted func(R) bool) R {
	l.Helper()
	for deadline := time.Now().Add(patience); ; {
		resp := l.ask(req).(R)
		if wanted(resp) {
			return resp
		}
		if time.Now().After(deadline) {
			l.Fatalf("%s: %s never comes: %+v", describeRequest(req), what, resp)
		}
	}
}

// code compares an error code.
func code(t testing.TB, what string, got int16, want kafka.Error) {
	t.Helper()
	if kafka.Error(got) != want {
		t.Errorf("%s: got %v, want %v", what, kafka.Error(got), want)
	}
}

// newTopic is one topic of a CreateTopics, with settings as name, value, name, value.
func newTopic(name string, partitions int32, factor int16, settings ...string) kmsg.CreateTopicsRequestTopic {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, factor
	for i := 0; i < len(settings); i += 2 {
		entry := kmsg.NewCreateTopicsRequestTopicConfig()
		entry.Name, entry.Value = settings[i], &settings[i+1]
		topic.Configs = append(topic.Configs, entry)
	}
	return topic
}

func createRequest(version int16, topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	req := at(version, kmsg.NewPtrCreateTopicsRequest())
	req.TimeoutMillis, req.Topics = 20_000, topics
	return req
}

// create makes a topic that must come to be, and returns its id.
func (l *link) create(name string, partitions int32, settings ...string) [16]byte {
	l.Helper()
	row := l.ask(createRequest(7, newTopic(name, partitions, 1, settings...))).(*kmsg.CreateTopicsResponse).Topics[0]
	if row.ErrorCode != 0 {
		l.Fatalf("create %s: %v", name, kafka.Error(row.ErrorCode))
	}
	return row.TopicID
}

// metadataRequest names topics; nil means null.
func metadataRequest(version int16, names []string) *kmsg.MetadataRequest {
	req := at(version, kmsg.NewPtrMetadataRequest())
	req.AllowAutoTopicCreation = false
	if names != nil {
		req.Topics = []kmsg.MetadataRequestTopic{}
	}
	for _, name := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	return req
}

// topicsOf asks for topics by name.
func (l *link) topicsOf(version int16, names ...string) []kmsg.MetadataResponseTopic {
	l.Helper()
	if names == nil {
		names = []string{}
	}
	return l.ask(metadataRequest(version, names)).(*kmsg.MetadataResponse).Topics
}
