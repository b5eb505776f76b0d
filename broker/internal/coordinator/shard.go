package coordinator

import (
	"crypto/rand"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/group"
	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// maxQueued bounds the requests that wait for a shard's loop. Connections bound what each client may have under way;
// this is for many clients and a stalled disk.
const maxQueued = 1 << 16

type shardState int8

const (
	absent shardState = iota
	loading
	active
	failed // the log could not be read; it is tried again later
)

// message is one thing for the loop to do. refuse is set for requests: it answers with an error instead.
type message struct {
	run    func(*shard, group.Now)
	refuse func(kafka.ErrorCode)
}

// shard is one partition of __consumer_offsets. Its loop is started by whoever puts a message into the empty queue and
// ends when the queue is empty; it may block on the append of a batch. Close waits for it.
type shard struct {
	g *Groups
	p kafka.Partition

	mu struct {
		sync.Mutex
		state  shardState
		closed bool
		epoch  kafka.LeaderEpoch
		led    bool          // has ever led
		fresh  bool          // active with an empty log and nothing made for it yet
		loaded chan struct{} // closed when the load under way has ended, nil before the first
		// failures counts the loads that have failed since leadership came; retry begins the next.
		failures int
		retry    *time.Timer
		queue    []message
		running  bool
		timer    *time.Timer
		armedMS  int64 // when timer fires, 0 for not
	}

	groups atomic.Int64 // of the machine, for metrics

	// The loop's own, and while no loop runs that of whoever holds mu.
	machine   *group.Machine
	log       Log
	builder   *record.Builder
	spare     []message
	writes    []group.Write // what the machine wants written and is in no batch yet
	unwritten int           // bytes of the batches that wait for the high watermark
}

// post queues a request, or refuses it at once.
func (s *shard) post(m message) {
	s.mu.Lock()
	code := kafka.None
	switch {
	case s.mu.state == loading && s.mu.failures == 0:
		code = kafka.CoordinatorLoadInProgress
	case s.mu.state != active: // absent, failed, or being loaded again after a failure
		code = kafka.NotCoordinator
	case len(s.mu.queue) >= maxQueued:
		code = kafka.CoordinatorNotAvailable
	default:
		s.queueLocked(m)
	}
	s.mu.Unlock()
	if code != kafka.None {
		m.refuse(code)
	}
}

// postInternal queues what is no request, in whatever state the shard is; a closed one takes nothing.
func (s *shard) postInternal(run func(*shard, group.Now)) {
	s.mu.Lock()
	if !s.mu.closed {
		s.queueLocked(message{run: run})
	}
	s.mu.Unlock()
}

func (s *shard) queueLocked(m message) {
	s.mu.queue = append(s.mu.queue, m)
	if !s.mu.running {
		s.mu.running = true
		s.g.running.Add(1)
		go s.loop()
	}
}

// loop handles what is queued, round by round.
func (s *shard) loop() {
	defer s.g.running.Done()
	for {
		s.mu.Lock()
		round := s.mu.queue
		if len(round) == 0 {
			s.mu.running = false
			s.armLocked()
			s.mu.Unlock()
			return
		}
		s.mu.queue = s.spare[:0]
		fresh := s.mu.fresh
		s.mu.fresh = false
		s.mu.Unlock()
		now := s.g.now()
		if fresh {
			s.begin(group.New(s.g.config, newUUID), nil)
		}
		for i := range round {
			run := round[i].run
			round[i] = message{} // its request may have given its memory back
			run(s, now)
			s.tell()
		}
		s.carryOut(now)
		s.spare = round
	}
}

// maxDeadlineMS is the last deadline that a timer can be set to, 292 years from the start.
const maxDeadlineMS = math.MaxInt64 / int64(time.Millisecond)

// armLocked sets the timer for the machine's earliest deadline.
func (s *shard) armLocked() {
	next, ok := int64(0), false
	if s.machine != nil && !s.mu.closed {
		next, ok = s.machine.Next()
	}
	switch {
	case !ok && s.mu.timer != nil:
		s.mu.timer.Stop()
		s.mu.armedMS = 0
	case ok && (s.mu.armedMS == 0 || next < s.mu.armedMS):
		s.mu.armedMS = next
		wait := time.Duration(min(next, maxDeadlineMS))*time.Millisecond - time.Since(s.g.started)
		if s.mu.timer == nil {
			s.mu.timer = time.AfterFunc(wait, s.tick)
		} else {
			s.mu.timer.Reset(wait)
		}
	}
}

func (s *shard) tick() {
	s.mu.Lock()
	s.mu.armedMS = 0
	s.mu.Unlock()
	s.postInternal(func(s *shard, now group.Now) {
		if s.machine != nil {
			s.machine.Tick(now)
		}
	})
}

// tell gives the machine's answers as they are made: a round may hold many requests each of which is told all of a group.
func (s *shard) tell() {
	if s.machine == nil {
		return
	}
	for _, a := range s.machine.TakeAnswers() {
		a.To.(func(kmsg.Response))(a.Make())
	}
}

// maxToldBytes bounds what the log is told of a name that a client has chosen, which may be 32 KB long.
const maxToldBytes = 300

func shortened(text string) string {
	if len(text) <= maxToldBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxToldBytes], "") + "..."
}

