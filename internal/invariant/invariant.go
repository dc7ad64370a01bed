// Package invariant stops the program where our own code is wrong, before it can do harm to stored data. Bad input and bad
// disks are errors, not invariants.
package invariant

import "fmt"

// Violation is the value that a failed Check panics with.
type Violation string

func (v Violation) Error() string { return "invariant violated: " + string(v) }

// Check panics with a [Violation] unless ok. The arguments are formatted only then.
func Check(ok bool, format string, args ...any) {
	if !ok {
		panic(Violation(fmt.Sprintf(format, args...)))
	}
}

// NoPanic is deferred where a panic would leave stored state half changed, or a lock held for good: it makes any panic a [Violation], so
// that nobody contains it and the program ends.
func NoPanic() {
	reason := recover()
	if reason == nil {
		return
	}
	if _, is := reason.(Violation); !is {
		reason = Violation(fmt.Sprintf("panic where state is changed: %v", reason))
	}
	panic(reason)
}
