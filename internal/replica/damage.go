package replica

import (
	"errors"
	"io/fs"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/metric"
	"github.com/raftsman/raftsman/internal/vfs"
)

// DamageMetrics count what was found damaged, and what looks for it.
type DamageMetrics struct {
	DamagedPartitions metric.Gauge   // that answer KAFKA_STORAGE_ERROR until the broker starts again
	ScrubbedBytes     metric.Counter // read by the scrub
	ScrubRounds       metric.Counter // through all partitions
}

// DamageMetrics are the numbers of damage.
func (m *Manager) DamageMetrics() *DamageMetrics { return &m.damage }

// isDamage tells the damage of one partition from other errors of its log. A file that is not there is damage, and not the
// directory's failure.
func isDamage(err error) (*commitlog.CorruptError, bool) {
	var corrupt *commitlog.CorruptError
	if errors.As(err, &corrupt) {
		return corrupt, true
	}
	var path *fs.PathError
	if vfs.IsNotExist(err) && errors.As(err, &path) && !errors.Is(err, commitlog.ErrDiskFailed) {
		return &commitlog.CorruptError{File: path.Path, Reason: "it is missing"}, true
	}
	return nil, false
}

// damaged takes the partition out of use: what can't be trusted is not served, and the others go on.
func (p *replica) damaged(by *commitlog.CorruptError) {
	if !p.refuse(kafka.KafkaStorageError) {
		return
	}
	p.tellDamage(by)
	if err := p.log.NoteDamage(by); err != nil {
		p.m.log.Warn("the next start serves the partition until its damage is met again", "partition", p.tp.String(), "error", err)
	}
}

// tellDamage remembers what is damaged, which is counted once, and logs it.
func (p *replica) tellDamage(by *commitlog.CorruptError) {
	if p.damage.Swap(by) == nil {
		p.m.damage.DamagedPartitions.Add(1)
	}
	p.m.log.Error("a partition is damaged and answers KAFKA_STORAGE_ERROR from now on; others are served",
		"partition", p.tp.String(), "file", by.File, "byte", by.At, "reason", by.Reason, "remedy", by.Advice())
}
