package telemetry

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

// To write the page: go test ./internal/telemetry -run TestDocsAreFresh -update
var update = flag.Bool("update", false, "write docs/metrics.md afresh")

const docsFile = "../../docs/metrics.md"

const docsIntro = `<!-- Generated from the tables of internal/telemetry: go test ./internal/telemetry -run TestDocsAreFresh -update. Do not edit. -->

# Metrics

` + "`raftsman.http.listener=127.0.0.1:9404`" + ` in ` + "`server.properties`" + ` turns an HTTP listener on; it is off by default. It is not encrypted and asks
for no password: choose an address that only those who may look can reach. It answers, to GET and HEAD alone:

| path | |
|---|---|
| ` + "`/metrics`" + ` | what follows, in Prometheus's text format; eight scrapes at a time. A node that starts or stops tells of its process only |
| ` + "`/healthz`" + ` | 200 while the process lives, also while it recovers its logs; 503 with the reason when the node can't go on, as its last log directory failed, or that of the metadata |
| ` + "`/readyz`" + ` | 200 while the node serves, 503 while it starts or stops and when it can't go on. With some of several log directories gone it is 200 still, and the answer names them |

Names that begin with ` + "`kafka_topic_`" + ` and ` + "`kafka_consumergroup_`" + ` are kafka_exporter's (those with ` + "`_group_`" + ` kafka-lag-exporter's), the other ` + "`kafka_`" + `
names those of Kafka's MBeans as the JMX exporter's usual rules write them: in small letters, ` + "`_total`" + ` for PerSec. Counters count from the start of
the broker, and so do the quantiles. What this broker does not have has no series: there are no request handler or network threads whose idle time
could be told, no request queue, no replication yet, no JVM.

A scrape looks at what is there: it opens no log, takes no lock that a client waits for, and reads of logs only the headers of
the batches that groups are to read next, and those only when a group has moved. It writes the text as it goes, with gzip for who
takes it, and holds no lock while a slow reader takes it. A partition that nobody has used since the start has no size and no first offset here
(` + "`raftsman_partitions_asleep`" + ` counts them); ` + "`raftsman topic describe`" + ` opens it. At most 10,000 partitions, 10,000 topics, 1,000 groups and 10,000
committed offsets have series.

[deploy/grafana/raftsman.json](../deploy/grafana/raftsman.json) is a dashboard for Grafana.

Below them stands what clients push of their own metrics (KIP-714), for each subscription that ` + "`kafka-client-metrics`" + ` or
` + "`kafka-configs --entity-type client-metrics`" + ` has made. Ask for ` + "`org.apache.kafka.`" + ` where clients of Go are among them: franz-go
does not know ` + "`*`" + `. Names follow OpenTelemetry's rules for Prometheus:
` + "`org.apache.kafka.producer.record.send.total`" + ` is ` + "`org_apache_kafka_producer_record_send_total`" + `; one that does not begin with
` + "`org.apache.kafka.`" + ` gets ` + "`client_`" + ` in front. Labels are the client's attributes and ` + "`client_id`, `client_instance_id`, `client_software_name`, `client_software_version` and `client_source_address`" + `. Deltas are added up. A client's series go when it ends, when
its connection does, or when three of its intervals have passed without a push, a minute at least. How many there may be is set by
` + "`raftsman.client.metrics.series.max` and `raftsman.client.metrics.series.per.client.max`" + `.

`

func docsPage() string {
	var b strings.Builder
	b.WriteString(docsIntro)
	for _, part := range []struct {
		title    string
		families []family
	}{{"The cluster and the broker", table}, {"Clients that push their metrics", clientsTable}, {"The process", processTable}} {
		fmt.Fprintf(&b, "## %s\n\n| metric | kind | labels | |\n|---|---|---|---|\n", part.title)
		for _, f := range part.families {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, kindNames[f.kind], strings.Join(f.labels, ", "), f.help)
		}
		b.WriteByte('\n')
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func TestDocsAreFresh(t *testing.T) {
	if *update {
		if err := os.WriteFile(docsFile, []byte(docsPage()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != docsPage() {
		t.Error("docs/metrics.md is stale; run: go test ./internal/telemetry -run TestDocsAreFresh -update")
	}
}
