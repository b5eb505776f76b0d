// Package fetchsession keeps the sessions of incremental fetches (KIP-227): which partitions a client follows, from
// which offset and with which bound, so that a request names only what changed and an answer only what has news.
//
// It knows no log and no socket: a session is an ordered list of partitions that the handler walks and, once it has
// answered, turns: partitions that had data go to the end, so that a full one does not starve the others.
//
// # Concurrency
//
// The cache has a lock for its table and the count of bytes; each session has one of its own, which the handler holds while
// it reads or turns the list (Lock and Unlock), never while it waits. A session's lock is taken before the cache's.
//
// # Memory
//
// Slots alone bound nothing: a session may follow as many partitions as a request may name. All sessions together keep to a
// budget of bytes. Who asks for more than is left takes it from sessions that have rested for two minutes; where that is not
// enough, a new session is not given (its client goes on with full fetches), and one that grows is ended: the client is told
// FETCH_SESSION_ID_NOT_FOUND and begins anew.
package fetchsession

import (
	"math/rand/v2"
	"sync"

	"github.com/tidemark/tidemark/core/kafka"
)

const (
	// budgetBytes bounds what all sessions hold: about 400,000 partitions.
	budgetBytes = 128 << 20
	// entryBytes is about what one partition takes in list and map, beside its topic's name.
	entryBytes = 304
)

// Special epochs of a request.
const (
	Initial int32 = 0  // begin a session
	Final   int32 = -1 // no session; end the one that is named
)

// evictMS is how long a session rests before another may take its slot (Kafka's constant).
const evictMS = 120_000

// Key names a partition in a session: by topic id where the session uses them, else by name.
type Key struct {
	Topic  string
	ID     kafka.TopicID
	Number kafka.Partition
}

// Entry is one partition of a session.
type Entry struct {
	Key
	Name             []byte // Key.Topic once more, as look-ups and answers take it; whoever has it may keep it, nobody writes to it
	Offset           kafka.Offset
	MaxBytes         int32
	LeaderEpoch      kafka.LeaderEpoch
	LastFetchedEpoch kafka.LeaderEpoch
	// HighWatermark and LogStart are what the client was told last, kafka.NoOffset before.
	HighWatermark kafka.Offset
	LogStart      kafka.Offset

	prev, next *Entry
}

// Session is one client's session.
type Session struct {
	sync.Mutex
	id      int32
	byID    bool
	epoch   int32 // that the next request must have
	entries map[Key]*Entry
	root    Entry // of the ring of entries
	bytes   int64 // that the entries take

	used, created int64 // milliseconds; under the cache's lock
	size          int   // of entries, for eviction; under the cache's lock
	settled       int64 // of bytes, what the cache's count holds; under the cache's lock
}

// Cache holds the sessions of one broker.
type Cache struct {
	slots  int
	budget int64
	nowMS  func() int64
	mu     struct {
		sync.Mutex
		sessions map[int32]*Session
		figures  Figures
	}
}

// Figures tell how full a cache is and what that has cost.
type Figures struct {
	Sessions, Partitions int
	Bytes                int64
	Evicted              int64 // sessions that gave way to another
	Refused              int64 // sessions that were not given, or ended, for want of a slot or memory
}

// New makes a cache for at most slots sessions (max.incremental.fetch.session.cache.slots).
func New(slots int, nowMS func() int64) *Cache {
	c := &Cache{slots: slots, budget: budgetBytes, nowMS: nowMS}
	c.mu.sessions = map[int32]*Session{}
	return c
}

// Len counts the sessions.
func (c *Cache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.sessions)
}

// Figures reads the cache's figures.
func (c *Cache) Figures() Figures {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.mu.figures
	f.Sessions = len(c.mu.sessions)
	return f
}

// Find gives the session of an incremental request and moves its epoch on: kafka.FetchSessionIdNotFound,
// kafka.InvalidFetchSessionEpoch, or kafka.FetchSessionTopicIdError when the session names its topics the other way.
func (c *Cache) Find(id, epoch int32, byID bool) (*Session, kafka.ErrorCode) {
	c.mu.Lock()
	s := c.mu.sessions[id]
	if s != nil {
		s.used = c.nowMS()
	}
	c.mu.Unlock()
	if s == nil {
		return nil, kafka.FetchSessionIdNotFound
	}
	s.Lock()
	defer s.Unlock()
	switch {
	case s.epoch != epoch:
		return nil, kafka.InvalidFetchSessionEpoch
	case s.byID != byID:
		return nil, kafka.FetchSessionTopicIdError
	}
	s.epoch = nextEpoch(epoch)
	return s, kafka.None
}

// nextEpoch follows an epoch; it wraps to 1, since 0 begins a session.
func nextEpoch(epoch int32) int32 {
	if epoch == 1<<31-1 {
		return 1
	}
	return epoch + 1
}

// End removes a session.
func (c *Cache) End(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.mu.sessions[id]; s != nil {
		c.removeLocked(s)
	}
}

func (c *Cache) removeLocked(s *Session) {
	delete(c.mu.sessions, s.id)
	c.mu.figures.Bytes -= s.settled
	c.mu.figures.Partitions -= s.size
	s.settled, s.size = 0, 0
}

