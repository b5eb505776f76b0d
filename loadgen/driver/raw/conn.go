package raw

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/loadgen/driver"
)

// maxAnswerBytes bounds one answer's frame.
const maxAnswerBytes = 256 << 20

// request is one request on its way. Exactly one of answered and failed is called, once, from the connection's
// goroutines and with no lock held; a request without an answer (acks=0) gets written instead of answered.
type request interface {
	// seal returns the frame's pieces; it is called right before they are written, by whoever writes. The pieces are
	// left alone when answered, written or failed is called.
	seal(c *conn, correlationID int32) net.Buffers
	// wantsAnswer is false for acks=0: then written is called instead of answered.
	wantsAnswer() bool
	written(nanos int64)
	// answered gets the frame behind the correlation id. The bytes are the request's own when keeps is true.
	answered(body []byte, nanos int64)
	failed(err error)
	keeps() bool
}

// conn is one connection to a broker. Requests are written in the order of enqueue by whoever is free to write, the
// caller or the connection's writer; the reader's goroutine hands out the answers and never writes, so that a full
// socket cannot delay the stamp of an answer.
//
// It is made by dial and ended by fail (or close); all its goroutines end then (one more where the broker limits how long an
// authentication holds), and all requests get failed.
type conn struct {
	nc       net.Conn
	rc       syscall.RawConn // nil where nc is no plain TCP connection
	w        writing
	vector   buf.Vector // of whoever writes
	addr     string
	clientID string
	versions map[int16][2]int16 // API key: min, max
	wake     chan struct{}      // to the writer: there is something to write
	done     chan struct{}      // closed by fail
	readBuf  []byte
	spare    chan []byte // buffers that were given back
	joined   []byte      // of writeWrapped

	mu struct {
		sync.Mutex
		out     []request // to be written
		first   []request // of an authentication: written before all others
		holds   bool      // an authentication is under way: out waits
		pending []sent    // written, waiting for an answer; oldest first
		writing bool
		err     error
		nextID  int32
		written int32     // the last request whose write has returned
		early   sync.Cond // the reader waits for that
		waits   bool
	}
}

type sent struct {
	r     request
	id    int32
	nanos int64
}

// dial connects, asks for the broker's API versions and says who the client is.
func dial(ctx context.Context, addr, clientID string, access driver.Access) (*conn, error) {
	nc, err := access.Connect(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("connect to broker: %w", err)
	}
	var rc syscall.RawConn
	if tcp, ok := nc.(*net.TCPConn); ok {
		if rc, err = tcp.SyscallConn(); err != nil {
			_ = nc.Close()
			return nil, fmt.Errorf("connect to broker %s: %w", addr, err)
		}
	}
	c := &conn{nc: nc, rc: rc, addr: addr, clientID: clientID, wake: make(chan struct{}, 1), done: make(chan struct{}), readBuf: make([]byte, minBuffer), spare: make(chan []byte, 2)}
	c.mu.written, c.mu.early.L = -1, &c.mu
	go c.readAnswers()
	go c.writeRequests()
	err = c.askVersions(ctx)
	lifetime := time.Duration(0)
	if err == nil && access.SASL != nil {
		lifetime, err = c.authenticate(ctx, access.SASL)
	}
	if err != nil {
		c.fail(err)
		return nil, fmt.Errorf("broker %s: %w", addr, err)
	}
	if lifetime > 0 {
		go c.stayAuthenticated(access.SASL, lifetime)
	}
	return c, nil
}

