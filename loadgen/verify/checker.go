package verify

import (
	"errors"
	"fmt"
	"sync"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/tidemark/tidemark/loadgen/result"
)

// Kinds of finding, as they stand in results.
const (
	Lost       = "lost"
	Duplicated = "duplicated"
	OutOfOrder = "out of order"
	Corrupt    = "corrupt"
	Foreign    = "foreign"
)

// examples is how many findings of each kind are kept.
const examples = 8

// Fate is what a delivered record turned out to be.
type Fate uint8

// The fates. First alone has a place in the delivery clock.
const (
	First       Fate = iota // intact, seen for the first time in its group
	Redelivered             // an offset that the group had delivered before: at least once, after a rebalance
	Repeated                // a record that the group had before, at another offset
	Damaged                 // its envelope or payload does not fit its checksum
	Strange                 // of another run
)

// Outcome is one delivered record's envelope and fate.
type Outcome struct {
	Envelope
	Fate Fate
}

// Checker checks what one group (or the consumers without one) delivered. Any number of consumers share it.
//
// Order: the records of one producer in one partition must come in the order of their sequences. That is stricter than
// order within a key, and what Kafka promises: all records of a key share its partition.
type Checker struct {
	group  string
	run    uint64
	topics []string
	mu     struct {
		sync.Mutex
		producers []*set
		parts     map[kafkaPartition]*part
		counts    result.Verification
		kinds     map[string]int
		findings  []result.Finding
		// damaged records are corrupt, not lost as well: where they were, and who their envelopes say that they are.
		damagedAt map[damagedOffset]bool
		damagedAs map[damagedRecord]bool
	}
}

type kafkaPartition struct{ topic, partition int32 }

type damagedOffset struct {
	kafkaPartition
	offset int64
}

type damagedRecord struct {
	producer int32
	sequence uint64
}

// maxDamaged bounds the damaged records that are remembered one by one.
const maxDamaged = 1 << 16

// part is one partition as the group sees it.
type part struct {
	offsets spans
	next    []uint64 // by producer: one above the highest sequence seen
	high    int64    // highest offset seen
}

// maxProducers bounds what a damaged producer number can allocate.
const maxProducers = 1 << 20

func newChecker(group string, run uint64, topics []string) *Checker {
	c := &Checker{group: group, run: run, topics: topics}
	c.mu.parts = map[kafkaPartition]*part{}
	c.mu.kinds = map[string]int{}
	c.mu.damagedAt, c.mu.damagedAs = map[damagedOffset]bool{}, map[damagedRecord]bool{}
	return c
}

// Check takes a run of delivered records, in their order, and appends what each turned out to be. The checksums are
// computed before the lock is taken.
func (c *Checker) Check(dst []Outcome, records []driver.Fetched) []Outcome {
	start := len(dst)
	for i := range records {
		e, err := Open(records[i].Value, records[i].Key, c.run)
		o := Outcome{Envelope: e}
		switch {
		case err == nil:
		case errors.Is(err, ErrCorrupt):
			o.Fate = Damaged
		default:
			o.Fate = Strange
		}
		if o.Fate == First && (e.Producer < 0 || e.Producer >= maxProducers) {
			o.Fate = Damaged
		}
		dst = append(dst, o)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var p *part
	var at kafkaPartition
	for i := range records {
		f := &records[i]
		if here := (kafkaPartition{f.Topic, f.Partition}); p == nil || here != at {
			at, p = here, c.partLocked(here)
		}
		c.placeLocked(f, &dst[start+i], p)
	}
	return dst
}

func (c *Checker) partLocked(at kafkaPartition) *part {
	p := c.mu.parts[at]
	if p == nil {
		p = &part{high: -1}
		c.mu.parts[at] = p
	}
	return p
}

// placeLocked enters one record into the books and settles its fate.
func (c *Checker) placeLocked(f *driver.Fetched, o *Outcome, p *part) {
	c.mu.counts.Delivered++
	p.high = max(p.high, int64(f.Offset))
	if !p.offsets.add(int64(f.Offset)) {
		c.mu.counts.Redelivered++
		o.Fate = Redelivered
		return
	}
	switch o.Fate {
	case Damaged:
		c.mu.counts.Corrupt++
		if len(c.mu.damagedAt) < maxDamaged {
			c.mu.damagedAt[damagedOffset{kafkaPartition{f.Topic, f.Partition}, int64(f.Offset)}] = true
			c.mu.damagedAs[damagedRecord{o.Producer, o.Sequence}] = true
		}
		c.findLocked(Corrupt, f, o, "the checksum does not fit; producer and sequence are what the record says")
		return
	case Strange:
		c.mu.counts.Foreign++
		c.findLocked(Foreign, f, o, "not a record of this run")
		return
	}
	for int(o.Producer) >= len(c.mu.producers) {
		c.mu.producers = append(c.mu.producers, &set{})
	}
	if !c.mu.producers[o.Producer].add(o.Sequence) {
		o.Fate = Repeated
		c.mu.counts.Duplicated++
		c.findLocked(Duplicated, f, o, "delivered before at another offset")
		return
	}
	for int(o.Producer) >= len(p.next) {
		p.next = append(p.next, 0)
	}
	if next := p.next[o.Producer]; o.Sequence < next {
		c.mu.counts.OutOfOrder++
		if c.mu.kinds[OutOfOrder] < examples {
			c.findLocked(OutOfOrder, f, o, fmt.Sprintf("sequence %d came before it", next-1))
		}
		return
	}
	p.next[o.Producer] = o.Sequence + 1
}

func (c *Checker) findLocked(kind string, f *driver.Fetched, o *Outcome, text string) {
	if c.mu.kinds[kind]++; c.mu.kinds[kind] > examples {
		return
	}
	c.mu.findings = append(c.mu.findings, result.Finding{
		Kind: kind, Group: c.group, Topic: topicName(c.topics, f.Topic), Partition: f.Partition, Offset: int64(f.Offset),
		Producer: o.Producer, Sequence: o.Sequence, Text: text,
	})
}

func topicName(topics []string, index int32) string {
	if index < 0 || int(index) >= len(topics) {
		return fmt.Sprintf("topic %d", index)
	}
	return topics[index]
}

// Delivered is the number of records delivered so far, of all fates.
func (c *Checker) Delivered() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.counts.Delivered
}

// Position is one above the highest offset that the group delivered from a partition; 0 is none.
func (c *Checker) Position(topic, partition int32) kafka.Offset {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.mu.parts[kafkaPartition{topic, partition}]; p != nil {
		return kafka.Offset(p.high + 1)
	}
	return 0
}

// producerLocked is the delivered set of one producer; nil is empty.
func (c *Checker) producerLocked(n int) *set {
	if n < len(c.mu.producers) {
		return c.mu.producers[n]
	}
	return nil
}
