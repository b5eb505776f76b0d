package commitlog

import (
	"io"

	"github.com/tidemark/tidemark/core/vfs"
)

// discard is a file system that takes everything and keeps nothing: what appending itself costs.
type discard struct{ vfs.FS }

func (discard) OpenFile(name string, _ vfs.Flag) (vfs.File, error) { return discardFile{}, nil }

type discardFile struct{ vfs.File }

func (discardFile) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (discardFile) ReadAt([]byte, int64) (int, error)      { return 0, io.EOF }
func (discardFile) WriteVec(_ int64, bufs [][]byte) (int, error) {
	n := 0
	for _, b := range bufs {
		n += len(b)
	}
	return n, nil
}
func (discardFile) Close() error { return nil }
func (discardFile) Name() string { return "discard" }
