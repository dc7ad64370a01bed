package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

func mustParse(t *testing.T, properties string, overrides ...string) *Broker {
	t.Helper()
	b, warnings, err := Parse(properties, overrides, nil)
	if err != nil {
		t.Fatalf("Parse(%q): %v", properties, err)
	}
	if len(warnings) > 0 {
		t.Fatalf("Parse(%q) warns: %v", properties, warnings)
	}
	return b
}

func TestNothingGivenIsASingleNode(t *testing.T) {
	b := mustParse(t, "")
	if got := b.Listeners(); len(got) != 2 || got[0].String() != "PLAINTEXT://127.0.0.1:9092" || got[1].String() != "PLAINTEXT://[::1]:9092" {
		t.Errorf("listeners are %v", got)
	}
	if !b.SingleNode() || b.NodeID() != 1 || b.Int("group.initial.rebalance.delay.ms") != 0 || b.LogDirs()[0] != "raftsman-data" {
		t.Errorf("not a single node: %+v", b)
	}
	for _, name := range []string{
		"offsets.topic.replication.factor", "transaction.state.log.replication.factor", "transaction.state.log.min.isr",
		"share.coordinator.state.topic.replication.factor", "share.coordinator.state.topic.min.isr",
	} {
		if got := b.Int(name); got != 1 {
			t.Errorf("%s is %d, want 1", name, got)
		}
	}
	if name, address := b.ControllerEndpoint(); name != "CONTROLLER" || address != (Address{"127.0.0.1", 9093}) {
		t.Errorf("controller endpoint is %s %v", name, address)
	}
}

// TestDirectoriesHaveOneSpelling: two of one directory would look like two processes that use it.
func TestDirectoriesHaveOneSpelling(t *testing.T) {
	b := mustParse(t, "log.dirs=/a//,./b/\nmetadata.log.dir=/a/.")
	if got := b.LogDirs(); len(got) != 2 || got[0] != "/a" || got[1] != "b" || b.MetadataLogDir() != "/a" {
		t.Errorf("log directories are %q, and %q for the metadata; want [/a b] and /a", got, b.MetadataLogDir())
	}
}

func TestOtherQuorumMembersBringKafkasDefaults(t *testing.T) {
	tests := []struct {
		name, properties string
		single           bool
	}{
		{"own controller listener", "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.quorum.bootstrap.servers=localhost:9093", true},
		{"own advertised controller", "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\nadvertised.listeners=CONTROLLER://a:9093\n" +
			"controller.quorum.bootstrap.servers=a:9093", true},
		{"another's controller", "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.quorum.bootstrap.servers=localhost:9093,b:9093", false},
		{"own voter", "node.id=4\ncontroller.quorum.voters=4@a:9093", true},
		{"other voters", "node.id=4\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.quorum.voters=4@a:9093,5@b:9093", false},
		{"no controller", "process.roles=broker\ncontroller.quorum.bootstrap.servers=a:9093", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := mustParse(t, test.properties)
			if b.SingleNode() != test.single {
				t.Errorf("single is %v, want %v", b.SingleNode(), test.single)
			}
			want := map[bool]int{true: 1, false: 3}[test.single]
			if got := b.Int("offsets.topic.replication.factor"); got != want {
				t.Errorf("offsets.topic.replication.factor is %d, want %d", got, want)
			}
		})
	}
}

func TestLaterSourcesWin(t *testing.T) {
	environ := []string{"KAFKA_NUM_PARTITIONS=3", "KAFKA_LOG_RETENTION_HOURS=5", "PATH=x", "CLUSTER_ID=abc"}
	b, _, err := Parse("num.partitions=2\nlog.retention.hours=4\nnum.io.threads=4", []string{"num.partitions=9", "broker.rack = r=1 "}, environ)
	if err != nil {
		t.Fatal(err)
	}
	if b.Int("num.partitions") != 9 || b.Int("log.retention.hours") != 5 || b.Int("num.io.threads") != 4 || b.String("broker.rack") != "r=1" {
		t.Errorf("got %v", b.Static())
	}
	if b.ClusterID() != "abc" {
		t.Errorf("cluster id is %q", b.ClusterID())
	}
}

