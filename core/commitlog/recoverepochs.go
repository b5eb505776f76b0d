package commitlog

import (
	"io"
	"io/fs"

	"github.com/tidemark/tidemark/core/vfs"
)

// loadEpochs reads leader-epoch-checkpoint. It reports false when the epochs must be learnt from the whole log.
func (l *Log) loadEpochs() bool {
	var cache epochCache
	var b []byte
	err := fs.ErrNotExist
	if !l.absent(epochsFile) {
		b, err = vfs.ReadFile(l.env.FS, l.Dir()+"/"+epochsFile, maxMetaBytes)
	}
	if err == nil {
		cache.list, err = parseEpochs(b)
	}
	ok := err == nil || isNotExist(err)
	if !ok {
		l.env.Logger.Warn("leader epochs cannot be read and are learnt from the records", "file", l.Dir()+"/"+epochsFile, "error", err)
		cache.dirty = true
	}
	l.mu.Lock()
	l.mu.epochs = cache
	l.mu.Unlock()
	return ok
}

// learnEpochs takes the leader epochs from the headers of a segment's batches up to end, which are believed: damage only ends it.
func (l *Log) learnEpochs(s *segment, end int64) error {
	lease, err := l.acquire(s, kindLog)
	if err != nil {
		return err
	}
	defer lease.Release()
	sc := newScanner(lease, end, l.env.Pool, scanChunk)
	defer sc.close()
	for pos := int64(0); ; {
		h, size, err := sc.header(pos)
		if err != nil {
			if err == io.EOF {
				return nil
			}
			return ignoreDamage(err)
		}
		l.mu.Lock()
		l.mu.epochs.assign(h.PartitionLeaderEpoch(), h.BaseOffset())
		l.mu.Unlock()
		pos += size
	}
}
