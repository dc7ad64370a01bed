package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/raftsman/raftsman/internal/commitlog/dump"
	"github.com/raftsman/raftsman/internal/vfs"
)

func logCommand(a *app) *cobra.Command {
	return family("log", "Look into the files of a log directory", logDumpCommand(a), logVerifyCommand(a), logStatsCommand(a))
}

func logDumpCommand(a *app) *cobra.Command {
	var options dump.Options
	c := &cobra.Command{
		Use:   "dump FILE...",
		Short: "Print what the files of a log directory say",
		Long: `Print what the files of a log directory say: segments, indexes, producer snapshots, epochs, checkpoints, metadata
snapshots and the rest, as Raftsman and Kafka write them. Of a directory, all its files are printed that are such. The files are
only read; a broker may be running on them. -o json prints an object a line. Exit code 1 tells that something is damaged.`,
		Example: `  raftsman log dump raftsman-data/orders-0/*.log --records
  raftsman log dump raftsman-data/orders-0
  raftsman log dump raftsman-data/__cluster_metadata-0/*.log -o json`,
		Args: wants(1, -1),
		RunE: func(c *cobra.Command, args []string) error {
			var names []string
			for _, arg := range args {
				found, err := logFiles(arg)
				if err != nil {
					return err
				}
				names = append(names, found...)
			}
			return a.dump(names, options)
		},
	}
	c.Flags().BoolVarP(&options.Deep, "records", "r", false, "also the records in the batches, those of the brokers' own logs decoded")
	return c
}

// logFiles returns the file that was named, or the files of a directory that can be printed.
func logFiles(name string) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("%w: name files of a log directory, as in raftsman-data/orders-0", err)
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		file := filepath.Join(name, e.Name())
		if _, _, err := dump.Entries(vfs.OS(), file, dump.Options{}); !e.IsDir() && !errors.Is(err, dump.ErrUnknown) {
			found = append(found, file)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no files to print: name the directory of a partition, as raftsman-data/orders-0", name)
	}
	return found, nil
}

// dump prints file after file. What is wrong with one is told, and the next follows.
func (a *app) dump(names []string, options dump.Options) error {
	out := bufio.NewWriterSize(a.out, 64<<10)
	var failed failures
	for i, name := range names {
		if i > 0 && !a.json() {
			fmt.Fprintln(out)
		}
		if err := a.dumpFile(out, name, options); err != nil {
			failed = append(failed, err)
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return failed.join()
}

func (a *app) dumpFile(out io.Writer, name string, options dump.Options) error {
	kind, entries, err := dump.Entries(vfs.OS(), name, options)
	if err != nil {
		return err
	}
	if !a.json() {
		fmt.Fprintf(out, "%s (%s)\n", a.paint().bold(name), kind)
	}
	decode := decoderFor(name)
	damaged := 0
	for e, err := range entries {
		if err != nil {
			return err
		}
		shown := dumpedEntry{File: name, Kind: kind, Entry: e}
		if batch, ok := e.(dump.Batch); ok {
			if batch.Damage != "" {
				damaged++
			}
			shown.Decoded = decode.all(batch)
		}
		if err := a.writeEntry(out, shown); err != nil {
			return err
		}
	}
	if damaged > 0 {
		return fmt.Errorf("%s: %s damaged: take the file from a replica or a backup", name, damagedBatches(damaged))
	}
	return nil
}

// dumpedEntry is a line of `log dump -o json`. Decoded has one element for each record of a batch, where the log is one of
// the brokers' own.
type dumpedEntry struct {
	File    string          `json:"file"`
	Kind    dump.Kind       `json:"kind"`
	Entry   dump.Entry      `json:"entry"`
	Decoded []decodedRecord `json:"decoded,omitempty"`
}

func (a *app) writeEntry(out io.Writer, e dumpedEntry) error {
	if a.json() {
		return json.NewEncoder(out).Encode(e)
	}
	p := a.paint()
	lines := strings.Split(e.Entry.Text(), "\n")
	if batch, ok := e.Entry.(dump.Batch); ok && batch.Damage != "" {
		lines[0] = p.red(lines[0])
	}
	for i, line := range lines {
		// A batch is a line, and then one for each of its records.
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
		if record := i - 1; record >= 0 && record < len(e.Decoded) {
			if text := e.Decoded[record].String(); text != "" {
				fmt.Fprintln(out, p.cyan("    "+text))
			}
		}
	}
	return nil
}

func damagedBatches(n int) string {
	if n == 1 {
		return "1 batch is"
	}
	return fmt.Sprintf("%d batches are", n)
}
