package compress

import (
	"bytes"
	"io"

	"github.com/klauspost/compress/gzip"
)

// gzipPiece is how much of its output a gzipStream holds.
const gzipPiece = 32 << 10

// gzipStream decodes gzip members, one after another, to the end of the input.
type gzipStream struct {
	src bytes.Reader
	r   gzip.Reader
	buf []byte
}

func (s *gzipStream) reset(src []byte, _ int) error {
	s.src.Reset(src)
	if s.buf == nil {
		s.buf = make([]byte, gzipPiece)
	}
	if err := s.r.Reset(&s.src); err != nil {
		return noEOF(err)
	}
	return nil
}

func (s *gzipStream) release() { s.src.Reset(nil) }

func (s *gzipStream) next() ([]byte, error) {
	n, err := s.r.Read(s.buf)
	if n > 0 {
		return s.buf[:n], nil // an error comes back at the next call
	}
	return nil, err
}

// noEOF turns an end inside a header into an error that no one takes for the end of the data.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// sliceWriter is an io.Writer that appends.
type sliceWriter struct{ b []byte }

func (w *sliceWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

// gzipWriter is an encoder with the place that it writes to.
type gzipWriter struct {
	out sliceWriter
	w   *gzip.Writer
}

func (c *Codecs) appendGzip(dst []byte, level int, src []byte) ([]byte, error) {
	if level < 0 || level > gzip.BestCompression {
		return dst, errLevel(Gzip, level, gzip.BestSpeed, gzip.BestCompression)
	}
	g, ok := c.gzipWriters[level].Get().(*gzipWriter)
	if !ok {
		g = &gzipWriter{}
		asked := level
		if level == 0 {
			asked = gzip.DefaultCompression
		}
		w, err := gzip.NewWriterLevel(&g.out, asked)
		if err != nil {
			return dst, err
		}
		g.w = w
	}
	g.out.b = dst
	g.w.Reset(&g.out)
	_, err := g.w.Write(src)
	if cerr := g.w.Close(); err == nil {
		err = cerr
	}
	out := g.out.b
	g.out.b = nil
	c.gzipWriters[level].Put(g)
	if err != nil {
		return dst, err
	}
	return out, nil
}
