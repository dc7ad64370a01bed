package otlp

import (
	"strings"

	"github.com/VictoriaMetrics/easyproto"
)

// partialSuccess reads a collector's answer (ExportMetricsServiceResponse): how many data points it has left out of what it took, and
// what it says of that. Of bytes that are no such answer it reads nothing.
func partialSuccess(answer []byte) (points int64, says string) {
	var f easyproto.FieldContext
	partial := find(answer, 1, &f)
	if partial == nil {
		return 0, ""
	}
	content, _ := partial.MessageData()
	if n := find(content, 1, &f); n != nil {
		points, _ = n.Int64()
	}
	if text := find(content, 2, &f); text != nil {
		says, _ = text.String()
	}
	return max(points, 0), strings.ToValidUTF8(says[:min(len(says), 200)], "?")
}

// find returns the first field of that number in a message, in f, or nil.
func find(message []byte, number uint32, f *easyproto.FieldContext) *easyproto.FieldContext {
	for len(message) > 0 {
		var err error
		if message, err = f.NextField(message); err != nil {
			return nil
		}
		if f.FieldNum == number {
			return f
		}
	}
	return nil
}
