package controller

import (
	"errors"
	"fmt"
	"time"

	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
)

// commitLog is the metadata log as core/commitlog keeps it: synced after each append, never aged.
type commitLog struct{ *commitlog.Log }

var _ Log = commitLog{}

// openCommitlog opens the log. What lies before from is in a snapshot, and was whole when that was written.
func (o *Options) openCommitlog(dir string, from kafka.Offset) (Log, error) {
	l, err := commitlog.Open(commitlog.Options{
		Env: &commitlog.Env{FS: o.FS, Pool: buf.NewPool(), Files: commitlog.NewFileCache(16), Logger: o.Logger, NowMS: o.NowMS},
		Config: &commitlog.Config{SegmentBytes: int64(o.Config.MetadataLogSegmentBytes), SegmentMS: neverMS, RetentionBytes: -1,
			RetentionMS: -1, DeleteOnRetention: true},
		Dir: dir, TopicID: kafka.TopicID{15: 1}, // Kafka's fixed id of __cluster_metadata
		StartOffset: from, RecoveryPoint: from,
	})
	if err != nil {
		return nil, err
	}
	return commitLog{l}, nil
}

const neverMS = 1 << 62

// maxSyncWait is how long an entry waits at most for a descriptor to be synced by, before the wait is given up as a failed sync.
const maxSyncWait = 4 * time.Second

// Append implements Log. A flush that could not open what it syncs (EMFILE) is tried again: the entry stands in the log and can be
// neither committed nor taken back.
func (l commitLog) Append(batches []commitlog.AppendBatch) error {
	if err := l.Log.Append(batches); err != nil {
		return err
	}
	l.Publish()
	_, err := l.Flush()
	for wait := 5 * time.Millisecond; err != nil && !errors.Is(err, commitlog.ErrFlush) && wait < maxSyncWait; wait *= 2 {
		time.Sleep(wait)
		_, err = l.Flush()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errSync, err)
	}
	return nil
}

// Read implements Log.
func (l commitLog) Read(from kafka.Offset, maxBytes int) ([]byte, kafka.Offset, error) {
	var s commitlog.Slice
	if err := l.Log.Read(&s, from, maxBytes, l.EndOffset(), true); err != nil {
		return nil, from, err
	}
	defer s.Release()
	b := make([]byte, s.Bytes)
	return b, s.Next, s.CopyTo(b)
}

// Forget implements Log. The active segment goes only when it has been rolled, which the log's size decides.
func (l commitLog) Forget(before kafka.Offset, nowMS int64) error {
	if err := l.DeleteBefore(before); err != nil {
		return err
	}
	_, _, err := l.Retain(nowMS, l.EndOffset())
	return err
}

// Restart implements Log.
func (l commitLog) Restart(at kafka.Offset) error { return l.TruncateFully(at) }
