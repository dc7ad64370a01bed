package api_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/kafka"
)

var recordSurface = flag.String("record-surface", "", "address of an Apache Kafka 4.4 with one node, to record the answers of the whole surface from; its topics and groups are deleted")

// surfaceFile holds what Apache Kafka 4.4 answered.
const surfaceFile = "testdata/surface.json"

// step is one request of the conversation and how its answer is taken.
type step struct {
	name string
	key  kmsg.Key
	v    int16
	conn int // of the two connections
	make func(w *world) kmsg.Request
	park bool                          // do not read the answer yet
	take bool                          // make nothing, read what was parked on conn
	till func(resp kmsg.Response) bool // ask again until it holds
}

func (s step) title() string { return fmt.Sprintf("%s v%d: %s", s.key.Name(), s.v, s.name) }

// conversation is what is asked, in order.
type conversation struct{ steps []step }

// add appends a request that does not depend on earlier answers.
func (c *conversation) add(name string, req kmsg.Request) *step {
	return c.with(name, kmsg.Key(req.Key()), req.GetVersion(), func(*world) kmsg.Request { return req })
}

// with appends a request that is made when its turn comes.
func (c *conversation) with(name string, key kmsg.Key, version int16, make func(w *world) kmsg.Request) *step {
	c.steps = append(c.steps, step{name: name, key: key, v: version, make: make})
	return &c.steps[len(c.steps)-1]
}

// take appends the reading of a parked answer.
func (c *conversation) take(name string, key kmsg.Key, version int16, conn int) {
	c.steps = append(c.steps, step{name: name, key: key, v: version, conn: conn, take: true})
}

// world is one broker in the conversation, and what it has chosen so far.
type world struct {
	testing.TB
	links  [2]*link
	parked [2]kmsg.Request
	ids    map[string][16]byte // topic ids by name
	member map[string]string   // the last member id that a group gave away
	given  map[string]int      // how many member ids each group gave away
	words  map[string]string   // what the broker chose → what the conversation calls it
}

func newWorld(t *testing.T, address string) *world {
	return &world{
		TB: t, links: [2]*link{connect(t, address), connect(t, address)},
		ids: map[string][16]byte{}, member: map[string]string{}, given: map[string]int{}, words: map[string]string{},
	}
}

// run makes one step and returns its answer as lines, one a field.
func (w *world) run(s *step) []string {
	w.Helper()
	l := w.links[s.conn]
	if s.take {
		req := w.parked[s.conn]
		return w.lines(req, l.answer(req, l.last))
	}
	req := s.make(w)
	req.SetVersion(s.v)
	if s.park {
		l.send(req)
		w.parked[s.conn] = req
		return []string{"parked"}
	}
	resp, err := l.tryAsk(req)
	for deadline := time.Now().Add(patience); s.till != nil && err == nil && !s.till(resp); resp, err = l.tryAsk(req) {
		if time.Now().After(deadline) {
			w.Fatalf("%s: what is waited for does not come: %+v", s.title(), resp)
		}
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return []string{silent}
	case err != nil:
		return []string{"the connection is closed"}
	}
	return w.lines(req, resp)
}

// silent is what Apache Kafka does when it stumbles over a request: it never answers.
const silent = "no answer"

// lines learns from an answer and writes it down.
func (w *world) lines(req kmsg.Request, resp kmsg.Response) []string {
	switch resp := resp.(type) {
	case *kmsg.CreateTopicsResponse:
		for _, t := range resp.Topics {
			if t.TopicID != [16]byte{} {
				w.ids[t.Topic] = t.TopicID
			}
		}
	case *kmsg.MetadataResponse:
		for _, t := range resp.Topics {
			if t.TopicID != [16]byte{} && t.Topic != nil && t.ErrorCode == 0 {
				w.ids[*t.Topic] = t.TopicID
			}
		}
	case *kmsg.JoinGroupResponse:
		group := req.(*kmsg.JoinGroupRequest).Group
		if id := resp.MemberID; id != "" && w.words[id] == "" && id != req.(*kmsg.JoinGroupRequest).MemberID {
			w.given[group]++
			w.words[id] = fmt.Sprintf("member %d of %s", w.given[group], group)
		}
		if resp.MemberID != "" {
			w.member[req.(*kmsg.JoinGroupRequest).Group] = resp.MemberID
		}
	}
	if resp, ok := resp.(*kmsg.ConsumerGroupHeartbeatResponse); ok && resp.MemberID != nil && *resp.MemberID != "" {
		if beat := req.(*kmsg.ConsumerGroupHeartbeatRequest); beat.MemberID == "" {
			w.words[*resp.MemberID] = "a member of " + beat.Group
		}
	}
	lines := w.flatten("", reflect.ValueOf(resp).Elem(), nil)
	slices.Sort(lines)
	return slices.Compact(lines) // a row that is said twice says no more
}

