package wire

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DecodeKmsg reads the request's body into one of kmsg's structs. Its strings are copies, its byte slices alias the body. The
// server has passed the body through [Measure] before, so that what is decoded here is small enough.
func DecodeKmsg(req *Request, into kmsg.Request) error {
	into.SetVersion(req.Version)
	if err := into.ReadFrom(req.Body); err != nil {
		return fmt.Errorf("%w: %s v%d: %w", ErrMalformed, KeyName(req.Key), req.Version, err)
	}
	return nil
}
