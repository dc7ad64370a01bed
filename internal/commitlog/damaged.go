package commitlog

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
)

// A partition in which damaged records were found is not served again by the next start, which reads few records: a file in its
// folder tells of them. It goes when the records are whole again.

// notedDamage is what the file says.
type notedDamage struct {
	Version int    `json:"version"`
	File    string `json:"file"` // in the folder
	At      int64  `json:"at"`   // the batch that is damaged
	Reason  string `json:"reason"`
	Before  bool   `json:"missingBefore,omitempty"` // the file is whole, but the first one, and some are missing that came before
}

// NoteDamage makes it last that records of a segment are damaged, durably. Of other damage nothing is noted: the next start meets it
// too, or who reads the log.
func (l *Log) NoteDamage(by *CorruptError) error {
	if filepath.Dir(by.File) != l.folder || !strings.HasSuffix(by.File, logSuffix) {
		return nil
	}
	if err := l.dir.Failed(); err != nil {
		return err
	}
	return l.noteDamage(by, false)
}

func (l *Log) noteDamage(by *CorruptError, before bool) error {
	content, err := json.Marshal(notedDamage{File: filepath.Base(by.File), At: by.At, Reason: by.Reason, Before: before})
	if err != nil {
		return fmt.Errorf("note damage: %w", err)
	}
	if err := vfs.Replace(l.fs, filepath.Join(l.folder, DamagedFile), content); err != nil && !vfs.IsNotExist(err) {
		return fmt.Errorf("note damage: %w", err)
	}
	return nil
}

// checkNoted refuses a log in which damage was found before, unless it was mended meanwhile.
func (o *opening) checkNoted() error {
	content, err := vfs.ReadFile(o.fs, filepath.Join(o.folder, DamagedFile))
	if err != nil {
		return err
	}
	var noted notedDamage
	if json.Unmarshal(content, &noted) == nil && filepath.Base(noted.File) == noted.File {
		if noted.Before {
			o.beginNoted = true // checkBegin tells
			return nil
		}
		name := filepath.Join(o.folder, noted.File)
		switch err := o.checkUpTo(name, noted.At); {
		case isCorrupt(err):
			return &CorruptError{File: name, At: noted.At, Reason: noted.Reason + ", as was found before"}
		case err != nil && !vfs.IsNotExist(err):
			return err
		}
		o.dir.note("%s is whole again", name)
	}
	return o.remove(DamagedFile)
}

// checkUpTo checks the batches of a segment up to the one behind a position.
func (o *opening) checkUpTo(name string, at int64) error {
	reached, ok := parseOffsetName(filepath.Base(name), logSuffix)
	if !ok {
		return nil
	}
	gaps, epoch := o.mayHaveGaps(), kafka.NoEpoch
	for b, err := range FileBatches(o.fs, name) {
		if err != nil {
			return err
		}
		if err := b.Check(); err != nil {
			return &CorruptError{File: name, At: b.At, Reason: err.Error()}
		}
		if base := b.BaseOffset(); base < reached || base > reached && !gaps || b.LeaderEpoch() < epoch {
			return &CorruptError{File: name, At: b.At}
		}
		if b.At > at {
			return nil
		}
		reached, epoch = b.NextOffset(), b.LeaderEpoch()
	}
	return nil
}
