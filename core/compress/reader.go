package compress

import "io"

// stream is one codec's decoder. A piece is valid until the next call; after an error the stream is done, io.EOF after
// a whole and undamaged input. reset never keeps more of limit than a bound on what it allocates.
type stream interface {
	reset(src []byte, limit int) error
	next() ([]byte, error)
	release() // forgets src
}

// Reader is a decompression under way. Close gives it back to its Codecs.
type Reader struct {
	codecs *Codecs
	codec  Codec
	stream stream
	rest   []byte // of the last piece, for Read
	left   int    // output that the bound still allows
	err    error
}

// Next returns the next piece of the output, valid until the next call, never empty; or io.EOF after the last one,
// ErrTooLarge, or ErrCorrupt. A reader uses either Next or Read.
func (r *Reader) Next() ([]byte, error) {
	for r.err == nil {
		piece, err := r.stream.next()
		if err != nil {
			if r.err = err; err != io.EOF {
				r.err = wrap(r.codec, err)
			}
			break
		}
		if len(piece) > r.left {
			r.err = wrap(r.codec, ErrTooLarge)
			break
		}
		if len(piece) > 0 {
			r.left -= len(piece)
			return piece, nil
		}
	}
	return nil, r.err
}

// Read fills p as io.Reader asks.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(r.rest) == 0 {
		piece, err := r.Next()
		if err != nil {
			return 0, err
		}
		r.rest = piece
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Close gives the Reader back to its Codecs; it must not be used afterwards.
func (r *Reader) Close() {
	r.rest, r.err = nil, io.ErrClosedPipe
	r.stream.release()
	r.codecs.readers[r.codec].Put(r)
}

// ended reports whether the whole input was read without an error.
func (r *Reader) ended() bool { return r.err == io.EOF }

// plainStream is the decoder of None.
type plainStream struct{ src []byte }

func (s *plainStream) reset(src []byte, _ int) error { s.src = src; return nil }

func (s *plainStream) release() { s.src = nil }

func (s *plainStream) next() ([]byte, error) {
	if len(s.src) == 0 {
		return nil, io.EOF
	}
	piece := s.src
	s.src = nil
	return piece, nil
}
