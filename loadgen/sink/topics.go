package sink

import (
	"crypto/sha256"
	"slices"
	"strings"
	"sync"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/loadgen/verify"
)

// topics are all topics by name and id.
type topics struct {
	mu     sync.RWMutex
	byName map[string]*topic
	byID   map[kafka.TopicID]*topic
}

type topic struct {
	name  string
	id    kafka.TopicID
	parts []*part
}

// part is one partition: counters and a bounded ring of batches.
type part struct {
	topic *topic
	index int32
	mu    struct {
		sync.Mutex
		end     kafka.Offset // of the log
		ring    []kept       // ascending offsets
		bytes   int          // in the ring
		swapped *kept        // waits for the next batch
		waiting []chan struct{}
		log     []Arrival
	}
}

// kept is one batch that consumers can still have.
type kept struct {
	batch   record.Batch // own copy, offsets patched
	end     kafka.Offset // one above its last; for a swapped batch its base
	visible int64        // consumers can have it from then on
}

func (t *topics) init() {
	t.byName, t.byID = map[string]*topic{}, map[kafka.TopicID]*topic{}
}

// create makes a topic and reports whether it is new.
func (t *topics) create(name string, partitions int) (*topic, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if have := t.byName[name]; have != nil {
		return have, false
	}
	sum := sha256.Sum256([]byte(name))
	n := &topic{name: name, id: kafka.TopicID(sum[:16])}
	for i := range int32(partitions) {
		n.parts = append(n.parts, &part{topic: n, index: i})
	}
	t.byName[name], t.byID[n.id] = n, n
	return n, true
}

func (t *topics) remove(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byName[name]
	if n == nil {
		return false
	}
	delete(t.byName, name)
	delete(t.byID, n.id)
	return true
}

// find looks a topic up by name, or by id where the name is empty. The byte slice does not escape.
func (t *topics) find(name []byte, id kafka.TopicID) *topic {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if len(name) > 0 {
		return t.byName[string(name)]
	}
	return t.byID[id]
}

func (t *topics) all() []*topic {
	t.mu.RLock()
	defer t.mu.RUnlock()
	list := make([]*topic, 0, len(t.byName))
	for _, n := range t.byName {
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b *topic) int { return strings.Compare(a.name, b.name) })
	return list
}

func (t *topic) part(index int32) *part {
	if t == nil || index < 0 || int(index) >= len(t.parts) {
		return nil
	}
	return t.parts[index]
}

func (t *topics) arrivals() []Arrival {
	var all []Arrival
	for _, n := range t.all() {
		for _, p := range n.parts {
			p.mu.Lock()
			all = append(all, p.mu.log...)
			p.mu.Unlock()
		}
	}
	slices.SortStableFunc(all, func(a, b Arrival) int {
		switch {
		case a.Nanos < b.Nanos:
			return -1
		case a.Nanos > b.Nanos:
			return 1
		}
		return 0
	})
	return all
}

// append takes one batch, which is a view, and returns its base offset and the number of batches that left the ring.
// at is where it stands in the arrival log.
func (p *part) append(s *scripted, b record.Batch, harm Kind, now, due int64) (base kafka.Offset, at, dropped int) {
	records := b.NumRecords()
	var arrival Arrival
	if s.LogArrivals {
		arrival = describe(b)
		arrival.Topic, arrival.Partition = p.topic.name, p.index
		arrival.Nanos, arrival.AckNanos, arrival.Harm = now, due, harm
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if harm == Refuse {
		base = -1
	} else {
		base = p.mu.end
		p.mu.end += kafka.Offset(records)
		if s.KeepBytes > 0 {
			dropped = p.keepLocked(s, b, base, harm, now+int64(s.StoreDelay+s.FetchDelay))
		}
	}
	if s.LogArrivals {
		arrival.Offset, at = base, len(p.mu.log)
		p.mu.log = append(p.mu.log, arrival)
	}
	return base, at, dropped
}

// logged is one batch in the arrival log of its partition.
type logged struct {
	part *part
	at   int
}

// written notes when the acks of batches were handed to the socket.
func written(batches []logged, nanos int64) {
	for _, l := range batches {
		l.part.mu.Lock()
		l.part.mu.log[l.at].WrittenNanos = nanos
		l.part.mu.Unlock()
	}
}

// keepLocked copies a batch into the ring, as its fault wants it, and wakes the waiting fetches.
func (p *part) keepLocked(s *scripted, view record.Batch, base kafka.Offset, harm Kind, visible int64) (dropped int) {
	own := record.Batch(slices.Clone(view))
	n := kafka.Offset(own.NumRecords())
	if late := p.mu.swapped; late != nil {
		p.mu.swapped = nil
		if harm != Lose && late.end+kafka.Offset(late.batch.NumRecords()) == base {
			// The two change places: together they fill the same offsets as in their order.
			p.pushLocked(own, late.end, visible)
			own, base = late.batch, late.end+n
		} else { // another connection came between: no exchange
			p.pushLocked(late.batch, late.end, visible)
		}
	}
	switch harm {
	case Lose:
		return 0
	case Flip, Break:
		// The last byte of a record of ours is its count of headers; the one before ends the value.
		own[len(own)-2] ^= 1 << 3
		if harm == Flip {
			own.SealCRC()
		}
	case Swap:
		p.mu.swapped = &kept{batch: own, end: base}
		return 0
	}
	p.pushLocked(own, base, visible)
	if harm == Repeat {
		p.pushLocked(slices.Clone(own), p.mu.end, visible)
		p.mu.end += kafka.Offset(own.NumRecords())
	}
	for p.mu.bytes > s.KeepBytes && len(p.mu.ring) > 1 {
		p.mu.bytes -= len(p.mu.ring[0].batch)
		p.mu.ring[0] = kept{}
		p.mu.ring = p.mu.ring[1:]
		dropped++
	}
	for _, w := range p.mu.waiting {
		select {
		case w <- struct{}{}:
		default:
		}
	}
	p.mu.waiting = p.mu.waiting[:0]
	return dropped
}

func (p *part) pushLocked(own record.Batch, base kafka.Offset, visible int64) {
	own.SetBaseOffset(base)
	own.SetLeaderEpoch(0)
	p.mu.ring = append(p.mu.ring, kept{own, base + kafka.Offset(own.NumRecords()), visible})
	p.mu.bytes += len(own)
}

// swapping reports whether a batch waits to change places with the next one.
func (p *part) swapping() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.swapped != nil
}

// bounds are the first offset that can be fetched and the end of the log.
func (p *part) bounds() (start, end kafka.Offset) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.startLocked(), p.mu.end
}

func (p *part) startLocked() kafka.Offset {
	if len(p.mu.ring) == 0 {
		return 0
	}
	return p.mu.ring[0].batch.BaseOffset()
}

// describe reads the envelopes of a batch's first and last record.
func describe(b record.Batch) Arrival {
	a := Arrival{Records: b.NumRecords(), Bytes: len(b), Producer: -1}
	if b.Codec() != compress.None {
		return a
	}
	it, err := b.Records(nil, len(b))
	if err != nil {
		return a
	}
	for it.Next() {
		e, ok := verify.Peek(it.Record().Value)
		if !ok {
			continue
		}
		if a.Producer < 0 {
			a.Producer, a.FirstSequence = e.Producer, e.Sequence
		}
		a.LastSequence = e.Sequence
	}
	return a
}
