package parity

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/raw"
	"github.com/raftsman/raftsman/internal/record/compress"
)

// instance is one client that pushes its metrics.
type instance struct {
	*conversation
	name string
	id   [16]byte
}

// instance begins with another client, which asks what it is asked for.
func (c *conversation) instance(name string) *instance {
	i := c.unknown(name)
	i.get("new")
	return i
}

// unknown begins with another client that has not asked.
func (c *conversation) unknown(name string) *instance {
	c.instances++
	return &instance{c, name, [16]byte{0: 0x0a, 14: byte(c.instances >> 8), 15: byte(c.instances)}}
}

func (i *instance) get(what string) {
	req := kmsg.NewPtrGetTelemetrySubscriptionsRequest()
	req.ClientInstanceID = i.id
	i.add(i.name+": "+what, req)
}

// push pushes under the subscription that was answered last.
func (i *instance) push(what string, metrics []byte, change ...func(*kmsg.PushTelemetryRequest)) {
	i.with(i.name+": "+what, kmsg.PushTelemetry, 0, func(w *world) kmsg.Request {
		req := kmsg.NewPtrPushTelemetryRequest()
		req.ClientInstanceID, req.SubscriptionID, req.Metrics = i.id, w.asked, metrics
		for _, f := range change {
			f(req)
		}
		return req
	})
}

func terminating(req *kmsg.PushTelemetryRequest)       { req.Terminating = true }
func otherSubscription(req *kmsg.PushTelemetryRequest) { req.SubscriptionID++ }
func packed(codec compress.Codec) func(*kmsg.PushTelemetryRequest) {
	return func(req *kmsg.PushTelemetryRequest) { req.CompressionType = int8(codec) }
}

// telemetry is about the metrics that clients push.
func (c *conversation) telemetry() {
	metrics := raw.OTLPPush([]raw.Field{raw.OTLPAttribute(1, "client_rack", "a")},
		raw.OTLPGauge("org.apache.kafka.producer.rate", 1.5, raw.OTLPAttribute(7, "topic", "t")), raw.OTLPCounter("org.apache.kafka.producer.total", raw.OTLPDelta, 5))
	named := raw.At(3, kmsg.NewPtrApiVersionsRequest()) // the connection may be another one than that of the first request
	named.ClientSoftwareName, named.ClientSoftwareVersion = "pusher", "1.x.1"
	c.add("client that pushes metrics", named)
	c.add("no id", kmsg.NewPtrGetTelemetrySubscriptionsRequest())
	for _, id := range []byte{0, 1} {
		i := &instance{c, fmt.Sprint("id ", id), [16]byte{15: id}}
		i.push("push", metrics)
		i.get("ask")
		i.push("push after it has asked", metrics)
	}

	i := c.instance("in turn")
	i.get("again")
	i.push("at once", metrics)
	i.push("again", metrics)
	i.push("again, and another subscription", metrics, otherSubscription)
	i.push("again, and an unknown codec", metrics, packed(9))
	i.push("the last", metrics, terminating)
	i.push("another last", metrics, terminating)
	i.get("after the last")
	i.push("after the last", metrics)
	i.push("again after the last", metrics)

	i = c.unknown("not asked")
	i.push("push", metrics)
	i.get("after the push")
	i.get("again")
	i.push("push again", metrics)
	i = c.unknown("not asked, and ends")
	i.push("push", metrics, terminating)
	i.push("push again", metrics, terminating)
	i.get("after the push")

	for _, codec := range []compress.Codec{-1, 5, 9} {
		i = c.instance(fmt.Sprint("codec ", int(codec)))
		i.push("push", metrics, packed(codec))
		i.get("after the push")
		i.push("push again", metrics)
	}
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		for _, pushed := range []struct {
			name    string
			metrics []byte
		}{
			{"metrics", metrics},
			{"no metrics", raw.OTLPPush(nil)},
			{"1 MiB", make([]byte, 1<<20)},
			{"more than 1 MiB", make([]byte, 1<<20+1)},
			{"garbage", []byte("garbage")},
		} {
			i = c.instance(fmt.Sprintf("%s as %s", pushed.name, codec))
			bytes, err := compress.Append(nil, pushed.metrics, compress.Spec{Codec: codec})
			if err != nil {
				panic(err)
			}
			i.push("push", bytes, packed(codec))
			i.get("after the push")
			i.push("push again", metrics)
		}
		i = c.instance(fmt.Sprint("no bytes as ", codec))
		i.push("push", []byte{}, packed(codec))
		i = c.instance(fmt.Sprint("uncompressed as ", codec))
		i.push("push", []byte("this is not compressed in any way"), packed(codec))
	}
	i = c.instance("another subscription, and ends")
	i.push("push", metrics, otherSubscription, terminating)
	i.push("push again", metrics, terminating)

	c.subscriptions(metrics)
}

// subscriptions changes what clients are asked for.
func (c *conversation) subscriptions(metrics []byte) {
	set := func(name string, settings ...string) {
		c.add(fmt.Sprintf("subscription %s of %q", name, settings),
			raw.IncrementalAlterConfigs(1, false, raw.Assignments{Kind: config.KindClientMetrics, Name: name, Sets: settings}))
		c.settle()
	}
	kept := c.instance("under no subscription")
	set("one", "metrics=org.apache.kafka.producer", "interval.ms=3600000")
	kept.push("after a subscription to one", metrics)
	kept.get("after a subscription to one")
	kept.push("under it", metrics)
	set("two", "metrics=org.apache.kafka.consumer", "interval.ms=3000000", "match=client_id=other")
	kept.push("after a subscription that is for others", metrics)
	kept.push("again after a subscription that is for others", metrics)
	for _, match := range []string{
		"client_id=raw", "client_id=ra", "client_id=aw", "client_id=r.*", "client_id=ra|raw", "client_instance_id=[A-Za-z0-9_-]{22}",
		"client_instance_id=CgAAAAAA.*", "client_instance_id=x.*", "client_source_address=127[.]0[.]0[.]1", "client_source_address=10.*",
		"client_source_port=[0-9]+", "client_source_port=0", "client_software_name=pusher", "client_software_name=unknown",
		"client_software_version=.*x.1", "client_software_version=4.*", "client_id=raw,client_source_address=127.*", "client_id=raw,client_source_address=10.*",
	} {
		set("two", "metrics=*", "match="+match)
		c.instance("match " + match)
	}
	for _, asked := range []string{"", "*", "org.apache.kafka.producer", "*,org.apache.kafka.x"} {
		set("two", "metrics="+asked, "-match")
		c.instance(fmt.Sprintf("metrics %q", asked))
	}
	set("one", "-metrics", "-interval.ms")
	c.instance("without the first subscription")
	set("two", "-metrics", "-interval.ms")
	kept.push("after all subscriptions", metrics)
	kept.get("after all subscriptions")
	kept.push("under none", metrics)
}
