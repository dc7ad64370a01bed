// Package chain keeps values in an order in which each can be taken out at once. The links are in the values: nothing is allocated.
package chain

// Links tie a value to its neighbours in a list. It is a field of the value, whose Links method returns it.
type Links[T any] struct{ prev, next *T }

// Next returns the value after the one that has the links, or nil.
func (l *Links[T]) Next() *T { return l.next }

// Linked is a pointer to a value with links.
type Linked[T any] interface {
	*T
	Links() *Links[T]
}

// List holds values in the order in which they were added. A value is in one list at most by the same links. The zero List is empty.
type List[T any, P Linked[T]] struct{ first, last *T }

// First returns the value that was added before all others, or nil.
func (l *List[T, P]) First() *T { return l.first }

// Last returns the value that was added after all others, or nil.
func (l *List[T, P]) Last() *T { return l.last }

// Add puts v at the end. It must not be in a list.
func (l *List[T, P]) Add(v *T) {
	links := P(v).Links()
	links.prev, links.next = l.last, nil
	if l.last != nil {
		P(l.last).Links().next = v
	} else {
		l.first = v
	}
	l.last = v
}

// Remove takes v out. It must be in the list.
func (l *List[T, P]) Remove(v *T) {
	links := P(v).Links()
	if links.prev != nil {
		P(links.prev).Links().next = links.next
	} else {
		l.first = links.next
	}
	if links.next != nil {
		P(links.next).Links().prev = links.prev
	} else {
		l.last = links.prev
	}
	links.prev, links.next = nil, nil
}
