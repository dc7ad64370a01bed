// Package wire turns frames into requests and responses into bytes: the header of both, the versions at which Kafka's
// protocol is flexible, the check that a body cannot be decoded into more memory than it is worth, and codecs for Produce and
// Fetch that copy no records. Everything else is decoded and encoded by kmsg, which only the packages of the edge import.
//
// A request travels like this: the server reads a frame into a pooled [Frame], [ParseHeader] finds the body, [Measure] walks
// the body by Kafka's schema and says what it would cost decoded (a malformed body ends here), the handler decodes it by
// [DecodeKmsg], [ProduceRequest.Decode] or [FetchRequest.Decode], and answers with a [Response].
package wire

import (
	"io"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Peer is the client's end of one connection. It lives as long as the connection. Fields without a remark never change after
// the first request.
type Peer struct {
	Listener string         // name of the listener that accepted the connection
	Local    netip.AddrPort // the address that the client connected to; zero for in-memory connections
	Remote   netip.AddrPort // zero for in-memory connections
	ConnID   uint64         // unique in this process

	// Set by ApiVersions, read and written on the connection's goroutine only, that is inside Handle.
	SoftwareName, SoftwareVersion string

	Principal string // "User:ANONYMOUS" until a login says otherwise

	// muted is until when nothing more is read from the connection, nil for not at all. It keeps the monotonic clock's reading: the
	// clock of the wall may be set back.
	muted atomic.Pointer[time.Time]

	// Names interns topic names and the like of this connection's requests. Only for use inside Handle.
	Names Names
}

// Mute stops the reading from the connection for that long, from now on. It may be called on any goroutine; the longest one counts.
func (p *Peer) Mute(d time.Duration) {
	until := time.Now().Add(d)
	for {
		now := p.muted.Load()
		if now != nil && !until.After(*now) || p.muted.CompareAndSwap(now, &until) {
			return
		}
	}
}

// Muted returns for how long nothing may be read yet.
func (p *Peer) Muted() time.Duration {
	if until := p.muted.Load(); until != nil {
		return time.Until(*until)
	}
	return 0
}

// Request is one request of a client. It is valid until the answer was handed to reply.
type Request struct {
	Key, Version  int16
	CorrelationID int32
	ClientID      *string // nil when the client sent null; the string may be kept
	// Body is what follows the header. It is borrowed: for keys that overlap (Produce) until Handle returns, for all others
	// until reply is called. Who needs it for longer retains Frame or copies.
	Body     []byte
	Frame    *Frame // owns Body; nil where a test made the request by hand
	Peer     *Peer
	Received time.Time // when the frame had arrived

	response Response
}

// Response returns an empty response that belongs to the request: answering with it allocates nothing, as its slices keep
// their capacity from answer to answer.
func (r *Request) Response() *Response {
	r.response.Reset()
	return &r.response
}

// Response is the answer to one request: either Body, which the server encodes, or bytes made by one of wire's own codecs.
// Whoever passes it to reply gives it away. Append to Head and Parts of a request's own response rather than setting them: the
// slices are used again for the next answer.
type Response struct {
	Body kmsg.Response

	// Head and then each of Parts is what follows the response header, when Body is nil. Parts[i].Bytes may alias Head's array
	// beyond its length.
	Head  []byte
	Parts []Part

	Release func() // called exactly once, after the response was sent or dropped; nil for nothing to release
	None    bool   // send nothing: the answer to acks=0
	Close   bool   // close the connection, after sending the response if there is one
}

// What a response keeps room for when it is used again.
const (
	keptHeadBytes = 16 << 10
	keptParts     = 64
)

// Reset makes the response empty, keeping the capacity of its slices unless they had grown large.
func (r *Response) Reset() {
	clear(r.Parts)
	*r = Response{Head: r.Head[:0], Parts: r.Parts[:0]}
	if cap(r.Head) > keptHeadBytes {
		r.Head = nil
	}
	if cap(r.Parts) > keptParts {
		r.Parts = nil
	}
}

// Part is a piece of a response: bytes in memory, or a range of a file when File.File is not nil.
type Part struct {
	Bytes []byte
	File  FileRange
}

// Len returns the number of bytes that the part puts on the wire.
func (p *Part) Len() int {
	if p.File.File != nil {
		return p.File.Len
	}
	return len(p.Bytes)
}

// File is what a range is read from. Fd returns the descriptor for sendfile and false where there is none, as in memory.
type File interface {
	io.ReaderAt
	Fd() (uintptr, bool)
}

// FileRange is Len bytes of File from Pos on. The bytes must not change until the response is released.
type FileRange struct {
	File File
	Pos  int64
	Len  int
}
