package wire

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestFrameClassesCoverEverySize(t *testing.T) {
	last := -1
	for n := 1; n <= frameBytesMax; n += 1 + n/97 {
		class, size := frameClass(n)
		if size < n || n > frameBytesMin && size > n+n/4+1 {
			t.Fatalf("%d bytes get a buffer of %d", n, size)
		}
		if class < last || class > last+1 || class >= frameClasses {
			t.Fatalf("%d bytes are class %d after class %d of %d", n, class, last, frameClasses)
		}
		if again, same := frameClass(size); again != class || same != size {
			t.Fatalf("the size %d of class %d is in class %d of size %d", size, class, again, same)
		}
		last = class
	}
	if last != frameClasses-1 {
		t.Errorf("the largest class is %d, want %d", last, frameClasses-1)
	}
}

func TestFrameReturnsToItsPoolAtTheLastRelease(t *testing.T) {
	f := NewFrame(5000)
	f.Extend(copy(f.Room(), "records"))
	f.Retain()
	f.Release()
	if string(f.Bytes()) != "records" {
		t.Errorf("a retained frame holds %q", f.Bytes())
	}
	f.Release()
	defer func() {
		if recover() == nil {
			t.Error("a release too many went unnoticed")
		}
	}()
	f.Release()
}

func TestParseHeader(t *testing.T) {
	name := "client"
	for _, clientID := range []*string{nil, &name} {
		f := kmsg.NewRequestFormatter()
		if clientID != nil {
			f = kmsg.NewRequestFormatter(kmsg.FormatterClientID(*clientID))
		}
		eachVersion(func(key, version int16) {
			req := kmsg.RequestForKey(key)
			req.SetVersion(version)
			var h Header
			if err := ParseHeader(f.AppendRequest(nil, req, 77)[4:], &h); err != nil {
				t.Fatalf("key %d v%d: %v", key, version, err)
			}
			if h.Key != key || h.Version != version || h.CorrelationID != 77 || string(h.Body) != string(req.AppendTo(nil)) ||
				(h.ClientID == nil) != (clientID == nil) || clientID != nil && string(h.ClientID) != name {
				t.Fatalf("key %d v%d: got %+v", key, version, h)
			}
		})
	}
}

func TestParseHeaderOfBadFrames(t *testing.T) {
	for _, c := range []struct {
		name, frame string
		key         int16
	}{
		{"empty", "", 0},
		{"only a key", "\x00\x03", 3},
		{"client id beyond the end", "\x00\x03\x00\x01\x00\x00\x00\x07\x00\x09abc", 3},
		{"key 200", "\x00\xc8\x00\x01\x00\x00\x00\x07\xff\xff", 200},
		{"key -1", "\xff\xff\x00\x01\x00\x00\x00\x07\xff\xff", -1},
		{"flexible without tags", "\x00\x12\x00\x63\x00\x00\x00\x07\xff\xff", 18},
		{"four billion tags", "\x00\x12\x00\x03\x00\x00\x00\x07\xff\xff\xff\xff\xff\xff\x0f", 18},
	} {
		var h Header
		if err := ParseHeader([]byte(c.frame), &h); !errors.Is(err, ErrMalformed) || h.Key != c.key {
			t.Errorf("%s: key %d, error %v; want key %d and ErrMalformed", c.name, h.Key, err, c.key)
		}
	}
	// Every negative length of the client id is null, as in Kafka.
	var h Header
	if err := ParseHeader([]byte("\x00\x03\x00\x01\x00\x00\x00\x07\xff\xfebody"), &h); err != nil || h.ClientID != nil || string(h.Body) != "body" {
		t.Errorf("client id of length -2: %+v, error %v; want null", h, err)
	}
}

// Rule 3: the header of an ApiVersions answer never has tags; every other flexible answer has.
func TestRule03ResponseHeader(t *testing.T) {
	for _, c := range []struct {
		key     kmsg.Key
		version int16
		want    string
	}{
		{kmsg.ApiVersions, 0, "\x00\x00\x00\x07"},
		{kmsg.ApiVersions, 3, "\x00\x00\x00\x07"},
		{kmsg.Metadata, 8, "\x00\x00\x00\x07"},
		{kmsg.Metadata, 9, "\x00\x00\x00\x07\x00"},
		{kmsg.Produce, 13, "\x00\x00\x00\x07\x00"},
	} {
		if got := AppendResponseHeader(nil, int16(c.key), c.version, 7); string(got) != c.want {
			t.Errorf("%s v%d: %x, want %x", c.key.Name(), c.version, got, c.want)
		}
	}
}

func TestNamesAreBounded(t *testing.T) {
	var n Names
	b := make([]byte, 2)
	for i := range 10 * internedMax {
		b[0], b[1] = byte(i), byte(i>>8)
		if got := n.String(b); got != string(b) {
			t.Fatalf("got %q for %q", got, b)
		}
	}
	if len(n.strings) > internedMax {
		t.Errorf("%d strings are kept, want at most %d", len(n.strings), internedMax)
	}
	if allocs := testing.AllocsPerRun(1000, func() { n.String(b) }); allocs != 0 {
		t.Errorf("%v allocations for a string that is known", allocs)
	}
}
