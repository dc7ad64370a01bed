package main

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker (-X main.version=v1.2.3). Without it, the toolchain's own stamp counts.
var version string

// build says which raftsman this is, from what the Go toolchain stamps into every binary.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func readBuild() build {
	b := build{Version: cmp.Or(version, "devel"), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; version == "" && v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b build) String() string {
	text := "raftsman " + b.Version
	if b.Commit != "" {
		text += ", commit " + b.Commit[:min(12, len(b.Commit))]
		if b.Modified {
			text += " with changes"
		}
	}
	return fmt.Sprintf("%s, %s, %s/%s", text, b.Go, b.OS, b.Arch)
}

// softwareVersion makes a version fit for ApiVersions (KIP-511), which takes letters, digits, dots and dashes only.
func softwareVersion(version string) string {
	version = regexp.MustCompile(`[^a-zA-Z0-9.-]+`).ReplaceAllString(version, "-")
	return regexp.MustCompile(`^[.-]+|[.-]+$`).ReplaceAllString(version, "")
}

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and platform",
		Args:  wants(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if a.json() {
				return a.writeJSON(readBuild())
			}
			_, err := fmt.Fprintln(a.out, readBuild())
			return err
		},
	}
}
