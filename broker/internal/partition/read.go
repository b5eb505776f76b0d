package partition

import (
	"errors"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
)

// ReadRequest is what a fetch asks of one partition.
type ReadRequest struct {
	From        kafka.Offset
	MaxBytes    int
	MinOne      bool // the first batch whole even if it is larger than MaxBytes (KIP-74)
	Committed   bool // read_committed
	LeaderEpoch kafka.LeaderEpoch
	// LastFetchedEpoch is the epoch of the reader's last record, kafka.NoLeaderEpoch when it cannot have diverged.
	LastFetchedEpoch kafka.LeaderEpoch
	Source           commitlog.Source
}

// View is what a partition looked like when it was read.
type View struct {
	HighWatermark kafka.Offset
	LastStable    kafka.Offset
	LogStart      kafka.Offset
	// Diverging says that the reader must truncate: to DivergingEnd of DivergingEpoch at most.
	Diverging      bool
	DivergingEpoch kafka.LeaderEpoch
	DivergingEnd   kafka.Offset
	// InFile says that a read from commitlog.TailSource would have needed a file.
	InFile bool
}

// CheckEpoch compares a client's idea of the leader epoch with ours (KIP-320); kafka.NoLeaderEpoch has none.
func (p *Partition) CheckEpoch(epoch kafka.LeaderEpoch) kafka.ErrorCode {
	own := kafka.LeaderEpoch(p.role.Load())
	switch {
	case p.offline.Load():
		return kafka.KafkaStorageError
	case own == notLeader:
		return p.notLeading()
	case epoch == kafka.NoLeaderEpoch || epoch == own:
		return kafka.None
	case epoch < own:
		return kafka.FencedLeaderEpoch
	}
	return kafka.UnknownLeaderEpoch
}

// Read fills s with batches for a consumer. With an error s is empty; the view holds what is known all the same.
func (p *Partition) Read(s *commitlog.Slice, r *ReadRequest) (v View, code kafka.ErrorCode) {
	// The log start is read before the high watermark: it never passes it.
	v = View{LogStart: p.o.Log.StartOffset(), LastStable: kafka.Offset(p.lso.Load()), HighWatermark: kafka.Offset(p.hw.Load())}
	if code = p.CheckEpoch(r.LeaderEpoch); code != kafka.None {
		return v, code
	}
	if r.LastFetchedEpoch != kafka.NoLeaderEpoch {
		epoch, end := p.o.Log.EndOffsetForEpoch(r.LastFetchedEpoch)
		if epoch != kafka.NoLeaderEpoch && (epoch < r.LastFetchedEpoch || end < r.From) {
			v.Diverging, v.DivergingEpoch, v.DivergingEnd = true, epoch, end
			return v, kafka.None
		}
	}
	limit := v.HighWatermark
	if r.Committed {
		limit = v.LastStable
	}
	switch {
	case r.From < v.LogStart || r.From > p.o.Log.EndOffset():
		return v, kafka.OffsetOutOfRange
	case r.From >= limit:
		p.o.Log.Want()
		return v, kafka.None
	case r.MaxBytes <= 0 && !r.MinOne:
		return v, kafka.None
	}
	s.From = r.Source
	err := p.o.Log.Read(s, r.From, r.MaxBytes, limit, r.MinOne)
	if v.InFile = errors.Is(err, commitlog.ErrNotInTail); err != nil && !v.InFile {
		return v, p.readError(err)
	}
	return v, kafka.None
}

func (p *Partition) readError(err error) kafka.ErrorCode {
	switch {
	case errors.Is(err, commitlog.ErrOffsetOutOfRange):
		return kafka.OffsetOutOfRange
	case errors.Is(err, commitlog.ErrClosed):
		return kafka.NotLeaderForPartition
	}
	p.o.Failed(err)
	return kafka.KafkaStorageError
}

// Aborted lists the aborted transactions that overlap [from, limit).
func (p *Partition) Aborted(from, limit kafka.Offset) ([]commitlog.AbortedTxn, kafka.ErrorCode) {
	list, err := p.o.Log.AbortedTxns(from, limit)
	if err != nil {
		return nil, p.readError(err)
	}
	return list, kafka.None
}

// Special times of ListOffsets.
const (
	Latest       = -1
	Earliest     = -2
	MaxTimestamp = -3
	// EarliestLocal, LatestTiered and EarliestPending speak of tiered storage, which is not there: the log start, and
	// no offset.
	EarliestLocal   = -4
	LatestTiered    = -5
	EarliestPending = -6
)

// ListOffset answers ListOffsets: the offset of a time, or of one of the special times. Offset -1 is "none".
func (p *Partition) ListOffset(ts int64, committed bool) (commitlog.FoundOffset, kafka.ErrorCode) {
	none := commitlog.FoundOffset{Offset: kafka.NoOffset, Timestamp: -1, Epoch: kafka.NoLeaderEpoch}
	p.mu.Lock()                                // the limit and whether it may be told yet belong to one moment
	hidden := p.HighWatermark() < p.mu.epochAt // KIP-207
	limit := p.HighWatermark()
	if committed {
		limit = p.LastStableOffset()
	}
	p.mu.Unlock()
	if hidden && ts != Earliest && ts != EarliestLocal {
		return none, kafka.OffsetNotAvailable
	}
	switch ts {
	case Latest:
		return commitlog.FoundOffset{Offset: limit, Timestamp: -1, Epoch: p.LeaderEpoch()}, kafka.None
	case Earliest, EarliestLocal:
		start := p.LogStart()
		return commitlog.FoundOffset{Offset: start, Timestamp: -1, Epoch: p.o.Log.EpochFor(start)}, kafka.None
	case LatestTiered, EarliestPending:
		return none, kafka.None
	}
	var found commitlog.FoundOffset
	var err error
	switch {
	case ts == MaxTimestamp:
		found, err = p.o.Log.MaxTimestamp(limit)
	case ts < 0:
		return none, kafka.UnsupportedVersion
	default:
		found, err = p.o.Log.OffsetForTime(ts, limit)
	}
	if err != nil {
		return none, p.readError(err)
	}
	return found, kafka.None
}

// EpochEnd answers OffsetForLeaderEpoch.
func (p *Partition) EpochEnd(epoch kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset) {
	if epoch == p.LeaderEpoch() {
		return epoch, p.LogEnd()
	}
	return p.o.Log.EndOffsetForEpoch(epoch)
}

// Read up to the log end for a coordinator that loads the partition: whole batches from the one that holds from.
func (p *Partition) readAll(s *commitlog.Slice, from kafka.Offset, maxBytes int) error {
	return p.o.Log.Read(s, from, maxBytes, p.o.Log.EndOffset(), true)
}

// AppendBatches appends to dst whole batches from the one that holds from, at least one, about maxBytes in all, up to
// the log end: for a coordinator that loads the partition.
func (p *Partition) AppendBatches(dst []byte, from kafka.Offset, maxBytes int) ([]byte, error) {
	var s commitlog.Slice
	if err := p.readAll(&s, from, maxBytes); err != nil {
		return dst, err
	}
	defer s.Release()
	n := len(dst)
	dst = append(dst, make([]byte, s.Bytes)...)
	return dst, s.CopyTo(dst[n:])
}
