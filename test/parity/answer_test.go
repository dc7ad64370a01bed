package parity

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/raw"
	"github.com/raftsman/raftsman/internal/record"
)

// field is one value of an answer: the row that it is in, its name and what it says.
type field struct{ row, name, value string }

func (f field) String() string { return f.row + " " + f.name + "=" + f.value }

// answer is a response as fields, in an order of its own: rows are told apart by what they are about, not by their place.
type answer []field

// What is no response.
var (
	silent = answer{{whole, "Connection", "silent"}} // what Apache Kafka does when it stumbles over a request
	closed = answer{{whole, "Connection", "closed"}}
	parked = answer{{whole, "Connection", "waits"}}
)

// whole is the row of a response's own fields.
const whole = "answer"

// fields learns from a response and takes it apart.
func (w *world) fields(req kmsg.Request, resp kmsg.Response) answer {
	w.learn(req, resp)
	x := extraction{w: w, req: req}
	x.row(whole, reflect.ValueOf(resp).Elem())
	slices.SortStableFunc(x.fields, func(a, b field) int { return cmp.Compare(a.row, b.row) })
	seen := map[field]bool{}
	return slices.DeleteFunc(x.fields, func(f field) bool { // a row that is said twice says no more
		again := seen[f]
		seen[f] = true
		return again
	})
}

type extraction struct {
	w      *world
	req    kmsg.Request
	fields answer
}

// subjects are the fields that say what a row is about.
var subjects = []string{"ResourceType", "ResourceName", "Group", "Topic", "TopicID", "Partition", "Key", "MemberID", "NodeID", "Name", "User", "ApiKey", "TransactionalID", "ProducerID"}

// ordered are the rows whose order means something: the pages of DescribeTopicPartitions. All others are told apart by what they are
// about, and a topic that is named in two rows is the same as in one, as every client has it.
var ordered = []reflect.Type{
	reflect.TypeFor[kmsg.DescribeTopicPartitionsResponseTopic](), reflect.TypeFor[kmsg.DescribeTopicPartitionsResponseTopicPartition](),
	reflect.TypeFor[kmsg.FetchResponseTopicPartitionAbortedTransaction](),
}

// row takes a struct apart.
func (x *extraction) row(path string, v reflect.Value) {
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		switch {
		case name == "Version":
		case name == "ThrottleMillis" && f.IsZero(): // nobody's quota is used up
		case name == "UnknownTags":
			if tags := f.Addr().Interface().(*kmsg.Tags); tags.Len() > 0 {
				x.say(path, name, fmt.Sprint(tags.Len()))
			}
		case path != whole && slices.Contains(subjects, name) && !slices.Contains(ordered, v.Type()): // it is in the path
		case f.Kind() == reflect.Struct:
			x.row(below(path, name), f)
		case f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct:
			if f.IsNil() {
				x.say(path, name, "null")
				continue
			}
			x.row(below(path, name), f.Elem())
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct:
			x.rows(path, name, f)
		default:
			x.say(path, name, x.value(name, f))
		}
	}
}

func below(path, name string) string {
	if path == whole {
		return name
	}
	return path + "." + name
}

func (x *extraction) say(row, name, value string) {
	x.fields = append(x.fields, field{row, name, value})
}

func (x *extraction) rows(path, name string, v reflect.Value) {
	if v.IsNil() {
		x.say(path, name, "null")
		return
	}
	rows := 0
	for i := range v.Len() {
		row := v.Index(i)
		if ours(row) {
			continue
		}
		about := fmt.Sprint(rows)
		if !slices.Contains(ordered, row.Type()) {
			about = cmp.Or(x.about(row), about)
		}
		before := len(x.fields)
		x.row(below(path, name)+"["+about+"]", row)
		if len(x.fields) == before {
			x.say(below(path, name)+"["+about+"]", "is", "there")
		}
		rows++
	}
	if rows == 0 {
		x.say(path, name, "none")
	}
}

// about names a row by its subjects. A topic id that is not there is left out where there is a name.
func (x *extraction) about(row reflect.Value) string {
	var words []string
	for _, name := range subjects {
		f := row.FieldByName(name)
		if !f.IsValid() || name == "TopicID" && f.IsZero() && len(words) > 0 {
			continue
		}
		words = append(words, x.value(name, f))
	}
	if entity := row.FieldByName("Entity"); entity.IsValid() { // that has quotas
		for i := range entity.Len() {
			part := entity.Index(i)
			words = append(words, part.FieldByName("Type").String()+"="+x.value("Name", part.FieldByName("Name")))
		}
		slices.Sort(words)
		if entity.Len() == 0 { // Kafka answers in no order
			words = append(words, "nobody")
		}
	}
	return strings.Join(words, " ")
}

