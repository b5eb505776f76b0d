package api

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tidemark/tidemark/broker/internal/fetchsession"
	"github.com/tidemark/tidemark/broker/internal/partition"
	"github.com/tidemark/tidemark/broker/internal/purgatory"
	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/wire"
)

const (
	// maxLeases bounds the open files that one answer holds.
	maxLeases = 16
	// copyBelow is the size of a piece of a file from which on it is not copied.
	copyBelow = 64 << 10
	// maxCopied is how much of small pieces one answer copies, about; what more there is waits for the next fetch. 50 MiB over
	// 5,000 partitions would else be 50 MiB of memory for each consumer.
	maxCopied = 8 << 20
	// maxPooledNames bounds the room for names that a pooled fetch keeps.
	maxPooledNames = 16 << 10
	// maxParkedEntries bounds the lists of its request that a fetch keeps while it waits.
	maxParkedEntries = 128
	// maxTrimmedParts is up to where the room for partitions is kept while fewer wait, and for telling them apart.
	maxTrimmedParts = 64
	// freeParkedParts is how many partitions may wait however scarce memory is: with them a fetch takes about what its call does.
	freeParkedParts = 16
	// restTime is how long a fetch waits at most for whose partitions there is no memory.
	restTime = 100 * time.Millisecond
)

// fetchCall is a Fetch request being served:
//
//	parse ─► partitions (of the request, or of its session) ─► read ─┬─ enough, or an error ──────────────────► answer
//	                                                                  └─ watch ─► bytes counted, or time over ─► read ─┘
//
// The connection's goroutine owns it until it waits; then whoever ends the wait (partition.Wait.Fire) passes it to a
// worker. mu makes the worker wait until the goroutine has put it at its last partition. It is pooled.
type fetchCall struct {
	h    *Handlers
	call *Call
	req  wire.FetchRequest
	mu   sync.Mutex

	session *fetchsession.Session
	full    bool // the answer names every partition
	parts   []fetchPart
	names   []byte // of the request's topics, once its buffer is gone
	listing listing
	bytes   int // read
	leases  int
	shared  int   // bytes of queued.max.request.bytes that the call holds for them
	paid    int64 // bytes that it holds for the partitions of a session
	kept    int64 // bytes that it holds while it waits
	some    bool  // not all partitions of the session: there is no memory for them
	more    bool  // a read was cut, by the request's bounds or a segment's end, and has more behind it
	inFile  bool  // a read from memory alone was not enough
	stop    bool  // answer at once: an error, a diverging epoch
	waiting bool
	resting bool // it waits without its partitions
	source  commitlog.Source
	warmed  uint64 // log folders whose pages were read in, a bit for each

	wait    partition.Wait
	timeout purgatory.Wait
}

// fetchPart is one partition of a fetch. It stands still while the fetch waits.
type fetchPart struct {
	key    fetchsession.Key
	topic  int    // its number in the request that lists it
	name   []byte // of the topic: in the request, in names or the session's
	p      *partition.Partition
	read   partition.ReadRequest
	result wire.FetchResult
	slice  commitlog.Slice
	copied *buf.Buf // a small piece of a file
	waiter partition.Waiter
	seen   partition.Seen
	absent bool // not in the answer
}

// fetch serves API key 1, versions 4 to 18 (KIP-227 sessions from 7, KIP-320 epochs from 9, KIP-516 topic ids from 13).
func (h *Handlers) fetch(c *Call) {
	f, _ := h.fetches.Get().(*fetchCall)
	if f == nil {
		f = &fetchCall{h: h}
	}
	f.call = c
	c.Answer.Owner = f
	if err := f.req.Parse(c.Body, c.Version); err != nil {
		c.Abort(fmt.Sprintf("Fetch version %d: %v", c.Version, err))
		return
	}
	if !c.afford(len(f.req.Topics) + len(f.req.Partitions) + len(f.req.Forgotten)) {
		return
	}
	if code := f.open(); code != kafka.None {
		f.refuse(code)
		return
	}
	f.collect()
	if f.stop || f.enough() || f.req.MaxWaitMS <= 0 || len(f.parts) == 0 {
		f.answer()
		return
	}
	if f.some || !f.payToWait() {
		f.rest()
		return
	}
	f.park()
}

