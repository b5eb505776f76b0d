package api

import (
	"bytes"
	"hash/maphash"
	"slices"

	"github.com/tidemark/tidemark/broker/internal/fetchsession"
	"github.com/tidemark/tidemark/broker/internal/partition"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/wire"
)

// open finds the partitions to read.
func (f *fetchCall) open() kafka.ErrorCode {
	byID := f.call.Version >= 13
	sessions := f.h.Sessions
	f.full = true
	switch f.req.SessionEpoch {
	case fetchsession.Final:
		if f.req.SessionID != 0 {
			sessions.End(f.req.SessionID)
		}
		f.listed()
		return kafka.None
	case fetchsession.Initial:
		if f.req.SessionID != 0 {
			sessions.End(f.req.SessionID)
		}
		f.listed()
		if len(f.parts) > 0 && !f.longName() {
			f.session = sessions.Begin(byID, len(f.parts))
		}
		if f.session != nil {
			f.session.Lock()
			f.update()
			kept := sessions.Settle(f.session)
			f.session.Unlock()
			if !kept {
				f.session = nil
			}
		}
		return kafka.None
	}
	if f.longName() {
		return kafka.InvalidTopicException
	}
	s, code := sessions.Find(f.req.SessionID, f.req.SessionEpoch, byID)
	if code != kafka.None {
		return code
	}
	f.session, f.full = s, false
	s.Lock()
	defer s.Unlock()
	f.update()
	if !sessions.Settle(s) {
		return kafka.FetchSessionIdNotFound
	}
	f.follow(s)
	return kafka.None
}

// reopen finds the partitions of a fetch again that has waited without them.
func (f *fetchCall) reopen() {
	s := f.session
	if s != nil {
		s.Lock()
		defer s.Unlock()
	}
	if !f.full {
		f.follow(s)
		return
	}
	f.listed()
	for i := range f.parts {
		if p := &f.parts[i]; i > 0 && f.parts[i-1].topic == p.topic {
			p.key.Topic = f.parts[i-1].key.Topic
		} else if s != nil {
			p.key.Topic = string(p.name)
		}
	}
}

// follow takes the partitions of a session, which is locked: of a large one only some, when there is no memory for all of them, and for
// the next fetch those behind them.
func (f *fetchCall) follow(s *fetchsession.Session) {
	n, e := s.Len(), s.First()
	f.some = n >= manyParts && !f.pay(int64(n)*partBytes)
	if f.some {
		const most = manyParts - 1
		for range int64(f.req.SessionEpoch-1) * most % int64(n) {
			e = s.Next(e)
		}
		n = most
	}
	f.room(n)
	for i := range f.parts {
		if e == nil {
			e = s.First()
		}
		p := &f.parts[i]
		p.key, p.name = e.Key, e.Name
		f.ask(p, e.Number, e.Offset, e.MaxBytes, e.LeaderEpoch, e.LastFetchedEpoch)
		e = s.Next(e)
	}
}

// pay takes n bytes for the partitions of a session.
func (f *fetchCall) pay(n int64) bool {
	if !f.call.Conn.Share(f.call, n) {
		return false
	}
	f.paid = n
	return true
}

// longName says whether the request names a topic as none can be called. A session takes no such name: each of its fetches would
// ask for it, for every partition anew.
func (f *fetchCall) longName() bool {
	for t := range f.req.Topics {
		if len(f.req.Topics[t].Name) > kafka.MaxTopicNameLength {
			return true
		}
	}
	return false
}

// keepNames copies the names of the listed topics out of the request, whose buffer goes: each once, for all its partitions.
func (f *fetchCall) keepNames() {
	if !f.full {
		return // the session's
	}
	n, first := 0, func(i int) bool { return i == 0 || f.parts[i-1].topic != f.parts[i].topic }
	for i := range f.parts {
		if first(i) {
			n += len(f.parts[i].name)
		}
	}
	f.names = slices.Grow(f.names[:0], n)
	from := 0
	for i := range f.parts {
		if first(i) {
			from = len(f.names)
			f.names = append(f.names, f.parts[i].name...)
		}
		f.parts[i].name = f.names[from:]
	}
}

// room makes place for n partitions, using memory again.
func (f *fetchCall) room(n int) {
	if cap(f.parts) < n {
		f.parts = make([]fetchPart, n)
	}
	f.parts = f.parts[:n]
}

