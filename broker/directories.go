package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/raftsman/raftsman/internal/commitlog"
	"github.com/raftsman/raftsman/internal/kafka"
	"github.com/raftsman/raftsman/internal/vfs"
)

// openDirs opens the log directories, formatting them first where the node is new.
func (n *Node) openDirs() error {
	paths, blank, err := n.findDirs()
	if err != nil {
		return err
	}
	if len(blank) > 0 {
		if err := n.mayFormat(paths, blank); err != nil {
			return err
		}
		if err := n.format(blank, n.founders()); err != nil {
			return err
		}
	}
	if err := n.distinct(paths); err != nil {
		return err
	}
	for _, path := range paths {
		dir, err := commitlog.OpenDir(n.fs, path, random)
		if err != nil {
			n.abandonDirs()
			return openError(path, err)
		}
		n.dirs = append(n.dirs, dir)
		if path == n.config.MetadataLogDir() {
			n.meta = dir
		}
	}
	for _, dir := range n.dirs { // the rest is for connections and what else is open
		dir.LimitFiles(min(commitlog.OpenFilesMax, max(openSegmentsMax(vfs.OpenFilesMax())/len(n.dirs), 16)))
	}
	n.clusterID = n.meta.Meta().ClusterID
	return nil
}

// findDirs returns all directories of the node and those of them that are not formatted. The others are this node's.
func (n *Node) findDirs() (paths, blank []string, err error) {
	paths = slices.Clone(n.config.LogDirs())
	if metadata := n.config.MetadataLogDir(); !slices.Contains(paths, metadata) {
		paths = append(paths, metadata)
	}
	for _, path := range paths {
		properties, err := commitlog.ReadMetaProperties(n.fs, path)
		switch {
		case errors.Is(err, commitlog.ErrNotFormatted):
			blank = append(blank, path)
		case err != nil:
			return nil, nil, openError(path, err)
		default:
			if err := n.belongs(path, properties); err != nil {
				return nil, nil, err
			}
		}
	}
	return paths, blank, nil
}

// belongs checks that a formatted directory is this node's, of the same cluster as the others.
func (n *Node) belongs(path string, p commitlog.MetaProperties) error {
	if p.NodeID != n.config.NodeID() {
		return fmt.Errorf("log directory %s belongs to node %d, and node.id is %d: set node.id=%d or give another directory",
			path, p.NodeID, n.config.NodeID(), p.NodeID)
	}
	if n.clusterID != "" && p.ClusterID != n.clusterID {
		return fmt.Errorf("log directory %s belongs to cluster %s, and %s to cluster %s: take one of them out of log.dirs",
			path, p.ClusterID, n.config.LogDirs()[0], n.clusterID)
	}
	n.clusterID = p.ClusterID
	return nil
}

// distinct refuses two paths of one directory, as a link makes them, and copies: one would wait for the other's lock, and its
// partitions would be there twice.
func (n *Node) distinct(paths []string) error {
	seen := map[kafka.UUID]string{}
	for _, path := range paths {
		properties, err := commitlog.ReadMetaProperties(n.fs, path)
		if err != nil {
			return openError(path, err)
		}
		if first, twice := seen[properties.ID]; twice {
			return fmt.Errorf("log directories %s and %s have one directory.id, %s: if they are one directory, name it once; if one is a copy "+
				"of the other, take it out of log.dirs", first, path, properties.ID)
		}
		seen[properties.ID] = path
	}
	return nil
}

// mayFormat refuses to format where some directories are formatted: one that is blank among others may be a disk that was not mounted.
func (n *Node) mayFormat(paths, blank []string) error {
	if len(blank) < len(paths) {
		return fmt.Errorf("log directory %s is not formatted, though others of log.dirs are: is its disk mounted? "+
			"If it is a new one, take it out of log.dirs", blank[0])
	}
	for _, path := range blank {
		if err := n.mustBeEmpty(path); err != nil {
			return err
		}
	}
	return nil
}

// mustBeEmpty refuses to make a log directory of a folder that holds something else.
func (n *Node) mustBeEmpty(path string) error {
	entries, err := n.fs.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return openError(path, err)
	}
	for _, entry := range entries {
		switch name := entry.Name; name {
		case "lost+found", ".lock", "__cluster_metadata-0", "meta.properties.tmp": // of the file system, or of a format that was cut short
		default:
			return fmt.Errorf("%s holds %s and no meta.properties: not a log directory, and nothing was touched; give an empty or new one",
				path, filepath.Join(path, name))
		}
	}
	return nil
}

// openError says what to do about a directory that can't be used.
func openError(path string, err error) error {
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return fmt.Errorf("log directory %s is in use by another process, a broker of Raftsman or Kafka: stop that one first, or give another directory", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("log directory %s can't be used: %w; give one that this user owns (--data DIR)", path, err)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("log directory %s can't be used: a file is in its place: %w; give another (--data DIR)", path, err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("log directory %s can't be made: %w; give another, on a file system that takes files (--data DIR)", path, err)
	default:
		return fmt.Errorf("log directory %s: %w", path, err)
	}
}

// abandonDirs lets go of directories after a start that failed: what they hold is untouched, and recovered next time.
func (n *Node) abandonDirs() {
	for _, dir := range n.dirs {
		_ = dir.Close(false, -1)
	}
	n.dirs = nil
}
