package main

import (
	"crypto/rand"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/meta"
	"github.com/raftsman/raftsman/internal/scripts"
	"github.com/raftsman/raftsman/internal/sysrecord"
)

func storageCommand(a *app) *cobra.Command {
	return family("storage", "Make log directories ready, where a node is not to do so by itself", storageFormatCommand(a), storageIDCommand(a))
}

func storageFormatCommand(a *app) *cobra.Command {
	var how scripts.Format
	var ignoreFormatted bool
	var release string
	var features []string
	c := &cobra.Command{
		Use:   "format -t CLUSTER-ID -c SERVER.PROPERTIES",
		Short: "Format the log directories of a node",
		Long: `Format the log directories of a node, with the arguments of kafka-storage.sh format.

No node needs it that is a whole cluster by itself, or that joins one by controller.quorum.bootstrap.servers: it formats what is empty when it
starts. It is for quorums whose members are known from the start: --initial-controllers, or a fixed controller.quorum.voters.`,
		Example: `  raftsman storage format -t $(raftsman storage random-uuid) -c server.properties --standalone
  raftsman storage format -t MkU3OEVBNTcwNTJENDM2Qg -c server.properties \
    --initial-controllers 1@a:9093:JEXY6aqzQY-32P5TStzaFg,2@b:9093:MvDxzVmcRsaTz33bUuRU6A,3@c:9093:07R5amHmR32VDA6jHkGbTA`,
		Args: wants(0, 0),
		RunE: func(*cobra.Command, []string) error {
			switch {
			case how.File == "" || how.ClusterID == "":
				return usagef("a cluster id (-t) and a server.properties (-c) are needed: see `%s storage format --help`", a.name)
			case how.Standalone && how.InitialControllers != "", how.Standalone && how.NoInitial, how.NoInitial && how.InitialControllers != "":
				return usagef("--standalone, --initial-controllers and --no-initial-controllers exclude each other: give one of them")
			}
			if err := checkLevels(release, features); err != nil {
				return err
			}
			return a.format(how, ignoreFormatted)
		},
	}
	f := c.Flags()
	f.StringVarP(&how.ClusterID, "cluster-id", "t", "", "id of the cluster, the same for all of its nodes")
	f.StringVarP(&how.File, "config", "c", "", "the node's server.properties")
	f.BoolVarP(&how.Standalone, "standalone", "s", false, "the quorum begins with this node alone")
	f.StringVarP(&how.InitialControllers, "initial-controllers", "I", "", "the quorum begins with these, as ID@HOST:PORT:DIRECTORY-ID with commas")
	f.BoolVarP(&how.NoInitial, "no-initial-controllers", "N", false, "the node joins a quorum that is there")
	f.BoolVarP(&ignoreFormatted, "ignore-formatted", "g", false, "it is no error if the directories are formatted already")
	f.StringVarP(&release, "release-version", "r", "", "the release of Kafka whose features the cluster begins with: "+scripts.KafkaVersion+" alone")
	f.StringArrayVarP(&features, "feature", "f", nil, "a feature's level to begin with, as metadata.version=30; may be given again: the levels of "+scripts.KafkaVersion+" alone")
	return c
}

// checkLevels refuses levels that a new cluster does not begin with. They can be changed when it runs.
func checkLevels(release string, features []string) error {
	if release != "" && release != scripts.KafkaVersion && release != meta.MetadataVersionName(meta.LatestMetadataVersion) {
		return usagef("--release-version %s: a new cluster begins with the features of %s; `raftsman cluster` changes them when it runs", release, scripts.KafkaVersion)
	}
	begins := map[string]bool{}
	for _, e := range meta.Bootstrap() {
		if level, ok := e.Record.(*sysrecord.FeatureLevelRecord); ok {
			begins[fmt.Sprintf("%s=%d", level.Name, level.FeatureLevel)] = true
		}
	}
	for _, f := range features {
		if !begins[f] {
			return usagef("--feature %s: a new cluster begins with the features of %s; they are changed when it runs", f, scripts.KafkaVersion)
		}
	}
	return nil
}

// formattedDirs is what `storage format` shows.
type formattedDirs struct {
	ClusterID string   `json:"clusterId"`
	Formatted []string `json:"formatted"` // the log directories that were not before
}

func (a *app) format(how scripts.Format, ignoreFormatted bool) error {
	f, err := formatFor(how)
	switch {
	case err != nil:
		return err
	case len(f.Before) > 0 && !ignoreFormatted:
		return fmt.Errorf("log directory %s is formatted already: --ignore-formatted passes over that", f.Before[0])
	case a.json():
		return a.writeJSON(formattedDirs{how.ClusterID, append([]string{}, f.Made...)})
	case len(f.Made) == 0:
		fmt.Fprintln(a.out, "All log directories are formatted already.")
		return nil
	}
	for _, dir := range f.Made {
		kind := "data directory"
		if dir == f.Metadata {
			kind = f.Kind
		}
		fmt.Fprintf(a.out, "formatted %s %s\n", kind, dir)
	}
	return nil
}

func storageIDCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "random-uuid", Short: "Print an id for a new cluster or log directory", Args: wants(0, 0),
		RunE: func(*cobra.Command, []string) error {
			id := kafka.NewUUID(func(b []byte) { _, _ = rand.Read(b) }).String() // never fails
			if a.json() {
				return a.writeJSON(id)
			}
			fmt.Fprintln(a.out, id)
			return nil
		},
	}
}
