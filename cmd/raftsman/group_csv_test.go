package main

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"
)

func TestOffsetsAreReadFromFilesOfBothForms(t *testing.T) {
	file := filepath.Join(t.TempDir(), "offsets.csv")
	want := map[topicPartition]int64{{"orders", 0}: 5, {"orders", 1}: 7}
	for _, text := range []string{"orders,0,5\norders,1,7\n", "billing,orders,0,5\nshipping,orders,0,9\n\nbilling, orders, 1, 7\n"} {
		writeFile(t, file, text)
		if got, err := readOffsets(file, "billing"); err != nil || !maps.Equal(got, want) {
			t.Errorf("%q gave %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"orders,0":                "line 1 has 2 fields",
		"orders,0,-1":             "line 1: partition and offset are whole numbers",
		"orders,x,1":              "line 1: partition and offset are whole numbers",
		"o,0,1\no,0,1":            "line 2: o partition 0 comes twice",
		"":                        "has no offset for group billing",
		"shipping,orders,0,1":     "has no offset for group billing",
		"\"orders,0,1":            "extraneous or missing",
		"\"o\"rders,0,1\no,1,1\n": "--from-file",
	} {
		writeFile(t, file, text)
		if got, err := readOffsets(file, "billing"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gave %v, %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestAGroupIsMovedByWhatWasExported(t *testing.T) {
	bootstrap := startBroker(t)
	topic := topicFor(t, bootstrap, 2)
	must(t, bootstrap, "", "produce", topic, "-p", "1", "a", "b", "c")
	group := "g-" + topic
	must(t, bootstrap, "", "group", "reset", group, "-t", topic, "--to-latest", "--execute")
	csv := must(t, bootstrap, "", "group", "reset", group, "--to-current", "--export")
	if want := topic + ",0,0\n" + topic + ",1,3\n"; csv != want {
		t.Fatalf("exported %q, want %q", csv, want)
	}
	file := filepath.Join(t.TempDir(), "offsets.csv")
	writeFile(t, file, csv)
	must(t, bootstrap, "", "group", "reset", group, "--to-earliest", "--execute")
	must(t, bootstrap, "", "group", "reset", group, "--from-file", file, "--execute")
	if again := must(t, bootstrap, "", "group", "reset", group, "--to-current", "--export"); again != csv {
		t.Errorf("after --from-file it is %q, want %q", again, csv)
	}
}