func TestEnvironmentIsMappedAsTheImageDoes(t *testing.T) {
	got := asMap(ParseEnviron([]string{
		"KAFKA_ADVERTISED_LISTENERS=a", "KAFKA_LISTENER_NAME_A__B_SSL_KEYSTORE___TYPE=b", "KAFKA_A____B=c", "KAFKA_EMPTY=",
		"KAFKA_HEAP_OPTS=-Xmx1g", "KAFKA_OPTS=x", "KAFKA_JMX_PORT=1", "KAFKA_JMX_OPTS=x", "KAFKA_LOG4J_ROOT_LOGLEVEL=x",
		"KAFKA_LOG4J_LOGGERS=x", "KAFKA_TOOLS_LOG4J_LOGLEVEL=x", "KAFKA_JVM_PERFORMANCE_OPTS=x", "KAFKA_GC_LOG_OPTS=x", "KAFKA_HOME=/opt",
		"KAFKA_VERSION=4", "KAFKA_PORT=tcp://10.0.0.1:9092", "KAFKA_PORT_9092_TCP_ADDR=10.0.0.1", "KAFKA_SERVICE_HOST=10.0.0.1", "NOKAFKA_X=1",
		"KAFKA_=x",
	}).Properties)
	want := map[string]string{
		"advertised.listeners": "a", "listener.name.a_b.ssl.keystore-type": "b", "a-.b": "c", "empty": "",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestKeysThatAreWarnedOf(t *testing.T) {
	tests := []struct {
		name, properties string
		warning, fault   string
	}{
		{"warned of with the nearest", "log.retention.hour=5", "line 1: unknown key log.retention.hour; did you mean log.retention.hours?", ""},
		{"warned of alone", "completely.different=5", "line 1: unknown key completely.different", ""},
		{"refused when strict", "\nlog.dris=a\nraftsman.config.strict=true", "", "line 2: unknown key log.dris; did you mean log.dirs?"},
		{"ours refused always", "raftsman.durabilty=os", "", "line 1: unknown key raftsman.durabilty; did you mean raftsman.durability?"},
		{"set while running only", "leader.replication.throttled.rate=5", "line 1: key leader.replication.throttled.rate can only be set while " +
			"the broker runs, by IncrementalAlterConfigs", ""},
		{"of a listener", "listener.name.external.ssl.keystore.location=/x\nlistener.name.external.scram-sha-256.sasl.jaas.config=x", "", ""},
		{"of a plug-in", "rsm.config.bucket=x\nraftsman.config.strict=true", "", ""},
		{"of Java", "create.topic.policy.class.name=a.B", "line 1: create.topic.policy.class.name=a.B: this broker does not run Java classes, " +
			"so what the class would refuse is allowed", ""},
		{"a topic that cannot be", "offsets.topic.segment.bytes=1048575", "line 1: offsets.topic.segment.bytes=1048575: topics have segments of " +
			"1048576 bytes or more, so that __consumer_offsets cannot be created and groups wait for their coordinator; set 1048576 or more", ""},
		{"a small topic", "offsets.topic.segment.bytes=1048576", "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, warnings, err := Parse(test.properties, nil, nil)
			var texts []string
			for _, w := range warnings {
				texts = append(texts, w.String())
			}
			if got := strings.Join(texts, "\n"); got != test.warning {
				t.Errorf("warnings are %q, want %q", got, test.warning)
			}
			fault := ""
			if err != nil {
				fault = err.Error()
			}
			if fault != test.fault {
				t.Errorf("error is %q, want %q", fault, test.fault)
			}
		})
	}
}

func TestWarningsAndFaultsNameTheFile(t *testing.T) {
	_, warnings, err := ParseFile("my.properties", "zzz=1\n=5\naaa=2", []string{"num.partitions=0"}, nil)
	var texts []string
	for _, w := range warnings {
		texts = append(texts, w.String())
	}
	want := []string{"my.properties: line 1: unknown key zzz", `my.properties: line 2: there is no key before "=5"`, "my.properties: line 3: unknown key aaa"}
	if !slices.Equal(texts, want) {
		t.Errorf("warnings are %q, want %q", texts, want)
	}
	if got, want := fmt.Sprint(err), "override: num.partitions=0: must be at least 1"; got != want {
		t.Errorf("error is %q, want %q", got, want)
	}
	if _, _, err := ParseFile("my.properties", `a=\u00`, nil, nil); !errors.Is(err, ErrUnicodeEscape) || !strings.HasPrefix(err.Error(), "my.properties: line 1: ") {
		t.Errorf("error is %v, want it with file and line", err)
	}
}

func TestFaultsNameKeyValueAndWhatIsAllowed(t *testing.T) {
	tests := []struct{ properties, want string }{
		{"num.partitions=0", "line 1: num.partitions=0: must be at least 1"},
		{"num.partitions=x", "line 1: num.partitions=x: must be a whole number from 1 to 2147483647"},
		{"a=\\u00", "line 1: \\u without four hexadecimal digits"},
		{"auto.create.topics.enable=yes", "line 1: auto.create.topics.enable=yes: must be true or false"},
		{"compression.type=lzma", "line 1: compression.type=lzma: must be one of uncompressed, zstd, lz4, snappy, gzip, producer"},
		{"log.segment.bytes=1000", "line 1: log.segment.bytes=1000: must be at least 1048576"},
		{"log.cleanup.policy=delete,all", "line 1: log.cleanup.policy=delete,all: may hold only compact, delete"},
		{"raftsman.durability=none", "line 1: raftsman.durability=none: must be one of flush, os"},
		{"process.roles=controller", "listeners=PLAINTEXT://127.0.0.1:9092,PLAINTEXT://[::1]:9092: a node that is a controller needs a listener of " +
			"controller.listener.names (CONTROLLER)"},
		{"process.roles=controller\nlisteners=PLAINTEXT://:1,CONTROLLER://:2", "line 2: listeners=PLAINTEXT://:1,CONTROLLER://:2: a node that is a controller " +
			"and no broker has listeners of controller.listener.names (CONTROLLER) alone"},
		{"process.roles=broker\ncontroller.quorum.bootstrap.servers=a:1\nlisteners=PLAINTEXT://:1,CONTROLLER://:2", "line 3: listeners=PLAINTEXT://:1," +
			"CONTROLLER://:2: a node that is no controller has no listener of controller.listener.names (CONTROLLER)"},
		{"process.roles=broker", "controller.quorum.bootstrap.servers: a node that is no controller must know some: name them as HOST:PORT"},
		{"controller.quorum.bootstrap.servers=a:1", "listeners=PLAINTEXT://127.0.0.1:9092,PLAINTEXT://[::1]:9092: other controllers are configured, so that " +
			"this one needs a listener of controller.listener.names (CONTROLLER)"},
		{"node.id=1\nbroker.id=2", "line 2: broker.id=2: must equal node.id (1) or be left out"},
		{"log.roll.ms=0", "line 1: log.roll.ms=0: must be at least 1"},
		{"log.retention.minutes=0", "line 1: log.retention.minutes=0: must be at least 1, or -1 to keep records for ever"},
		{"group.consumer.min.session.timeout.ms=50000", "line 1: group.consumer.min.session.timeout.ms=50000: must not be above " +
			"group.consumer.session.timeout.ms (45000)"},
		{"max.connections.per.ip=0", "line 1: max.connections.per.ip=0: nobody could connect: 0 is for use with max.connections.per.ip.overrides"},
		{"group.coordinator.rebalance.protocols=consumer", "line 1: group.coordinator.rebalance.protocols=consumer: must have classic"},
		{"group.share.session.timeout.ms=4000\ngroup.share.min.session.timeout.ms=4000", "group.share.heartbeat.interval.ms=5000: must be below " +
			"group.share.session.timeout.ms (4000)"},
		{"controller.quorum.voters=2@a:1", "line 1: controller.quorum.voters=2@a:1: must have node.id (1), as process.roles has controller"},
		{"advertised.listeners=PLAINTEXT://a:1,PLAINTEXT://b:1", "line 1: advertised.listeners=PLAINTEXT://b:1: listener PLAINTEXT comes twice"},
		{"authorizer.class.name=a.B", "line 1: authorizer.class.name=a.B: access rules are not enforced yet; leave the key out to serve everyone " +
			"who can connect"},
		{"remote.log.storage.system.enable=true", "line 1: remote.log.storage.system.enable=true: remote storage is not supported: topics could " +
			"not be read"},
		{"ssl.key.password=x\nconfig.providers=file", "line 2: config.providers=file: providers of configuration values are not supported: " +
			"write the values out"},
		{"listeners=PLAINTEXT:9092", "line 1: listeners=PLAINTEXT:9092: must be NAME://HOST:PORT, as in PLAINTEXT://localhost:9092"},
		{"listeners=PLAINTEXT://a", "line 1: listeners=PLAINTEXT://a: \"a\" must be HOST:PORT"},
		{"listeners=PLAINTEXT://a:70000", "line 1: listeners=PLAINTEXT://a:70000: port \"70000\" must be a number from 0 to 65535"},
		{"listeners=PLAINTEXT://::1:9092", "line 1: listeners=PLAINTEXT://::1:9092: \"::1:9092\" must have its IPv6 address in brackets, as in [::1]:9092"},
		{"listeners=SSL://:9092", "line 1: listeners=SSL://:9092: listeners of protocol SSL are not served yet, only those of PLAINTEXT"},
		{"listeners=IN://:9092", "line 1: listeners=IN://:9092: listener IN needs a protocol: add IN:PLAINTEXT to listener.security.protocol.map"},
		{"listeners=PLAINTEXT://a:1,PLAINTEXT://b:2", "line 1: listeners=PLAINTEXT://b:2: listener names and ports must differ, except that a name " +
			"may have one IPv4 and one IPv6 address"},
		{"listeners=A://:1\nlistener.security.protocol.map=A:PLAINTEXT", "inter.broker.listener.name=PLAINTEXT: no such listener for brokers in listeners"},
		{"listener.security.protocol.map=A:TLS", "line 1: listener.security.protocol.map=A:TLS: must be NAME:PROTOCOL, with one of PLAINTEXT, SSL, " +
			"SASL_PLAINTEXT, SASL_SSL"},
		{"advertised.listeners=OUT://a:1", "line 1: advertised.listeners=OUT://a:1: listener OUT is not in listeners"},
		{"raftsman.http.listener=9404", "line 1: raftsman.http.listener=9404: \"9404\" must be HOST:PORT"},
		{"raftsman.client.metrics.otlp.endpoint=collector:4318", "line 1: raftsman.client.metrics.otlp.endpoint=collector:4318: must be a URL of http or " +
			"https, as http://127.0.0.1:4318/v1/metrics"},
		{"raftsman.client.metrics.otlp.headers=secret", "line 1: raftsman.client.metrics.otlp.headers=[hidden]: must be NAME=VALUE,NAME=VALUE"},
		{"controller.quorum.voters=1@a", "line 1: controller.quorum.voters=1@a: \"a\" must be HOST:PORT"},
		{"log.dirs=/a,/a/", "line 1: log.dirs=/a,/a/: /a and /a/ are one directory: name it once"},
		{"log.dir=/b/../a, /a", "line 1: log.dir=/b/../a,/a: /b/../a and /a are one directory: name it once"},
		{"max.connections.per.ip.overrides=a", "line 1: max.connections.per.ip.overrides=a: must be a list of ADDRESS:COUNT"},
		{"num.partitions=", "line 1: num.partitions: must be a whole number from 1 to 2147483647"},
		{"log.retention.ms=abc", "line 1: log.retention.ms=abc: must be a whole number of 64 bits"},
		{"log.flush.interval.messages=abc", "line 1: log.flush.interval.messages=abc: must be a whole number, 1 or more"},
		{"log.cleaner.min.cleanable.ratio=abc", "line 1: log.cleaner.min.cleanable.ratio=abc: must be a number from 0 to 1"},
		{"compression.gzip.level=x", "line 1: compression.gzip.level=x: must be a whole number from 1 to 9, or -1 for the codec's own default"},
		{"log.dris=a\nnum.partitions=0\nraftsman.config.strict=true\n=5", "line 1: unknown key log.dris; did you mean log.dirs?\n" +
			"line 2: num.partitions=0: must be at least 1\nline 4: there is no key before \"=5\""},
		{"num.partitions=0\nnode.id=x", "line 1: num.partitions=0: must be at least 1\nline 2: node.id=x: must be a whole number from 0 to 2147483647"},
	}
	for _, test := range tests {
		_, _, err := Parse(test.properties, nil, nil)
		if err == nil || err.Error() != test.want {
			t.Errorf("%q:\n got  %v\n want %s", test.properties, err, test.want)
		}
	}
}

func TestWhatKafkaStartsWithStarts(t *testing.T) {
	for _, properties := range []string{
		"log.retention.ms=5\nlog.retention.hours=0", "group.min.session.timeout.ms=2000000", "log.dirs=/a,/a", "broker.id=1", "log.retention.hours=-3",
		"listeners=plaintext://:9092,controller://:9093", "inter.broker.listener.name=plaintext", "log.cleanup.policy=", "queued.max.request.bytes=0",
		"listener.security.protocol.map=plaintext:plaintext,controller:plaintext,controller:plaintext", "group.consumer.migration.policy=Upgrade",
		"log.cleaner.min.compaction.lag.ms=10\nlog.cleaner.max.compaction.lag.ms=5", "sasl.oauthbearer.assertion.algorithm=rs256", "num.io.threads=500",
		"early.start.listeners=CONTROLLER", "cordoned.log.dirs=*", "default.replication.factor=-1", "offset.metadata.max.bytes=-1",
	} {
		if _, _, err := Parse(properties, nil, nil); err != nil {
			t.Errorf("%q: %v", properties, err)
		}
	}
}

func TestPasswordsAreNotShown(t *testing.T) {
	if f := fault("ssl.key.password", "hunter2", "wrong"); strings.Contains(f.Error(), "hunter2") {
		t.Errorf("fault shows a password: %v", f)
	}
	for _, e := range mustParse(t, "ssl.key.password=hunter2\nlistener.name.a.ssl.keystore.password=hunter2").DescribeBroker(Dynamic{}) {
		for _, s := range e.Synonyms {
			if e.Value != nil && *e.Value == "hunter2" || s.Value != nil && *s.Value == "hunter2" {
				t.Errorf("description of %s shows a password", e.Name)
			}
		}
	}
}

func TestRule17AdvertisedAddresses(t *testing.T) {
	for _, host := range []string{"0.0.0.0", "[::]"} {
		_, _, err := Parse("listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://"+host+":9092", nil, nil)
		if err == nil || !strings.Contains(err.Error(), "clients cannot connect to") {
			t.Errorf("advertised %s: %v", host, err)
		}
	}
	b := mustParse(t, "listeners=IN://0.0.0.0:9092,OUT://0.0.0.0:9093\nadvertised.listeners=OUT://kafka.example:443\n"+
		"listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT\ninter.broker.listener.name=in")
	in, out := b.Listeners()[0], b.Listeners()[1]
	if in.Advertised != (Address{}) || out.Advertised != (Address{"kafka.example", 443}) || b.InterBrokerListener() != "IN" {
		t.Errorf("listeners are %+v and %+v", in, out)
	}
}

func TestTopicTakesTheMostSpecificValue(t *testing.T) {
	static := "log.retention.hours=48\nlog.roll.hours=2\nlog.flush.scheduler.interval.ms=700\nmessage.max.bytes=5000\nlog.cleanup.policy=compact"
	tests := []struct {
		name           string
		dynamic, topic map[string]string
		retention      int64
		compact        bool
	}{
		{"static", nil, nil, 48 * 3600 * 1000, true},
		{"dynamic", map[string]string{"log.retention.ms": "7", "log.cleanup.policy": "delete"}, nil, 7, false},
		{"topic", map[string]string{"log.retention.ms": "7"}, map[string]string{"retention.ms": "-1", "cleanup.policy": ""}, -1, false},
		{"passes over what does not parse", map[string]string{"log.retention.ms": "x"}, map[string]string{"retention.ms": "y"}, 48 * 3600 * 1000, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := mustParse(t, static).Topic(test.dynamic, test.topic)
			if got.RetentionMs != test.retention || got.CleanupCompact != test.compact {
				t.Errorf("retention %d, compact %v; want %d, %v", got.RetentionMs, got.CleanupCompact, test.retention, test.compact)
			}
			if got.SegmentMs != 2*3600*1000 || got.FlushMs != 700 || got.MaxMessageBytes != 5000 || got.SegmentBytes != 1<<30 {
				t.Errorf("got %+v", got)
			}
		})
	}
	both := mustParse(t, "log.retention.hours=48\nlog.retention.minutes=10\nlog.retention.ms=9").Topic(nil, nil)
	if both.RetentionMs != 9 {
		t.Errorf("retention is %d, want that of log.retention.ms", both.RetentionMs)
	}
}

