// Package group decides what consumer groups do: who is a member, when a rebalance begins and ends, which offsets are
// committed and when they expire. A Machine holds all groups of one partition of __consumer_offsets. It leaves to package
// coordinator everything that can block: reading and writing the log, sockets, clocks, goroutines.
//
// Messages go in (a request, a tick, the outcome of a write), effects come out (records to write, answers to give). A
// Machine is used by one goroutine at a time and knows no lock. It never assigns partitions in a classic group: the
// leader, a client, does.
//
// # States of a classic group
//
//	         first member joins               everybody has joined,
//	┌──────┐  (waits the initial ┌───────────┐  or time is up        ┌────────────┐ leader's SyncGroup  ┌────────┐
//	│ Empty│ ───── delay) ─────► │ Preparing │ ────────────────────► │ Completing │ ─── is written ───► │ Stable │
//	│      │ ◄── nobody joined ─ │ Rebalance │ ◄── join, leave ───── │ Rebalance  │                     │        │
//	└──────┘                     └───────────┘     or expiry         └────────────┘                     └────────┘
//	   │ offsets expired, tombstone   ▲                                                                      │
//	   ▼                              └──────────────────────── join, leave or expiry ───────────────────────┘
//	 Dead
//
// A group that only commits offsets (a simple consumer, generation -1) is Empty and has no protocol type.
//
// # What is memory and what is log
//
// A change that clients may rely on counts once it is written: an assignment and a committed offset take effect in
// Machine.Written, not before. Until then the request waits as a continuation under its ticket. Membership between two
// assignments is memory only, as in Kafka: a new coordinator starts from the last assignment written.
package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/kafka"
)

// Caller stands for one request that waits for its answer. The machine carries it and never looks inside.
type Caller any

// Now is one instant on two clocks. Timeouts are counted on the monotonic one, so that a step of the wall clock expires
// nobody; timestamps that are stored come from the wall clock.
type Now struct {
	MonoMS int64 // since an arbitrary start
	WallMS int64 // since the Unix epoch
}

// in is a deadline on the monotonic clock.
func (n Now) in(ms int64) int64 { return clock.Later(n.MonoMS, ms) }

// Record is one record for __consumer_offsets; a nil Value is a tombstone.
type Record struct {
	Key, Value []byte
}

func (r *Record) bytes() int { return len(r.Key) + len(r.Value) }

// Count implements Records: a record is one.
func (r *Record) Count() int { return 1 }

// Record implements Records.
func (r *Record) Record(int) Record { return *r }

// Write asks for records to be written in one batch. Its outcome comes back through Machine.Written, in the order of the
// tickets; one that is refused for its size may be told of at once.
type Write struct {
	Ticket  uint64
	Bytes   int // of the records' keys and values
	Records Records
}

// Records makes records one by one, when they are asked for, at any time: they repeat a group's name, which may be long.
type Records interface {
	Count() int
	Record(i int) Record
}

// Answer is the response to one request.
type Answer struct {
	To       Caller
	Response kmsg.Response
	make     func() kmsg.Response // in place of Response
}

// Make gives the response. One that is large, and that many may wait for, is made now: to be called when it is this answer's turn
// and before the machine's next message.
func (a *Answer) Make() kmsg.Response {
	if a.make != nil {
		return a.make()
	}
	return a.Response
}

// Note is a line for the operator's log.
type Note struct {
	Group, Text string
}

// Effects is what the machine wants done. The slices are the receiver's until the next Take.
type Effects struct {
	Writes  []Write
	Answers []Answer
	Notes   []Note
	// Rebalances counts the generations that have begun.
	Rebalances int
}

// A continuation is what remains to be done for a write when its outcome is known.
type continuation interface {
	written(m *Machine, now Now, code kafka.ErrorCode)
	// late answers who waits, since the write takes longer than offsets.commit.timeout.ms. Its outcome still comes.
	late(m *Machine, now Now)
	// abandon answers NOT_COORDINATOR to who waits for the write, and changes nothing.
	abandon(m *Machine)
}

type writeDeadline struct {
	ticket uint64
	monoMS int64
}

// Machine is the state of all groups and committed offsets of one partition of __consumer_offsets.
type Machine struct {
	config    Config
	newID     func() string
	groups    map[string]*classic
	offsets   map[string]*groupOffsets
	timers    timerHeap
	retention timer
	fx        Effects
	ticket    uint64
	inFlight  map[uint64]continuation
	deadlines []writeDeadline   // of the writes in flight, and of some that have ended, oldest first
	lateness  timer             // for the first of them
	names     map[string]string // while loading: one copy of each topic's name for all its offsets
}

// New makes a machine with no groups. newID gives a fresh unique text (a UUID) that becomes part of a member id.
func New(config Config, newID func() string) *Machine {
	m := &Machine{
		config:   config,
		newID:    newID,
		groups:   map[string]*classic{},
		offsets:  map[string]*groupOffsets{},
		inFlight: map[uint64]continuation{},
	}
	m.retention = newTimer(m.expireOffsets)
	m.lateness = newTimer(m.expireWrites)
	return m
}

