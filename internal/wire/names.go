package wire

// Names gives strings for bytes that repeat from request to request, such as topic names, without allocating each time.
// The zero value is ready. It holds a bounded number of short strings. Not safe for concurrent use.
type Names struct {
	strings map[string]string
}

const (
	internedMax      = 1024
	internedBytesMax = 256
)

// String returns string(b).
func (n *Names) String(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s, ok := n.strings[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(s) > internedBytesMax {
		return s
	}
	if n.strings == nil || len(n.strings) >= internedMax {
		n.strings = make(map[string]string)
	}
	n.strings[s] = s
	return s
}

// pointer returns nil for nil, last when it points to the same text, or a pointer to the string.
func (n *Names) pointer(last *string, b []byte) *string {
	switch {
	case b == nil:
		return nil
	case last != nil && *last == string(b):
		return last
	}
	s := n.String(b)
	return &s
}
