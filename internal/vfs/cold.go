package vfs

// ReadCold is f.ReadAt for bytes that nobody is expected to read soon. Where the system can do so it leaves the page cache as it
// was: what was in it stays, what came in by this read goes. Elsewhere it is ReadAt.
func ReadCold(f File, p []byte, at int64) (int, error) {
	if f, ok := f.(interface {
		readCold(p []byte, at int64) (int, error)
	}); ok {
		return f.readCold(p, at)
	}
	return f.ReadAt(p, at)
}

// ReadAhead has the system begin to read n bytes of f that will be asked for soon, unless it has them. It is a hint, and where the
// system takes none nothing happens. It may wait for a disk that is busy.
func ReadAhead(f File, at, n int64) {
	if f, ok := f.(interface{ readAhead(at, n int64) }); ok {
		f.readAhead(at, n)
	}
}
