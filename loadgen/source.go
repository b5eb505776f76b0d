package loadgen

import (
	"errors"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/tidemark/tidemark/loadgen/verify"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// chunkRecords is the most records that are handed to the driver at once.
const chunkRecords = 128

func asCode(err error, code *kafka.ErrorCode) bool { return errors.As(err, code) }

// source makes one producer's records, one after another. The bytes of a chunk live in buffers that are used again for
// the next. It belongs to the producer's goroutine.
type source struct {
	run       uint64
	producer  int32
	verifying bool
	picker    *workload.Picker
	sizer     *workload.Sizer
	cutter    *workload.Cutter
	part      *workload.Partitioner
	seq       uint64
	keys      []byte
	heads     []byte // envelopes
	values    [][]byte
	records   []driver.Record
	plain     int      // every value's bytes, where all have as many and none has a key; 0 otherwise
	pieces    [][]byte // scratch of fill
	sums      []uint32
	minBytes  int
	maxBytes  int
	sumBytes  int64
}

// cut is the next piece of the payload: the block's own bytes, or a copy where it is longer than the block.
func (s *source) cut(i, n int) ([]byte, uint32) {
	if n <= maxPiece {
		return s.cutter.Next(n)
	}
	var sum uint32
	s.values[i], sum = s.cutter.AppendTo(s.values[i][:0], n)
	return s.values[i], sum
}

// maxPiece is a length that every payload block has.
const maxPiece = 1 << 20

func newSource(s *workload.Spec, run uint64, producer int32, keys *workload.KeySpace, payload *workload.Payload) *source {
	fixed := 0
	if s.RecordSize.Fixed() {
		fixed = s.RecordSize.Min
		if s.Verifying() {
			fixed -= verify.EnvelopeBytes
		}
	}
	src := &source{
		run: run, producer: producer, verifying: s.Verifying(), picker: keys.Picker(s.Seed, producer),
		sizer: workload.NewSizer(s.RecordSize, s.Seed, producer), cutter: payload.Cutter(s.Seed, producer, fixed),
		part: workload.NewPartitioner(s, producer), keys: make([]byte, chunkRecords*workload.KeyBytes), values: make([][]byte, chunkRecords),
		heads:   make([]byte, chunkRecords*verify.EnvelopeBytes),
		records: make([]driver.Record, 0, chunkRecords), minBytes: 1 << 30,
		pieces: make([][]byte, chunkRecords), sums: make([]uint32, chunkRecords),
	}
	if s.Keys.Kind == workload.KeysNone && s.RecordSize.Fixed() && s.RecordSize.Min > 0 && fixed <= maxPiece {
		src.plain = s.RecordSize.Min
	}
	return src
}

// begin starts a new chunk; the records of the one before are no longer used.
func (s *source) begin() { s.records = s.records[:0] }

// fill appends a record for each intended time, as many as the chunk has room for at most, and returns their bytes. It is
// next for each, with what equal records share done once.
func (s *source) fill(intended []int64) int {
	if s.plain == 0 {
		bytes := 0
		for _, at := range intended {
			bytes += s.next(at)
		}
		return bytes
	}
	from := len(s.records)
	rs := s.records[from : from+len(intended)]
	s.records = s.records[:from+len(intended)]
	pieces, sums := s.pieces[:len(rs)], s.sums[:len(rs)]
	payload := s.plain
	if s.verifying {
		payload -= verify.EnvelopeBytes
		s.cutter.Pieces(payload, pieces, sums)
		verify.SealRun(s.heads[from*verify.EnvelopeBytes:], verify.Envelope{Run: s.run, Producer: s.producer, Sequence: s.seq}, sums, s.plain)
	} else {
		s.cutter.Pieces(payload, pieces, sums)
	}
	for done := 0; done < len(rs); {
		topic, partition, n := s.part.NextRun(s.plain, len(rs)-done)
		for i := done; i < done+n; i++ {
			r := &rs[i]
			r.Seq, r.IntendedNanos, r.Topic, r.Partition, r.Key, r.Value = s.seq, intended[i], topic, partition, nil, pieces[i]
			r.Lasting, r.ValueSum = true, sums[i]
			s.seq++
			if s.verifying {
				at := (from + i) * verify.EnvelopeBytes
				r.Head = s.heads[at : at+verify.EnvelopeBytes : at+verify.EnvelopeBytes]
			}
		}
		done += n
	}
	s.minBytes, s.maxBytes = min(s.minBytes, s.plain), max(s.maxBytes, s.plain)
	s.sumBytes += int64(len(rs)) * int64(s.plain)
	return len(rs) * s.plain
}

// next appends one record to the chunk and returns its bytes.
func (s *source) next(intended int64) int {
	i := len(s.records)
	var key []byte
	if number := s.picker.Next(); number >= 0 {
		key = workload.AppendKey(s.keys[i*workload.KeyBytes:i*workload.KeyBytes], number)
	}
	size := s.sizer.Next()
	var head []byte
	payload := size
	if s.verifying {
		payload -= verify.EnvelopeBytes
	}
	body, sum := s.cut(i, payload)
	if s.verifying {
		head = s.heads[i*verify.EnvelopeBytes : (i+1)*verify.EnvelopeBytes : (i+1)*verify.EnvelopeBytes]
		verify.SealHead(head, verify.Envelope{Run: s.run, Producer: s.producer, Sequence: s.seq}, key, sum, size)
	}
	topic, partition := s.part.Next(key, size)
	s.records = append(s.records, driver.Record{Seq: s.seq, IntendedNanos: intended, Topic: topic, Partition: partition, Key: key, Head: head, Value: body,
		Lasting: payload <= maxPiece, ValueSum: sum})
	s.seq++
	s.minBytes, s.maxBytes = min(s.minBytes, size), max(s.maxBytes, size)
	s.sumBytes += int64(size)
	return len(key) + size
}