func (c *conn) askVersions(ctx context.Context) error {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = 3
	req.ClientSoftwareName, req.ClientSoftwareVersion = "tidemark", "1"
	kresp, err := c.call(ctx, req)
	if err != nil {
		return fmt.Errorf("ask for API versions: %w", err)
	}
	resp := kresp.(*kmsg.ApiVersionsResponse)
	if resp.ErrorCode == 35 {
		req.Version = 0
		if kresp, err = c.call(ctx, req); err != nil {
			return fmt.Errorf("ask for API versions: %w", err)
		}
		resp = kresp.(*kmsg.ApiVersionsResponse)
	}
	c.versions = make(map[int16][2]int16, len(resp.ApiKeys))
	for _, k := range resp.ApiKeys {
		c.versions[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
	}
	return nil
}

// version picks the newest version up to most that the broker serves.
func (c *conn) version(key, least, most int16) (int16, error) {
	r, ok := c.versions[key]
	v := min(most, r[1])
	if !ok || v < max(least, r[0]) {
		return 0, fmt.Errorf("broker %s does not serve %s in a version from %d to %d", c.addr, kmsg.NameForKey(key), least, most)
	}
	return v, nil
}

// enqueue puts r behind the requests before it. The caller calls flush afterwards, without its locks.
func (c *conn) enqueue(r request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.err != nil {
		return c.mu.err
	}
	c.mu.out = append(c.mu.out, r)
	return nil
}

// flush writes what is enqueued from the calling goroutine, unless someone else is writing already, and says for how long
// the socket was full meanwhile.
func (c *conn) flush() (waited time.Duration) {
	c.mu.Lock()
	if c.mu.writing {
		c.mu.Unlock()
		return 0
	}
	c.mu.writing = true
	for c.mu.err == nil {
		queue := &c.mu.out
		if c.mu.holds {
			queue = &c.mu.first
		}
		if len(*queue) == 0 {
			break
		}
		r := (*queue)[0]
		copy(*queue, (*queue)[1:])
		*queue = (*queue)[:len(*queue)-1]
		id := c.mu.nextID
		c.mu.nextID++
		c.mu.Unlock()

		bufs := r.seal(c, id)
		wants := r.wantsAnswer()
		if wants {
			c.mu.Lock()
			c.mu.pending = append(c.mu.pending, sent{r: r, id: id, nanos: clock.Nanos()})
			c.mu.Unlock()
		}
		full, err := c.write(bufs)
		waited += full
		if err != nil {
			c.fail(err)
			if !wants {
				r.failed(err)
			}
		} else if !wants {
			r.written(clock.Nanos())
		}
		c.mu.Lock()
		c.mu.written = id
		if c.mu.waits {
			c.mu.waits = false
			c.mu.early.Broadcast()
		}
	}
	c.mu.writing = false
	failed := c.mu.err != nil
	c.mu.early.Broadcast()
	c.mu.Unlock()
	if failed {
		c.failRequests()
	}
	return waited
}

// flushElsewhere lets the connection's writer do it.
func (c *conn) flushElsewhere() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// writing is a write under way. It belongs to whoever has mu.writing.
type writing struct {
	bufs   net.Buffers
	err    error
	full   int64 // nanos since when the socket has been full, 0: it is not
	waited time.Duration
}

// write writes the pieces and adds to waited for how long the socket was full: a write that merely took long, because
// the bytes are many or the thread had lost its core, is no waiting for the target.
func (c *conn) write(bufs net.Buffers) (waited time.Duration, err error) {
	if c.rc == nil {
		return c.writeWrapped(bufs)
	}
	c.w = writing{bufs: bufs}
	err = c.rc.Write(c.writeSome)
	if err == nil {
		err = c.w.err
	}
	return c.w.waited, err
}

// writeSome writes until all is written or the socket is full; false lets the runtime wait for room.
func (c *conn) writeSome(fd uintptr) bool {
	w := &c.w
	if w.full != 0 {
		w.waited += time.Duration(clock.Nanos() - w.full)
		w.full = 0
	}
	for len(w.bufs) > 0 {
		n, err := c.vector.Write(int(fd), w.bufs[:min(len(w.bufs), maxPieces)])
		switch err {
		case nil:
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			w.full = clock.Nanos()
			return false
		default:
			w.err = fmt.Errorf("write to broker %s: %w", c.addr, err)
			return true
		}
		for len(w.bufs) > 0 && n >= len(w.bufs[0]) {
			n -= len(w.bufs[0])
			w.bufs = w.bufs[1:]
		}
		if n > 0 {
			w.bufs[0] = w.bufs[0][n:]
		}
	}
	return true
}

// maxPieces is what the kernel takes in one writev.
const maxPieces = 1024

func (c *conn) writeRequests() {
	for {
		select {
		case <-c.wake:
			c.flush()
		case <-c.done:
			return
		}
	}
}

// readAnswers is the reader's loop: frames in, one call each.
//
// An answer that its request keeps has the buffer, until giveBack; reading goes on in another.
func (c *conn) readAnswers() {
	buf, from, to := c.readBuf, 0, 0
	nanos := int64(0)
	for {
		size := -1
		if to-from >= 4 {
			size = int(int32(binary.BigEndian.Uint32(buf[from:])))
			if size < 4 || size > maxAnswerBytes {
				c.fail(fmt.Errorf("broker %s sent a frame of %d bytes", c.addr, size))
				return
			}
		}
		if size >= 0 && to-from-4 >= size {
			kept, err := c.answer(buf[from+4:from+4+size], nanos)
			if err != nil {
				c.fail(err)
				return
			}
			from += 4 + size
			if kept {
				rest := buf[from:to]
				buf = c.another(len(rest))
				to, from = copy(buf, rest), 0
			}
			continue
		}
		if from > 0 {
			to, from = copy(buf, buf[from:to]), 0
		}
		if size+4 > len(buf) {
			bigger := make([]byte, size+size/4+4) // the next may be a little larger
			copy(bigger, buf[:to])
			buf = bigger
		}
		n, err := c.nc.Read(buf[to:])
		if err != nil {
			if err == io.EOF {
				err = fmt.Errorf("broker %s closed the connection: %w", c.addr, io.ErrUnexpectedEOF)
			}
			c.fail(err)
			return
		}
		to += n
		nanos = clock.Nanos()
	}
}

// answer finds the request that a frame answers.
func (c *conn) answer(frame []byte, nanos int64) (kept bool, err error) {
	id := int32(binary.BigEndian.Uint32(frame))
	c.mu.Lock()
	if c.mu.err != nil || len(c.mu.pending) == 0 || c.mu.pending[0].id != id {
		c.mu.Unlock()
		return false, fmt.Errorf("broker %s answered correlation id %d, which is not the next", c.addr, id)
	}
	r := c.mu.pending[0].r
	// A fast broker answers before our write has returned. The request's bytes are used again once it is answered, so
	// the write has to be over; the answer's stamp has been taken.
	for c.mu.written-id < 0 && c.mu.err == nil {
		c.mu.waits = true
		c.mu.early.Wait()
	}
	if c.mu.err != nil {
		c.mu.Unlock()
		return false, errClosed
	}
	copy(c.mu.pending, c.mu.pending[1:])
	c.mu.pending = c.mu.pending[:len(c.mu.pending)-1]
	c.mu.Unlock()
	kept = r.keeps()
	r.answered(frame[4:], nanos)
	return kept, nil
}

// another is a buffer for n bytes and more: one that was given back, or a new one.
func (c *conn) another(n int) []byte {
	select {
	case b := <-c.spare:
		if len(b) >= max(n, minBuffer/2) {
			return b
		}
	default:
	}
	return make([]byte, max(minBuffer, n))
}

// giveBack returns the bytes of an answer that was kept, when nobody looks at them any more.
func (c *conn) giveBack(body []byte) {
	select {
	case c.spare <- body[:cap(body)]:
	default:
	}
}

// minBuffer is what a connection reads into at least; each use of a buffer takes a few bytes from its front.
const minBuffer = 64 << 10

// oldest is when the request that waits longest was written, 0 where none waits.
func (c *conn) oldest() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.pending) == 0 {
		return 0
	}
	return c.mu.pending[0].nanos
}

