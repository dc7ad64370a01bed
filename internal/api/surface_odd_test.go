package api_test

import (
	"math"
	"reflect"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Ways to fill a request that is made by no client's code.
const (
	bare    = "all defaults"        // lists empty, or null where that is allowed
	single  = "one default row"     // in each list, and the empty string where null is allowed
	doubled = "a default row twice" // in each list
	hollow  = "empty lists"         // never null
	longest = "longest strings"     // a row in each list, and in every string as much as goes in
)

// odd asks for every version of every key in ways that say nothing sensible.
func (c *conversation) odd() {
	for _, k := range kafkaKeys {
		if k.comes != "" {
			continue
		}
		for _, v := range versionsOf(k.key) {
			for _, way := range []string{bare, single, doubled, hollow} {
				if k.key == kmsg.Metadata && (way == bare || way == hollow) {
					continue // those are sensible: all topics, and none
				}
				c.add(way, oddRequest(k.key, v, way))
			}
		}
	}
}

func oddRequest(key kmsg.Key, version int16, way string) kmsg.Request {
	req := kmsg.RequestForKey(int16(key))
	req.SetVersion(version)
	reflect.ValueOf(req).MethodByName("Default").Call(nil)
	if way != bare {
		fill(reflect.ValueOf(req).Elem(), way)
	}
	switch req := req.(type) {
	case *kmsg.ApiVersionsRequest:
		req.ClientSoftwareName = "odd" // the version stays empty
	case *kmsg.MetadataRequest:
		req.AllowAutoTopicCreation = false
	case *kmsg.FetchRequest:
		req.MaxWaitMillis = 0
	case *kmsg.ProduceRequest:
		req.Acks = -1
	}
	return req
}

// fill puts rows into the lists of a struct, and empty values where there are none.
func fill(v reflect.Value, way string) {
	for i := range v.NumField() {
		field, name := v.Field(i), v.Type().Field(i).Name
		switch {
		case name == "UnknownTags" || name == "Version":
		case way == longest && field.Kind() == reflect.String:
			field.SetString(longestString)
		case way == longest && field.Kind() == reflect.Pointer && field.Type().Elem().Kind() == reflect.String:
			s := longestString
			field.Set(reflect.ValueOf(&s))
		case field.Kind() == reflect.Pointer && field.Type().Elem().Kind() == reflect.String && way != hollow:
			field.Set(reflect.New(field.Type().Elem()))
		case field.Kind() == reflect.Slice:
			rows := map[string]int{single: 1, doubled: 2, longest: 1}[way]
			if field.Type().Elem().Kind() == reflect.Uint8 {
				rows = 0 // null records leave Kafka without an answer
			}
			field.Set(reflect.MakeSlice(field.Type(), rows, rows))
			for j := range rows {
				fillRow(field.Index(j), way)
			}
		case field.Kind() == reflect.Struct:
			fill(field, way)
		}
	}
}

// longestString is the longest that a string of the protocol can be.
var longestString = strings.Repeat("s", math.MaxInt16)

func fillRow(row reflect.Value, way string) {
	switch {
	case row.Kind() == reflect.String && way == longest:
		row.SetString(longestString)
		return
	case row.Kind() != reflect.Struct:
		return
	}
	if def := row.Addr().MethodByName("Default"); def.IsValid() {
		def.Call(nil)
	}
	fill(row, way)
}
