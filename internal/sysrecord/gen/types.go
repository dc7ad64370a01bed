package main

import (
	"fmt"
	"strings"
	"unicode"
)

// named gives the fields that mean an id, an offset or an epoch their type of package kafka, by wire type and name.
var named = map[string]string{
	"int32 BrokerId": "kafka.NodeID", "int32 ControllerId": "kafka.NodeID", "int32 LeaderId": "kafka.NodeID",
	"int32 VoterId": "kafka.NodeID", "int32 VotedId": "kafka.NodeID", "int32 Isr": "kafka.NodeID",
	"int32 LeaderEpoch": "kafka.Epoch", "int32 PartitionEpoch": "kafka.Epoch",
	"int64 BrokerEpoch": "kafka.BrokerEpoch",
	"int64 ProducerId":  "kafka.ProducerID", "int64 NextProducerId": "kafka.ProducerID", "int64 PreviousProducerId": "kafka.ProducerID",
	"int16 ProducerEpoch": "kafka.ProducerEpoch", "int16 NextProducerEpoch": "kafka.ProducerEpoch",
	"int64 Offset": "kafka.Offset", "int64 StartOffset": "kafka.Offset", "int64 FirstOffset": "kafka.Offset", "int64 LastOffset": "kafka.Offset",
}

// scalar is how one of the specification's types is written and read.
type scalar struct {
	goType string
	width  int // of the fixed encoding; 0 for strings and bytes
	method string
}

var scalars = map[string]scalar{
	"bool": {"bool", 1, "Bool"}, "int8": {"int8", 1, "Int8"}, "int16": {"int16", 2, "Int16"}, "uint16": {"uint16", 2, "Uint16"},
	"int32": {"int32", 4, "Int32"}, "uint32": {"uint32", 4, "Uint32"}, "int64": {"int64", 8, "Int64"},
	"float64": {"float64", 8, "Float64"}, "uuid": {"kafka.UUID", 16, "UUID"},
	"string": {"string", 0, "String"}, "bytes": {"[]byte", 0, "Bytes"},
}

func (f *field) elem() (string, bool) { return strings.CutPrefix(f.Type, "[]") }

// goElem is the Go type of the field, or of its elements; structs holds the names of the message's structures.
func (e *emitter) goElem(f *field) string {
	elem, _ := f.elem()
	s, ok := scalars[elem]
	if !ok {
		return e.structName(elem)
	}
	if t, ok := named[elem+" "+upperFirst(f.Name)]; ok {
		return t
	}
	if f.EntityType == "brokerId" && elem == "int32" {
		return "kafka.NodeID"
	}
	return s.goType
}

func (e *emitter) goType(f *field) string {
	elem, isArray := f.elem()
	t := e.goElem(f)
	switch _, isScalar := scalars[elem]; {
	case isArray:
		return "[]" + t
	case f.nullable && (elem == "string" || !isScalar):
		return "*" + t
	}
	return t
}

func (e *emitter) structName(name string) string { return e.message.Name + name }

var initialisms = map[string]string{"Id": "ID", "Ids": "IDs", "Isr": "ISR", "Elr": "ELR", "Hmac": "HMAC"}

// goName turns Kafka's field name into Go's: TopicId into TopicID.
func goName(name string) string {
	var words []string
	start := 0
	runes := []rune(upperFirst(name))
	for i := 1; i <= len(runes); i++ {
		if i == len(runes) || unicode.IsUpper(runes[i]) && unicode.IsLower(runes[i-1]) {
			words = append(words, string(runes[start:i]))
			start = i
		}
	}
	for i, w := range words {
		if better, ok := initialisms[w]; ok {
			words[i] = better
		}
	}
	return strings.Join(words, "")
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func lowerFirst(s string) string {
	if strings.HasPrefix(s, "KRaft") {
		return "kRaft" + s[len("KRaft"):]
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// defaultExpr is the default as Go, empty when it is Go's zero value.
func (e *emitter) defaultExpr(f *field) (string, error) {
	text := f.defaultText()
	elem, isArray := f.elem()
	_, isScalar := scalars[elem]
	switch {
	case isArray || !isScalar || elem == "bytes":
		if text != "" && text != "null" {
			return "", fmt.Errorf("field %s: default %q", f.Name, text)
		}
		if isArray && f.nullable && text == "" {
			return e.goType(f) + "{}", nil
		}
		if !isScalar && !isArray {
			if f.nullable && text == "null" {
				return "", nil
			}
			expr := "New" + e.goElem(f) + "()"
			if !f.nullable {
				expr = "*" + expr
			}
			return expr, nil
		}
		return "", nil
	case elem == "string" && f.nullable:
		if text == "null" {
			return "", nil
		}
		return fmt.Sprintf("new(%q)", text), nil
	case elem == "string":
		if text == "" {
			return "", nil
		}
		if text == "null" {
			return "", fmt.Errorf("field %s: null default", f.Name)
		}
		return fmt.Sprintf("%q", text), nil
	case text == "" || text == "0" || text == "false":
		return "", nil
	}
	return text, nil
}
