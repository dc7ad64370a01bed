package main

import (
	"bytes"
	"os"
	"testing"
)

// TestTableIsFresh compares the committed table with what the lists make. To write it: go generate ./internal/config.
func TestTableIsFresh(t *testing.T) {
	want, err := makeTable(".")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../table.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("internal/config/table.go is stale; run: go generate ./internal/config")
	}
}

func TestListsThatAreWrongAreRefused(t *testing.T) {
	tests := map[string]key{
		"an unknown scope":     {scope: "x", name: "k", typ: "INT", state: "null", importance: "HIGH"},
		"an unknown type":      {scope: "broker", name: "k", typ: "X", state: "null", importance: "HIGH"},
		"an unknown rule":      {scope: "broker", name: "k", typ: "INT", state: "null", importance: "HIGH", check: "odd(1)"},
		"an unknown validator": {scope: "broker", name: "k", typ: "INT", state: "null", importance: "HIGH", check: "class(a.b.C)"},
	}
	for name, k := range tests {
		if text, err := renderKey(k); err == nil {
			t.Errorf("%s: got %q, want an error", name, text)
		}
	}
}
