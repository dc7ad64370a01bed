package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/commitlog/verify"
	"github.com/raftsman/raftsman/internal/vfs"
)

func logStatsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "stats DIR...",
		Short: "Count what the partitions of a log directory hold",
		Long: `Count what the partitions of a log directory, or the folders of some, hold: segments, batches, records, bytes, codecs (how many
batches of each), the range of timestamps, and how many bytes of keys, values and headers a byte on the disk holds. All segments are
read, and nothing is changed; a broker may be running on them.`,
		Example: `  raftsman log stats raftsman-data
  raftsman log stats raftsman-data/orders-0 -o json`,
		Args: wants(1, -1),
		RunE: func(_ *cobra.Command, args []string) error { return a.logStats(args) },
	}
}

func (a *app) logStats(names []string) error {
	var read atomic.Int64
	bar := a.startProgress(func(time.Duration) string { return formatBytes(read.Load()) + " read" })
	defer bar.stop()
	all := []verify.Stats{}
	var failed failures
	for _, name := range names {
		folders, err := partitionFolders(name)
		if err != nil {
			return err
		}
		for _, folder := range folders {
			s, err := verify.Count(vfs.OS(), folder, &read)
			if err != nil {
				failed = append(failed, err)
			}
			all = append(all, s)
		}
	}
	bar.stop()
	if err := a.writeLogStats(all); err != nil {
		return err
	}
	return failed.join()
}

// partitionFolders returns the folder that was named, or those in a log directory.
func partitionFolders(name string) ([]string, error) {
	if isPartition(name) {
		return []string{name}, nil
	}
	entries, err := vfs.OS().ReadDir(name)
	if err != nil {
		return nil, fmt.Errorf("%w: name a log directory, or the folder of a partition", err)
	}
	var folders []string
	for _, e := range entries {
		if _, ok := commitlog.ParseFolder(e.Name); ok && e.Dir {
			folders = append(folders, filepath.Join(name, e.Name))
		}
	}
	if len(folders) == 0 {
		return nil, fmt.Errorf("%s holds no partitions: name a log directory, as raftsman-data, or the folder of a partition", name)
	}
	return folders, nil
}

func (a *app) writeLogStats(all []verify.Stats) error {
	if a.json() {
		return a.writeJSON(all)
	}
	t := newTable(column{title: "PARTITION"}, column{title: "SEGMENTS", right: true}, column{title: "BATCHES", right: true}, column{title: "RECORDS", right: true}, column{title: "BYTES", right: true},
		column{title: "RATIO", right: true}, column{title: "CODECS"}, column{title: "FROM"}, column{title: "TO"})
	for _, s := range all {
		var codecs []string
		for _, codec := range slices.Sorted(maps.Keys(s.Codecs)) {
			codecs = append(codecs, fmt.Sprintf("%s:%d", codec, s.Codecs[codec]))
		}
		t.add(plain(s.Partition), count(int64(s.Segments)), count(s.Batches), count(s.Records), plain(formatBytes(s.Bytes)),
			plain(fmt.Sprintf("%.2f", s.Ratio())), plain(strings.Join(codecs, " ")), plain(timeOf(s.MinMs)), plain(timeOf(s.MaxMs)))
	}
	return t.write(a.out, a.paint(), a.width())
}

// timeOf writes a timestamp, or nothing where there is none.
func timeOf(ms int64) string {
	if ms < 0 {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format(time.RFC3339)
}
