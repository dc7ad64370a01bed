// Package scripts is Kafka's command-line tools by their names: what kafka-topics.sh, kafka-configs.sh and the others print for their
// common arguments, and the exit codes that they end with. What people keep in runbooks and cron jobs then works where no Java is.
// An argument that is not served is refused by its name, with the command of raftsman's own that does it.
package scripts

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/raftsman/raftsman/internal/clientconf"
	"github.com/raftsman/raftsman/internal/config"
)

// KafkaVersion is the release of Kafka whose scripts these are.
const KafkaVersion = "4.4.0"

// Env is the world as the scripts see it.
type Env struct {
	In   io.Reader
	Out  io.Writer
	Err  io.Writer
	Now  func() time.Time
	Dial func(...kgo.Opt) (*kgo.Client, error)

	// Format makes the log directories ready that a server.properties names, unless some are formatted already.
	Format func(Format) (Formatted, error)
}

// Format is what kafka-storage format is told.
type Format struct {
	File, ClusterID    string
	Standalone         bool
	InitialControllers string // "" for none
	NoInitial          bool
}

// Formatted are log directories: those that were made ready, those that were before, and which of them has the metadata log, with what in it.
type Formatted struct {
	Made, Before []string
	Metadata     string
	Kind         string // of the metadata log's directory, as Kafka calls it
}

// script is one of them.
type script struct {
	options    []option
	actions    []string          // of which exactly one has to be given; nil: there is none to choose
	lastAction string            // how the last of them is joined to the others where they are listed: " or %s"; "" for a comma
	instead    string            // the command of raftsman that does the same
	verbs      []string          // words that say what to do, instead of options
	short      map[string]string // options by their letters: "-t": "cluster-id"
	run        func(context.Context, *call) error
}

// scripts returns them by their names, without the ending .sh.
func scripts() map[string]*script {
	return map[string]*script{
		"kafka-topics":              topicsScript(),
		"kafka-configs":             configsScript(),
		"kafka-consumer-groups":     consumerGroupsScript(),
		"kafka-groups":              groupsScript(),
		"kafka-console-producer":    producerScript(),
		"kafka-console-consumer":    consumerScript(),
		"kafka-get-offsets":         offsetsScript(),
		"kafka-delete-records":      deleteRecordsScript(),
		"kafka-log-dirs":            logDirsScript(),
		"kafka-cluster":             clusterScript(),
		"kafka-broker-api-versions": versionsScript(),
		"kafka-features":            featuresScript(),
		"kafka-metadata-quorum":     quorumScript(),
		"kafka-leader-election":     electionScript(),
		"kafka-client-metrics":      clientMetricsScript(),
		"kafka-storage":             storageScript(),
		"kafka-transactions":        transactionsScript(),
	}
}

// Names returns the names of the scripts, in order, without the ending .sh.
func Names() []string { return slices.Sorted(maps.Keys(scripts())) }

// Name returns the script that a program was called as, "" if it is none: of a path only the file counts, and .sh, .bat and .exe at its
// end do not.
func Name(path string) string {
	name := filepath.Base(path)
	for _, ending := range []string{".exe", ".bat", ".sh"} {
		name = strings.TrimSuffix(name, ending)
	}
	if scripts()[name] == nil {
		return ""
	}
	return name
}

// errTold ends a script that has said all.
var errTold = errors.New("told")

// usageError is arguments that cannot be right.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// Run runs a script and returns its exit code. Name is one of [Names], also with its path and ending.
func Run(ctx context.Context, name string, args []string, env Env) int {
	s := scripts()[Name(name)]
	out := bufio.NewWriter(env.Out)
	c := &call{env: env, script: s, args: args, out: out}
	err := c.run(ctx)
	c.close()
	if flushed := out.Flush(); err == nil {
		err = flushed
	}
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(env.Err, "%s\nusage: %s; raftsman's own command for this is `%s --help`\n", usage.text, s.usage(Name(name)), s.instead)
	case !errors.Is(err, errTold):
		fmt.Fprintln(env.Err, err)
	}
	return 1
}

// call is one run of a script.
type call struct {
	env    Env
	script *script
	args   []string
	verb   string
	opts   options
	out    *bufio.Writer

	settings clientconf.Settings
	cl       *kgo.Client
	adm      *kadm.Client
}

func (c *call) run(ctx context.Context) error {
	if err := c.parse(); err != nil {
		return err
	}
	switch {
	case c.opts.has("help"):
		return usagef("These are the options that are served.")
	case c.opts.has("version"):
		c.print("%s\n", KafkaVersion)
		return nil
	}
	if err := c.checkActions(); err != nil {
		return err
	}
	if err := c.readSettings(); err != nil {
		return err
	}
	return c.script.run(ctx, c)
}

func (c *call) close() {
	if c.cl != nil {
		c.cl.Close()
	}
}

func (c *call) print(format string, args ...any) { fmt.Fprintf(c.out, format, args...) }

// say writes to standard error, behind what was printed.
func (c *call) say(format string, args ...any) {
	if err := c.out.Flush(); err != nil {
		return // Run tells it
	}
	fmt.Fprintf(c.env.Err, format+"\n", args...)
}

const fileBytesMax = 64 << 20 // of a file that an option names