// enough says that waiting would bring no more than what was read: the bytes that the request wants are there, or all that one
// answer can hold of what is there. A reader of a backlog would else wait its whole time for each of its requests, when whole
// batches or a segment's end leave an answer somewhat below fetch.min.bytes.
func (f *fetchCall) enough() bool {
	return f.bytes >= f.minBytes() || f.more && f.bytes > 0
}

// minBytes is what the request waits for: never more than an answer may hold.
func (f *fetchCall) minBytes() int { return min(int(f.req.MinBytes), f.maxBytes()) }

// maxBytes is the most that the answer may hold, but for a first batch that is larger.
func (f *fetchCall) maxBytes() int {
	n := int(f.req.MaxBytes)
	if limit := int(f.h.Config.FetchMaxBytes); limit > 0 {
		n = min(n, limit)
	}
	return n
}

// collect reads every partition, as far as the request's bounds go.
func (f *fetchCall) collect() {
	f.bytes, f.leases, f.stop, f.more, f.inFile = 0, 0, false, false, false
	if f.shared > 0 {
		f.call.Conn.Share(f.call, int64(-f.shared))
		f.shared = 0
	}
	left := f.maxBytes()
	for i := range f.parts {
		p := &f.parts[i]
		if f.shared >= maxCopied {
			left = f.bytes
		}
		f.readPart(p, max(left-f.bytes, 0))
		if p.result.Err != kafka.None || p.result.Diverging {
			f.stop = true
		}
		f.bytes += p.result.Bytes
	}
}

// readPart reads one partition.
func (f *fetchCall) readPart(p *fetchPart, left int) {
	r := &p.result
	r.Err, r.Bytes, r.Diverging, r.Preferred = kafka.None, 0, false, kafka.NoBroker
	r.Committed, r.Aborted = p.read.Committed, r.Aborted[:0]
	r.HighWatermark, r.LastStable, r.LogStart = kafka.NoOffset, kafka.NoOffset, kafka.NoOffset
	var code kafka.ErrorCode
	switch {
	case len(p.name) > kafka.MaxTopicNameLength:
		p.p, code = nil, kafka.UnknownTopicOrPartition
	case f.source == commitlog.TailSource && f.call.Version >= 13:
		p.p, code = f.h.Replicas.Opened(p.key.ID, p.key.Number)
	case f.source == commitlog.TailSource:
		p.p, code = f.h.Replicas.OpenedByName(p.name, p.key.Number)
	case f.call.Version >= 13:
		p.p, code = f.h.Replicas.Get(p.key.ID, p.key.Number)
	default:
		p.p, code = f.h.Replicas.ByName(p.name, p.key.Number)
	}
	if f.req.ReplicaID >= 0 && code == kafka.None {
		code = kafka.NotLeaderForPartition // followers come by the inter-broker listener, once there are some
	}
	if code != kafka.None {
		p.p, r.Err, r.Committed = nil, code, false
		return
	}
	if p.p == nil { // of a topic made anew: a worker must not open it
		f.inFile = true
		return
	}
	p.seen = p.p.Look()
	read := p.read
	read.MaxBytes, read.MinOne, read.Source = min(read.MaxBytes, left), f.bytes == 0, f.source
	if f.leases >= maxLeases {
		read.MaxBytes = min(read.MaxBytes, copyBelow-1)
	}
	v, code := p.p.Read(&p.slice, &read)
	if code != kafka.None {
		r.Err, r.Committed = code, false
		return
	}
	r.HighWatermark, r.LastStable, r.LogStart = v.HighWatermark, v.LastStable, v.LogStart
	r.Diverging, r.DivergingEpoch, r.DivergingEnd = v.Diverging, v.DivergingEpoch, v.DivergingEnd
	if v.InFile {
		f.inFile = true
		return
	}
	if len(p.slice.Tail) > 0 && !f.share(p.slice.Bytes) {
		// Memory is scarce: the same bytes as a piece of a file hold none.
		p.slice.Release()
		read.Source = commitlog.FileSource
		if _, code = p.p.Read(&p.slice, &read); code != kafka.None {
			r.Err, r.Committed = code, false
			return
		}
	}
	r.Bytes = p.slice.Bytes
	if r.Bytes > 0 && r.Committed && v.LastStable > v.LogStart {
		f.aborted(p)
	}
	f.lease(p)
	next, end := p.read.From, v.HighWatermark
	if r.Bytes > 0 {
		next = p.slice.Next
	}
	if p.read.Committed {
		end = v.LastStable
	}
	f.more = f.more || next < end
}