// Take gives the effects gathered since the last Take.
func (m *Machine) Take() Effects {
	fx := m.fx
	m.fx = Effects{Writes: fx.Writes[len(fx.Writes):], Answers: fx.Answers[len(fx.Answers):], Notes: fx.Notes[len(fx.Notes):]}
	return fx
}

// TakeAnswers gives the answers among the effects gathered since the last Take.
func (m *Machine) TakeAnswers() []Answer {
	a := m.fx.Answers
	m.fx.Answers = a[len(a):]
	return a
}

// Written tells the outcome of a write: kafka.None once the high watermark has passed it, else why it failed. An unknown
// ticket is ignored.
func (m *Machine) Written(now Now, ticket uint64, code kafka.ErrorCode) {
	c, ok := m.inFlight[ticket]
	if !ok {
		return
	}
	delete(m.inFlight, ticket)
	c.written(m, now, code)
}

// Next gives the monotonic time at which Tick should be called next; false when the machine waits for nothing.
func (m *Machine) Next() (monoMS int64, ok bool) { return m.timers.next() }

// Tick fires every timer that is due.
func (m *Machine) Tick(now Now) {
	for {
		t := m.timers.popDue(now.MonoMS)
		if t == nil {
			return
		}
		t.fire(now)
	}
}

// Groups counts the groups that the machine knows.
func (m *Machine) Groups() int { return len(m.groups) }

// Resign answers everything that waits with NOT_COORDINATOR. The machine must not be used afterwards, but for Take.
func (m *Machine) Resign(now Now) {
	for _, g := range m.groups {
		for _, mb := range g.members {
			m.answerJoin(g, mb, errorJoin(kafka.NotCoordinator, mb.id))
			m.answerSync(g, mb, kafka.NotCoordinator)
		}
	}
	for _, c := range m.inFlight {
		c.abandon(m)
	}
	clear(m.inFlight)
}

func (m *Machine) answer(to Caller, r kmsg.Response) {
	m.fx.Answers = append(m.fx.Answers, Answer{To: to, Response: r})
}

func (m *Machine) note(g, text string) {
	m.fx.Notes = append(m.fx.Notes, Note{Group: g, Text: text})
}

func (m *Machine) write(now Now, w Write, then continuation) {
	m.ticket++
	w.Ticket = m.ticket
	m.deadlines = append(m.deadlines, writeDeadline{m.ticket, now.MonoMS + int64(m.config.WriteTimeoutMS)})
	if m.lateness.index == notQueued {
		m.timers.set(&m.lateness, m.deadlines[0].monoMS)
	}
	m.inFlight[m.ticket] = then
	m.fx.Writes = append(m.fx.Writes, w)
}

// writeGroup writes a group's record with an assignment; nil takes what the members have. From now on the group needs a
// tombstone to go: even a write that fails may come to be in the log.
func (m *Machine) writeGroup(now Now, g *classic, assignment map[string][]byte, then continuation) {
	g.persisted = true
	r := groupRecord(g, assignment)
	m.write(now, Write{Bytes: r.bytes(), Records: &r}, then)
}

// expireWrites answers for the writes that take too long: below min ISR the high watermark stands still.
func (m *Machine) expireWrites(now Now) {
	for len(m.deadlines) > 0 && m.deadlines[0].monoMS <= now.MonoMS {
		ticket := m.deadlines[0].ticket
		m.deadlines = m.deadlines[1:]
		if c, ok := m.inFlight[ticket]; ok {
			c.late(m, now)
		}
	}
	for len(m.deadlines) > 0 && m.inFlight[m.deadlines[0].ticket] == nil {
		m.deadlines = m.deadlines[1:]
	}
	if len(m.deadlines) > 0 {
		m.timers.set(&m.lateness, m.deadlines[0].monoMS)
	}
}

// groupError is what a client of the group APIs is told about a failed append.
func groupError(code kafka.ErrorCode) kafka.ErrorCode {
	switch code {
	case kafka.UnknownTopicOrPartition, kafka.NotEnoughReplicas, kafka.NotEnoughReplicasAfterAppend, kafka.RequestTimedOut:
		return kafka.CoordinatorNotAvailable
	case kafka.NotLeaderForPartition, kafka.FencedLeaderEpoch, kafka.KafkaStorageError:
		return kafka.NotCoordinator
	case kafka.MessageTooLarge, kafka.RecordListTooLarge, kafka.InvalidFetchSize:
		return kafka.UnknownServerError
	}
	return code
}

// commitError is groupError for OffsetCommit.
func commitError(code kafka.ErrorCode) kafka.ErrorCode {
	switch code {
	case kafka.MessageTooLarge, kafka.RecordListTooLarge, kafka.InvalidFetchSize:
		return kafka.InvalidCommitOffsetSize
	}
	return groupError(code)
}
