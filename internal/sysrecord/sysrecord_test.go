package sysrecord

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/raftsman/raftsman/internal/kafka"
)

// everyRecord returns a fresh record of each kind.
func everyRecord() []func() Record {
	kinds := []func() Record{
		func() Record { return NewConsumerProtocolAssignment() }, func() Record { return NewConsumerProtocolSubscription() },
		func() Record { return NewEndTxnMarker() }, func() Record { return NewKRaftVersionRecord() },
		func() Record { return NewLeaderChangeMessage() }, func() Record { return NewSnapshotFooterRecord() },
		func() Record { return NewSnapshotHeaderRecord() }, func() Record { return NewVotersRecord() },
		func() Record { return NewQuorumStateData() },
	}
	for _, table := range []func(int16) Record{NewMetadata, NewGroupKey, NewGroupValue, NewTransactionKey, NewTransactionValue, NewShareKey, NewShareValue} {
		for key := range int16(100) {
			if table(key) != nil {
				kinds = append(kinds, func() Record { return table(key) })
			}
		}
	}
	return kinds
}

func TestDefaultsSurviveEveryVersion(t *testing.T) {
	for _, make := range everyRecord() {
		lowest, highest := make().Versions()
		for version := lowest; version <= highest; version++ {
			in, out := make(), make()
			if err := out.ReadFrom(in.AppendTo(nil, version), version); err != nil {
				t.Fatalf("%s version %d: %v", in.RecordName(), version, err)
			}
			if got, want := out.AppendTo(nil, version), in.AppendTo(nil, version); !bytes.Equal(got, want) {
				t.Errorf("%s version %d: got %x, want %x", in.RecordName(), version, got, want)
			}
		}
	}
}

func TestRandomRecordsSurviveEveryVersion(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		for _, make := range everyRecord() {
			in := make()
			fill(reflect.ValueOf(in).Elem(), random)
			lowest, highest := in.Versions()
			for version := lowest; version <= highest; version++ {
				encoded := in.AppendTo(nil, version)
				out := make()
				if err := out.ReadFrom(encoded, version); err != nil {
					t.Fatalf("seed %d: %s version %d: %v\n%+v", seed, in.RecordName(), version, err, in)
				}
				if again := out.AppendTo(nil, version); !bytes.Equal(again, encoded) {
					t.Fatalf("seed %d: %s version %d: got %x, want %x", seed, in.RecordName(), version, again, encoded)
				}
				if version == highest && !reflect.DeepEqual(in, out) {
					t.Fatalf("seed %d: %s: got %+v, want %+v", seed, in.RecordName(), out, in)
				}
			}
		}
	}
}

// fill sets every field that all versions up to the highest can hold to something random.
func fill(v reflect.Value, random *rand.Rand) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name == "Unknown" || onlyOldVersions(v.Type().Name(), name) {
				continue
			}
			fill(v.Field(i), random)
		}
	case reflect.Pointer:
		if random.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), random)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+random.IntN(3), 4))
		for i := range v.Len() {
			fill(v.Index(i), random)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), random)
		}
	case reflect.String:
		v.SetString(strconv.FormatUint(random.Uint64(), 36))
	case reflect.Bool:
		v.SetBool(random.IntN(2) == 0)
	case reflect.Float64:
		v.SetFloat(random.Float64())
	case reflect.Uint8, reflect.Uint16:
		v.SetUint(random.Uint64() >> (64 - v.Type().Bits()))
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(random.Int64() >> (64 - v.Type().Bits()))
	default:
		panic(v.Kind())
	}
}

// onlyOldVersions tells which fields the newest version of their record lacks.
func onlyOldVersions(record, field string) bool {
	return slices.Contains([]string{
		"OffsetCommitValue.ExpireTimestamp", "QuorumStateData.ClusterID", "QuorumStateData.AppliedOffset", "QuorumStateData.CurrentVoters",
	}, record+"."+field)
}

