// Package verify proves that what was acknowledged is what arrives: each record carries an envelope in front of its
// value, a Ledger keeps what was acked, a Checker for each consumer group what was delivered, and the two are compared:
// lost, duplicated, out of order within key and partition, corrupt. It knows no broker, driver or clock.
//
// The envelope, little endian, EnvelopeBytes in all:
//
//	0        8          12         16         24
//	| run id | producer | checksum | sequence | payload ...
//
// The checksum covers the other envelope fields, the key and the payload: the payload's CRC-32C, mixed with the rest by
// multiplication rather than by running the CRC on. So an encoder that knows the payload's CRC (payloads are cut from
// a fixed block, see workload.Cutter) seals a record in a few nanoseconds, while the checker recomputes it all.
//
// Sequences count from 0 for each producer, without gaps. Memory is bounded by one bit for each record that is not part
// of a complete stretch of 65,536: complete stretches cost nothing (see set).
//
// Concurrency: Seal and Open are pure. Ledger and Checker lock themselves once a call: hand them whole batches.
package verify

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/tidemark/tidemark/loadgen/workload"
)

// EnvelopeBytes is the least size of a verified record's value.
const EnvelopeBytes = workload.EnvelopeBytes

// Errors of Open.
var (
	// ErrCorrupt: the checksum does not fit the record.
	ErrCorrupt = errors.New("checksum differs")
	// ErrShort: the value is shorter than an envelope.
	ErrShort = errors.New("value shorter than an envelope")
	// ErrForeign: a record of another run, or of no run.
	ErrForeign = errors.New("record of another run")
)

// Envelope identifies one record.
type Envelope struct {
	Run      uint64 // of the run, not 0
	Producer int32
	Sequence uint64
}

// Sum is the CRC-32C of a payload, as Seal wants it.
func Sum(payload []byte) uint32 {
	return crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)) // the table is made once, by hash/crc32
}

// Seal writes the envelope into the first EnvelopeBytes of value, which must have them. sum is the CRC-32C of the bytes
// behind; key may be nil.
func Seal(value []byte, e Envelope, key []byte, sum uint32) {
	SealHead(value, e, key, sum, len(value))
}

// SealHead writes the envelope of a value of valueBytes into head, which has EnvelopeBytes; the payload stands elsewhere.
func SealHead(head []byte, e Envelope, key []byte, sum uint32, valueBytes int) {
	_ = head[EnvelopeBytes-1]
	binary.LittleEndian.PutUint64(head, e.Run)
	binary.LittleEndian.PutUint32(head[8:], uint32(e.Producer))
	binary.LittleEndian.PutUint32(head[12:], sum^mix(e, key, valueBytes))
	binary.LittleEndian.PutUint64(head[16:], e.Sequence)
}

// SealRun writes the envelopes of records without keys whose sequences follow each other, e.Sequence first, and whose values
// have valueBytes each: heads holds EnvelopeBytes for each of sums, the payloads' CRC-32C.
func SealRun(heads []byte, e Envelope, sums []uint32, valueBytes int) {
	same := mixSame(e, valueBytes)
	for i, sum := range sums {
		head := (*[EnvelopeBytes]byte)(heads[i*EnvelopeBytes:])
		binary.LittleEndian.PutUint64(head[:], e.Run)
		binary.LittleEndian.PutUint32(head[8:], uint32(e.Producer))
		binary.LittleEndian.PutUint32(head[12:], sum^mixEnd(same+mixSequence(e.Sequence)))
		binary.LittleEndian.PutUint64(head[16:], e.Sequence)
		e.Sequence++
	}
}

// Open reads and checks a record of the run. The envelope is valid without error, and with ErrCorrupt as far as it can be
// trusted.
func Open(value, key []byte, run uint64) (Envelope, error) {
	if len(value) < EnvelopeBytes {
		return Envelope{}, ErrShort
	}
	e := Envelope{
		Run:      binary.LittleEndian.Uint64(value),
		Producer: int32(binary.LittleEndian.Uint32(value[8:])),
		Sequence: binary.LittleEndian.Uint64(value[16:]),
	}
	sealed := e
	sealed.Run = run // a flipped bit in the run id is corruption, not another run
	want := binary.LittleEndian.Uint32(value[12:])
	sum := Sum(value[EnvelopeBytes:])
	switch {
	case e.Run == run && want == sum^mix(e, key, len(value)):
		return e, nil
	case e.Run != run && want == sum^mix(e, key, len(value)):
		return e, ErrForeign
	case e.Run != run && want != sum^mix(sealed, key, len(value)):
		// Neither intact nor ours with one field damaged: most likely no record of this kit.
		return e, ErrForeign
	}
	return e, ErrCorrupt
}

// mix folds everything but the payload to 32 bits: each word multiplied by a constant of its own, side by side so that the
// multiplications overlap, then one more round over their sum. A difference in one word alone always changes the sum.
func mix(e Envelope, key []byte, valueBytes int) uint32 {
	h := mixSame(e, valueBytes) + mixSequence(e.Sequence)
	if key != nil {
		h += uint64(len(key)+1) * mixD
		for ; len(key) >= 8; key = key[8:] {
			h = (h^h>>32)*mixB + binary.LittleEndian.Uint64(key)*mixD
		}
		for _, k := range key {
			h = (h^h>>32)*mixB + uint64(k)*mixD
		}
	}
	return mixEnd(h)
}

// mix's constants.
const (
	mixA = 0x9e3779b97f4a7c15
	mixB = 0xd6e8feb86659fd93
	mixC = 0xc2b2ae3d27d4eb4f
	mixD = 0xff51afd7ed558ccd
)

// mixSame is what records of one producer and one length have in common.
func mixSame(e Envelope, valueBytes int) uint64 {
	return (e.Run^mixA)*mixB + (uint64(uint32(e.Producer))|uint64(valueBytes)<<32)*mixC
}

func mixSequence(seq uint64) uint64 { return (seq ^ mixC) * mixA }

func mixEnd(h uint64) uint32 { return uint32((h ^ h>>29) * mixA >> 32) }

// Peek reads an envelope without checking it; false where the value is too short to hold one.
func Peek(value []byte) (Envelope, bool) {
	if len(value) < EnvelopeBytes {
		return Envelope{}, false
	}
	return Envelope{
		Run:      binary.LittleEndian.Uint64(value),
		Producer: int32(binary.LittleEndian.Uint32(value[8:])),
		Sequence: binary.LittleEndian.Uint64(value[16:]),
	}, true
}
