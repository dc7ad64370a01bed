package raw

import (
	"math"
	"reflect"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Ways to fill a request that is made by no client's code.
const (
	Bare    = "all defaults"        // lists empty, or null where that is allowed
	Single  = "one default row"     // in each list, and the empty string where null is allowed
	Doubled = "a default row twice" // in each list
	Hollow  = "empty lists"         // never null
	Longest = "Longest strings"     // a row in each list, and in every string as much as goes in
)

// Odd is a request that is filled in one of these ways.
func Odd(key kmsg.Key, version int16, way string) kmsg.Request {
	req := kmsg.RequestForKey(int16(key))
	req.SetVersion(version)
	reflect.ValueOf(req).MethodByName("Default").Call(nil)
	if way != Bare {
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
		case way == Longest && field.Kind() == reflect.String:
			field.SetString(LongestString)
		case way == Longest && field.Kind() == reflect.Pointer && field.Type().Elem().Kind() == reflect.String:
			s := LongestString
			field.Set(reflect.ValueOf(&s))
		case field.Kind() == reflect.Pointer && field.Type().Elem().Kind() == reflect.String && way != Hollow:
			field.Set(reflect.New(field.Type().Elem()))
		case field.Kind() == reflect.Slice:
			rows := map[string]int{Single: 1, Doubled: 2, Longest: 1}[way]
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

func fillRow(row reflect.Value, way string) {
	switch {
	case row.Kind() == reflect.String && way == Longest:
		row.SetString(LongestString)
		return
	case row.Kind() != reflect.Struct:
		return
	}
	if def := row.Addr().MethodByName("Default"); def.IsValid() {
		def.Call(nil)
	}
	fill(row, way)
}

// LongestString is the longest that a string of the protocol can be.
var LongestString = strings.Repeat("s", math.MaxInt16)
