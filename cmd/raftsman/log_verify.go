package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/commitlog/verify"
	"github.com/raftsman/raftsman/internal/vfs"
)

func logVerifyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "verify DIR|FILE...",
		Short: "Tell what is damaged in a log directory",
		Long: `Tell what is damaged in a log directory, the folder of a partition, or files of one: checksums, offsets, lengths and leader
epochs of all batches, and whether indexes, transaction indexes, producer snapshots, leader epochs and checkpoints agree with
them. Each damage is named with its file, the byte at which the damaged batch or entry begins, and what can be done. The files
are only read. While a broker runs on the directory, what it still writes to is left out. Behind the recovery point of a broker
that was killed the end of a log may be torn: that is no damage, the next start cuts it off.
Exit code 1 tells that something is damaged.`,
		Example: `  raftsman log verify raftsman-data
  raftsman log verify raftsman-data/orders-0 -o json`,
		Args: wants(1, -1),
		RunE: func(_ *cobra.Command, args []string) error { return a.verify(args) },
	}
}

// verified is the result of `log verify -o json`.
type verified struct {
	Files   int             `json:"files"`
	Bytes   int64           `json:"segmentBytes"`
	Running bool            `json:"brokerRunning"`
	Damages []verify.Damage `json:"damages"`
}

func (a *app) verify(names []string) error {
	c := &verify.Checker{FS: vfs.OS(), Damages: []verify.Damage{}}
	bar := a.startProgress(func(elapsed time.Duration) string {
		read := c.Read.Load()
		return fmt.Sprintf("%s read, %s/s", formatBytes(read), formatBytes(int64(float64(read)/elapsed.Seconds())))
	})
	defer bar.stop()
	running := false
	for _, name := range names {
		live, err := verifyOne(c, name)
		if err != nil {
			return err
		}
		running = running || live
	}
	bar.stop()
	if running {
		a.note("A broker runs on the directory: what it still writes to was left out.")
	}
	if a.json() {
		if err := a.writeJSON(verified{c.Files, c.Read.Load(), running, c.Damages}); err != nil {
			return err
		}
	} else {
		a.writeDamages(c)
	}
	if n := len(c.Damages); n > 0 {
		return fmt.Errorf("%d damaged places in %d files", n, c.Files)
	}
	return nil
}

func (a *app) writeDamages(c *verify.Checker) {
	p := a.paint()
	for _, d := range c.Damages {
		fmt.Fprintf(a.out, "%s at byte %d: %s\n  %s\n", p.red(d.File), d.At, d.Reason, d.Remedy)
	}
	if len(c.Damages) == 0 {
		fmt.Fprintf(a.out, "%d files, %s of records: nothing is damaged\n", c.Files, formatBytes(c.Read.Load()))
	}
}

// verifyOne checks what was named, and tells whether a broker runs on it. Without one it is kept from starting meanwhile.
func verifyOne(c *verify.Checker, name string) (live bool, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return false, fmt.Errorf("%w: name a log directory, the folder of a partition, or a file", err)
	}
	dir, check := name, c.Dir
	switch {
	case !info.IsDir():
		dir, check = filepath.Dir(filepath.Dir(absolute(name))), c.File
	case isPartition(name):
		dir, check = filepath.Dir(absolute(name)), c.Partition
	case !exists(filepath.Join(name, commitlog.MetaPropertiesFile)):
		return false, fmt.Errorf("%s is no log directory and no folder of a partition: name one, as raftsman-data", name)
	}
	c.Live = false
	if lock := filepath.Join(dir, commitlog.LockFile); exists(lock) {
		held, err := c.FS.Lock(lock)
		switch {
		case errors.Is(err, vfs.ErrLocked):
			c.Live = true
		case err != nil:
			return false, err
		default:
			defer held.Close()
		}
	}
	return c.Live, check(name)
}

func isPartition(name string) bool {
	_, ok := commitlog.ParseFolder(filepath.Base(absolute(name)))
	return ok && !exists(filepath.Join(name, commitlog.MetaPropertiesFile))
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
