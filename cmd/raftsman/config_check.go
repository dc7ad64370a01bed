package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/config"
	"github.com/raftsman/raftsman/internal/quorum"
	"github.com/raftsman/raftsman/internal/vfs"
)

// checked is the result of `raftsman config check`.
type checked struct {
	File          string   `json:"file"`
	Errors        []string `json:"errors"`
	WithoutEffect []string `json:"without_effect"`
}

func configCheckCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a server.properties",
		Long: `Check a server.properties without starting anything. What a broker would only warn of, such as a key that it does not know,
is an error here. Keys that Kafka has and that have no effect on this broker are listed.`,
		Example: "  raftsman config check server.properties",
		Args:    wants(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.checkConfig(args[0])
		},
	}
}

func (a *app) checkConfig(file string) error {
	result := checked{File: file, Errors: []string{}, WithoutEffect: []string{}}
	parsed, warnings, err := a.readConfig([]string{file}, serveFlags{})
	type finding struct{ origin, text string }
	var findings []finding
	for _, w := range warnings {
		findings = append(findings, finding{w.Origin, w.String()})
	}
	for _, one := range unjoin(err) {
		f, _ := errors.AsType[*config.Fault](one)
		if f == nil {
			f = &config.Fault{}
		}
		findings = append(findings, finding{f.Origin, one.Error()})
	}
	// A person mends a file from its top to its end; what is not in it comes last.
	line := func(f finding) int {
		if n, err := strconv.Atoi(strings.TrimPrefix(f.origin, file+": line ")); err == nil {
			return n
		}
		return math.MaxInt
	}
	slices.SortStableFunc(findings, func(x, y finding) int { return cmp.Compare(line(x), line(y)) })
	for _, f := range findings {
		result.Errors = append(result.Errors, strings.TrimPrefix(f.text, file+": "))
	}
	if err == nil {
		for _, key := range parsed.WithoutEffect() {
			result.WithoutEffect = append(result.WithoutEffect, key.Name)
		}
	}
	if a.json() {
		if err := a.writeJSON(result); err != nil {
			return err
		}
	} else {
		for _, text := range result.Errors {
			fmt.Fprintf(a.out, "%s: %s\n", file, text)
		}
		for _, name := range result.WithoutEffect {
			fmt.Fprintf(a.out, "%s: note: %s has no effect on this broker yet\n", file, name)
		}
	}
	if len(result.Errors) > 0 {
		return errReported
	}
	if !a.json() {
		fmt.Fprintf(a.out, "%s: a broker starts with it\n", file)
	}
	return nil
}

// unjoin returns the errors that errors.Join put together.
func unjoin(err error) []error {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []error{err}
	}
	var several []error
	for _, one := range joined.Unwrap() {
		several = append(several, unjoin(one)...)
	}
	return several
}

func configExportCommand(a *app) *cobra.Command {
	var flags serveFlags
	c := &cobra.Command{
		Use:   "export [server.properties]",
		Short: "Print the server.properties with which Apache Kafka opens the data directory",
		Long: `Print the server.properties with which Apache Kafka 4.4 opens the data directory of this node: what the node is configured
with, and what Kafka needs said beside it. Stop the broker before Kafka starts.`,
		Example: "  raftsman config export --data raftsman-data > kafka.properties",
		Args:    wants(0, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			if a.json() {
				return usagef("config export prints a server.properties: leave out -o json")
			}
			return a.exportConfig(args, flags)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&flags.overrides, "override", nil, "a setting that beats file and environment, as key=value; may be given again")
	f.StringVar(&flags.data, "data", "", "directory of the data (log.dirs)")
	f.StringArrayVar(&flags.listen, "listen", nil, "address to listen on, as HOST:PORT (listeners); may be given again")
	return c
}

func (a *app) exportConfig(args []string, flags serveFlags) error {
	parsed, _, err := a.readConfig(args, flags)
	if err != nil {
		return err
	}
	fs := vfs.OS()
	identity, err := quorum.Inspect(fs, parsed.MetadataLogDir())
	if err != nil {
		return fmt.Errorf("read %s: %w; --data names the directory of a broker that ran", parsed.MetadataLogDir(), err)
	}
	installation := config.Installation{ClusterID: identity.ClusterID}
	for _, path := range parsed.LogDirs() {
		properties, err := commitlog.ReadMetaProperties(fs, path)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		absolute, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		installation.LogDirs = append(installation.LogDirs, absolute)
		installation.DirectoryIDs = append(installation.DirectoryIDs, properties.ID)
	}
	if metadata := parsed.MetadataLogDir(); metadata != parsed.LogDirs()[0] {
		if installation.MetadataLogDir, err = filepath.Abs(metadata); err != nil {
			return err
		}
	}
	_, installation.Controller = parsed.ControllerEndpoint()
	for _, voter := range identity.Membership.Voters {
		if voter.ID == identity.NodeID && len(voter.Endpoints) > 0 {
			installation.Controller = config.Address{Host: voter.Endpoints[0].Host, Port: voter.Endpoints[0].Port}
		}
	}
	fmt.Fprint(a.out, parsed.Export(installation))
	return nil
}
