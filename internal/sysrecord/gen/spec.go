package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// message is one specification file.
type message struct {
	APIKey           *int16   `json:"apiKey"`
	Type             string   `json:"type"`
	Name             string   `json:"name"`
	ValidVersions    string   `json:"validVersions"`
	FlexibleVersions string   `json:"flexibleVersions"`
	Fields           []*field `json:"fields"`
	CommonStructs    []*field `json:"commonStructs"`

	valid, flexible versions
}

// field is one field of a message, or a shared structure.
type field struct {
	Name             string          `json:"name"`
	Type             string          `json:"type"`
	Versions         string          `json:"versions"`
	NullableVersions string          `json:"nullableVersions"`
	TaggedVersions   string          `json:"taggedVersions"`
	Tag              *int            `json:"tag"`
	Default          json.RawMessage `json:"default"`
	EntityType       string          `json:"entityType"`
	About            string          `json:"about"`
	Fields           []*field        `json:"fields"`

	in, tagged versions
	nullable   bool
}

// versions is a range; empty when low > high.
type versions struct{ low, high int }

const anyHigh = 1 << 14

var noVersions = versions{1, 0}

func (v versions) empty() bool { return v.low > v.high }

func (v versions) cut(to versions) versions {
	return versions{max(v.low, to.low), min(v.high, to.high)}
}

func (v versions) covers(other versions) bool {
	return other.empty() || v.low <= other.low && v.high >= other.high
}

func parseVersions(text string) (versions, error) {
	if text == "" || text == "none" {
		return noVersions, nil
	}
	low, high, isRange := strings.Cut(text, "-")
	open := strings.HasSuffix(low, "+")
	from, err := strconv.Atoi(strings.TrimSuffix(low, "+"))
	if err != nil {
		return noVersions, fmt.Errorf("versions %q: %w", text, err)
	}
	switch {
	case open:
		return versions{from, anyHigh}, nil
	case !isRange:
		return versions{from, from}, nil
	}
	to, err := strconv.Atoi(high)
	if err != nil {
		return noVersions, fmt.Errorf("versions %q: %w", text, err)
	}
	return versions{from, to}, nil
}

func readSpecs(libs string, s source) ([]*message, error) {
	found, err := filepath.Glob(filepath.Join(libs, s.jar+"-[0-9]*.jar"))
	if err != nil || len(found) != 1 {
		return nil, fmt.Errorf("want exactly one %s-VERSION.jar in %q, found %d: say where Kafka 4.4's jars are with -libs or KAFKA_LIBS", s.jar, libs, len(found))
	}
	jar, err := zip.OpenReader(found[0])
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", found[0], err)
	}
	defer jar.Close()
	var specs []*message
	for _, entry := range jar.File {
		name, inFolder := strings.CutPrefix(entry.Name, s.folder)
		name, isSpec := strings.CutSuffix(name, ".json")
		if !inFolder || !isSpec || len(s.only) > 0 && !slices.Contains(s.only, name) {
			continue
		}
		m, err := readSpec(entry)
		if err != nil {
			return nil, fmt.Errorf("%s in %s: %w", entry.Name, found[0], err)
		}
		specs = append(specs, m)
	}
	if len(specs) == 0 || len(s.only) > 0 && len(specs) != len(s.only) {
		return nil, fmt.Errorf("%s holds %d of the wanted specifications", found[0], len(specs))
	}
	slices.SortFunc(specs, func(a, b *message) int { return strings.Compare(a.Name, b.Name) })
	return specs, nil
}

func readSpec(entry *zip.File) (*message, error) {
	r, err := entry.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	text, err := stripComments(r)
	if err != nil {
		return nil, err
	}
	m := &message{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, err
	}
	return m, m.resolve()
}

// stripComments drops the lines that are comments, which JSON does not have.
func stripComments(r io.Reader) ([]byte, error) {
	var out bytes.Buffer
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if !strings.HasPrefix(strings.TrimSpace(lines.Text()), "//") {
			out.WriteString(lines.Text() + "\n")
		}
	}
	return out.Bytes(), lines.Err()
}

func (m *message) resolve() (err error) {
	if m.valid, err = parseVersions(m.ValidVersions); err != nil {
		return err
	}
	if m.flexible, err = parseVersions(m.FlexibleVersions); err != nil {
		return err
	}
	for _, f := range slices.Concat(m.CommonStructs, m.Fields) {
		if err := f.resolve(m.valid); err != nil {
			return err
		}
	}
	return nil
}

func (f *field) resolve(parent versions) (err error) {
	if f.tagged, err = parseVersions(f.TaggedVersions); err != nil {
		return err
	}
	f.in = f.tagged
	if f.Versions != "" {
		if f.in, err = parseVersions(f.Versions); err != nil {
			return err
		}
	}
	f.in, f.tagged = f.in.cut(parent), f.tagged.cut(parent)
	if !f.tagged.empty() && f.tagged != f.in {
		return fmt.Errorf("field %s is tagged in some of its versions only", f.Name)
	}
	nullable, err := parseVersions(f.NullableVersions)
	if err != nil {
		return err
	}
	f.nullable = !nullable.empty()
	if f.nullable && !nullable.covers(f.in) {
		return fmt.Errorf("field %s is nullable in some of its versions only", f.Name)
	}
	for _, inner := range f.Fields {
		if err := inner.resolve(f.in); err != nil {
			return err
		}
	}
	return nil
}

// defaultText is the default as text: empty when the specification names none.
func (f *field) defaultText() string {
	return strings.Trim(string(f.Default), `"`)
}