// own are the lists in which the brokers' own topics are not compared, which each makes in its own time.
var own = []reflect.Type{
	reflect.TypeFor[kmsg.MetadataResponseTopic](), reflect.TypeFor[kmsg.DescribeTopicPartitionsResponseTopic](),
	reflect.TypeFor[kmsg.DescribeLogDirsResponseDirTopic](), reflect.TypeFor[kmsg.ListConfigResourcesResponseConfigResource](),
	reflect.TypeFor[kmsg.ElectLeadersResponseTopic](),
}

// ours tells which rows are not compared: settings that only this broker has, and the brokers' own topics.
func ours(row reflect.Value) bool {
	about := func(name string) string {
		f := row.FieldByName(name)
		if f.IsValid() && f.Kind() == reflect.Pointer {
			f = f.Elem()
		}
		if !f.IsValid() || f.Kind() != reflect.String {
			return ""
		}
		return f.String()
	}
	name := about("Name")
	return strings.HasPrefix(name, "raftsman.") || slices.Contains(own, row.Type()) && strings.HasPrefix(name+about("Topic"), "__")
}

// value writes down a value that is no row. What a broker chooses freely is masked by the field's name: whether it is there, and
// where it can be told, whether it is the same as before.
func (x *extraction) value(name string, v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "null"
		}
		v = v.Elem()
	}
	switch {
	case strings.HasSuffix(name, "ErrorCode"):
		return kafka.Error(v.Int()).Error()
	case strings.HasSuffix(name, "ErrorMessage"): // worded by each as it likes
		return some(v.Len() > 0, `""`)
	case name == "Host" || name == "Dir" || name == "Documentation" || name == "ClusterID":
		return some(v.Len() > 0, `""`)
	case name == "Port" && v.CanUint():
		return some(v.Uint() > 0, "0")
	case name == "Port" || name == "FinalizedFeaturesEpoch" || name == "TotalBytes" || name == "UsableBytes" || name == "Size":
		return some(v.Int() > 0, fmt.Sprint(v.Int()))
	case name == "LogAppendTime" || name == "LastTimestamp" || name == "LastFetchTimestamp" || name == "LastCaughtUpTimestamp":
		return some(near(v.Int()), fmt.Sprint(v.Int()))
	case x.req.Key() == int16(kmsg.DescribeQuorum) && (name == "HighWatermark" || name == "LogEndOffset"):
		return some(v.Int() > 0, fmt.Sprint(v.Int()))
	case name == "SessionID":
		switch id := int32(v.Int()); {
		case id == 0:
			return "0"
		case id == int32(found(x.req, name).Int()):
			return "<the request's>"
		}
		return "<another>"
	case name == "SubscriptionID": // made from the instance's id
		if get, ok := x.req.(*kmsg.GetTelemetrySubscriptionsRequest); ok && get.ClientInstanceID == [16]byte{} {
			return some(v.Int() != 0, "0")
		}
	case name == "StartTimestamp" || name == "Timestamp" && near(v.Int()):
		return some(near(v.Int()), fmt.Sprint(v.Int()))
	case name == "ProducerID":
		if name := x.w.producerName(v.Int()); name != "" {
			return name
		}
		if n := slices.Index(x.w.producer, v.Int()); n >= 0 {
			return "<given>"
		}
	case name == "RecordBatches":
		return x.w.shownBatches(v.Bytes())
	}
	switch v.Kind() {
	case reflect.Array:
		return x.w.idName(v.Interface().([16]byte))
	case reflect.String:
		return x.w.text(v.String())
	case reflect.Slice:
		return x.slice(name, v)
	}
	return fmt.Sprint(v.Interface())
}

func some(there bool, otherwise string) string {
	if there {
		return "<some>"
	}
	return otherwise
}

// near tells whether a time is the present of the broker's clock, not the conversation's.
func near(ms int64) bool { return time.Since(time.UnixMilli(ms)).Abs() < time.Hour }

func (x *extraction) slice(name string, v reflect.Value) string {
	switch {
	case v.IsNil():
		return "null"
	case v.Type().Elem().Kind() == reflect.Uint8:
		return shownBytes(v.Bytes())
	}
	var words []string
	for i := range v.Len() {
		words = append(words, x.value(name, v.Index(i)))
	}
	if x.req.Key() == int16(kmsg.DescribeTransactions) { // Kafka's partitions are in no order
		slices.Sort(words)
	}
	return "[" + strings.Join(words, " ") + "]"
}

