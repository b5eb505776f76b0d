package server

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/broker/internal/api"
	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/vfs"
)

// transfer is how bytes of files reach sockets (socket.transfer).
type transfer int

const (
	transferSendfile transfer = iota // auto too
	transferSplice
	transferCopy
)

func parseTransfer(s string) (transfer, error) {
	switch s {
	case "", "auto", "sendfile":
		return transferSendfile, nil
	case "splice":
		return transferSplice, nil
	case "copy":
		return transferCopy, nil
	}
	return 0, fmt.Errorf("socket.transfer: unknown value %q (auto, sendfile, splice or copy)", s)
}

const (
	maxGather  = 32        // calls, and pieces of memory, that one writev takes
	copyBytes  = 256 << 10 // that are copied at a time
	copyScarce = 16 << 10  // when queued.max.request.bytes is used up
	spliceSize = 64 << 10  // what a pipe holds
)

type sent int

const (
	sendDone sent = iota
	sendBlocked
	sendFailed
)

// sender is the answers on their way and how far the first of them is. It belongs to whoever set conn.out.writing.
type sender struct {
	calls *api.Call
	piece int   // of the first call
	off   int64 // in that piece

	copied   *buf.Buf // bytes of a file piece from copiedAt on
	copiedAt int64
	share    int64 // of queued.max.request.bytes, for copied
	pipe     *[2]int
	inPipe   int
}

func (s *sender) empty() bool { return s.calls == nil }

func (s *sender) load(first *api.Call) { s.calls, s.piece, s.off = first, 0, 0 }

// take gives what was not sent up.
func (s *sender) take(c *conn) *api.Call {
	calls := s.calls
	s.calls = nil
	s.dropCopy(c)
	if s.pipe != nil {
		_, _ = unix.Close(s.pipe[0]), unix.Close(s.pipe[1])
		s.pipe, s.inPipe = nil, 0
	}
	return calls
}

func (s *sender) dropCopy(c *conn) {
	if s.copied != nil {
		s.copied.Release()
		c.s.budget.give(s.share)
		s.copied, s.share = nil, 0
	}
}

// memory gives piece i of an answer when it is bytes in memory; end says that there is no such piece.
func memory(a *api.Answer, i int) (b []byte, file *api.Piece, end bool) {
	if len(a.Pieces) == 0 {
		return a.Head, nil, i > 0
	}
	if i >= len(a.Pieces) {
		return nil, nil, true
	}
	p := &a.Pieces[i]
	switch {
	case p.Lease != nil:
		return nil, p, false
	case p.B != nil:
		return p.B, nil, false
	}
	return a.Head[p.From:p.To], nil, false
}

// run sends until all is sent, the socket is full, or it fails.
func (s *sender) run(c *conn, fd int) sent {
	for s.calls != nil {
		var iov [maxGather][]byte
		n, file := s.gather(&iov)
		var wrote int
		var err error
		switch {
		case n > 0:
			wrote, err = writeMemory(fd, iov[:n], file != nil)
		case file != nil:
			wrote, err = s.file(c, fd, file)
		}
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			if c.stuck.Load() == 0 {
				c.stuck.Store(clock.Nanos())
			}
			return sendBlocked
		case err != nil:
			return sendFailed
		}
		if c.stuck.Load() != 0 {
			c.stuck.Store(0)
		}
		c.s.met.written.Add(int64(wrote))
		s.advance(c, int64(wrote))
	}
	return sendDone
}

// gather collects pieces of memory from where the sender stands, up to the first piece of a file.
func (s *sender) gather(iov *[maxGather][]byte) (n int, file *api.Piece) {
	i, off := s.piece, s.off
	for call := s.calls; call != nil; call, i = call.Slot.Next, 0 {
		for ; ; i++ {
			b, f, end := memory(&call.Answer, i)
			if end {
				break
			}
			if f != nil {
				return n, f
			}
			if b = b[off:]; len(b) > 0 {
				if n == maxGather {
					return n, nil
				}
				iov[n] = b
				n++
			}
			off = 0
		}
	}
	return n, nil
}

// writeMemory writes without blocking; more holds the last bytes back for what follows.
func writeMemory(fd int, iov [][]byte, more bool) (int, error) {
	switch {
	case more:
		return unix.SendmsgBuffers(fd, iov, nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL)
	case len(iov) == 1:
		return unix.Write(fd, iov[0])
	}
	return unix.Writev(fd, iov)
}

// advance moves on by n bytes and releases the calls that were sent whole.
func (s *sender) advance(c *conn, n int64) {
	for s.calls != nil {
		b, f, end := memory(&s.calls.Answer, s.piece)
		if end {
			call := s.calls
			s.calls, s.piece, s.off = call.Slot.Next, 0, 0
			c.release(call)
			continue
		}
		size := int64(len(b))
		if f != nil {
			size = int64(f.N)
		}
		if n < size-s.off {
			s.off += n
			return
		}
		n -= size - s.off
		s.piece, s.off = s.piece+1, 0
		s.dropCopy(c)
	}
}

// file sends from a file at an explicit offset: the descriptor's own position is shared and never used.
func (s *sender) file(c *conn, fd int, p *api.Piece) (wrote int, err error) {
	if c.s.transfer != transferCopy {
		err = p.Lease.WithFd(func(file int) error {
			at, left := p.Pos+s.off, p.N-int(s.off)
			if c.s.transfer == transferSplice {
				wrote, err = s.splice(fd, file, at, left)
				return err
			}
			wrote, err = unix.Sendfile(fd, file, &at, left)
			if err == nil && wrote == 0 {
				return io.ErrUnexpectedEOF
			}
			return err
		})
		if !errors.Is(err, vfs.ErrNoFd) {
			return wrote, err
		}
	}
	return s.copy(c, fd, p)
}

func (s *sender) copy(c *conn, fd int, p *api.Piece) (int, error) {
	if s.copied == nil || s.off >= s.copiedAt+int64(len(s.copied.B)) {
		s.dropCopy(c)
		n := min(copyBytes, p.N-int(s.off))
		if c.s.budget.try(int64(n)) {
			s.share = int64(n)
		} else {
			n = min(n, copyScarce)
		}
		b := c.s.o.Pool.Get(n)
		if _, err := p.Lease.ReadAt(b.B, p.Pos+s.off); err != nil {
			b.Release()
			c.s.budget.give(s.share)
			s.share = 0
			return 0, err
		}
		s.copied, s.copiedAt = b, s.off
	}
	return unix.Write(fd, s.copied.B[s.off-s.copiedAt:])
}

func (s *sender) splice(fd, file int, at int64, left int) (int, error) {
	if s.pipe == nil {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			return 0, err
		}
		s.pipe = &p
	}
	if s.inPipe == 0 {
		n, err := unix.Splice(file, &at, s.pipe[1], nil, min(left, spliceSize), unix.SPLICE_F_MOVE)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return 0, io.ErrUnexpectedEOF
		}
		s.inPipe = int(n)
	}
	n, err := unix.Splice(s.pipe[0], nil, fd, nil, s.inPipe, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
	if err != nil {
		return 0, err
	}
	s.inPipe -= int(n)
	return int(n), nil
}
