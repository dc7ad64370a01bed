package clientmetrics

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/VictoriaMetrics/easyproto"

	"github.com/raftsman/raftsman/internal/kafka"
)

// resourcesMax is how many resources a push may have that goes on to a collector, as each of them gets the client's attributes. Java's
// client has one for each metric.
const resourcesMax = 5000

// errManyResources is why a push is not forwarded.
var errManyResources = errors.New("more than 5000 resources in one push")

// Forwarded returns a push that Read has understood as a collector gets it: the same, with who has sent it among the attributes of
// each resource, in place of what the client itself may have said under these names. Several of them one after the other are one.
func Forwarded(push []byte, id kafka.UUID, c *Client) (out []byte, err error) {
	own := sender(id, c)
	resources := 0
	err = each(push, func(f *easyproto.FieldContext) error {
		if f.FieldNum != 1 {
			return nil
		}
		if resources++; resources > resourcesMax {
			return errManyResources
		}
		return message(f, func(m []byte) error {
			inner, err := forwardResource(m, own)
			out = appendMessage(out, 1, inner)
			return err
		})
	})
	return out, err
}

// sender returns the client's attributes, as fields of a resource.
func sender(id kafka.UUID, whole *Client) (fields []byte) {
	c := whole.shown()
	add := func(name, value string) {
		fields = appendMessage(fields, 1, appendMessage(appendMessage(nil, 1, []byte(name)), 2, appendMessage(nil, 1, []byte(value))))
	}
	if !c.Anonymous {
		add("client_id", c.ID)
	}
	add("client_instance_id", id.String())
	add("client_software_name", c.SoftwareName)
	add("client_software_version", c.SoftwareVersion)
	add("client_source_address", c.Address)
	add("client_source_port", c.Port)
	return fields
}

// forwardResource rewrites a ResourceMetrics.
func forwardResource(m, own []byte) ([]byte, error) {
	resource, rest := slices.Clone(own), []byte(nil)
	err := each(m, func(f *easyproto.FieldContext) error {
		content, ok := f.MessageData()
		switch {
		case !ok: // none of its fields has another type
		case f.FieldNum == 1:
			return each(content, func(f *easyproto.FieldContext) error {
				attribute, ok := f.MessageData()
				if ok && f.FieldNum == 1 && !slices.Contains(senderNames, keyOf(attribute)) {
					resource = appendMessage(resource, 1, attribute)
				}
				return nil
			})
		default:
			rest = appendMessage(rest, f.FieldNum, content)
		}
		return nil
	})
	return append(appendMessage(nil, 1, resource), rest...), err
}

var senderNames = append([]string{"client_source_port"}, ownLabels...)

func keyOf(attribute []byte) (name string) {
	_ = each(attribute, func(f *easyproto.FieldContext) error { // it was read before
		if f.FieldNum == 1 {
			return text(f, &name)
		}
		return nil
	})
	return name
}

// appendMessage appends a field of bytes, as messages and texts are.
func appendMessage(to []byte, field uint32, content []byte) []byte {
	const bytesType = 2
	to = binary.AppendUvarint(to, uint64(field)<<3|bytesType)
	return append(binary.AppendUvarint(to, uint64(len(content))), content...)
}
