package commitlog

import (
	"fmt"

	"github.com/raftsman/raftsman/internal/kafka"
)

// A log whose first segments are missing looks as if retention had removed them. What tells otherwise is leader-epoch-checkpoint: when
// segments go at the begin it is cut there, by us before their files go, by Kafka soon after, and a stop in order saves it. After any
// other stop it may be older than the retention: then nothing is refused, and the operator is told.

// checkBegin refuses a log that was closed in order, or was refused before, and begins behind where it began then.
func (o *opening) checkBegin() error {
	if len(o.list) == 0 || o.config.Load().BeginsElsewhere {
		return nil
	}
	first := o.list[0]
	lost := LostBegin(first.String(), first.base, o.epochs.entries, o.startCheckpoint)
	switch {
	case lost == nil && o.beginNoted:
		o.dir.note("%s is whole again", o.partition)
		return o.remove(DamagedFile)
	case lost == nil:
		return nil
	case o.trusted || o.beginNoted:
		if err := o.noteDamage(lost, true); err != nil {
			o.dir.note("%v: after another stop than one in order the log will be served without them", err)
		}
		return lost
	}
	if !o.beginDeleted {
		o.dir.note("%s: %s: retention may have taken them shortly before the stop. If not: %s", lost.File, lost.Reason, RemedyRecords)
	}
	return nil
}

// LostBegin tells what is missing in front of a log's first segment, by its name and base, when it was closed in order: nil if
// nothing is. epochs are those of leader-epoch-checkpoint, start is what log-start-offset-checkpoint says, or 0.
func LostBegin(first string, base kafka.Offset, epochs []EpochStart, start kafka.Offset) *CorruptError {
	if len(epochs) == 0 || epochs[0].Start >= base || start >= base {
		return nil
	}
	return &CorruptError{
		File: first, Reason: fmt.Sprintf("offsets %d to %d are missing before it (%s)", max(epochs[0].Start, start), base-1, EpochsFile),
		Remedy: RemedyRecords + "; to go on without them, stop the broker, remove " + EpochsFile + " from the folder, start it: it is made anew",
	}
}
