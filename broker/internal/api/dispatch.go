package api

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/coordinator"
	"github.com/tidemark/tidemark/broker/internal/partition"
	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/wire"
)

// largeRequestBytes is from where on kmsg decodes one request at a time.
const largeRequestBytes = 64 << 10

// maxKey is the highest API key that the table may hold.
const maxKey = 127

// Flexible says whether a request's header ends with tagged fields. Versions that are not served count as not flexible:
// ApiVersions has to be answered without knowing them.
func (h *Handlers) Flexible(key, version int16) bool {
	r := h.row(key)
	return r != nil && version >= r.flexible && version <= r.max
}

func (h *Handlers) row(key int16) *row {
	if key < 0 || key > maxKey {
		return nil
	}
	return h.rows[key]
}

// Large says whether a key's requests may be larger than tidemark.max.control.request.bytes.
func Large(key int16) bool { return key == 0 || key == 1 }

// Alone says whether a connection takes nothing behind a key's request until that is done, as Kafka does with every request.
// They are those whose answer may be many times as large as they are and is made by somebody else than the connection's
// goroutine: that one could take a hundred of them before the first answer shows how much they ask for. A member that waits for a
// rebalance sends nothing else meanwhile, or waits with it; its session does not run out before its answer. DeleteRecords is
// done by somebody else too, and what is behind it may ask for what it changes.
func Alone(key int16) bool {
	switch kmsg.Key(key) {
	case kmsg.Metadata, kmsg.OffsetFetch, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.DescribeGroups, kmsg.ListGroups, kmsg.CreateTopics, kmsg.DeleteTopics,
		kmsg.CreatePartitions, kmsg.AlterConfigs, kmsg.IncrementalAlterConfigs, kmsg.DeleteGroups, kmsg.OffsetDelete, kmsg.DescribeLogDirs,
		kmsg.DescribeProducers, kmsg.DeleteRecords, kmsg.UpdateFeatures, kmsg.FindCoordinator:
		return true
	}
	return false
}

// Serve parses a request's header and handles it. The server has set Frame, Client and Conn; frame is the request
// without its size. The call is completed exactly once, at once or later; whatever is wrong with a request, the worst
// that happens is that its connection is closed.
//
// After a call with More another one must follow, or a Settle.
func (h *Handlers) Serve(c *Call, frame []byte) {
	client, more := c.Client, c.More // the call may be in its next life when it has been served
	h.serve(c, frame)
	if !more {
		h.Settle(client)
	}
}

// Settle sees to it that all appends which requests of a connection have left are written. It belongs to the connection's
// goroutine, which calls it before it waits for anything.
func (h *Handlers) Settle(client *Client) {
	for i, p := range client.left {
		p.Settle()
		client.left[i] = nil
	}
	client.left = client.left[:0]
}

// settleBut is Settle for all partitions but p, whose append is about to be written, and with it what was left for p.
func (h *Handlers) settleBut(client *Client, p *partition.Partition) {
	kept := client.left[:0]
	for _, q := range client.left {
		if q == p {
			kept = append(kept, q)
		} else {
			q.Settle()
		}
	}
	clear(client.left[len(kept):])
	client.left = kept
}

func (h *Handlers) serve(c *Call, frame []byte) {
	head, body, err := wire.ParseHeader(frame, h.Flexible)
	c.Key, c.Version, c.CorrelationID, c.Body = head.Key, head.Version, head.CorrelationID, body
	if err != nil {
		c.Abort("malformed request header")
		return
	}
	if c.ClientID != string(head.ClientID) {
		c.ClientID = string(head.ClientID)
	}
	c.pool = h.Pool
	r := h.row(c.Key)
	if c.Key != produceKey && len(c.Client.left) > 0 {
		h.Settle(c.Client) // what this request may look at
	}
	switch {
	case r == nil:
		c.Abort(fmt.Sprintf("API key %d is not supported", c.Key))
	case c.Version < r.min || c.Version > r.max:
		if c.Key == apiVersionsKey {
			h.unsupportedApiVersions(c)
			return
		}
		c.Abort(fmt.Sprintf("%s version %d is not supported (%d to %d are)", r.name, c.Version, r.min, r.max))
	case r.raw != nil:
		r.raw(h, c)
	default:
		h.decoded(r, c)
	}
}

// decoded serves a row whose messages are kmsg's.
func (h *Handlers) decoded(r *row, c *Call) {
	if len(c.Body) > largeRequestBytes {
		h.large(r, c)
		return
	}
	if req := c.request(r); req != nil {
		h.handle(r, c, req)
	}
}

// large decodes and handles one large request at a time: both may take many times its size. What may wait for a disk is only
// decoded so, since a disk that hangs would hold up all large requests; its memory is taken from queued.max.request.bytes.
func (h *Handlers) large(r *row, c *Call) {
	h.oneAtATime.Lock()
	locked := true
	unlock := func() {
		if locked {
			locked = false
			h.oneAtATime.Unlock()
		}
	}
	defer unlock()
	req := c.request(r)
	if req == nil {
		return
	}
	n := elements(reflect.ValueOf(req).Elem(), 0)
	if n > maxElements {
		c.Abort(fmt.Sprintf("%s with more than %d topics, partitions or other elements", r.name, maxElements))
		return
	}
	if r.disk {
		unlock()
		if !c.afford(n) {
			return
		}
	}
	h.handle(r, c, req)
}