// ordered are the rows whose order means something: the pages of DescribeTopicPartitions. All others are told apart by what
// they are about, and a topic that is named in two rows is the same as in one, as every client has it.
var ordered = []reflect.Type{
	reflect.TypeFor[kmsg.DescribeTopicPartitionsResponseTopic](), reflect.TypeFor[kmsg.DescribeTopicPartitionsResponseTopicPartition](),
}

// subjects are the fields that say what a row is about.
var subjects = []string{"ResourceType", "ResourceName", "Group", "Topic", "Partition", "Key", "MemberID", "NodeID", "Name", "ApiKey", "TopicID"}

// flatten writes a value as lines "Path: value", sorted. What a broker chooses freely is masked by the field's name.
func (w *world) flatten(path string, v reflect.Value, out []string) []string {
	line := func(value string) []string { return append(out, path+": "+value) }
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if name == "Version" || name == "UnknownTags" || name == "ThrottleMillis" {
				continue
			}
			inner := strings.TrimPrefix(path+"."+name, ".")
			if text, masked := mask(v, name); masked {
				out = append(out, inner+": "+text)
				continue
			}
			out = w.flatten(inner, v.Field(i), out)
		}
		return out
	case reflect.Slice:
		switch {
		case v.IsNil():
			return line("null")
		case v.Type().Elem().Kind() == reflect.Uint8:
			return line(shownBytes(v.Bytes()))
		case v.Type().Elem().Kind() != reflect.Struct:
			return line(fmt.Sprint(v.Interface()))
		}
		rows := 0
		for i := range v.Len() {
			row := v.Index(i)
			if dropped(row) {
				continue
			}
			about := fmt.Sprint(rows)
			if !slices.Contains(ordered, row.Type()) {
				about = w.about(row, about)
			}
			out = w.flatten(path+"["+about+"]", row, out)
			rows++
		}
		if rows == 0 {
			return line("none")
		}
		return out
	case reflect.Pointer:
		if !v.IsNil() && v.Elem().Kind() == reflect.Struct {
			return w.flatten(path, v.Elem(), out)
		}
	}
	return line(w.scalar(v))
}

// about names a row by its subjects, or else by its place.
func (w *world) about(row reflect.Value, place string) string {
	var words []string
	for _, name := range subjects {
		if field := row.FieldByName(name); field.IsValid() {
			words = append(words, w.scalar(field))
		}
	}
	return cmp.Or(strings.Join(words, " "), place)
}

// someMember is how Apache Kafka and this broker make up member ids.
var someMember = regexp.MustCompile(`raw-[0-9a-f-]{36}|instance-[0-9a-f-]{36}`)

func (w *world) scalar(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return "null"
		}
		return w.scalar(v.Elem())
	case reflect.Array:
		id := [16]byte{}
		reflect.Copy(reflect.ValueOf(&id).Elem(), v)
		return w.idName(id)
	case reflect.String:
		s := v.String()
		for chosen, word := range w.words {
			s = strings.ReplaceAll(s, chosen, "<"+word+">")
		}
		s = someMember.ReplaceAllString(s, "<a member>")
		return strings.ReplaceAll(fmt.Sprintf("%q", s), longName, "<long name>")
	}
	return fmt.Sprint(v.Interface())
}

