package clientconf

import (
	"errors"
	"slices"
	"testing"
	"time"
)

func TestPropertiesOfClientsAreTaken(t *testing.T) {
	s, unknown, err := Parse("# shop\nbootstrap.servers = a:1,b:2\nclient.id=shop\nrequest.timeout.ms=1500\nacks=all\nenable.auto.commit=FALSE\n" +
		"key.serializer=org.example.S\nsecurity.protocol=plaintext\nretires=3\nssl.keystore.type=\n")
	if err != nil {
		t.Fatal(err)
	}
	want := Settings{Servers: "a:1,b:2", ClientID: "shop", RequestTimeout: 1500 * time.Millisecond, Acks: "-1", NoAutoCommit: true}
	if s != want {
		t.Errorf("got %+v, want %+v", s, want)
	}
	if !slices.Equal(unknown, []string{"retires"}) {
		t.Errorf("unknown are %v, want retires", unknown)
	}
}

func TestWhatCannotBeTakenIsRefusedByName(t *testing.T) {
	for text, key := range map[string]string{
		"security.protocol=SASL_SSL": "security.protocol", "sasl.jaas.config=x": "sasl.jaas.config", "ssl.truststore.location=/x": "ssl.truststore.location",
		"request.timeout.ms=soon": "request.timeout.ms", "acks=2": "acks", "compression.type=brotli": "compression.type", "max.request.size=-1": "max.request.size",
		"auto.offset.reset=middle": "auto.offset.reset",
	} {
		_, _, err := Parse(text)
		var problem *Problem
		if !errors.As(err, &problem) || problem.Key != key {
			t.Errorf("%s: got %v, want a problem with %s", text, err, key)
		}
	}
}
