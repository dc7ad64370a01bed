package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
)

// Property is one key and value of a properties file.
type Property struct {
	Name, Value string
	Line        int // where it begins, from 1
}

// ErrUnicodeEscape says that a properties file has a \u without four hexadecimal digits. Java refuses such a file too.
var ErrUnicodeEscape = errors.New(`\u without four hexadecimal digits`)

// ParseProperties reads text exactly as java.util.Properties loads a file: bytes are ISO 8859-1, a line that ends in an odd
// number of backslashes goes on in the next, # and ! begin comments, keys end at =, : or space. Every pair is returned, in
// order, also when a key comes twice: the last one counts.
func ParseProperties(text string) ([]Property, error) {
	var properties []Property
	r := lineReader{text: text, number: 1}
	for {
		line, number, ok := r.next()
		if !ok {
			return properties, nil
		}
		key, val := cutProperty(line)
		name, err := unescape(key)
		if err != nil {
			return nil, &PropertiesError{Line: number, Err: err}
		}
		v, err := unescape(val)
		if err != nil {
			return nil, &PropertiesError{Line: number, Err: err}
		}
		properties = append(properties, Property{Name: name, Value: v, Line: number})
	}
}

// PropertiesError is a line that cannot be read.
type PropertiesError struct {
	Line int
	Err  error
}

func (e *PropertiesError) Error() string { return "line " + itoa(e.Line) + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *PropertiesError) Unwrap() error { return e.Err }

// lineReader joins natural lines to logical ones.
type lineReader struct {
	text   string
	at     int
	number int // of the natural line at at
}

// next returns the next logical line that is neither blank nor a comment, with escapes still in it. It is the state machine of
// Java's reader, odd cases included: a comment sign after a continuation is text, but not when nothing came before it.
func (r *lineReader) next() (line []byte, number int, ok bool) {
	skipSpace, appended, backslash := true, false, false
	for r.at < len(r.text) {
		c := r.text[r.at]
		r.at++
		if skipSpace {
			if c == ' ' || c == '\t' || c == '\f' {
				continue
			}
			if !appended && isLineEnd(c) {
				r.countLine(c)
				continue
			}
			skipSpace, appended = false, false
		}
		if len(line) == 0 {
			number = r.number
			if c == '#' || c == '!' {
				r.skipComment()
				skipSpace = true
				continue
			}
		}
		if !isLineEnd(c) {
			line = append(line, c)
			backslash = c == '\\' && !backslash
			continue
		}
		r.countLine(c)
		switch {
		case len(line) == 0:
			skipSpace = true
		case backslash:
			line = line[:len(line)-1]
			if r.at == len(r.text) {
				return line, number, true
			}
			skipSpace, appended, backslash = true, true, false
			if c == '\r' && r.text[r.at] == '\n' {
				r.at++
			}
		default:
			return line, number, true
		}
	}
	if backslash {
		line = line[:len(line)-1]
		return line, number, true
	}
	return line, number, len(line) > 0
}

// countLine counts a line end once, also when it is \r\n.
func (r *lineReader) countLine(c byte) {
	if c == '\r' || r.at < 2 || r.text[r.at-2] != '\r' {
		r.number++
	}
}

func (r *lineReader) skipComment() {
	for r.at < len(r.text) {
		c := r.text[r.at]
		r.at++
		if isLineEnd(c) {
			r.countLine(c)
			return
		}
	}
}

func isLineEnd(c byte) bool { return c == '\n' || c == '\r' }

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\f' }

// cutProperty splits a logical line where its key ends: at the first =, : or space without a backslash before it.
func cutProperty(line []byte) (key, val []byte) {
	end, escaped := 0, false
	for end < len(line) {
		c := line[end]
		if !escaped && (c == '=' || c == ':' || isBlank(c)) {
			break
		}
		escaped = c == '\\' && !escaped
		end++
	}
	start, separated := end, false
	for start < len(line) {
		c := line[start]
		if !isBlank(c) {
			if separated || c != '=' && c != ':' {
				break
			}
			separated = true
		}
		start++
	}
	return line[:end], line[start:]
}

// unescape resolves backslashes. Text is built in UTF-16 units, as two \u escapes may make one rune.
func unescape(text []byte) (string, error) {
	units := make([]uint16, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '\\' || i+1 == len(text) {
			units = append(units, uint16(c))
			continue
		}
		i++
		switch c = text[i]; c {
		case 't':
			units = append(units, '\t')
		case 'r':
			units = append(units, '\r')
		case 'n':
			units = append(units, '\n')
		case 'f':
			units = append(units, '\f')
		case 'u':
			unit, ok := hexUnit(text[i+1:])
			if !ok {
				return "", ErrUnicodeEscape
			}
			units = append(units, unit)
			i += 4
		default:
			units = append(units, uint16(c))
		}
	}
	return string(utf16.Decode(units)), nil
}

func hexUnit(text []byte) (uint16, bool) {
	if len(text) < 4 {
		return 0, false
	}
	var unit uint16
	for _, c := range text[:4] {
		switch {
		case '0' <= c && c <= '9':
			unit = unit<<4 | uint16(c-'0')
		case 'a' <= c && c <= 'f':
			unit = unit<<4 | uint16(c-'a'+10)
		case 'A' <= c && c <= 'F':
			unit = unit<<4 | uint16(c-'A'+10)
		default:
			return 0, false
		}
	}
	return unit, true
}

// FormatProperties writes properties so that [ParseProperties] and Java read them back, one a line, in ASCII.
func FormatProperties(properties []Property) string {
	var b strings.Builder
	for _, p := range properties {
		escape(&b, p.Name, true)
		b.WriteByte('=')
		escape(&b, p.Value, false)
		b.WriteByte('\n')
	}
	return b.String()
}

func escape(b *strings.Builder, text string, key bool) {
	for i, unit := range utf16.Encode([]rune(text)) {
		switch {
		case unit == '\t':
			b.WriteString(`\t`)
		case unit == '\n':
			b.WriteString(`\n`)
		case unit == '\r':
			b.WriteString(`\r`)
		case unit == '\f':
			b.WriteString(`\f`)
		case unit == '\\', key && (unit == '=' || unit == ':'), (key || i == 0) && (unit == ' ' || unit == '#' || unit == '!'):
			b.WriteByte('\\')
			b.WriteByte(byte(unit))
		case unit < ' ' || unit > '~':
			fmt.Fprintf(b, `\u%04x`, unit)
		default:
			b.WriteByte(byte(unit))
		}
	}
}
