package controller

import (
	"io/fs"
	"log/slog"
	"syscall"
	"testing"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// A moment without a free descriptor is no failed fsync of the metadata log.
func TestAnEntryWaitsForADescriptor(t *testing.T) {
	refused := 0
	faulty := &vfstest.Faulty{FS: vfs.NewMem(nil), Hook: func(op vfstest.Op) error {
		if op.Kind == "syncdir" && refused < 2 {
			refused++
			return &fs.PathError{Op: "open", Path: op.Name, Err: syscall.EMFILE}
		}
		return nil
	}}
	o := &Options{Config: &config.Broker{MetadataLogSegmentBytes: 1 << 20}, FS: faulty, Logger: slog.New(slog.DiscardHandler), NowMS: func() int64 { return 0 }}
	l, err := o.openCommitlog("/meta", 0)
	if err != nil {
		t.Fatal(err)
	}
	batch := oneBatch(t, l)
	if err := l.Append(batch); err != nil {
		t.Fatal(err)
	}
	if log := l.(commitLog); refused != 2 || log.FlushedOffset() != log.EndOffset() {
		t.Errorf("%d refusals; flushed up to %d of %d", refused, log.FlushedOffset(), log.EndOffset())
	}
}

// oneBatch is one batch for the log's end.
func oneBatch(t *testing.T, l Log) []commitlog.AppendBatch {
	t.Helper()
	b := record.NewBuilder(nil, compress.None, 0)
	b.Reset(0, kafka.NoProducerID, kafka.NoEpoch, record.NoSequence, 0)
	b.Append(0, nil, []byte("v"))
	out, err := b.Finish(nil)
	if err != nil {
		t.Fatal(err)
	}
	end := l.EndOffset()
	record.Batch(out).SetBaseOffset(end)
	return []commitlog.AppendBatch{{Bytes: out, Base: end, Last: end, MaxTimestamp: 0}}
}