// listed takes the partitions that the request names, each once: what is asked of it last holds, as in Kafka.
func (f *fetchCall) listed() {
	f.room(len(f.req.Partitions))
	distinct := f.ascending()
	if !distinct {
		f.listing.begin()
	}
	n := 0
	for t := range f.req.Topics {
		topic := &f.req.Topics[t]
		hash := uint64(0)
		if !distinct {
			hash = f.listing.hash(topic)
		}
		for i := topic.First; i < topic.End; i++ {
			in, at := &f.req.Partitions[i], n
			if !distinct {
				at = f.listing.place(hash, in.Partition, n)
			}
			p := &f.parts[at]
			if at == n {
				n++
				p.key, p.topic, p.name = fetchsession.Key{ID: topic.ID, Number: in.Partition}, t, topic.Name
			}
			f.ask(p, in.Partition, in.Offset, in.MaxBytes, in.LeaderEpoch, in.LastFetchedEpoch)
		}
	}
	f.parts = f.parts[:n]
}

// ascending says that the request names partitions of one topic in their order, so that none can be there twice.
func (f *fetchCall) ascending() bool {
	if len(f.req.Topics) > 1 {
		return false
	}
	for i := 1; i < len(f.req.Partitions); i++ {
		if f.req.Partitions[i-1].Partition >= f.req.Partitions[i].Partition {
			return false
		}
	}
	return true
}

// listing tells the partitions of a request apart, by a hash of their topics that no client can foresee.
type listing struct {
	seed maphash.Seed
	at   map[listedPartition]int
	most int // that at has held: it keeps the room for them
}

type listedPartition struct {
	topic  uint64
	number kafka.Partition
}

func (l *listing) begin() {
	if l.at == nil {
		l.seed, l.at = maphash.MakeSeed(), map[listedPartition]int{}
	}
	clear(l.at)
}

func (l *listing) hash(t *wire.FetchTopic) uint64 {
	if len(t.Name) > 0 {
		return maphash.Bytes(l.seed, t.Name)
	}
	return maphash.Bytes(l.seed, t.ID[:])
}

// place gives where a partition is listed: at n when it was not before.
func (l *listing) place(topic uint64, number kafka.Partition, n int) int {
	k := listedPartition{topic, number}
	if at, ok := l.at[k]; ok {
		return at
	}
	l.at[k] = n
	l.most = max(l.most, len(l.at))
	return n
}

// trim lets a table go that has room for more than so many.
func (l *listing) trim(keep int) {
	if l.most > keep {
		l.at, l.most = nil, 0
	}
}

func (f *fetchCall) ask(p *fetchPart, number kafka.Partition, offset kafka.Offset, maxBytes int32, epoch, fetched kafka.LeaderEpoch) {
	p.read = partition.ReadRequest{From: offset, MaxBytes: max(int(maxBytes), 0), Committed: f.req.Isolation == 1,
		LeaderEpoch: epoch, LastFetchedEpoch: fetched}
	p.result = wire.FetchResult{Partition: number, Aborted: p.result.Aborted[:0]}
	p.absent = false
}

// update takes a request's changes into its session, which is locked.
func (f *fetchCall) update() {
	listed := 0
	for t := range f.req.Topics {
		topic := &f.req.Topics[t]
		name, again := string(topic.Name), bytes.Clone(topic.Name)
		for i := topic.First; i < topic.End; i++ {
			in := &f.req.Partitions[i]
			k := fetchsession.Key{Topic: name, ID: topic.ID, Number: in.Partition}
			f.session.Put(fetchsession.Entry{Key: k, Name: again, Offset: in.Offset, MaxBytes: in.MaxBytes,
				LeaderEpoch: in.LeaderEpoch, LastFetchedEpoch: in.LastFetchedEpoch})
		}
		for ; f.full && listed < len(f.parts) && f.parts[listed].topic == t; listed++ {
			f.parts[listed].key.Topic = name
		}
	}
	for t := range f.req.Forgotten {
		topic := &f.req.Forgotten[t]
		if len(topic.Name) > kafka.MaxTopicNameLength {
			continue // no session has it
		}
		name := string(topic.Name)
		for _, n := range f.req.ForgottenPartitions[topic.First:topic.End] {
			f.session.Forget(fetchsession.Key{Topic: name, ID: topic.ID, Number: n})
		}
	}
}
