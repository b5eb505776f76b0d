package record

import (
	"fmt"

	"github.com/tidemark/tidemark/core/compress"
)

// Header is one header of a record. A nil Value is Kafka's null.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record of a batch. Key, Value and the headers' values are views over the batch or over the Iterator's
// buffer, valid until its Reset; a nil Key or Value is Kafka's null.
type Record struct {
	OffsetDelta    int32
	TimestampDelta int64
	Key, Value     []byte
	Headers        []Header
}

// Iterator walks the records of a batch. The zero value is ready for Reset.
type Iterator struct {
	b      []byte // the records
	pos    int
	n, at  int32 // records in all, and read
	rec    Record
	err    error
	buffer []byte // what compressed records are decompressed into
}

// Records opens the batch for reading. Compressed records are decompressed whole, maxBytes at most (ErrTooLarge of
// package compress); codecs may be nil. The CRC is not looked at.
func (b Batch) Records(codecs *compress.Codecs, maxBytes int) (*Iterator, error) {
	it := &Iterator{}
	return it, it.Reset(b, codecs, maxBytes)
}

// Reset opens another batch with the same buffers: a reader that goes on with one Iterator allocates nothing.
func (it *Iterator) Reset(b Batch, codecs *compress.Codecs, maxBytes int) error {
	it.b, it.pos, it.n, it.at, it.err = nil, 0, 0, 0, nil
	if len(b) < HeaderBytes {
		return ErrShort
	}
	if b.NumRecords() < 0 {
		return fmt.Errorf("%w: %d records", ErrCorrupt, b.NumRecords())
	}
	it.n = b.NumRecords()
	if b.Codec() == compress.None || it.n == 0 {
		it.b = b[HeaderBytes:]
		return nil
	}
	out, err := codecs.AppendDecompressed(it.buffer[:0], b.Codec(), b[HeaderBytes:], maxBytes)
	if err != nil {
		it.n = 0
		return err
	}
	it.b, it.buffer = out, out
	return nil
}

// Next moves to the next record and reports whether there is one.
func (it *Iterator) Next() bool {
	if it.at >= it.n || it.err != nil {
		return false
	}
	next, ok := it.rec.parse(it.b, it.pos)
	if !ok {
		it.err = fmt.Errorf("%w: record %d of %d at %d", ErrCorrupt, it.at, it.n, it.pos)
		return false
	}
	it.pos = next
	it.at++
	return true
}

// Record is the current record. The Record itself and its Headers slice are reused by the next call of Next.
func (it *Iterator) Record() *Record { return &it.rec }

// Err is why Next stopped early, or nil at the batch's end.
func (it *Iterator) Err() error { return it.err }

// parse reads the record at i and returns the position behind it.
func (r *Record) parse(b []byte, i int) (next int, ok bool) {
	size, i := varint32(b, i)
	if i < 0 || size < 1 || int(size) > len(b)-i {
		return 0, false
	}
	next = i + int(size)
	rec := b[i:next:next]
	var j int
	r.TimestampDelta, j = varint64(rec, 1)
	r.OffsetDelta, j = varint32(rec, j)
	r.Key, j = bytesAt(rec, j)
	r.Value, j = bytesAt(rec, j)
	r.Headers = r.Headers[:0]
	headers, j := varint32(rec, j)
	if j < 0 || headers < 0 || int(headers) > len(rec)-j {
		return 0, false
	}
	for ; headers > 0; headers-- {
		var key, value []byte
		if key, j = bytesAt(rec, j); key == nil {
			return 0, false
		}
		value, j = bytesAt(rec, j)
		r.Headers = append(r.Headers, Header{Key: string(key), Value: value})
	}
	return next, j == len(rec)
}

// bytesAt reads a length and as many bytes: nil for null, and at -1 when there are none such.
func bytesAt(rec []byte, j int) ([]byte, int) {
	n, j := varint32(rec, j)
	if j < 0 || n < -1 || int(n) > len(rec)-j {
		return nil, -1
	}
	if n < 0 {
		return nil, j
	}
	end := j + int(n)
	return rec[j:end:end], end
}
