package verify

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/lie"
	"github.com/tidemark/tidemark/loadgen/result"
)

// pageBytes and maxPages bound the journal in which the Ledger keeps where each record was acked: about two bytes for a
// record of a large batch, a dozen for a batch of one. Past the bound the oldest page goes, and a record on it that turns
// out lost is named without its offset.
const (
	pageBytes = 1 << 20
	maxPages  = 64
)

// Ledger keeps which records of a run were acked, and compares them with what each group delivered.
type Ledger struct {
	run    uint64
	topics []string
	pages  int // bound of the journal
	mu     struct {
		sync.Mutex
		producers []*set
		acked     int64
		pages     [][]byte
		forgotten bool
		checkers  []*Checker
	}
}

// NewLedger begins a run's books. run is the number in the envelopes; topics are the names behind topic indexes.
func NewLedger(run uint64, topics []string) *Ledger {
	return &Ledger{run: run, topics: topics, pages: maxPages}
}

// NewChecker begins the books of one group; the empty name is the consumers without a group.
func (l *Ledger) NewChecker(group string) *Checker {
	c := newChecker(group, l.run, l.topics)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.checkers = append(l.mu.checkers, c)
	return c
}

// Acked enters a batch of one producer that was acknowledged: the first record at base, the others behind it; base -1 is not
// known. Sequences need not follow each other.
func (l *Ledger) Acked(producer, topic, partition int32, base kafka.Offset, sequences []uint64) {
	if len(sequences) == 0 || producer < 0 || producer >= maxProducers {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for int(producer) >= len(l.mu.producers) {
		l.mu.producers = append(l.mu.producers, &set{})
	}
	s := l.mu.producers[producer]
	l.mu.acked += int64(len(sequences))
	runs := 0
	for rest := sequences; len(rest) > 0; runs++ {
		n := follows(rest)
		s.addRun(rest[0], n)
		rest = rest[n:]
	}
	if runs > 1 && runs > len(sequences)/8 { // short runs: cheaper one by one
		l.noteLocked(producer, topic, partition, base, sequences, false)
		return
	}
	for rest := sequences; len(rest) > 0; {
		n := len(rest)
		if runs > 1 {
			n = follows(rest)
		}
		l.noteLocked(producer, topic, partition, base, rest[:n], true)
		rest = rest[n:]
		if base >= 0 {
			base += kafka.Offset(n)
		}
	}
}

// follows is how many sequences follow each other without a gap, from the first.
func follows(sequences []uint64) int {
	first := sequences[0]
	for i, seq := range sequences {
		if seq != first+uint64(i) {
			return i
		}
	}
	return len(sequences)
}

// noteLocked appends to the journal: producer, topic, partition, base, twice the count (plus one where the sequences follow
// each other), first sequence, then the steps to the next ones where they do not; all varints.
func (l *Ledger) noteLocked(producer, topic, partition int32, base kafka.Offset, sequences []uint64, run bool) {
	need := (len(sequences) + 6) * binary.MaxVarintLen64
	if run {
		need = 7 * binary.MaxVarintLen64
	}
	last := len(l.mu.pages) - 1
	if last < 0 || len(l.mu.pages[last])+need > cap(l.mu.pages[last]) {
		var page []byte
		if last+1 == l.pages {
			page = l.mu.pages[0][:0]
			l.mu.forgotten = true
			copy(l.mu.pages, l.mu.pages[1:])
			l.mu.pages = l.mu.pages[:last]
		}
		if cap(page) < need {
			page = make([]byte, 0, max(pageBytes, need))
		}
		l.mu.pages = append(l.mu.pages, page)
		last = len(l.mu.pages) - 1
	}
	b := l.mu.pages[last]
	b = binary.AppendUvarint(b, uint64(producer))
	b = binary.AppendUvarint(b, uint64(uint32(topic)))
	b = binary.AppendUvarint(b, uint64(uint32(partition)))
	b = binary.AppendVarint(b, int64(base))
	count := uint64(len(sequences)) << 1
	if run {
		b = binary.AppendUvarint(b, count|1)
		sequences = sequences[:1]
	} else {
		b = binary.AppendUvarint(b, count)
	}
	previous := uint64(0)
	for _, seq := range sequences {
		b = binary.AppendVarint(b, int64(seq-previous))
		previous = seq
	}
	l.mu.pages[last] = b
}

// place is where a record was acked.
type place struct {
	producer         int32
	sequence         uint64
	topic, partition int32
	offset           int64 // -1 not known
}

// eachNoteLocked calls fn for each record in the journal, oldest first.
func (l *Ledger) eachNoteLocked(fn func(p place)) {
	for _, page := range l.mu.pages {
		for b := page; len(b) > 0; {
			uvarint := func() uint64 {
				v, n := binary.Uvarint(b)
				b = b[max(n, 1):]
				return v
			}
			varint := func() int64 {
				v, n := binary.Varint(b)
				b = b[max(n, 1):]
				return v
			}
			p := place{producer: int32(uvarint()), topic: int32(uvarint()), partition: int32(uvarint())}
			base := varint()
			count := uvarint()
			run := count&1 == 1
			for i := range count >> 1 {
				if i == 0 || !run {
					p.sequence += uint64(varint())
				} else {
					p.sequence++
				}
				p.offset = base
				if base >= 0 {
					p.offset = base + int64(i)
				}
				fn(p)
			}
		}
	}
}

// AckedRecords is the number of records acked so far.
func (l *Ledger) AckedRecords() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.acked
}