// partitionOf finds a partition, opening its log at its first use. A name that no topic can have is not looked up: a request may hold one
// of megabytes, and ask for thousands of its partitions.
func (h *Handlers) partitionOf(topic string, n int32) (*partition.Partition, kafka.ErrorCode) {
	if len(topic) > kafka.MaxTopicNameLength {
		return nil, kafka.UnknownTopicOrPartition
	}
	return h.Replicas.ByTopic(topic, kafka.Partition(n))
}

func (h *Handlers) handle(r *row, c *Call, req kmsg.Request) {
	if resp := r.handle(h, c, req); resp != nil {
		c.reply(resp)
	}
}

// request decodes the call's body; nil when it could not be, and the call has been aborted.
func (c *Call) request(r *row) kmsg.Request {
	req := kmsg.RequestForKey(c.Key)
	req.SetVersion(c.Version)
	// kmsg's byte fields are slices of what it reads, and handlers keep some (a member's metadata): the frame's buffer is
	// used again as soon as the call is answered, so they get a copy of their own.
	if err := decode(req, bytes.Clone(c.Body)); err != nil {
		c.Abort(fmt.Sprintf("malformed %s version %d: %v", r.name, c.Version, err))
		return nil
	}
	// It may wait for its answer as long as a rebalance takes, with ten thousand others: that buffer is at least 16 KiB.
	if c.Frame != nil {
		c.Frame.Release()
	}
	c.Frame, c.Body = nil, nil
	return req
}

// decode reads a request. A decoder that panics on what a client sent is a bug, but it must not end the broker.
func decode(req kmsg.Request, body []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("decoder: %v", r)
		}
	}()
	return req.ReadFrom(body)
}

// maxElements bounds what one request may name: an answer takes some hundred bytes for each, and 100,000 partitions are the
// most that a broker is built for.
const maxElements = 250_000

// elements counts the elements of all arrays of a request, up to a few more than maxElements. Unknown tags, which nobody reads
// and which are the largest thing that a request can hold, are let go.
func elements(v reflect.Value, n int) int {
	for i := 0; i < v.NumField() && n <= maxElements; i++ {
		f := v.Field(i)
		if f.Type() == reflect.TypeFor[kmsg.Tags]() {
			f.SetZero()
			continue
		}
		if f.Kind() != reflect.Slice || f.Type().Elem().Kind() == reflect.Uint8 {
			continue
		}
		n += f.Len()
		if f.Type().Elem().Kind() != reflect.Struct {
			continue
		}
		for k := 0; k < f.Len() && n <= maxElements; k++ {
			n = elements(f.Index(k), n)
		}
	}
	return n
}

// reply encodes a response and completes the call.
func (c *Call) reply(r kmsg.Response) {
	r.SetVersion(c.Version)
	tags := r.IsFlexible() && c.Key != apiVersionsKey // its response header stays v0 (KIP-511)
	b := c.pool.Get(replyBytes)
	out := wire.AppendResponseHeader(b.B[:0], c.CorrelationID, tags)
	if shared, ok := r.(*encodedResponse); ok {
		// Sent from where it is: a thousand clients that do not read would else hold a thousand copies.
		wire.FinishFrame(out, len(shared.body))
		c.Answer.Buf, c.Answer.Head = b, out
		c.Answer.Pieces = append(c.Answer.Pieces, Piece{To: len(out)}, Piece{B: shared.body})
		c.Conn.Completed(c)
		return
	}
	if n := paidBytes(r) + len(out); n > 2*replyBytes {
		out = append(make([]byte, 0, n), out...)
	}
	out = r.AppendTo(out)
	c.send(b, out)
}

// paidResponse is a response that has paid for what it takes, of which its encoding is no more than bytes.
type paidResponse struct {
	kmsg.Response
	bytes int
}

// paidBytes is the size of an answer of the kinds that have paid for so much and no more; 0 for others.
func paidBytes(r kmsg.Response) int {
	switch r := r.(type) {
	case *paidResponse:
		return r.bytes
	case *kmsg.JoinGroupResponse:
		return int(coordinator.JoinedBytes(r))
	case *kmsg.SyncGroupResponse:
		return int(coordinator.SyncedBytes(r))
	}
	return 0
}

// send completes the call with an answer that began in b and may have grown out of it.
func (c *Call) send(b *buf.Buf, out []byte) {
	wire.FinishFrame(out, 0)
	if cap(out) == cap(b.B) {
		c.Answer.Buf = b
	} else {
		b.Release()
	}
	c.Answer.Head = out
	c.Conn.Completed(c)
}

// replyBytes is the buffer that a kmsg response begins in; longer ones grow out of it.
const replyBytes = 512

const (
	produceKey     = 0
	apiVersionsKey = 18
)