// dropped tells which rows are not compared here: keys and features that come later, settings that are the built-in default
// (the recorded configuration requests compare them all), and the brokers' own topics.
func dropped(row reflect.Value) bool {
	if !row.CanInterface() {
		return false
	}
	switch row := row.Interface().(type) {
	case kmsg.ApiVersionsResponseApiKey:
		return !slices.ContainsFunc(kafkaKeys, func(k keyRow) bool { return int16(k.key) == row.ApiKey && k.comes == "" })
	case kmsg.ApiVersionsResponseSupportedFeature:
		return !slices.Contains(servedFeatures, row.Name)
	case kmsg.ApiVersionsResponseFinalizedFeature:
		return !slices.Contains(servedFeatures, row.Name)
	case kmsg.CreateTopicsResponseTopicConfig:
		return row.Source == 5 || strings.HasPrefix(row.Name, "raftsman.")
	case kmsg.DescribeConfigsResponseResourceConfig:
		return row.Source == 5 || strings.HasPrefix(row.Name, "raftsman.")
	case kmsg.MetadataResponseTopic:
		return row.Topic != nil && strings.HasPrefix(*row.Topic, "__")
	case kmsg.DescribeTopicPartitionsResponseTopic:
		return row.Topic != nil && strings.HasPrefix(*row.Topic, "__")
	case kmsg.ListConfigResourcesResponseConfigResource:
		return strings.HasPrefix(row.Name, "__")
	case kmsg.DescribeLogDirsResponseDirTopic:
		return strings.HasPrefix(row.Topic, "__")
	}
	return false
}

// servedFeatures are those whose requests are all there.
var servedFeatures = []string{"metadata.version", "kraft.version", "eligible.leader.replicas.version", "group.version"}

// mask hides what two brokers may choose differently, and keeps whether there is anything.
func mask(v reflect.Value, name string) (string, bool) {
	field := v.FieldByName(name)
	switch name {
	case "Host":
		return fmt.Sprint("some: ", field.String() != ""), true
	case "Port", "FinalizedFeaturesEpoch", "TotalBytes", "UsableBytes", "SessionID", "Size":
		return fmt.Sprint("some: ", field.Int() > 0, ", below 0: ", field.Int() < 0), true
	case "ProducerID":
		return fmt.Sprint("some: ", field.Int() >= 0), true
	case "ClusterID":
		if field.Kind() == reflect.Pointer && field.IsNil() {
			return "null", true
		}
		return "some", true
	case "ErrorMessage", "BatchIndexErrorMessage":
		switch {
		case field.Kind() == reflect.String:
			return fmt.Sprint("some: ", field.String() != ""), true
		case !field.IsNil() && field.Elem().String() == "":
			return "empty", true
		}
		return fmt.Sprint("some: ", !field.IsNil()), true
	case "Dir", "Documentation":
		return "some", true
	}
	return "", false
}

func (w *world) idName(id [16]byte) string {
	for _, name := range slices.Sorted(maps.Keys(w.ids)) {
		if w.ids[name] == id {
			return "id of " + name
		}
	}
	switch id {
	case [16]byte{}:
		return "no id"
	case strangeID:
		return "a strange id"
	}
	return "an id"
}

func shownBytes(b []byte) string {
	if len(b) <= 64 {
		return fmt.Sprintf("%q", b)
	}
	sum := sha256.Sum256(b)
	return fmt.Sprintf("%d bytes %x", len(b), sum[:8])
}

// TestEveryVersionOfEveryKeyAnswersAsKafka asks for all that is served, at every version, rightly, wrongly and oddly, and
// compares each field of each answer with what Apache Kafka 4.4 said when it was asked the same. To record:
//
//	test/kafka/kafka start DIR 30092
//	go test ./internal/api -run EveryVersionOfEveryKeyAnswersAsKafka -record-surface 127.0.0.1:30092
func TestEveryVersionOfEveryKeyAnswersAsKafka(t *testing.T) {
	c := surface()
	titles := map[string]int{}
	for i := range c.steps {
		s := &c.steps[i]
		titles[s.title()]++
		if n := titles[s.title()]; n > 1 {
			s.name += fmt.Sprint(" #", n)
		}
	}
	if *recordSurface != "" {
		recordAnswers(t, c)
	}
	want := recordedAnswers(t)
	if len(want) != len(c.steps) {
		t.Errorf("%d steps, %d recorded: record again", len(c.steps), len(want))
	}
	b := brokertest.Start(t, brokertest.Property("node.id", "1"), brokertest.Property("offsets.topic.replication.factor", "1"),
		brokertest.Property("group.initial.rebalance.delay.ms", "0"))
	w := newWorld(t, b.Addr())
	used := map[string]bool{}
	for i := range c.steps {
		s := &c.steps[i]
		got := w.run(s)
		differences := compareLines(got, want[s.title()])
		why, known := explanation(s)
		switch {
		case slices.Equal(want[s.title()], []string{silent}) && !slices.Equal(got, []string{silent}):
			// Any answer is better.
		case known:
			used[why] = used[why] || len(differences) > 0
		case len(differences) > 0:
			t.Errorf("%s:\n\t%s", s.title(), strings.Join(differences, "\n\t"))
		}
	}
	for _, e := range explained {
		if !used[e.why] {
			t.Errorf("no difference is left that %q explains: take it out", e.why)
		}
	}
	coverSurface(t, c, want)
}

