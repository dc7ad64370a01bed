package quorum

import (
	"fmt"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/record"
)

// applier builds the images of what is committed, batch by batch, on every node that does not lead, and on a leader until it takes
// commands. It is used under publishMu.
type applier struct {
	replay
	next  kafka.Offset // of the first batch that is not applied
	bytes int64        // of the batches that were applied since take

	// The newest place that is outside of a transaction: what snapshots may end with.
	last  kafka.Offset
	epoch kafka.Epoch
	ms    int64
}

// newApplier goes on behind an image, which is outside of transactions.
func newApplier(from *meta.Image) *applier {
	return &applier{
		replay: newReplay(from), next: from.Offset() + 1,
		last: from.Offset(), epoch: from.Epoch(), ms: from.AppendMs(),
	}
}

// batch applies one batch. An error means that the log contradicts itself, or has records that this build does not understand.
func (a *applier) batch(b record.Batch) error {
	if err := a.replay.batch(b); err != nil {
		return err
	}
	a.next = b.NextOffset()
	a.bytes += int64(len(b))
	if !a.update.InTransaction() {
		a.last, a.epoch, a.ms = b.LastOffset(), b.LeaderEpoch(), b.MaxTimestampMs()
	}
	return nil
}

// take returns the image at the newest place that is outside of a transaction, and how many bytes of the log went into it since the
// last take.
func (a *applier) take() (*meta.Image, int64) {
	bytes := a.bytes
	a.bytes = 0
	return a.update.Image(a.last, a.epoch, a.ms), bytes
}

// checkLevel refuses metadata of a cluster that is newer than this build.
func checkLevel(im *meta.Image) error {
	if level := im.Features()[meta.MetadataVersion]; level > meta.LatestMetadataVersion {
		return fmt.Errorf("the cluster is at metadata.version %d, this build knows levels up to %d (%s)",
			level, meta.LatestMetadataVersion, meta.MetadataVersionName(meta.LatestMetadataVersion))
	}
	return nil
}