func TestDynamicChangesTakeEffect(t *testing.T) {
	b := mustParse(t, "max.connections=5")
	changed := b.With(Dynamic{
		Cluster: map[string]string{"max.connections": "6", "num.partitions": "9"},
		Node:    map[string]string{"max.connections": "7", "max.connections.per.ip": "-1"},
	})
	if changed.Int("max.connections") != 7 || changed.Int("num.partitions") != 1 || changed.Int("max.connections.per.ip") != 1<<31-1 || b.Int("max.connections") != 5 {
		t.Errorf("max.connections is %d, num.partitions %d", changed.Int("max.connections"), changed.Int("num.partitions"))
	}
}

func TestGettersKnowUnits(t *testing.T) {
	b := mustParse(t, "offsets.retention.minutes=3\nlog.retention.hours=2\nsasl.login.refresh.min.period.seconds=4\nserver.max.startup.time.ms=9223372036854775807")
	for name, want := range map[string]time.Duration{
		"offsets.retention.minutes": 3 * time.Minute, "log.retention.hours": 2 * time.Hour, "sasl.login.refresh.min.period.seconds": 4 * time.Second,
		"server.max.startup.time.ms": 1<<63 - 1, "connections.max.idle.ms": 10 * time.Minute,
	} {
		if got := b.Duration(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

func TestGettersPanicOnATypo(t *testing.T) {
	b := mustParse(t, "")
	for name, get := range map[string]func(){
		"unknown": func() { b.Int("num.partition") }, "another type": func() { b.Bool("num.partitions") },
		"no unit": func() { b.Duration("num.partitions") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			get()
		}()
	}
}

func TestWithoutEffectNamesWhatNothingReads(t *testing.T) {
	var got []string
	for _, k := range mustParse(t, "num.partitions=1\nnum.io.threads=4\nssl.protocol=TLSv1.3").WithoutEffect() {
		got = append(got, k.Name)
	}
	if strings.Join(got, " ") != "num.io.threads ssl.protocol" {
		t.Errorf("got %v", got)
	}
}

func TestNearest(t *testing.T) {
	for name, want := range map[string]string{
		"log.retention.hour": "log.retention.hours", "num.partition": "num.partitions", "Listeners": "listeners", "listener": "listeners",
		"advertised.listner": "advertised.listeners", "zzz": "", "": "", "raftsman.durable": "raftsman.durability",
	} {
		if got := Nearest(ScopeBroker, name); got != want {
			t.Errorf("nearest to %q is %q, want %q", name, got, want)
		}
	}
}

func TestEveryDefaultIsAllowed(t *testing.T) {
	for i := range table {
		k := &table[i]
		if k.DefaultState != DefaultValue {
			continue
		}
		if _, err := k.parse(k.Default); err != nil && k.Name != "controller.quorum.voters" {
			t.Errorf("default %q of %s: %v", k.Default, k.Name, err)
		}
		if found, ok := Lookup(k.Scope, k.Name); !ok || found != k {
			t.Errorf("%s is not found", k.Name)
		}
		for _, s := range k.Synonyms {
			if _, ok := Lookup(ScopeBroker, s.Name); !ok {
				t.Errorf("%s has the synonym %s, which is no key of brokers", k.Name, s.Name)
			}
		}
	}
	for _, d := range append(ownDefaults, singleNodeDefaults...) {
		if _, err := validate(ScopeBroker, d.name, d.text); err != nil {
			t.Error(err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("listeners=PLAINTEXT://[::1]:9092", "advertised.listeners=PLAINTEXT://a:1", "KAFKA_NODE_ID=7")
	f.Add("controller.quorum.voters=1@a:9093", "process.roles=broker", "KAFKA_A___B=1")
	f.Add("log.retention.hours=-1", "listener.name.x.ssl.key.password=1", "CLUSTER_ID=a")
	f.Fuzz(func(t *testing.T, text, override, variable string) {
		b, _, err := Parse(text, []string{override}, []string{variable})
		if err != nil {
			return
		}
		b.Topic(nil, b.Static())
		b.DescribeBroker(Dynamic{Node: b.Static()})
		b.Export(Installation{LogDirs: b.LogDirs()})
	})
}
