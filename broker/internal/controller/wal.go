package controller

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// Log is what the write-ahead log needs of core/commitlog.
type Log interface {
	// Append writes batches durably: it returns when they have been synced.
	Append([]commitlog.AppendBatch) error
	// Read gives whole batches from the one that holds an offset on, and the offset behind them.
	Read(from kafka.Offset, maxBytes int) (batches []byte, next kafka.Offset, err error)
	StartOffset() kafka.Offset
	EndOffset() kafka.Offset
	// Forget drops the segments that lie before an offset.
	Forget(before kafka.Offset, nowMS int64) error
	// TruncateTo makes the log end at an offset; Restart empties it and lets it begin at one.
	TruncateTo(kafka.Offset) error
	Restart(kafka.Offset) error
	Close() error
	// Abandon closes a log whose files have failed, writing nothing.
	Abandon()
}

// wal keeps Raft's entries in a log of Kafka's format: one entry is one record batch with one record, whose offset is
// the entry's index less one and whose leader epoch is its term. The record's value is the entry's data:
//
//	version 1 byte, 0
//	records any number of { length uvarint, metadata record }
//
// It is used by the controller's goroutine alone.
type wal struct {
	log     Log
	builder *record.Builder
	batches []commitlog.AppendBatch
}

const (
	walVersion = 0
	// readBytes is how much of the log is read at once at start.
	readBytes = 1 << 20
)

func newWAL(log Log) *wal {
	return &wal{log: log, builder: record.NewBuilder(nil, compress.None, 0)}
}

// indexOf and offsetOf turn Raft's indexes, which begin at 1, into the log's offsets and back.
func indexOf(o kafka.Offset) uint64 { return uint64(o) + 1 }

func offsetOf(index uint64) kafka.Offset { return kafka.Offset(index) - 1 }

// append writes entries and returns once they are durable. Entries that stand in their way are cut off first.
func (w *wal) append(entries []*raftpb.Entry, nowMS int64) error {
	if len(entries) == 0 {
		return nil
	}
	if first := offsetOf(entries[0].GetIndex()); first < w.log.EndOffset() {
		if err := w.log.TruncateTo(first); err != nil {
			return err
		}
	}
	w.batches = w.batches[:0]
	for _, e := range entries {
		if e.GetType() != raftpb.EntryType_EntryNormal {
			return fmt.Errorf("bug: entry %d is of type %s: the voters do not change here", e.GetIndex(), e.GetType())
		}
		w.builder.Reset(nowMS, kafka.NoProducerID, kafka.NoEpoch, -1, 0)
		w.builder.Append(nowMS, nil, e.GetData())
		b, err := w.builder.Finish(nil)
		if err != nil {
			return err
		}
		at, epoch := offsetOf(e.GetIndex()), kafka.LeaderEpoch(e.GetTerm())
		record.Batch(b).SetBaseOffset(at)
		record.Batch(b).SetLeaderEpoch(epoch)
		w.batches = append(w.batches, commitlog.AppendBatch{Bytes: b, Base: at, Last: at, Epoch: epoch, MaxTimestamp: nowMS})
	}
	err := w.log.Append(w.batches)
	clear(w.batches)
	return err
}

// read gives the entries from an index on to the log's end.
func (w *wal) read(from uint64) ([]*raftpb.Entry, error) {
	var out []*raftpb.Entry
	for at := offsetOf(from); at < w.log.EndOffset(); {
		b, next, err := w.log.Read(at, readBytes)
		if err == nil && next <= at {
			err = fmt.Errorf("%w: nothing at offset %d below the end %d", errWAL, at, w.log.EndOffset())
		}
		if err == nil {
			out, err = appendEntries(out, b, at)
		}
		if err != nil {
			return nil, err
		}
		at = next
	}
	for i, e := range out {
		if e.GetIndex() != from+uint64(i) {
			return nil, fmt.Errorf("%w: entry %d is missing", errWAL, from+uint64(i))
		}
	}
	return out, nil
}

var errWAL = errors.New("the metadata log is damaged")

// appendEntries decodes a run of batches, leaving out those below an offset. The entries' data share b.
func appendEntries(dst []*raftpb.Entry, b []byte, from kafka.Offset) ([]*raftpb.Entry, error) {
	for len(b) > 0 {
		batch, rest, err := record.Next(b)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errWAL, err)
		}
		b = rest
		if batch.LastOffset() < from {
			continue
		}
		it, err := batch.Records(nil, 0)
		if err != nil || batch.NumRecords() != 1 || batch.Codec() != compress.None || !it.Next() {
			return nil, fmt.Errorf("%w: the batch at offset %d is no entry", errWAL, batch.BaseOffset())
		}
		dst = append(dst, &raftpb.Entry{
			Term: proto.Uint64(uint64(batch.PartitionLeaderEpoch())), Index: proto.Uint64(indexOf(batch.BaseOffset())),
			Type: raftpb.EntryType_EntryNormal.Enum(), Data: it.Record().Value,
		})
	}
	return dst, nil
}

// encodeEntry makes an entry's data from records.
func encodeEntry(records []metadata.Record) []byte { return appendRecords([]byte{walVersion}, records) }

func appendRecords(dst []byte, records []metadata.Record) []byte {
	var one []byte
	for _, r := range records {
		one = metadata.AppendRecord(one[:0], r)
		dst = append(binary.AppendUvarint(dst, uint64(len(one))), one...)
	}
	return dst
}

// decodeEntry appends the records of an entry's data; the empty entry of a new leader has none.
func decodeEntry(dst []metadata.Record, data []byte) ([]metadata.Record, error) {
	if len(data) == 0 {
		return dst, nil
	}
	if data[0] != walVersion {
		return nil, fmt.Errorf("%w: version %d, this program knows %d", errWAL, data[0], walVersion)
	}
	for b := data[1:]; len(b) > 0; {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)-k) {
			return nil, fmt.Errorf("%w: an entry ends within a record", errWAL)
		}
		r, err := metadata.DecodeRecord(b[k : k+int(n)])
		if err != nil {
			return nil, err
		}
		dst, b = append(dst, r), b[k+int(n):]
	}
	return dst, nil
}

// forget drops what a snapshot up to and including index makes superfluous.
func (w *wal) forget(index uint64, nowMS int64) error {
	at := offsetOf(index + 1)
	if at <= w.log.StartOffset() {
		return nil
	}
	return w.log.Forget(at, nowMS)
}