// compareLines returns what is in one answer alone. A message where Kafka has none is more than Kafka says, and no difference.
func compareLines(got, want []string) (differences []string) {
	left := map[string]int{}
	for _, l := range want {
		left[l]++
	}
	for _, l := range got {
		if left[l] > 0 {
			left[l]--
			continue
		}
		if path, more := strings.CutSuffix(l, "Message: some: true"); more && left[path+"Message: some: false"] > 0 {
			left[path+"Message: some: false"]--
			continue
		}
		differences = append(differences, "ours  "+l)
	}
	for _, l := range slices.Sorted(maps.Keys(left)) {
		for range left[l] {
			differences = append(differences, "Kafka "+l)
		}
	}
	return differences
}

func explanation(s *step) (why string, known bool) {
	for _, e := range explained {
		if e.key == s.key && strings.Contains(s.name, e.title) {
			return e.why, true
		}
	}
	return "", false
}

// coverSurface holds that every version of every key has an answer without an error and one with an error in it.
func coverSurface(t *testing.T, c *conversation, want map[string][]string) {
	t.Helper()
	type at struct {
		key     kmsg.Key
		version int16
	}
	good, bad := map[at]bool{}, map[at]bool{}
	for i := range c.steps {
		s := &c.steps[i]
		failed, coded := false, false
		for _, l := range want[s.title()] {
			if path, value, _ := strings.Cut(l, ": "); strings.HasSuffix(path, "ErrorCode") {
				coded, failed = true, failed || value != fmt.Sprint(int16(kafka.None))
			}
		}
		if failed {
			bad[at{s.key, s.v}] = true
		} else if coded {
			good[at{s.key, s.v}] = true
		}
	}
	for _, k := range kafkaKeys {
		if k.comes != "" {
			continue
		}
		for _, v := range versionsOf(k.key) {
			if !good[at{k.key, v}] && !neverSucceeds(k.key) {
				t.Errorf("%s v%d has no good case", k.key.Name(), v)
			}
			if !bad[at{k.key, v}] && !neverFails(k.key, v) {
				t.Errorf("%s v%d has no bad case", k.key.Name(), v)
			}
		}
	}
}

// neverSucceeds names what is not to be done on a listener without logins.
func neverSucceeds(key kmsg.Key) bool {
	return key == kmsg.SASLHandshake || key == kmsg.SASLAuthenticate
}

// neverFails names what has no way to go wrong on one healthy node.
func neverFails(key kmsg.Key, version int16) bool {
	switch key {
	case kmsg.ListGroups:
		return true
	case kmsg.ApiVersions:
		return version < 3
	case kmsg.DescribeCluster:
		return version < 1
	case kmsg.DescribeLogDirs:
		return true
	case kmsg.DescribeGroups:
		return version < 6
	case kmsg.OffsetFetch:
		return version < 10
	case kmsg.FindCoordinator, kmsg.ListConfigResources:
		return version == 0
	}
	return false
}

func recordAnswers(t *testing.T, c *conversation) {
	t.Helper()
	l := connect(t, *recordSurface)
	forgetAll(l)
	warmUp(l)
	w := newWorld(t, *recordSurface)
	answers := map[string][]string{}
	for i := range c.steps {
		s := &c.steps[i]
		if _, twice := answers[s.title()]; twice {
			t.Fatalf("two steps are called %s", s.title())
		}
		t.Log(s.title())
		answers[s.title()] = w.run(s)
	}
	writeAnswers(t, c, answers)
	forgetAll(l)
}