// aborted lists the transactions that a read_committed reader must skip in what was read.
func (f *fetchCall) aborted(p *fetchPart) {
	list, code := p.p.Aborted(p.read.From, p.slice.Next)
	if code != kafka.None {
		p.slice.Release()
		p.result.Err, p.result.Bytes, p.result.Committed = code, 0, false
		return
	}
	for _, a := range list {
		p.result.Aborted = append(p.result.Aborted, wire.AbortedTransaction{ID: a.ProducerID, First: a.First})
	}
}

// share takes what n bytes in memory need of queued.max.request.bytes.
func (f *fetchCall) share(n int) bool {
	if !f.call.Conn.Share(f.call, int64(n)) {
		return false
	}
	f.shared += n
	return true
}

// lease copies a small piece of a file, so that an answer over many partitions does not hold as many files. When memory is
// scarce it stays a piece of a file, or is left for the client's next fetch.
func (f *fetchCall) lease(p *fetchPart) {
	n := p.result.Bytes
	if p.slice.File.Lease == nil || n == 0 {
		return
	}
	if n >= copyBelow && f.leases < maxLeases {
		f.leases++
		return
	}
	if !f.share(n) {
		if f.leases < maxLeases {
			f.leases++
			return
		}
		p.slice.Release()
		p.result.Bytes = 0
		return
	}
	b := f.h.Pool.Get(n)
	err := p.slice.CopyTo(b.B)
	p.slice.Release()
	if err != nil {
		b.Release()
		p.result.Err, p.result.Bytes, p.result.Committed = kafka.KafkaStorageError, 0, false
		return
	}
	p.copied = b
}

// drop gives back what was read.
func (f *fetchCall) drop() {
	for i := range f.parts {
		p := &f.parts[i]
		p.slice.Release()
		if p.copied != nil {
			p.copied.Release()
			p.copied = nil
		}
	}
}

// park leaves the fetch at its partitions until they have gained what it needs, or its time is over.
func (f *fetchCall) park() {
	f.drop()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keepNames()
	f.trim()
	// What it needs of the request it has in numbers and copies. The buffer would be 16 KiB for each waiting consumer.
	f.call.Frame.Release()
	f.call.Frame, f.call.Body = nil, nil
	f.keepPaid()
	f.waiting = true
	f.wait.Arm(int64(f.minBytes()-f.bytes), f)
	for i := range f.parts {
		p := &f.parts[i]
		p.waiter.Wait, p.waiter.Committed = &f.wait, p.read.Committed
		if !p.p.Watch(&p.waiter, p.seen) {
			f.h.workers.push(f)
			return
		}
	}
	f.call.wait.Store(f)
	f.h.Purgatory.Add(&f.timeout, time.Duration(f.req.MaxWaitMS)*time.Millisecond, f)
	if f.call.Ctx.Err() != nil {
		f.Expired()
	}
}

// payToWait takes what the partitions take while the fetch waits, beyond what its request does: that of a session names none of them.
// A small fetch may wait however scarce memory is, and holds none then.
func (f *fetchCall) payToWait() bool {
	f.kept = f.parkedBytes()
	if f.call.Conn.Park(f.call, f.kept) {
		return true
	}
	f.kept = 0
	return len(f.parts) <= freeParkedParts
}

