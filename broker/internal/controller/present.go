package controller

import (
	"errors"
	"io/fs"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
)

// Folder is the metadata log's folder within the one that holds it.
const Folder = kafka.MetadataTopic + "-0"

// Present tells whether a folder holds a quorum's state: without it a start makes a new cluster.
func Present(fsys vfs.FS, dir string) (bool, error) {
	dir += "/" + Folder
	if _, err := fsys.Stat(dir + "/" + quorumStateFile); err == nil {
		return true, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	names, err := listSnapshots(fsys, dir)
	return len(names) > 0, err
}