// Outstanding is the number of acked records that some group has not delivered yet, summed over groups: a drain waits
// for 0. Complete stretches of 65,536 sequences cost nothing to compare.
func (l *Ledger) Outstanding() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := int64(0)
	for _, c := range l.mu.checkers {
		c.mu.Lock()
		for i, s := range l.mu.producers {
			n += s.missing(c.producerLocked(i), nil)
		}
		c.mu.Unlock()
	}
	return n
}

// Verification compares the books. complete says that every group read to the end of the log after the last ack, so that
// whatever is missing is lost; otherwise only records that a group passed by are lost and the others undelivered, and
// reason says why the reading ended early.
func (l *Ledger) Verification(complete bool, reason string) result.Verification {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := result.Verification{On: true, Complete: complete, Reason: reason, Acked: l.mu.acked}
	if len(l.mu.checkers) == 0 {
		v.Complete, v.Reason = false, "nothing consumed: acknowledged records were not read back"
		return v
	}
	for _, c := range l.mu.checkers {
		c.mu.Lock()
		v.Delivered += c.mu.counts.Delivered
		v.Duplicated += c.mu.counts.Duplicated
		v.OutOfOrder += c.mu.counts.OutOfOrder
		v.Corrupt += c.mu.counts.Corrupt
		v.Foreign += c.mu.counts.Foreign
		v.Redelivered += c.mu.counts.Redelivered
		for i, s := range c.mu.producers {
			var acked *set
			if i < len(l.mu.producers) {
				acked = l.mu.producers[i]
			}
			v.Unacked += s.missing(acked, nil)
		}
		l.missingLocked(c, complete, &v)
		v.Findings = append(v.Findings, c.mu.findings...)
		c.mu.Unlock()
	}
	if lie.Told == lie.AlwaysVerified {
		v.Lost, v.Duplicated, v.OutOfOrder, v.Corrupt, v.Findings = 0, 0, 0, 0, nil
	}
	return v
}

// notDeliveredLocked lists, by producer, the acked records that a group did not deliver, intact or damaged.
func (l *Ledger) notDeliveredLocked(c *Checker) (missing []*set, total int64) {
	missing = make([]*set, len(l.mu.producers))
	for i, s := range l.mu.producers {
		m := &set{}
		s.missing(c.producerLocked(i), func(seq uint64) {
			if !c.mu.damagedAs[damagedRecord{int32(i), seq}] {
				m.add(seq)
			}
		})
		if m.count > 0 {
			missing[i], total = m, total+m.count
		}
	}
	return missing, total
}

// missingLocked counts what one group did not deliver. Both locks are held, the ledger's first.
func (l *Ledger) missingLocked(c *Checker, complete bool, v *result.Verification) {
	missing, total := l.notDeliveredLocked(c)
	if total == 0 {
		return
	}
	found, passed := int64(0), int64(0)
	var named []result.Finding
	l.eachNoteLocked(func(p place) {
		m := missing[p.producer]
		if m == nil || !m.has(p.sequence) {
			return
		}
		found++
		if p.offset >= 0 && c.mu.damagedAt[damagedOffset{kafkaPartition{p.topic, p.partition}, p.offset}] {
			total-- // it arrived, and was corrupt
			found--
			return
		}
		high := int64(-1)
		if part := c.mu.parts[kafkaPartition{p.topic, p.partition}]; part != nil {
			high = part.high
		}
		if p.offset >= 0 && p.offset <= high {
			passed++
		} else if !complete {
			return
		}
		if len(named) < examples {
			named = append(named, result.Finding{
				Kind: Lost, Group: c.group, Topic: topicName(l.topics, p.topic), Partition: p.partition, Offset: p.offset,
				Producer: p.producer, Sequence: p.sequence,
				Text: fmt.Sprintf("acknowledged; the group read up to offset %d without it", high),
			})
		}
	})
	lost := total
	if !complete {
		lost = passed
		v.Undelivered += total - passed
	}
	v.Lost += lost
	v.Findings = append(v.Findings, named...)
	if left := min(lost-int64(len(named)), examples-int64(len(named))); left > 0 && found < total {
		for i, m := range missing { // records whose page of the journal is gone
			m.missing(nil, func(seq uint64) {
				if left--; left >= 0 {
					v.Findings = append(v.Findings, result.Finding{Kind: Lost, Group: c.group, Offset: -1, Partition: -1,
						Producer: int32(i), Sequence: seq, Text: "acknowledged; too long ago to know where"})
				}
			})
		}
	}
}