// rest waits a moment without partitions, for which there is no memory, and with its request. Consumers that were answered at once would
// ask at once again, as long as memory is scarce.
func (f *fetchCall) rest() {
	f.drop()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.call.Conn.Share(f.call, -int64(f.shared)-f.paid)
	f.shared, f.paid, f.parts = 0, 0, nil
	f.waiting, f.resting = true, true
	f.wait.Arm(math.MaxInt64, f)
	f.call.wait.Store(f)
	f.h.Purgatory.Add(&f.timeout, min(time.Duration(f.req.MaxWaitMS)*time.Millisecond, restTime), f)
	if f.call.Ctx.Err() != nil {
		f.Expired()
	}
}

// trim lets go of the room for many partitions that an earlier fetch has left.
func (f *fetchCall) trim() {
	if cap(f.parts) > max(2*len(f.parts), maxTrimmedParts) {
		f.parts = slices.Clone(f.parts)
	}
	if cap(f.req.Topics)+cap(f.req.Partitions)+cap(f.req.Forgotten)+cap(f.req.ForgottenPartitions) > maxParkedEntries {
		f.req.Topics, f.req.Partitions, f.req.Forgotten, f.req.ForgottenPartitions = nil, nil, nil, nil
	}
	f.listing.trim(maxTrimmedParts)
}

// keepPaid gives the memory back that the call holds beyond what its partitions take: nobody refers to the frame any more, and
// a client may let it wait for as long as it likes.
func (f *fetchCall) keepPaid() {
	f.shared = 0 // it was dropped
	if n := f.call.Slot.Share - f.kept; n > 0 {
		f.call.Conn.Share(f.call, -n)
	}
}

// parkedBytes is what the partitions and their names take while the fetch waits.
func (f *fetchCall) parkedBytes() int64 {
	n := len(f.parts) * partBytes
	for i := range f.parts {
		// The name is the session's, which may end before the wait, or copied once for its topic.
		if !f.full || i == 0 || f.parts[i-1].topic != f.parts[i].topic {
			n += len(f.parts[i].name)
		}
	}
	return int64(n)
}

// FetchReady is told by the partition that gave the last byte needed.
func (f *fetchCall) FetchReady() { f.h.workers.push(f) }

// Expired ends the wait.
func (f *fetchCall) Expired() {
	if f.wait.Fire() {
		f.h.workers.push(f)
	}
}

func (f *fetchCall) cancel() { f.Expired() }

// run builds the answer after a wait, on a worker.
func (f *fetchCall) run() {
	f.mu.Lock()
	f.waiting = false
	f.call.wait.Store(nil)
	f.h.Purgatory.Remove(&f.timeout)
	for i := range f.parts {
		f.parts[i].waiter.Unwatch()
	}
	f.mu.Unlock()
	if f.call.Ctx.Err() != nil {
		f.call.NoAnswer()
		return
	}
	if f.resting {
		f.resting = false
		f.reopen()
	}
	// What has just been appended lies in memory. A worker must not wait for a disk, which may hang: what needs a file gets a
	// goroutine of its own, as the reading of a connection has one.
	f.source = commitlog.TailSource
	f.collect()
	f.source = commitlog.AnySource
	if !f.inFile {
		f.answer()
		return
	}
	f.drop()
	go func() {
		f.collect()
		f.answer()
	}()
}

// Sent gives the memory and files of the answer back.
func (f *fetchCall) Sent() {
	f.drop()
	f.req.Reset()
	f.call, f.session, f.warmed, f.shared, f.paid, f.some = nil, nil, 0, 0, 0, false
	for i := range f.parts {
		f.parts[i].p, f.parts[i].name = nil, nil
	}
	if cap(f.names) > maxPooledNames {
		f.names = nil
	}
	f.listing.trim(maxPooledParts)
	if cap(f.parts) <= maxPooledParts {
		f.h.fetches.Put(f)
	}
}
