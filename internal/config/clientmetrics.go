package config

import (
	"net/url"
	"strings"
)

// ClientMetrics is what a client-metrics resource asks for.
type ClientMetrics struct {
	IntervalMs     int64
	Metrics, Match []string
}

// ReadClientMetrics reads the settings of a client-metrics resource, with Kafka's defaults for what is not set. A value that is not
// allowed, as an older broker may have stored one, counts as not set.
func ReadClientMetrics(settings map[string]string) ClientMetrics {
	read := func(name string) value {
		k, _ := Lookup(ScopeClientMetrics, name)
		text, set := settings[name]
		if !set {
			text = k.Default
		}
		if v, err := validate(ScopeClientMetrics, name, text); err == nil {
			return v
		}
		v, _ := validate(ScopeClientMetrics, name, k.Default)
		return v
	}
	return ClientMetrics{IntervalMs: read("interval.ms").i, Metrics: read("metrics").list, Match: read("match").list}
}

// checkCollector tells whether the collector of client metrics can be what is set.
func (b *Broker) checkCollector() error {
	const endpoint = "raftsman.client.metrics.otlp.endpoint"
	if text := b.String(endpoint); text != "" {
		if u, err := url.Parse(text); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fault(endpoint, text, "must be a URL of http or https, as http://127.0.0.1:4318/v1/metrics")
		}
	}
	for _, item := range splitList(b.String("raftsman.client.metrics.otlp.headers")) {
		if name, _, ok := strings.Cut(item, "="); !ok || trim(name) == "" || strings.ContainsAny(name, " :\t") {
			return fault("raftsman.client.metrics.otlp.headers", item, "must be NAME=VALUE,NAME=VALUE")
		}
	}
	return nil
}

// CollectorHeaders are those of requests to the collector of client metrics.
func (b *Broker) CollectorHeaders() map[string]string {
	headers := map[string]string{}
	for _, item := range splitList(b.String("raftsman.client.metrics.otlp.headers")) {
		name, v, _ := strings.Cut(item, "=")
		headers[trim(name)] = trim(v)
	}
	return headers
}
