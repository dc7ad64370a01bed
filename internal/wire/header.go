package wire

import (
	"errors"
	"fmt"
)

// ErrMalformed is what every error about the bytes of a frame wraps: Kafka answers it by closing the connection.
var ErrMalformed = errors.New("malformed request")

// ErrTooLarge is what [Measure] wraps when a body is small but would not be, decoded.
var ErrTooLarge = errors.New("request would take too much memory")

// Header is the beginning of a request. Its slices alias the frame.
type Header struct {
	Key, Version  int16
	CorrelationID int32
	ClientID      []byte // nil for null
	Body          []byte
}

// ParseHeader reads the header of a request frame (without the length). For a version that kmsg does not know it assumes that
// flexible versions stay flexible, as Kafka does, so that a too new ApiVersions request can be answered. When the error is not
// nil, h holds what could be read: key, version and client id stand in front of everything that depends on the version.
func ParseHeader(frame []byte, h *Header) error {
	*h = Header{}
	r := reader{src: frame}
	h.Key, h.Version, h.CorrelationID = r.int16(), r.int16(), r.int32()
	h.ClientID = r.nullableString(false)
	if r.bad {
		return fmt.Errorf("%w: header of %d bytes is cut short", ErrMalformed, len(frame))
	}
	if h.Key < 0 || int(h.Key) >= len(firstFlexible) {
		return fmt.Errorf("%w: unknown api key %d", ErrMalformed, h.Key)
	}
	if Flexible(h.Key, h.Version) {
		r.skipTags()
		if r.bad {
			return fmt.Errorf("%w: header tags are cut short", ErrMalformed)
		}
	}
	h.Body = r.src
	return nil
}

// AppendRequestHeader appends the header of a request, as [ParseHeader] reads it. clientID is nil for null.
func AppendRequestHeader(dst []byte, key, version int16, correlationID int32, clientID *string) []byte {
	dst = appendInt32(appendInt16(appendInt16(dst, key), version), correlationID)
	dst = appendNullableString(dst, clientID, false)
	return appendNoTags(dst, Flexible(key, version))
}

// AppendResponseHeader appends the correlation id and, for flexible versions, no tags. ApiVersions answers never have tags in
// their header: a client reads them before it knows the broker.
func AppendResponseHeader(dst []byte, key, version int16, correlationID int32) []byte {
	dst = appendInt32(dst, correlationID)
	if key != KeyApiVersions && Flexible(key, version) {
		dst = append(dst, 0)
	}
	return dst
}
