package parity

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/raftsman/raftsman/internal/raw"
)

func (c *conversation) apiVersions() {
	for _, v := range raw.VersionsOf(kmsg.ApiVersions) {
		for _, software := range [][2]string{{"test", "1.0"}, {"te st", "1.0"}, {"test", ""}, {"kafka-python-ng", "0.0.0-x.1"}} {
			req := raw.At(v, kmsg.NewPtrApiVersionsRequest())
			req.ClientSoftwareName, req.ClientSoftwareVersion = software[0], software[1]
			c.add(fmt.Sprintf("software %q", software), req)
		}
	}
	for _, node := range []int32{1, -1, 5} {
		req := raw.At(5, kmsg.NewPtrApiVersionsRequest())
		req.ClientSoftwareName, req.ClientSoftwareVersion, req.ClusterID, req.NodeID = "test", "1", new("another cluster"), node
		c.add(fmt.Sprintf("another cluster, node %d", node), req)
	}
}

// plain is the ApiVersions of an ordinary client.
const plain = `software ["test" "1.0"]`

// TestApiVersionsDiffersByWhatComesLater holds that in every version of ApiVersions this broker lists what Kafka lists, less the
// keys and features that come later, and that the tables of those say of Kafka what it says itself.
func TestApiVersionsDiffersByWhatComesLater(t *testing.T) {
	c := &conversation{}
	c.apiVersions()
	recorded, w := kafkasRecorded.read(t), newWorld(t, startRaftsman(t))
	for i := range c.steps {
		s := &c.steps[i]
		if s.name != plain {
			continue
		}
		kafkas := recorded[s.title()]
		var missing []string
		for _, d := range compare(w.run(s), kafkas) {
			if d.whose == "Kafka" && comesLater(d.field) != "" {
				missing = append(missing, lacks(d.field))
				continue
			}
			t.Errorf("v%d: %s", s.v, d)
		}
		missing = slices.Compact(missing)
		var want []string
		for _, f := range kafkas {
			if comesLater(f) != "" {
				want = append(want, lacks(f))
			}
		}
		if want = slices.Compact(want); !slices.Equal(missing, want) {
			t.Errorf("v%d lacks %q, and the tables have %q for later", s.v, missing, want)
		}
		for _, k := range raw.Keys {
			row := fmt.Sprintf("ApiKeys[%d]", k.Key)
			for name, version := range map[string]int16{"MinVersion": k.Min, "MaxVersion": k.Max} {
				if f := (field{row, name, fmt.Sprint(version)}); !slices.Contains(kafkas, f) {
					t.Errorf("v%d: Kafka does not list %s %s", s.v, k.Key.Name(), f)
				}
			}
		}
		t.Logf("v%d lacks of Kafka's:\n%s", s.v, strings.Join(missing, "\n"))
	}
	for _, f := range featuresOf(recorded) {
		if _, later := laterFeatures[f.name]; !later && !slices.Contains(raw.ServedFeatures, f.name) {
			t.Errorf("nothing says whether the feature %s is here or comes later", f.name)
		}
	}
}

// lacks is a row of Kafka's ApiVersions and when it comes.
func lacks(f field) string {
	var key int16
	if _, err := fmt.Sscanf(f.row, "ApiKeys[%d]", &key); err == nil {
		return fmt.Sprintf("%s: %s", kmsg.NameForKey(key), comesLater(f))
	}
	return fmt.Sprintf("%s: %s", f.row, comesLater(f))
}

// feature is what Kafka's ApiVersions says of one.
type feature struct{ name, supported, finalized string }

// featuresOf reads Kafka's features from its answer to the newest ApiVersions.
func featuresOf(recorded map[string]answer) (all []feature) {
	values := map[field]string{}
	var names []string
	for _, f := range recorded[fmt.Sprintf("ApiVersions v5: %s", plain)] {
		kind, rest, ok := strings.Cut(f.row, `Features["`)
		if name := strings.TrimSuffix(rest, `"]`); ok {
			values[field{kind, name, f.name}] = f.value
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, n := range slices.Compact(names) {
		all = append(all, feature{
			n, values[field{"Supported", n, "MinVersion"}] + "–" + values[field{"Supported", n, "MaxVersion"}],
			values[field{"Finalized", n, "MaxVersionLevel"}],
		})
	}
	return all
}
