package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/brokertest"
	"github.com/raftsman/raftsman/internal/raw"
)

// TestApiVersionsIsKafkasLessWhatIsNotServed pins what is advertised: Kafka's ranges exactly, for exactly the keys that the
// table has as served, in every version of ApiVersions.
func TestApiVersionsIsKafkasLessWhatIsNotServed(t *testing.T) {
	l := connect(t, brokertest.Start(t).Addr())
	var want, missing []string
	for _, k := range raw.Keys {
		if k.Comes != "" {
			missing = append(missing, fmt.Sprintf("%s (%d) %s", kmsg.NameForKey(int16(k.Key)), k.Key, k.Comes))
			continue
		}
		want = append(want, fmt.Sprintf("%s %d-%d", k.Key.Name(), k.Min, k.Max))
	}
	for version := range int16(6) {
		req := raw.At(version, kmsg.NewPtrApiVersionsRequest())
		req.ClientSoftwareName, req.ClientSoftwareVersion = "test", "1"
		var got []string
		for _, row := range l.Ask(req).(*kmsg.ApiVersionsResponse).ApiKeys {
			got = append(got, fmt.Sprintf("%s %d-%d", kmsg.NameForKey(row.ApiKey), row.MinVersion, row.MaxVersion))
		}
		if !slices.Equal(got, want) {
			t.Errorf("v%d advertises\n%s\nwant\n%s", version, strings.Join(got, ", "), strings.Join(want, ", "))
		}
	}
	t.Logf("%d keys of Kafka's broker listener are not served yet:\n%s", len(missing), strings.Join(missing, "\n"))
}

// TestKeysNotServedCloseTheConnection sends every key that is not in the table, and one version above and below each that is.
func TestKeysNotServedCloseTheConnection(t *testing.T) {
	b := brokertest.Start(t)
	served := map[int16][2]int16{}
	for _, k := range raw.Keys {
		if k.Comes == "" {
			served[int16(k.Key)] = [2]int16{k.Min, k.Max}
		}
	}
	served[int16(kmsg.Produce)] = [2]int16{3, 13} // advertised from 0
	refuse := func(key, version int16) {
		l := connect(t, b.Addr())
		l.SendBytes(raw.Frame(kmsg.Key(key), version, 1, false, strings.Repeat("\x00", 64)))
		if n := l.Ended(); n != 0 {
			t.Errorf("key %d version %d: %d bytes came before the end of the connection", key, version, n)
		}
		l.Net.Close()
	}
	for key := int16(-1); key < 100; key++ {
		versions, ok := served[key]
		switch {
		case !ok:
			refuse(key, 0)
		case key != int16(kmsg.ApiVersions): // which never ends a connection
			refuse(key, versions[0]-1)
			refuse(key, versions[1]+1)
		}
	}
	refuse(-32768, 0)
	refuse(32767, 32767)
}