// said is one answer, and to what it was given: most are the same for many versions.
type said struct {
	To     []string
	Answer []string
}

func writeAnswers(t *testing.T, c *conversation, answers map[string][]string) {
	t.Helper()
	var all []*said
	known := map[string]*said{}
	for i := range c.steps {
		title := c.steps[i].title()
		text := strings.Join(answers[title], "\n")
		if known[text] == nil {
			known[text] = &said{Answer: answers[title]}
			all = append(all, known[text])
		}
		known[text].To = append(known[text].To, title)
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(surfaceFile, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func recordedAnswers(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(surfaceFile)
	if err != nil {
		t.Fatal(err)
	}
	var all []said
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	answers := map[string][]string{}
	for _, s := range all {
		for _, title := range s.To {
			answers[title] = s.Answer
		}
	}
	return answers
}

// warmUp waits for what a new Kafka makes when it is first asked: its groups' topic, and a block of producer ids.
func warmUp(l *link) {
	l.Helper()
	l.coordinator("any")
	until(l, at(5, kmsg.NewPtrInitProducerIDRequest()), "a producer id", func(r *kmsg.InitProducerIDResponse) bool { return r.ErrorCode == 0 })
}

// forgetAll deletes every topic and group of a broker, so that the conversation finds none.
func forgetAll(l *link) {
	l.Helper()
	groups := kmsg.NewPtrDeleteGroupsRequest()
	for _, g := range l.ask(at(5, kmsg.NewPtrListGroupsRequest())).(*kmsg.ListGroupsResponse).Groups {
		groups.Groups = append(groups.Groups, g.Group)
	}
	l.ask(groups)
	all := at(12, kmsg.NewPtrMetadataRequest())
	gone := at(5, kmsg.NewPtrDeleteTopicsRequest())
	gone.TimeoutMillis = 20_000
	for _, topic := range l.ask(all).(*kmsg.MetadataResponse).Topics {
		if !topic.IsInternal {
			gone.TopicNames = append(gone.TopicNames, *topic.Topic)
		}
	}
	l.ask(gone)
	until(l, all, "an empty broker", func(m *kmsg.MetadataResponse) bool {
		return !slices.ContainsFunc(m.Topics, func(t kmsg.MetadataResponseTopic) bool { return !t.IsInternal })
	})
}

// explained are the differences that stay, each with its reason; title is a part of the step's.
var explained = []struct {
	key        kmsg.Key
	title, why string
}{
	{kmsg.CreateTopics, "no time", "Kafka gives up before it begins when the time allowed is 0; here the topic is made at once"},
	{kmsg.Metadata, "null and no id", "Kafka stumbles over a topic without name and id; here it is no topic"},
	{kmsg.DescribeTopicPartitions, `topics [""], from ""`, "Kafka stumbles over an empty name; here it is an invalid one"},
	{kmsg.DescribeTopicPartitions, single, "Kafka stumbles over an empty name; here it is an invalid one"},
	{kmsg.DescribeTopicPartitions, doubled, "Kafka stumbles over an empty name; here it is an invalid one"},
	{kmsg.Produce, "a partition twice", "Kafka keeps the last of the partition's rows and drops the others unsaid; here each is appended and answered"},
	{kmsg.Produce, "a transactional id, attributes 0x10", "there are no transactions yet: the client is told so for good, not to try again"},
	{kmsg.InitProducerID, `transactional "tx"`, "there are no transactions yet: the client is told so for good, not to look for their coordinator"},
	{kmsg.ListGroups, "after a client without protocols was refused", "Kafka leaves an empty group in memory for a client that it refuses"},
	{kmsg.DeleteGroups, "after a client without protocols was refused", "Kafka leaves an empty group in memory for a client that it refuses"},
	{kmsg.Fetch, "isolation level 7", "Kafka stumbles over an isolation level that does not exist; here it is read_uncommitted"},
	{kmsg.ListOffsets, "isolation level 2", "Kafka stumbles over an isolation level that does not exist; here it is read_uncommitted"},
	{kmsg.Fetch, "limits below 0", "Kafka stumbles over a limit below 0; here it is 0, and the first batch comes all the same"},
}