// Begin makes a session for about size partitions; nil when no slot or memory is free and none may be taken: the client
// fetches without a session. Settle follows once the partitions have been put.
func (c *Cache) Begin(byID bool, size int) *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.nowMS()
	need := int64(size) * entryBytes
	if len(c.mu.sessions) >= c.slots && !c.evictLocked(now, size) || !c.roomLocked(nil, need) {
		c.mu.figures.Refused++
		return nil
	}
	s := &Session{byID: byID, epoch: 1, used: now, created: now, size: size, settled: need, entries: make(map[Key]*Entry, size)}
	c.mu.figures.Bytes += need
	c.mu.figures.Partitions += size
	s.root.prev, s.root.next = &s.root, &s.root
	for s.id = 0; s.id == 0 || c.mu.sessions[s.id] != nil; {
		s.id = rand.Int32()
	}
	c.mu.sessions[s.id] = s
	return s
}

// evictLocked takes the slot of the session that rested longest, if that is long enough, or else of the smallest one
// that is old enough and smaller than the newcomer.
func (c *Cache) evictLocked(now int64, size int) bool {
	var rested, small *Session
	for _, s := range c.mu.sessions {
		if rested == nil || s.used < rested.used {
			rested = s
		}
		if now-s.created > evictMS && s.size < size && (small == nil || s.size < small.size) {
			small = s
		}
	}
	switch {
	case rested != nil && now-rested.used > evictMS:
		c.removeLocked(rested)
	case small != nil:
		c.removeLocked(small)
	default:
		return false
	}
	c.mu.figures.Evicted++
	return true
}

// roomLocked makes room for more bytes of a session, out of what is free and then of sessions that have rested.
func (c *Cache) roomLocked(whose *Session, need int64) bool {
	if need > c.budget {
		return false
	}
	now := c.nowMS()
	for _, s := range c.mu.sessions {
		if c.mu.figures.Bytes+need <= c.budget {
			break
		}
		if s != whose && now-s.used > evictMS {
			c.removeLocked(s)
			c.mu.figures.Evicted++
		}
	}
	return c.mu.figures.Bytes+need <= c.budget
}

// Settle counts what the session has gained or lost since it was last settled. False when there is no memory for it: the
// session has been ended, and its client must begin another. [locked]
func (c *Cache) Settle(s *Session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.sessions[s.id] != s {
		return true // it has given way meanwhile: the next request is told
	}
	more := s.bytes - s.settled
	if more > 0 && !c.roomLocked(s, more) {
		c.removeLocked(s)
		c.mu.figures.Refused++
		return false
	}
	c.mu.figures.Bytes += more
	c.mu.figures.Partitions += len(s.entries) - s.size
	s.settled, s.size = s.bytes, len(s.entries)
	return true
}

// ID is what the client calls the session.
func (s *Session) ID() int32 { return s.id }

// Put adds a partition at the end, or changes what is asked of one that is there. [locked]
func (s *Session) Put(e Entry) {
	old := s.entries[e.Key]
	if old != nil {
		old.Offset, old.MaxBytes, old.LeaderEpoch, old.LastFetchedEpoch = e.Offset, e.MaxBytes, e.LeaderEpoch, e.LastFetchedEpoch
		return
	}
	n := &Entry{}
	*n = e
	n.HighWatermark, n.LogStart = kafka.NoOffset, kafka.NoOffset
	s.entries[e.Key] = n
	s.bytes += e.cost()
	s.last(n)
}

// cost is what a partition takes. Partitions that came in one request share their topic's name, and its copy; each pays for
// both, since the others may go.
func (e *Entry) cost() int64 { return entryBytes + 2*int64(len(e.Topic)) }

func (s *Session) last(e *Entry) {
	e.prev, e.next = s.root.prev, &s.root
	e.prev.next, e.next.prev = e, e
}

// Forget removes a partition. [locked]
func (s *Session) Forget(k Key) {
	if e := s.entries[k]; e != nil {
		e.prev.next, e.next.prev = e.next, e.prev
		delete(s.entries, k)
		s.bytes -= e.cost()
	}
}

// Len counts the partitions. [locked]
func (s *Session) Len() int { return len(s.entries) }

// First is the first partition in the order of reading, Next the one behind another; nil at the end. [locked]
func (s *Session) First() *Entry { return s.Next(&s.root) }

// Next follows First. [locked]
func (s *Session) Next(e *Entry) *Entry {
	if e.next == &s.root {
		return nil
	}
	return e.next
}

// Told notes what the client is told of a partition, and says whether there is news in it: another high watermark or log
// start. One with records goes to the end. [locked]
func (s *Session) Told(k Key, hw, logStart kafka.Offset, records bool) (news bool) {
	e := s.entries[k]
	if e == nil {
		return false // forgotten meanwhile
	}
	news = e.HighWatermark != hw || e.LogStart != logStart
	e.HighWatermark, e.LogStart = hw, logStart
	if records {
		e.prev.next, e.next.prev = e.next, e.prev
		s.last(e)
	}
	return news
}

// Failed makes the next answer tell of the partition again. [locked]
func (s *Session) Failed(k Key) {
	if e := s.entries[k]; e != nil {
		e.HighWatermark = kafka.NoOffset
	}
}
