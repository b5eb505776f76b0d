package broker

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/tidemark/tidemark/broker/internal/controller"
	"github.com/tidemark/tidemark/core/vfs"
)

// checkMetadataPlace refuses a start that would make a new, empty cluster beside the logs of an old one and move them aside: the
// order of log.dirs has changed, a disk stands in front that is new or empty, or metadata.log.dir names another folder.
func (b *Broker) checkMetadataPlace() error {
	dir := b.o.Config.MetadataDir()
	found, err := controller.Present(b.o.FS, dir)
	if err != nil {
		return err
	}
	if other := b.dirs.Has(controller.Folder, func(d string) bool { return sameFolder(d, dir) }); other != "" {
		return fmt.Errorf("the cluster's metadata lies in %s/%s, and is looked for in %s: name %s first in log.dirs, or as metadata.log.dir "+
			"(or, where it is an old one, move %s/%s away)", other, controller.Folder, dir, other, other, controller.Folder)
	}
	if found || b.dirs.ClusterID() == "" {
		return nil
	}
	folder, err := b.dirs.Partitions()
	if err != nil || folder == "" {
		return err
	}
	return fmt.Errorf("%s has no metadata (%s), and %s holds logs of cluster %s: a start would make an empty cluster and move them aside; "+
		"put the folder with the metadata back, name it first in log.dirs or as metadata.log.dir, or move the logs away",
		dir, controller.Folder, folder, b.dirs.ClusterID())
}

// sameFolder tells whether two names are of one folder, by links or from the working folder too.
func sameFolder(a, b string) bool { return resolved(a) == resolved(b) }

func resolved(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return filepath.Clean(dir)
}

// lockMetadata keeps other brokers from a metadata folder that is no log folder, which has a lock of its own.
func (b *Broker) lockMetadata() error {
	dir := b.o.Config.MetadataDir()
	if slices.ContainsFunc(b.o.Config.LogDirs, func(d string) bool { return sameFolder(d, dir) }) {
		return nil
	}
	if err := b.o.FS.MkdirAll(dir); err != nil {
		return fmt.Errorf("metadata.log.dir %s: %w", dir, err)
	}
	lock, err := b.o.FS.Lock(filepath.Join(dir, ".lock"))
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("metadata.log.dir %s is used by another broker: %w", dir, err)
	}
	if err != nil {
		return fmt.Errorf("lock metadata.log.dir %s: %w", dir, err)
	}
	b.metadataLock = lock
	return nil
}
