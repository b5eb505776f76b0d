package raw

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/loadgen/driver"
)

// recordOverhead bounds what one record adds to its key and value: five varints, attributes and the header count.
const recordOverhead = 5 + 1 + 10 + 5 + 5 + 5 + 1

// batch is one record batch of one partition, from its first record to its end. Records are framed in place behind
// room for the header, so that an uncompressed batch is never copied again before the socket:
//
//	buf  | 61 bytes for the header | record | record | ...
//	wire = buf, or header | compressed records
//
// A large value that lasts is not copied at all, as long as nothing compresses the batch: buf holds what stands around it,
// and it goes to the socket, and into the CRC, from where it is (see apart).
//
// While open it belongs to the producer's lock; between being put in a request and the request's end, to the request.
type batch struct {
	part     *part
	gen      int // grows with each use, so that the linger queue knows an old acquaintance from a new one
	buf      []byte
	wire     []byte
	packed   []byte // kept for wire when compressing
	sealed   bool
	due      bool  // linger has passed
	size     int64 // of memory, as buffer.memory counts it
	limit    int   // what the batch holds at most
	scatter  bool  // values may stay apart
	apart    []apart
	away     int // bytes of values that are apart
	n        int32
	bytes    int64 // keys and values
	baseMS   int64
	lastMS   int64
	started  int64 // nanos of the first record
	seq      int32 // base sequence, -1 before it has one
	order    int64 // position among the partition's batches
	attempts int

	seqs     []uint64
	intended []int64

	// What the answer said.
	seen bool
	code kafka.ErrorCode
	text string
	base kafka.Offset
	err  error
}

func (b *batch) reset(p *part, nanos, nowMS int64) {
	b.part, b.gen = p, b.gen+1
	b.buf = b.buf[:record.HeaderBytes]
	b.wire, b.sealed, b.due = nil, false, false
	b.n, b.baseMS, b.lastMS, b.started, b.seq, b.attempts = 0, nowMS, nowMS, nanos, -1, 0
	b.seqs, b.intended = b.seqs[:0], b.intended[:0]
	b.bytes, b.base, b.err = 0, -1, nil
	b.apart, b.away = b.apart[:0], 0
}

// long is the batch's length so far, before compression.
func (b *batch) long() int { return len(b.buf) + b.away }

// wireBytes is the length of a sealed batch.
func (b *batch) wireBytes() int { return len(b.wire) + b.away }

// addRun frames records in place, up to most of them, for as long as they go to the first one's partition and fit, and
// returns how many it took. It writes by index instead of appending, and what all of them share is worked out once: this
// is where a small record's time goes.
func (b *batch) addRun(rs []driver.Record, nowMS int64, most int) int {
	rs = rs[:max(0, min(len(rs), most))]
	if len(rs) == 0 {
		return 0
	}
	topic, partition := rs[0].Topic, rs[0].Partition
	delta := nowMS - b.baseMS
	var same frame
	buf, at, number, end := b.buf[:cap(b.buf)], len(b.buf), int64(b.n), b.limit-b.away
	taken, bytes := 0, 0
	for i := range rs {
		r := &rs[i]
		keyLen, valueLen := len(r.Key), len(r.Head)+len(r.Value)
		if at+recordOverhead+keyLen+valueLen > end || r.Topic != topic || r.Partition != partition {
			break
		}
		switch {
		case r.Key == nil && valueLen == same.valueLen && number < same.numberEnd:
			at = same.put(buf, at, number)
		case r.Key == nil:
			same = frameOf(delta, number, valueLen)
			at = same.put(buf, at, number)
		default:
			at = putKeyed(buf, at, delta, number, r.Key, valueLen)
		}
		if len(r.Head) == headBytes { // an envelope: three words instead of a call
			*(*[headBytes]byte)(buf[at:]) = *(*[headBytes]byte)(r.Head)
			at += headBytes
		} else {
			at += copy(buf[at:], r.Head)
		}
		if b.scatter && r.Lasting && len(r.Value) >= apartBytes {
			b.apart = append(b.apart, apart{at: at, value: r.Value, sum: r.ValueSum})
			b.away += len(r.Value)
			end -= len(r.Value)
		} else {
			at += copy(buf[at:], r.Value)
		}
		buf[at] = 0 // no headers
		at++
		number++
		bytes += keyLen + valueLen
		taken++
	}
	b.buf, b.n, b.bytes, b.lastMS = buf[:at], int32(number), b.bytes+int64(bytes), max(b.lastMS, nowMS)
	b.note(rs[:taken])
	return taken
}

// frame is what stands in front of the value in records without keys whose values are equally long, but for their number.
type frame struct {
	before, behind       [16]byte // of the number; written whole, and then overwritten from their lengths on
	beforeLen, behindLen int
	valueLen             int
	numberEnd            int64 // from here on the number is longer
}

func frameOf(delta, number int64, valueLen int) (f frame) {
	digits := varintLen(number)
	f.numberEnd = 1 << (7*digits - 1) // zigzag takes a bit
	f.valueLen = valueLen
	body := 3 + varintLen(delta) + digits + varintLen(int64(valueLen)) + valueLen // attributes, length of no key, no headers
	at := putVarint(f.before[:], 0, int64(body))
	f.beforeLen = putVarint(f.before[:], at+1, delta) // behind the attributes, 0
	f.behind[0] = 1                                   // no key: -1
	f.behindLen = putVarint(f.behind[:], 1, int64(valueLen))
	return f
}

