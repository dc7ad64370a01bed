package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"time"

	"github.com/raftsman/raftsman/internal/wire"
)

const (
	// copiedBytesMax is the size up to which a part is copied behind its neighbours instead of being sent by itself: a system
	// call costs more.
	copiedBytesMax = 16 << 10
	// writeBytes is how much is collected before it is written, and written at a time: the deadline counts from the last time
	// that the client took some.
	writeBytes = 256 << 10
	// keptOutBytes is how much of the buffer a connection keeps between answers.
	keptOutBytes = 16 << 10
)

// output collects answers and writes them. One goroutine at a time uses it.
type output struct {
	conn   *conn
	socket socket // what the platform has beyond Write

	buf    []byte      // small pieces, behind each other
	mark   int         // buf[mark:] is not among the pieces yet
	pieces net.Buffers // to be written, in order
	bytes  int         // in pieces
	vector net.Buffers // pieces while they are written

	patience time.Duration // how long the client may take nothing
}

func (o *output) init(c *conn) {
	o.conn = c
	o.socket.init(c)
}

// write encodes the answer in the slot and, when it is the last for now, writes what was collected. It returns false when the
// connection must end.
func (c *conn) write(s *slot, last bool) (ok bool) {
	defer c.contain(s)
	s.at.writing = time.Since(s.req.Received)
	o := &c.output
	r := s.response
	o.patience = c.server.config.IdleMax
	var err error
	if !r.None {
		err = o.encode(s)
	}
	// What is not copied must be on its way before the answer is released.
	if err == nil && (last || r.Close || len(o.pieces) > 0 || len(o.buf) >= writeBytes) {
		err = o.flush(false)
		o.rewind()
	}
	c.writing.clear()
	c.server.metrics.Keys[s.req.Key].observe(&s.at, time.Since(s.req.Received))
	if err != nil {
		c.server.config.Log.Debug("answer not written", append(c.describe(), "error", err)...)
		return false
	}
	return !r.Close
}

// encode puts the answer behind what was collected so far; what is large is written on the way.
func (o *output) encode(s *slot) error {
	r, start := s.response, len(o.buf)
	o.buf = append(o.buf, 0, 0, 0, 0)
	version := s.req.Version
	if r.Body != nil {
		version = r.Body.GetVersion()
	}
	key := s.req.Key
	o.buf = wire.AppendResponseHeader(o.buf, key, version, s.req.CorrelationID)
	if r.Body != nil {
		o.buf = r.Body.AppendTo(o.buf)
	} else {
		o.buf = append(o.buf, r.Head...)
	}
	length, memory := len(o.buf)-start-4, len(o.buf)-start
	for i := range r.Parts {
		length += r.Parts[i].Len()
		if r.Parts[i].File.File == nil {
			memory += len(r.Parts[i].Bytes)
		}
	}
	if length > math.MaxInt32 { // a client has asked for it: it is no reason to end the process
		s := o.conn.server
		s.closedLimit.log(s.config.Log, slog.LevelWarn, "closed a connection: the answer is longer than its length can say",
			append(o.conn.describe(), "api", wire.KeyName(key), "length", length)...)
		return errLength
	}
	binary.BigEndian.PutUint32(o.buf[start:], uint32(length))
	if memory > smallBytes {
		s.lease.charge(int64(memory))
		o.patience = o.conn.server.config.WriteTimeout
	}
	for i := range r.Parts {
		if err := o.part(&r.Parts[i]); err != nil {
			return err
		}
	}
	return nil
}

func (o *output) part(p *wire.Part) error {
	switch file := &p.File; {
	case file.File == nil && len(p.Bytes) <= copiedBytesMax:
		o.buf = append(o.buf, p.Bytes...)
	case file.File == nil:
		o.cut()
		for b := p.Bytes; len(b) > 0; {
			n := min(len(b), writeBytes)
			o.add(b[:n])
			if b = b[n:]; o.bytes >= writeBytes {
				if err := o.flush(true); err != nil {
					return err
				}
			}
		}
	case file.Len <= copiedBytesMax:
		return o.copyFile(file)
	default:
		if err := o.flush(true); err != nil {
			return err
		}
		o.rewind()
		return o.sendFile(file)
	}
	if len(o.buf)-o.mark >= writeBytes {
		return o.flush(true)
	}
	return nil
}

func (o *output) add(b []byte) {
	o.pieces = append(o.pieces, b)
	o.bytes += len(b)
}

// cut makes the bytes since the last cut a piece.
func (o *output) cut() {
	if o.mark < len(o.buf) {
		o.add(o.buf[o.mark:])
		o.mark = len(o.buf)
	}
}

// copyFile reads a small range into the buffer.
func (o *output) copyFile(r *wire.FileRange) error {
	at := len(o.buf)
	o.buf = append(o.buf, make([]byte, r.Len)...)
	return readRange(r.File, o.buf[at:], r.Pos)
}

// readRange reads all of b. A range that turns short was truncated meanwhile: nothing can be sent in its place.
func readRange(file wire.File, b []byte, pos int64) error {
	n, err := file.ReadAt(b, pos)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %d bytes at %d: %w", len(b), pos, err)
}

// flush writes what was collected. More says that there is more to come at once.
func (o *output) flush(more bool) error {
	o.cut()
	if len(o.pieces) == 0 {
		return nil
	}
	o.progress()
	n := int64(o.bytes)
	err := o.writePieces(more)
	clear(o.pieces)
	o.pieces, o.bytes = o.pieces[:0], 0
	if err == nil {
		o.conn.server.metrics.BytesOut.Add(n)
	}
	return err
}

func (o *output) writePieces(more bool) error {
	if more && o.socket.canSend() {
		for _, b := range o.pieces {
			if err := o.socket.sendMore(b); err != nil {
				return err
			}
		}
		return nil
	}
	if len(o.pieces) == 1 {
		_, err := o.conn.nc.Write(o.pieces[0])
		return err
	}
	o.vector = o.pieces
	_, err := o.vector.WriteTo(o.conn.nc)
	return err
}

// rewind makes the buffer ready for the next answer. Nothing collected may be unwritten.
func (o *output) rewind() {
	o.buf, o.mark = o.buf[:0], 0
	if cap(o.buf) > keptOutBytes {
		o.buf = nil
	}
}

// progress gives the client new time to take the next bytes.
func (o *output) progress() { o.conn.server.expire(&o.conn.writing, o.patience) }

// sendFile writes a range of a file, without it passing through our memory where the platform can.
func (o *output) sendFile(r *wire.FileRange) error {
	sent := 0
	if fd, ok := r.File.Fd(); ok && o.socket.canSend() {
		n, err := o.socket.sendFile(fd, r.Pos, r.Len)
		o.conn.server.metrics.BytesOut.Add(int64(n))
		if !errors.Is(err, errNoSendfile) {
			return err
		}
		sent = n
	}
	return o.copyOut(r, sent)
}

// copyOut writes a range of a file from its sent-th byte on, through a buffer.
func (o *output) copyOut(r *wire.FileRange, sent int) error {
	frame := wire.NewFrame(min(r.Len-sent, writeBytes))
	defer frame.Release()
	for sent < r.Len {
		room := frame.Room()
		b := room[:min(len(room), r.Len-sent, writeBytes)]
		if err := readRange(r.File, b, r.Pos+int64(sent)); err != nil {
			return err
		}
		o.progress()
		if _, err := o.conn.nc.Write(b); err != nil {
			return err
		}
		sent += len(b)
		o.conn.server.metrics.BytesOut.Add(int64(len(b)))
	}
	return nil
}
