package server

import (
	"errors"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// errNoSendfile says that the file or the socket does not take part in sendfile; the bytes sent so far are.
var errNoSendfile = errors.New("no sendfile here")

// socket sends through the descriptor of a TCP connection what net.Conn has no methods for: bytes that more will follow, so
// that the kernel does not put them into a packet of their own, and ranges of files.
type socket struct {
	output *output
	raw    syscall.RawConn // nil for anything but TCP

	// The arguments and the result of step, which is bound once: a new closure for each call would be an allocation.
	step   func(fd uintptr) bool
	bytes  []byte
	file   uintptr
	pos    int64
	left   int
	result error
}

func (s *socket) init(c *conn) {
	s.output = &c.output
	if tcp, ok := c.nc.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			s.raw, s.step = raw, s.send
		}
	}
}

func (s *socket) canSend() bool { return s.raw != nil }

// sendMore writes b, saying that more will follow at once.
func (s *socket) sendMore(b []byte) error {
	s.bytes, s.left, s.result = b, 0, nil
	return s.run()
}

// sendFile writes n bytes of the file from pos on, and returns how many it wrote.
func (s *socket) sendFile(file uintptr, pos int64, n int) (sent int, err error) {
	s.bytes, s.file, s.pos, s.left, s.result = nil, file, pos, n, nil
	err = s.run()
	return n - s.left, err
}

func (s *socket) run() error {
	if err := s.raw.Write(s.step); err != nil {
		return err
	}
	s.bytes = nil
	return s.result
}

// send is the step: it returns false when the socket takes no more now.
func (s *socket) send(fd uintptr) (done bool) {
	for len(s.bytes) > 0 || s.left > 0 {
		n, err := s.sendSome(int(fd))
		switch {
		case err == nil && (n > 0 || s.left == 0):
			s.output.progress()
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return false
		case s.left > 0 && (errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP)):
			s.result = errNoSendfile
			return true
		case err != nil:
			s.result = err
			return true
		default: // no error and no byte: the file was truncated
			s.result = io.ErrUnexpectedEOF
			return true
		}
	}
	return true
}

func (s *socket) sendSome(fd int) (n int, err error) {
	if len(s.bytes) > 0 {
		n, err = unix.SendmsgN(fd, s.bytes, nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL)
		s.bytes = s.bytes[max(n, 0):]
		return n, err
	}
	const sendfileMax = 4 << 20 // at a time, so that the deadline sees progress
	n, err = unix.Sendfile(fd, int(s.file), &s.pos, min(s.left, sendfileMax))
	s.left -= max(n, 0)
	return n, err
}

// peerGone tells whether the other end has closed or reset the connection, without reading from it.
func peerGone(nc net.Conn) (gone bool) {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(poll, 0)
		gone = err == nil && n > 0 && poll[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	})
	return gone || err != nil
}