// someMember is how Apache Kafka and this broker make up member ids.
var someMember = regexp.MustCompile(`raw-[0-9a-f-]{36}|instance-[0-9a-f-]{36}`)

// How a listener and a directory of a test show in settings.
var (
	address   = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	directory = regexp.MustCompile(regexp.QuoteMeta(filepath.Join(os.TempDir(), "Test")) + `[^",]*`)
)

func (w *world) text(s string) string {
	for _, chosen := range slices.Sorted(maps.Keys(w.words)) {
		s = strings.ReplaceAll(s, chosen, w.words[chosen])
	}
	s = someMember.ReplaceAllString(s, "<a member>")
	s = directory.ReplaceAllString(address.ReplaceAllString(s, "<address>"), "<directory>")
	return strings.ReplaceAll(fmt.Sprintf("%q", s), raw.LongName, "<long name>")
}

func (w *world) idName(id [16]byte) string {
	for _, name := range slices.Sorted(maps.Keys(w.ids)) {
		if w.ids[name] == id {
			return strings.ReplaceAll("<id of "+name+">", raw.LongName, "long name")
		}
	}
	switch id {
	case [16]byte{}:
		return "<no id>"
	case raw.StrangeID:
		return "<strange id>"
	}
	return "<an id>"
}

func shownBytes(b []byte) string {
	if len(b) <= 64 {
		return fmt.Sprintf("%q", b)
	}
	sum := sha256.Sum256(b)
	return fmt.Sprintf("<%d bytes %x>", len(b), sum[:8])
}

// shownBatches names the bytes of whole batches, and what transactions are in them. One cut off at the end, as Kafka sends, is left out;
// the broker's clock and the producer ids that it has chosen are, too.
func (w *world) shownBatches(b []byte) string {
	if b == nil {
		return "null"
	}
	var all []byte
	txns := ""
	n := 0
	for len(b) > 0 {
		batch, rest, err := record.Split(slices.Clone(b))
		if err != nil {
			break
		}
		if batch.LogAppendTime() && near(batch.MaxTimestampMs()) {
			batch.SetMaxTimestamp(1, true)
		}
		name := w.producerName(int64(batch.ProducerID()))
		if name == "" && batch.IsControl() { // of a producer that nobody was given: forged
			txns += fmt.Sprint(" ", batch.ProducerID(), shownTxn(batch))
			raw.Put(17, int32(0))(batch)
		}
		if name != "" {
			txns += " " + name + shownTxn(batch)
			raw.Put(43, int64(0))(batch)
			raw.Put(17, int32(0))(batch)
		}
		all, b = append(all, batch...), rest
		n++
	}
	if n == 0 {
		return "<0 batches>"
	}
	sum := sha256.Sum256(all)
	return fmt.Sprintf("<%d batches %x%s>", n, sum[:8], txns)
}

// shownTxn says what a batch is in its transaction, and takes the broker's clock out of a marker.
func shownTxn(batch record.Batch) string {
	if !batch.IsControl() {
		return fmt.Sprintf(" (epoch %d, sequence %d)", batch.ProducerEpoch(), batch.BaseSequence())
	}
	if near(batch.MaxTimestampMs()) && batch.BaseTimestampMs() == batch.MaxTimestampMs() {
		raw.Put(27, int64(0))(batch)
		raw.Put(35, int64(0))(batch)
	}
	kind, value, _, err := batch.Control()
	return fmt.Sprintf(" (epoch %d, %v %x %v)", batch.ProducerEpoch(), kind, value, err)
}

// compare returns the fields that are in one answer alone. A message where Kafka has none is more than Kafka says, and no difference.
func compare(got, kafkas answer) (diff []difference) {
	theirs := map[field]bool{}
	for _, f := range kafkas {
		theirs[f] = true
	}
	for _, f := range got {
		if theirs[f] {
			delete(theirs, f)
			continue
		}
		if mute := (field{f.row, f.name, "null"}); strings.HasSuffix(f.name, "ErrorMessage") && theirs[mute] {
			delete(theirs, mute)
			continue
		}
		diff = append(diff, difference{"ours ", f})
	}
	for _, f := range kafkas {
		if theirs[f] {
			diff = append(diff, difference{"Kafka", f})
		}
	}
	return diff
}

// difference is a field that one of the brokers does not have.
type difference struct {
	whose string
	field field
}

func (d difference) String() string { return d.whose + " " + d.field.String() }