// carryOut gives the machine's answers and writes its records.
func (s *shard) carryOut(now group.Now) {
	if s.machine == nil {
		return
	}
	fx := s.machine.Take()
	s.groups.Store(int64(s.machine.Groups()))
	s.g.met.rebalances.Add(float64(fx.Rebalances))
	for _, n := range fx.Notes {
		s.g.o.Logger.Info("group "+shortened(n.Text), "group", shortened(n.Group), "partition", s.p)
	}
	for _, a := range fx.Answers {
		a.To.(func(kmsg.Response))(a.Make())
	}
	s.writes = append(s.writes, fx.Writes...)
	s.write(now)
}

// lead starts loading, unless the shard already leads with that epoch, or with the one before: then nobody else can have
// led in between, and what was loaded still holds. Each start of a broker is such a step (BROKER 7).
//
// With fresh the partition is known to be empty: there is nothing to load, and its log is opened with the first record.
// Opening all 50 before the first group could be served took 390 ms. This counts only when the shard has never led, since a
// machine of an earlier time may still have something to append.
func (s *shard) lead(epoch kafka.LeaderEpoch, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed || s.mu.state != absent && epoch <= s.mu.epoch {
		return
	}
	if (s.mu.state == loading || s.mu.state == active) && epoch == s.mu.epoch+1 {
		s.mu.epoch = epoch
		return
	}
	first := !s.mu.led
	s.mu.led = true
	if fresh && first {
		s.mu.state, s.mu.epoch, s.mu.fresh = active, epoch, true
		return
	}
	wasActive := s.resignLocked()
	loaded := make(chan struct{})
	s.mu.state, s.mu.epoch, s.mu.loaded, s.mu.failures = loading, epoch, loaded, 0
	s.g.running.Add(1)
	if wasActive {
		// What the machine before still appends must be in the log before it is read.
		s.queueLocked(message{run: func(s *shard, _ group.Now) { go s.load(loaded) }})
		return
	}
	go s.load(loaded)
}

// loading gives a channel that is closed when no load is under way.
func (s *shard) loading() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.loaded == nil {
		none := make(chan struct{})
		close(none)
		return none
	}
	return s.mu.loaded
}

func (s *shard) resign() {
	s.mu.Lock()
	s.resignLocked()
	s.mu.Unlock()
}

func (s *shard) resignLocked() (wasActive bool) {
	if s.mu.closed {
		return false
	}
	wasActive = s.mu.state == active
	s.mu.state = absent
	if s.mu.retry != nil {
		s.mu.retry.Stop()
	}
	if s.mu.fresh {
		s.mu.fresh = false // nobody has asked for anything
		return false
	}
	if wasActive {
		s.queueLocked(message{run: func(s *shard, now group.Now) {
			s.machine.Resign(now)
			s.carryOut(now)
			s.machine, s.log, s.builder = nil, nil, nil
			s.writes, s.unwritten = nil, 0
			s.groups.Store(0)
		}})
	}
	return wasActive
}

// close resigns for good.
func (s *shard) close() {
	s.mu.Lock()
	s.resignLocked()
	s.mu.closed = true
	if s.mu.timer != nil {
		s.mu.timer.Stop()
	}
	s.mu.Unlock()
}

// stillLoads reports whether a load, which its channel stands for, is the one that the shard waits for.
func (s *shard) stillLoads(loaded chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stillLoadsLocked(loaded)
}

func (s *shard) stillLoadsLocked(loaded chan struct{}) bool {
	return !s.mu.closed && s.mu.state == loading && s.mu.loaded == loaded
}

// install makes a loaded machine the shard's, unless leadership has changed meanwhile; a nil machine means that it could
// not be loaded.
func (s *shard) install(loaded chan struct{}, m *group.Machine, log Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stillLoadsLocked(loaded) {
		return
	}
	if m == nil {
		s.mu.state = failed
		s.retryLocked(loaded)
		return
	}
	s.mu.state, s.mu.failures = active, 0
	s.queueLocked(message{run: func(s *shard, now group.Now) {
		s.carryOut(now)
		s.begin(m, log)
		m.Loaded(now)
		s.g.forget(m, now)
	}})
}

// begin makes a machine the shard's; a nil log is opened with the first record.
func (s *shard) begin(m *group.Machine, log Log) {
	codec := compress.Codec(s.g.o.Config.OffsetsTopicCompressionCodec)
	s.machine, s.log, s.builder = m, log, record.NewBuilder(nil, codec, 0)
	s.writes, s.unwritten = nil, 0
}

// newUUID gives a random (version 4) UUID as text.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
