package commitlog

import (
	"errors"
	"fmt"
	"io"

	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/record"
)

// Sizes of what a scanner reads at once: little where a look-up ends, much where a whole segment is read.
const (
	lookupChunk = 8 << 10
	scanChunk   = 256 << 10
)

// errTorn says that a batch does not end within the file.
var errTorn = errors.New("batch is cut short")

// scanner walks the batches of a piece of a .log file, up to end. It belongs to one goroutine; close frees its buffer.
type scanner struct {
	r    io.ReaderAt
	end  int64
	pool *buf.Pool
	buf  *buf.Buf
	at   int64 // what buf.B[:n] holds begins here in the file
	n    int
}

func newScanner(r io.ReaderAt, end int64, pool *buf.Pool, chunk int) scanner {
	return scanner{r: r, end: end, pool: pool, buf: pool.Get(int(min(int64(chunk), max(end, record.HeaderBytes))))}
}

func (s *scanner) close() { s.buf.Release() }

// bytes gives n bytes at pos; they are valid until the next call.
func (s *scanner) bytes(pos int64, n int) ([]byte, error) {
	if pos >= s.at && pos+int64(n) <= s.at+int64(s.n) {
		return s.buf.B[pos-s.at:][:n:n], nil
	}
	if n > len(s.buf.B) {
		s.buf.Release()
		s.buf = s.pool.Get(n)
	}
	want := int(min(int64(len(s.buf.B)), s.end-pos))
	s.at, s.n = pos, 0
	got, err := s.r.ReadAt(s.buf.B[:want], pos)
	if s.n = got; got >= n {
		return s.buf.B[:n:n], nil
	}
	if err == nil || err == io.EOF {
		err = errTorn
	}
	return nil, err
}

// header gives the header of the batch at pos and the batch's size. io.EOF when pos is the end, errTorn when the
// batch does not fit before it, ErrCorrupt when there is none.
func (s *scanner) header(pos int64) (record.Batch, int64, error) {
	if pos == s.end {
		return nil, 0, io.EOF
	}
	if s.end-pos < record.HeaderBytes {
		return nil, 0, errTorn
	}
	b, err := s.bytes(pos, record.HeaderBytes)
	if err != nil {
		return nil, 0, err
	}
	h := record.Batch(b)
	size := int64(h.Length()) + 12
	switch {
	case h.Magic() != record.Magic:
		return nil, 0, fmt.Errorf("magic is %d, want %d: %w", h.Magic(), record.Magic, ErrCorrupt)
	case size < record.HeaderBytes || h.LastOffsetDelta() < 0 || h.BaseOffset() < 0 || h.LastOffset() < h.BaseOffset():
		return nil, 0, fmt.Errorf("batch header makes no sense (%d bytes, offsets %d to %d): %w", size, h.BaseOffset(), h.LastOffset(), ErrCorrupt)
	case size > s.end-pos:
		return nil, 0, errTorn
	}
	return h, size, nil
}

// batch gives the whole batch at pos.
func (s *scanner) batch(pos int64) (record.Batch, error) {
	_, size, err := s.header(pos)
	if err != nil {
		return nil, err
	}
	b, err := s.bytes(pos, int(size))
	return record.Batch(b), err
}
