package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// paint colours text, or leaves it alone.
type paint struct{ on bool }

func (p paint) code(code, text string) string {
	if !p.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p paint) bold(s string) string   { return p.code("1", s) }
func (p paint) dim(s string) string    { return p.code("2", s) }
func (p paint) red(s string) string    { return p.code("31;1", s) }
func (p paint) yellow(s string) string { return p.code("33", s) }
func (p paint) green(s string) string  { return p.code("32", s) }
func (p paint) cyan(s string) string   { return p.code("36", s) }

// column is one column of a table. At most one is flexible: it gives way when the terminal is narrow.
type column struct {
	title    string
	right    bool // numbers stand at the right
	flexible bool
}

// cell is one field, with the colour it gets on a terminal.
type cell struct {
	text  string
	paint func(paint, string) string
}

func plain(text string) cell             { return cell{text: text} }
func count(n int64) cell                 { return cell{text: formatCount(n)} }
func number[T ~int16 | ~int32](n T) cell { return cell{text: fmt.Sprint(n)} }
func alarm(text string) cell             { return cell{text: text, paint: paint.red} }
func caution(text string) cell           { return cell{text: text, paint: paint.yellow} }
func faint(text string) cell             { return cell{text: text, paint: paint.dim} }
func strong(text string) cell            { return cell{text: text, paint: paint.bold} }
func when(is bool, yes, otherwise cell) cell {
	if is {
		return yes
	}
	return otherwise
}

// table lays rows out in columns, two spaces apart, without rules, so that both people and awk can read it.
type table struct {
	columns []column
	rows    [][]cell
}

func newTable(columns ...column) *table { return &table{columns: columns} }

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// write prints the table. width is the terminal's, 0 for no limit.
func (t *table) write(w io.Writer, p paint, width int) error {
	widths := t.fit(width)
	var b strings.Builder
	header := make([]cell, len(t.columns))
	for i, c := range t.columns {
		header[i] = strong(c.title)
	}
	t.line(&b, p, widths, header)
	for _, row := range t.rows {
		t.line(&b, p, widths, row)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const (
	gap         = "  "
	leastFlexed = 12 // a flexible column does not get narrower than this
)

func (t *table) fit(width int) []int {
	widths := make([]int, len(t.columns))
	total, flexible := len(gap)*(len(t.columns)-1), -1
	for i, c := range t.columns {
		widths[i] = displayWidth(c.title)
		for _, row := range t.rows {
			widths[i] = max(widths[i], displayWidth(printable(row[i].text)))
		}
		total += widths[i]
		if c.flexible {
			flexible = i
		}
	}
	if over := total - width; width > 0 && over > 0 && flexible >= 0 {
		widths[flexible] = max(min(leastFlexed, widths[flexible]), widths[flexible]-over)
	}
	return widths
}

func (t *table) line(b *strings.Builder, p paint, widths []int, row []cell) {
	pending := 0 // blanks are written only before something: none end a line
	for i, c := range row {
		text := shorten(printable(c.text), widths[i])
		pad := widths[i] - displayWidth(text)
		if i > 0 {
			pending += len(gap)
		}
		if t.columns[i].right {
			pending += pad
			pad = 0
		}
		if text != "" {
			b.WriteString(strings.Repeat(" ", pending))
			pending = 0
			if c.paint != nil {
				text = c.paint(p, text)
			}
			b.WriteString(text)
		}
		pending += pad
	}
	b.WriteByte('\n')
}

// shorten cuts text to width columns, and shows that it did.
func shorten(text string, width int) string {
	if displayWidth(text) <= width {
		return text
	}
	var b strings.Builder
	used := 0
	for _, r := range text {
		if used += runeWidth(r); used > width-1 {
			break
		}
		b.WriteRune(r)
	}
	return b.String() + "…"
}

// displayWidth is how many columns text takes on a terminal, near enough: wide East Asian letters and emoji take two.
func displayWidth(text string) int {
	width := 0
	for _, r := range text {
		width += runeWidth(r)
	}
	return width
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana), r >= 0xff01 && r <= 0xff60, r >= 0x1f300 && r <= 0x1faff:
		return 2
	}
	return 1
}

// printable escapes what would move the cursor, ring or colour: names and values come from strangers.
func printable(text string) string { return escape(text, "") }

// printableLines is printable for values of several lines.
func printableLines(text string) string { return escape(text, "\n\t") }

// escape writes what is not printable, and not in keep, as \n, \t, \xHH or \uHHHH.
func escape(text, keep string) string {
	stays := func(r rune) bool { return unicode.IsPrint(r) || strings.ContainsRune(keep, r) }
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !stays(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case stays(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		text = text[size:]
	}
	return b.String()
}

// bar draws a share of one as a bar of cells columns.
func bar(share float64, cells int) string {
	eighths := int(share*float64(cells)*8 + 0.5)
	if share > 0 && eighths == 0 {
		eighths = 1
	}
	eighths = max(0, min(eighths, cells*8))
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string([]rune(" ▏▎▍▌▋▊▉")[rest])
	}
	return text
}