// put writes what stands in front of the value; behind at there is room for a recordOverhead at least.
func (f *frame) put(buf []byte, at int, number int64) int {
	*(*[16]byte)(buf[at:]) = f.before
	at += f.beforeLen
	if u := uint64(number) << 1; u < 1<<7 {
		buf[at] = byte(u)
		at++
	} else if u < 1<<14 {
		buf[at], buf[at+1] = byte(u)|0x80, byte(u>>7)
		at += 2
	} else {
		at = putLongVarint(buf, at, u)
	}
	*(*[16]byte)(buf[at:]) = f.behind
	return at + f.behindLen
}

// putKeyed writes what stands in front of the value of a record with a key.
func putKeyed(buf []byte, at int, delta, number int64, key []byte, valueLen int) int {
	keyLen := int64(len(key))
	body := 2 + varintLen(delta) + varintLen(number) + varintLen(keyLen) + len(key) + varintLen(int64(valueLen)) + valueLen
	at = putVarint(buf, at, int64(body))
	buf[at] = 0 // attributes
	at = putVarint(buf, at+1, delta)
	at = putVarint(buf, at, number)
	at = putVarint(buf, at, keyLen)
	at += copy(buf[at:], key)
	return putVarint(buf, at, int64(valueLen))
}

// headBytes is the length of the head that is copied without a call: a verified record's envelope.
const headBytes = 24

// note keeps what the ack will tell of the records.
func (b *batch) note(rs []driver.Record) {
	n := len(b.seqs)
	b.seqs, b.intended = slices.Grow(b.seqs, len(rs))[:n+len(rs)], slices.Grow(b.intended, len(rs))[:n+len(rs)]
	seqs, intended := b.seqs[n:], b.intended[n:]
	for i := range rs {
		seqs[i], intended[i] = rs[i].Seq, rs[i].IntendedNanos
	}
}

// varintLen is the length of v as a zigzag varint.
func varintLen(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	switch {
	case u < 1<<7:
		return 1
	case u < 1<<14:
		return 2
	}
	return (bits.Len64(u) + 6) / 7
}

// putVarint writes v as a zigzag varint at a position and returns the position behind it.
func putVarint(b []byte, at int, v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	if u < 1<<7 {
		b[at] = byte(u)
		return at + 1
	}
	return putLongVarint(b, at, u)
}

func putLongVarint(b []byte, at int, u uint64) int {
	for u >= 0x80 {
		b[at] = byte(u) | 0x80
		u >>= 7
		at++
	}
	b[at] = byte(u)
	return at + 1
}

// seal writes the header and the CRC, and compresses first where there is a codec. Sealing again only renews the
// producer's identity.
func (b *batch) seal(pool *payloadPool, codecs *compress.Codecs, codec compress.Codec, level int, j *joins, id kafka.ProducerID, epoch kafka.ProducerEpoch) error {
	if !b.sealed {
		b.wire = b.buf
		if codec != compress.None {
			packed, err := pool.pack(b, codecs, codec, level)
			if err != nil {
				return fmt.Errorf("compress a batch of %d records with %s: %w", b.n, codec, err)
			}
			b.packed, b.wire = packed, packed
		}
		h := b.wire
		binary.BigEndian.PutUint64(h, 0)
		binary.BigEndian.PutUint32(h[8:], uint32(b.wireBytes()-12))
		binary.BigEndian.PutUint32(h[12:], 0xffffffff) // partition leader epoch: the leader's to fill
		h[16] = 2
		binary.BigEndian.PutUint16(h[21:], uint16(codec))
		binary.BigEndian.PutUint32(h[23:], uint32(b.n-1))
		binary.BigEndian.PutUint64(h[27:], uint64(b.baseMS))
		binary.BigEndian.PutUint64(h[35:], uint64(b.lastMS))
		binary.BigEndian.PutUint32(h[57:], uint32(b.n))
		b.sealed = true
	} else if id < 0 {
		return nil // nothing in it has changed
	}
	if id < 0 {
		record.Batch(b.wire).SetProducer(-1, -1, -1)
	} else {
		record.Batch(b.wire).SetProducer(id, epoch, b.seq)
	}
	if len(b.apart) == 0 {
		record.Batch(b.wire).SealCRC()
	} else {
		binary.BigEndian.PutUint32(b.wire[crcAt:], b.joinedCRC(j))
	}
	return nil
}

// payloadPool keeps the first compressed batches and hands them out again in the place of others with as many records,
// so that a run can do without the cost of compressing. What is sent is then no longer what was appended: such runs are
// not verified, and say so. A nil pool compresses everything.
type payloadPool struct {
	mu   sync.Mutex
	most int
	kept map[int32][][]byte // compressed records by their number
	n    int
	next int
}

// pack appends room for a header and the compressed records to the batch's own buffer.
func (p *payloadPool) pack(b *batch, codecs *compress.Codecs, codec compress.Codec, level int) ([]byte, error) {
	var header [record.HeaderBytes]byte
	dst := append(b.packed[:0], header[:]...)
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if same := p.kept[b.n]; len(same) > 0 && p.n >= p.most {
			p.next++
			return append(dst, same[p.next%len(same)]...), nil
		}
	}
	dst, err := codecs.Append(dst, codec, level, b.buf[record.HeaderBytes:])
	if err == nil && p != nil && p.n < p.most {
		p.kept[b.n] = append(p.kept[b.n], slices.Clone(dst[record.HeaderBytes:]))
		p.n++
	}
	return dst, err
}
