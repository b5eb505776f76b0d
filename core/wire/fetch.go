package wire

import (
	"encoding/binary"

	"github.com/tidemark/tidemark/core/kafka"
)

// FetchRequest is a Fetch request as a view over its body.
type FetchRequest struct {
	ReplicaID    kafka.BrokerID // -1 a consumer, -2 a debugging consumer; from ReplicaState in version 15 on
	ReplicaEpoch int64
	MaxWaitMS    int32
	MinBytes     int32
	MaxBytes     int32
	Isolation    int8
	SessionID    int32 // 0 and epoch -1: no session, also below version 7
	SessionEpoch int32
	Topics       []FetchTopic
	Partitions   []FetchPartition // of all topics, in order
	Forgotten    []FetchTopic     // ranges in ForgottenPartitions
	// ForgottenPartitions are the partitions that leave the session.
	ForgottenPartitions []kafka.Partition
	Rack                []byte
}

// FetchTopic names a topic (by id from version 13 on) and its range of partitions.
type FetchTopic struct {
	Name       []byte
	ID         kafka.TopicID
	First, End int
}

// FetchPartition is what is asked of one partition.
type FetchPartition struct {
	Partition        kafka.Partition
	LeaderEpoch      kafka.LeaderEpoch // the reader's; -1 unknown
	Offset           kafka.Offset
	LastFetchedEpoch kafka.LeaderEpoch // -1 unless the reader may have diverged
	LogStart         kafka.Offset      // a follower's, else -1
	MaxBytes         int32
}

// Parse makes f a view of a Fetch request's body, using its slices again.
func (f *FetchRequest) Parse(body []byte, version int16) error {
	flexible := version >= FetchFlexible
	r := reader{b: body}
	*f = FetchRequest{ReplicaID: kafka.NoBroker, ReplicaEpoch: -1, SessionEpoch: -1, Topics: f.Topics[:0], Partitions: f.Partitions[:0],
		Forgotten: f.Forgotten[:0], ForgottenPartitions: f.ForgottenPartitions[:0]}
	if version <= 14 {
		f.ReplicaID = kafka.BrokerID(r.int32())
	}
	f.MaxWaitMS, f.MinBytes, f.MaxBytes, f.Isolation = r.int32(), r.int32(), r.int32(), r.int8()
	if version >= 7 {
		f.SessionID, f.SessionEpoch = r.int32(), r.int32()
	}
	for n := r.count(flexible, 2); n > 0 && !r.bad && len(f.Partitions) <= MaxEntries; n-- {
		f.parseTopic(&r, version)
	}
	if version >= 7 {
		for n := r.count(flexible, 2); n > 0 && !r.bad && len(f.ForgottenPartitions) <= MaxEntries; n-- {
			f.parseForgotten(&r, version)
		}
	}
	if version >= 11 {
		f.Rack = r.string(flexible)
	}
	if flexible {
		f.parseTags(&r, version)
	}
	if r.bad || len(f.Partitions) > MaxEntries || len(f.ForgottenPartitions) > MaxEntries {
		return ErrMalformed
	}
	return nil
}

func (f *FetchRequest) parseTopic(r *reader, version int16) {
	flexible := version >= FetchFlexible
	t := FetchTopic{First: len(f.Partitions)}
	if version >= 13 {
		t.ID = r.uuid()
	} else {
		t.Name = r.string(flexible)
	}
	for m := r.count(flexible, 16); m > 0 && !r.bad; m-- {
		p := FetchPartition{Partition: kafka.Partition(r.int32()), LeaderEpoch: kafka.NoLeaderEpoch,
			LastFetchedEpoch: kafka.NoLeaderEpoch, LogStart: kafka.NoOffset}
		if version >= 9 {
			p.LeaderEpoch = kafka.LeaderEpoch(r.int32())
		}
		p.Offset = kafka.Offset(r.int64())
		if version >= 12 {
			p.LastFetchedEpoch = kafka.LeaderEpoch(r.int32())
		}
		if version >= 5 {
			p.LogStart = kafka.Offset(r.int64())
		}
		p.MaxBytes = r.int32()
		r.skipTags(flexible)
		f.Partitions = append(f.Partitions, p)
	}
	r.skipTags(flexible)
	t.End = len(f.Partitions)
	f.Topics = append(f.Topics, t)
}

func (f *FetchRequest) parseForgotten(r *reader, version int16) {
	flexible := version >= FetchFlexible
	t := FetchTopic{First: len(f.ForgottenPartitions)}
	if version >= 13 {
		t.ID = r.uuid()
	} else {
		t.Name = r.string(flexible)
	}
	for m := r.count(flexible, 4); m > 0 && !r.bad; m-- {
		f.ForgottenPartitions = append(f.ForgottenPartitions, kafka.Partition(r.int32()))
	}
	r.skipTags(flexible)
	t.End = len(f.ForgottenPartitions)
	f.Forgotten = append(f.Forgotten, t)
}

