package loadgen

import (
	"errors"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/tidemark/tidemark/loadgen/verify"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// chunkRecords is the most records that are handed to the driver at once.
const chunkRecords = 64

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
	return &source{
		run: run, producer: producer, verifying: s.Verifying(), picker: keys.Picker(s.Seed, producer),
		sizer: workload.NewSizer(s.RecordSize, s.Seed, producer), cutter: payload.Cutter(s.Seed, producer, fixed),
		part: workload.NewPartitioner(s, producer), keys: make([]byte, chunkRecords*workload.KeyBytes), values: make([][]byte, chunkRecords),
		heads:   make([]byte, chunkRecords*verify.EnvelopeBytes),
		records: make([]driver.Record, 0, chunkRecords), minBytes: 1 << 30,
	}
}

// begin starts a new chunk; the records of the one before are no longer used.
func (s *source) begin() { s.records = s.records[:0] }

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
	s.records = append(s.records, driver.Record{Seq: s.seq, IntendedNanos: intended, Topic: topic, Partition: partition, Key: key, Head: head, Value: body})
	s.seq++
	s.minBytes, s.maxBytes = min(s.minBytes, size), max(s.maxBytes, size)
	s.sumBytes += int64(size)
	return len(key) + size
}