func readFile(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Size() > fileBytesMax {
		return "", fmt.Errorf("%s has more than %d bytes", path, fileBytesMax)
	}
	text, err := os.ReadFile(path)
	return string(text), err
}

// readProperties reads a file of properties, of which the last of a name counts.
func readProperties(path string) (map[string]string, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	properties, err := config.ParseProperties(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	values := map[string]string{}
	for _, p := range properties {
		values[p.Name] = p.Value
	}
	return values, nil
}

// readSettings takes the files and properties that say how the cluster is reached.
func (c *call) readSettings() error {
	values := map[string]string{}
	for _, file := range slices.Concat(c.opts["command-config"], c.opts["consumer.config"], c.opts["producer.config"]) {
		properties, err := readProperties(file)
		if err != nil {
			return err
		}
		maps.Copy(values, properties)
	}
	for _, pair := range slices.Concat(c.opts["command-property"], c.opts["consumer-property"], c.opts["producer-property"]) {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return usagef("%q is not key=value", pair)
		}
		values[key] = value
	}
	settings, unknown, err := clientconf.Read(values)
	if err != nil {
		return err
	}
	for _, key := range unknown {
		c.say("WARN: %s is no setting of a Kafka client: it has no effect", key)
	}
	c.settings = settings
	return nil
}

const (
	dialPatience = 10 * time.Second
	patience     = 30 * time.Second // of one command's requests, repeats included
)

// connect reaches the cluster. It is called once.
func (c *call) connect(ctx context.Context, opts ...kgo.Opt) error {
	servers := c.opts.value("bootstrap-server")
	if servers == "" {
		servers = c.settings.Servers
	}
	if servers == "" {
		return usagef("--bootstrap-server must be specified")
	}
	all := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(servers, ",")...), kgo.ClientID("raftsman-scripts"), kgo.DialTimeout(dialPatience),
		kgo.RetryTimeout(patience), kgo.DisableClientMetrics(), kgo.MetadataMinAge(20 * time.Millisecond),
	}
	cl, err := c.env.Dial(append(append(all, c.settings.Opts()...), opts...)...)
	if err != nil {
		return err
	}
	c.cl, c.adm = cl, kadm.NewClient(cl)
	pinging, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	if err := cl.Ping(pinging); err != nil {
		return fmt.Errorf("%s does not answer as a Kafka broker: %w", servers, err)
	}
	return nil
}

// exceptions are what Java calls the codes that scripts show by that name, where it is not the code's own.
var exceptions = map[string]string{
	"GROUP_ID_NOT_FOUND": "GroupIdNotFoundException", "NON_EMPTY_GROUP": "GroupNotEmptyException", "GROUP_SUBSCRIBED_TO_TOPIC": "GroupSubscribedToTopicException",
	"UNKNOWN_TOPIC_OR_PARTITION": "UnknownTopicOrPartitionException", "OFFSET_OUT_OF_RANGE": "OffsetOutOfRangeException", "INVALID_CONFIG": "InvalidConfigurationException",
	"NOT_COORDINATOR": "NotCoordinatorException", "COORDINATOR_NOT_AVAILABLE": "CoordinatorNotAvailableException", "NOT_LEADER_FOR_PARTITION": "NotLeaderOrFollowerException",
	"GROUP_AUTHORIZATION_FAILED": "GroupAuthorizationException", "TOPIC_AUTHORIZATION_FAILED": "TopicAuthorizationException",
	"CLUSTER_AUTHORIZATION_FAILED": "ClusterAuthorizationException", "POLICY_VIOLATION": "PolicyViolationException", "INVALID_REQUEST": "InvalidRequestException",
	"INVALID_GROUP_ID": "InvalidGroupIdException", "UNSUPPORTED_VERSION": "UnsupportedVersionException", "ELECTION_NOT_NEEDED": "ElectionNotNeededException",
	"PREFERRED_LEADER_NOT_AVAILABLE": "PreferredLeaderNotAvailableException", "ELIGIBLE_LEADERS_NOT_AVAILABLE": "EligibleLeadersNotAvailableException",
	"BROKER_ID_NOT_REGISTERED": "BrokerIdNotRegisteredException", "KAFKA_STORAGE_ERROR": "KafkaStorageException",
	"CONTROLLER_ID_NOT_REGISTERED": "ControllerIdNotRegisteredException", "VOTER_NOT_FOUND": "VoterNotFoundException", "REQUEST_TIMED_OUT": "TimeoutException",
}

// exception writes an error as the scripts of Java do: its class and its sentence.
func exception(err error, text string) string {
	var code *kerr.Error
	if !errors.As(err, &code) {
		return err.Error()
	}
	class := exceptions[code.Message]
	if class == "" {
		class = code.Message
	}
	return "org.apache.kafka.common.errors." + class + ": " + sentence(err, text)
}

// sentence is what a broker said about an error, or what the code means.
func sentence(err error, text string) string {
	if text != "" {
		return text
	}
	var code *kerr.Error
	if errors.As(err, &code) {
		return code.Description
	}
	return err.Error()
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// columns lays rows out: every column as wide as its widest cell, one space apart.
func (c *call) columns(rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, text := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len(text))
		}
	}
	for _, row := range rows {
		for i, text := range row {
			c.print("%-*s ", widths[i], text)
		}
		c.print("\n")
	}
}
