package commitlog

import (
	"errors"
	"fmt"
)

// Sentinels that callers branch on.
var (
	// ErrNotFormatted is returned by [OpenDir] for a directory without meta.properties.
	ErrNotFormatted = errors.New("not formatted: no meta.properties")
	// ErrDiskFailed is in every error after a write or a flush failed such that the disk's state is unknown. The directory
	// and all its logs refuse further writes; reads go on.
	ErrDiskFailed = errors.New("log directory failed")
	// ErrClosed is returned by a log or directory that was closed or deleted.
	ErrClosed = errors.New("log closed")
)

// CorruptError tells that bytes on the disk that should be good are not. Nothing was changed; a log that is being opened does not
// open.
type CorruptError struct {
	File   string
	At     int64 // position in the file
	Reason string
	Remedy string // what to do, where that is not RemedyRecords
}

// RemedyRecords is what to do about records that are damaged or missing.
const RemedyRecords = "take the partition from another replica or a backup: stop the broker, move the folder away, start it"

// Advice is what to do about the damage.
func (e *CorruptError) Advice() string {
	if e.Remedy != "" {
		return e.Remedy
	}
	return RemedyRecords
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is damaged at byte %d: %s", e.File, e.At, e.Reason)
}
