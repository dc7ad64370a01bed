package replica

import "github.com/raftsman/raftsman/internal/kafka"

// behind counts bytes where the high watermark waits for other replicas.
type behind struct {
	counted mark   // up to the high watermark
	marks   []mark // of flushes beyond it, ascending
}

// mark says that so many of the appended bytes end at an offset.
type mark struct {
	end   kafka.Offset
	total int64
}

// marksMax is how many of them are kept: followers are seldom that many flushes behind.
const marksMax = 64

// countDurable notes that total appended bytes are durable, which end at an offset or before, and how many of them are readable. The caller
// holds mu and has published the high watermark before: a fetch that links itself in counts from here on, and sees by the watermark, or the
// flushed end, what it has missed.
func (p *replica) countDurable(end kafka.Offset, total int64) (grown bool) {
	if grown = total > p.durable.Load(); grown {
		p.durable.Store(total)
	}
	switch {
	case kafka.Offset(p.high.Load()) < end:
		if p.behind == nil {
			p.behind = &behind{counted: mark{kafka.Offset(p.high.Load()), p.readable.Load()}}
		}
		p.behind.add(mark{end, total})
		p.countReadable()
	case p.behind != nil:
		*p.behind = behind{counted: mark{end, total}, marks: p.behind.marks[:0]}
		fallthrough
	default:
		p.setReadable(total)
	}
	return grown
}

func (b *behind) add(m mark) {
	if len(b.marks) == marksMax {
		b.marks = b.marks[:marksMax-1]
	}
	b.marks = append(b.marks, m)
}

// countReadable notes how many bytes are readable when the high watermark has moved by other things than a flush. The caller holds mu and
// has published.
func (p *replica) countReadable() {
	if p.behind != nil {
		p.behind.moved(kafka.Offset(p.high.Load()))
		p.setReadable(p.behind.counted.total)
	}
}

// moved counts up to the high watermark. Between two flushes bytes are taken to lie evenly: each offset more is some more, or nobody would
// be woken.
func (b *behind) moved(high kafka.Offset) {
	n := 0
	for n < len(b.marks) && b.marks[n].end <= high {
		b.counted = b.marks[n]
		n++
	}
	b.marks = b.marks[:copy(b.marks, b.marks[n:])]
	if len(b.marks) > 0 && b.counted.end < high {
		from, to := b.counted, b.marks[0]
		more := float64(to.total-from.total) * float64(high-from.end) / float64(to.end-from.end)
		b.counted = mark{high, from.total + int64(more)}
	}
}

func (p *replica) setReadable(total int64) {
	if total > p.readable.Load() {
		p.readable.Store(total)
	}
}

// countAnew begins to count where the rules begin, or the log was cut off. How many bytes lie behind the high watermark is not known then: they
// are taken to lie evenly in the log. The caller holds mu and has published.
func (p *replica) countAnew() {
	p.behind = nil
	high, end := kafka.Offset(p.high.Load()), p.stableEnd()
	if high >= end {
		return
	}
	share := float64(end-high) / float64(p.log.EndOffset()-p.log.StartOffset())
	total := p.appended.Add(int64(share*float64(p.log.Size())) + int64(end-high))
	p.behind = &behind{counted: mark{high, p.readable.Load()}, marks: []mark{{end, total}}}
}