func TestUnknownTagsSurviveInOrder(t *testing.T) {
	in := NewPartitionRecord()
	in.LeaderRecoveryState, in.EligibleLeaderReplicas = 1, []kafka.NodeID{7}
	in.Unknown = []Tag{{ID: 5, Body: []byte("five")}, {ID: 900, Body: []byte{}}}
	out := NewPartitionRecord()
	if err := out.ReadFrom(in.AppendTo(nil, 2), 2); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(in.Unknown, out.Unknown) || out.LeaderRecoveryState != 1 || len(out.EligibleLeaderReplicas) != 1 {
		t.Errorf("got %+v, want %+v", out, in)
	}
	// Version 0 knows tag 0 only: what version 2 calls tag 1 is unknown there and stays.
	old := NewPartitionRecord()
	encoded := in.AppendTo(nil, 0)
	if err := old.ReadFrom(encoded, 0); err != nil || len(old.Unknown) != 2 {
		t.Fatalf("got %+v, %v", old, err)
	}
}

func TestFrameIsKafkas(t *testing.T) {
	// A TopicRecord as Kafka 4.4 writes it.
	record := &TopicRecord{Name: "foo", TopicID: kafka.UUID{1, 2, 3}}
	encoded := AppendMetadata(nil, record, 0)
	want := append([]byte{1, 2, 0, 4, 'f', 'o', 'o', 1, 2, 3}, append(bytes.Repeat([]byte{0}, 13), 0)...)
	if !bytes.Equal(encoded, want) {
		t.Fatalf("got %x, want %x", encoded, want)
	}
	frame, err := ParseFrame(encoded)
	if err != nil {
		t.Fatal(err)
	}
	if again := AppendFrame(nil, frame); !bytes.Equal(again, encoded) {
		t.Errorf("got %x, want %x", again, encoded)
	}
	decoded, err := frame.Record()
	if err != nil || !reflect.DeepEqual(decoded, record) {
		t.Errorf("got %+v %v, want %+v", decoded, err, record)
	}
	frame.Body = append(slices.Clone(frame.Body), 0)
	if _, err := frame.Record(); err == nil {
		t.Error("bytes after the record were accepted")
	}
}

func TestVersionsAreChecked(t *testing.T) {
	if err := NewTopicRecord().ReadFrom(nil, 1); !errors.Is(err, ErrVersion) {
		t.Errorf("got %v, want %v", err, ErrVersion)
	}
	if _, err := ReadKey([]byte{0, 99}, NewGroupKey); !errors.Is(err, ErrVersion) {
		t.Errorf("got %v, want %v", err, ErrVersion)
	}
	if _, err := ParseFrame([]byte{2, 0, 0}); !errors.Is(err, ErrVersion) {
		t.Errorf("got %v, want %v", err, ErrVersion)
	}
}

func TestHostileCountsAllocateLittle(t *testing.T) {
	body := []byte{0, 0, 0, 1}
	body = append(body, make([]byte, 16)...)
	body = append(body, 0xff, 0xff, 0xff, 0xff, 0x0f) // a count of 2^32-2 replicas
	var malformed *MalformedError
	allocated := testing.AllocsPerRun(1, func() {
		if err := NewPartitionRecord().ReadFrom(body, 2); !errors.As(err, &malformed) {
			t.Fatalf("got %v, want a MalformedError", err)
		}
	})
	if allocated > 20 {
		t.Errorf("%v allocations", allocated)
	}
}

func FuzzMetadataRecord(f *testing.F) {
	for _, make := range everyRecord() {
		if r := make(); NewMetadata(r.RecordKey()) != nil && NewMetadata(r.RecordKey()).RecordName() == r.RecordName() {
			_, highest := r.Versions()
			f.Add(AppendMetadata(nil, r, highest))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, err := ParseFrame(b)
		if err != nil {
			return
		}
		record, err := frame.Record()
		if err != nil || record == nil {
			return
		}
		encoded := record.AppendTo(nil, frame.Version)
		again := NewMetadata(frame.Key)
		if err := again.ReadFrom(encoded, frame.Version); err != nil {
			t.Fatalf("%s: what was written cannot be read: %v", record.RecordName(), err)
		}
		if twice := again.AppendTo(nil, frame.Version); !bytes.Equal(twice, encoded) {
			t.Fatalf("%s: got %x, want %x", record.RecordName(), twice, encoded)
		}
	})
}