// fail closes the connection and fails every request that has no answer; the first error counts. While someone writes,
// it is the writer that fails them, when the closed socket has thrown it out: nobody's bytes are touched before.
func (c *conn) fail(err error) {
	c.mu.Lock()
	if c.mu.err != nil {
		c.mu.Unlock()
		return
	}
	c.mu.err = err
	close(c.done)
	c.mu.early.Broadcast()
	writing := c.mu.writing
	c.mu.Unlock()
	_ = c.nc.Close()
	if !writing {
		c.failRequests()
	}
}

func (c *conn) failRequests() {
	c.mu.Lock()
	pending, out, err := c.mu.pending, append(c.mu.first, c.mu.out...), c.mu.err
	c.mu.pending, c.mu.out, c.mu.first = nil, nil, nil
	c.mu.Unlock()
	for _, s := range pending {
		s.r.failed(err)
	}
	for _, r := range out {
		r.failed(err)
	}
}

// failure is why the connection ended, nil while it lives.
func (c *conn) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.err
}

// callRequest is a request made of kmsg's messages, answered through a channel.
type callRequest struct {
	req  kmsg.Request
	resp kmsg.Response
	err  chan error
}

func (r *callRequest) seal(c *conn, id int32) net.Buffers {
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID(c.clientID))
	return net.Buffers{f.AppendRequest(nil, r.req, id)}
}

func (r *callRequest) wantsAnswer() bool { return true }
func (r *callRequest) written(int64)     {}
func (r *callRequest) keeps() bool       { return false }
func (r *callRequest) failed(err error)  { r.err <- err }

func (r *callRequest) answered(body []byte, _ int64) {
	if r.req.IsFlexible() && r.req.Key() != 18 {
		n, w := binary.Uvarint(body)
		if w <= 0 {
			r.err <- io.ErrUnexpectedEOF
			return
		}
		for body = body[w:]; n > 0; n-- {
			_, w1 := binary.Uvarint(body)
			if w1 <= 0 {
				break
			}
			size, w2 := binary.Uvarint(body[w1:])
			if w2 <= 0 || size > uint64(len(body)-w1-w2) {
				break
			}
			body = body[w1+w2+int(size):]
		}
	}
	r.resp = r.req.ResponseKind()
	r.err <- r.resp.ReadFrom(append([]byte(nil), body...))
}

// call sends req as it is (its version is set) and waits for the answer.
func (c *conn) call(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	r := &callRequest{req: req, err: make(chan error, 1)}
	if err := c.enqueue(r); err != nil {
		return nil, err
	}
	return c.wait(ctx, r)
}

// wait writes what is to be written and waits for the answer to r.
func (c *conn) wait(ctx context.Context, r *callRequest) (kmsg.Response, error) {
	req := r.req
	c.flush()
	select {
	case err := <-r.err:
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kmsg.NameForKey(req.Key()), err)
		}
		return r.resp, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s to broker %s: no answer: %w", kmsg.NameForKey(req.Key()), c.addr, context.Cause(ctx))
	}
}

// ask sends req in the newest version that both sides know.
func (c *conn) ask(ctx context.Context, req kmsg.Request, most int16) (kmsg.Response, error) {
	v, err := c.version(req.Key(), 0, min(most, req.MaxVersion()))
	if err != nil {
		return nil, err
	}
	req.SetVersion(v)
	return c.call(ctx, req)
}

// expired reports whether the request that waits longest has waited longer than timeout.
func (c *conn) expired(now int64, timeout time.Duration) bool {
	at := c.oldest()
	return at != 0 && now-at > int64(timeout)
}