func (f *FetchRequest) parseTags(r *reader, version int16) {
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		number, value := r.tag()
		if number == 1 && version >= 15 { // ReplicaState
			v := reader{b: value}
			f.ReplicaID, f.ReplicaEpoch = kafka.BrokerID(v.int32()), v.int64()
			v.skipTags(true)
			r.bad = r.bad || v.bad
		}
	}
}

// Reset drops the views, so that the slices keep no request alive.
func (f *FetchRequest) Reset() {
	clear(f.Topics)
	clear(f.Forgotten)
	f.Topics, f.Forgotten, f.Rack = f.Topics[:0], f.Forgotten[:0], nil
}

// AbortedTransaction is one entry of a read_committed answer: the batches of ID from First on, up to the abort marker,
// are not to be shown.
type AbortedTransaction struct {
	ID    kafka.ProducerID
	First kafka.Offset
}

// FetchResult is the answer for one partition, without its record batches.
type FetchResult struct {
	Partition     kafka.Partition
	Err           kafka.ErrorCode
	HighWatermark kafka.Offset
	LastStable    kafka.Offset
	LogStart      kafka.Offset
	// Aborted is nil (null) unless the reader is read_committed.
	Aborted   []AbortedTransaction
	Committed bool           // the reader is read_committed: Aborted is an array, however short
	Preferred kafka.BrokerID // replica to read from instead, -1
	Bytes     int            // of record batches

	Diverging      bool
	DivergingEpoch kafka.LeaderEpoch
	DivergingEnd   kafka.Offset
	HasLeader      bool
	Leader         kafka.BrokerID
	LeaderEpoch    kafka.LeaderEpoch
}

// FetchResultBytes bounds what AppendFetchResult and AppendFetchResultEnd append for one partition, without its aborted
// transactions (AbortedTransactionBytes each).
const FetchResultBytes = 96

// AbortedTransactionBytes bounds one aborted transaction in an answer.
const AbortedTransactionBytes = 17

// AppendFetchHead appends the body's front up to the topics' count.
func AppendFetchHead(dst []byte, version int16, throttleMS int32, err kafka.ErrorCode, sessionID int32, topics int) []byte {
	dst = appendInt32(dst, throttleMS)
	if version >= 7 {
		dst = appendInt16(dst, int16(err))
		dst = appendInt32(dst, sessionID)
	}
	return appendCount(dst, topics, version >= FetchFlexible)
}

// AppendFetchTopic begins a topic with a number of partitions; AppendFetchEnd ends it.
func AppendFetchTopic(dst []byte, version int16, name []byte, id kafka.TopicID, partitions int) []byte {
	if version >= 13 {
		dst = append(dst, id[:]...)
	} else {
		dst = appendString(dst, name, version >= FetchFlexible)
	}
	return appendCount(dst, partitions, version >= FetchFlexible)
}

// AppendFetchResult appends a partition up to its record batches, of which r.Bytes have to follow. They are never null.
func AppendFetchResult(dst []byte, version int16, r *FetchResult) []byte {
	flexible := version >= FetchFlexible
	dst = appendInt32(dst, int32(r.Partition))
	dst = appendInt16(dst, int16(r.Err))
	dst = appendInt64(dst, int64(r.HighWatermark))
	dst = appendInt64(dst, int64(r.LastStable))
	if version >= 5 {
		dst = appendInt64(dst, int64(r.LogStart))
	}
	if !r.Committed {
		dst = appendCount(dst, -1, flexible)
	} else {
		dst = appendCount(dst, len(r.Aborted), flexible)
		for _, a := range r.Aborted {
			dst = appendInt64(dst, int64(a.ID))
			dst = appendInt64(dst, int64(a.First))
			dst = appendNoTags(dst, flexible)
		}
	}
	if version >= 11 {
		dst = appendInt32(dst, int32(r.Preferred))
	}
	if flexible {
		return binary.AppendUvarint(dst, uint64(r.Bytes)+1)
	}
	return appendInt32(dst, int32(r.Bytes))
}

// AppendFetchResultEnd appends what follows a partition's record batches.
func AppendFetchResultEnd(dst []byte, version int16, r *FetchResult) []byte {
	if version < FetchFlexible {
		return dst
	}
	var n byte
	if r.Diverging {
		n++
	}
	if r.HasLeader {
		n++
	}
	dst = append(dst, n)
	if r.Diverging {
		dst = append(dst, 0, 13)
		dst = appendInt32(dst, int32(r.DivergingEpoch))
		dst = appendInt64(dst, int64(r.DivergingEnd))
		dst = append(dst, 0)
	}
	if r.HasLeader {
		dst = appendLeaderTag(dst, 1, r.Leader, r.LeaderEpoch)
	}
	return dst
}

// AppendFetchEnd ends a topic, and the body: (no) tagged fields.
func AppendFetchEnd(dst []byte, version int16) []byte {
	return appendNoTags(dst, version >= FetchFlexible)
}
