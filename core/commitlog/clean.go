package commitlog

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// CleanerOptions is what a Cleaner may use.
type CleanerOptions struct {
	DedupeBytes int64   // log.cleaner.dedupe.buffer.size: the most that the map of keys takes; 0 means 128 MiB
	LoadFactor  float64 // log.cleaner.io.buffer.load.factor: how full that map gets; 0 means 0.9
	BytesPerSec float64 // log.cleaner.io.max.bytes.per.second, read and written; 0: no bound
	Codecs      *compress.Codecs
	// Wait waits for the throttle, a twentieth of a second at a time at most; its error ends the cleaning. nil sleeps.
	Wait func(d time.Duration) error
}

// Cleaner compacts logs, one after another: of the records of a key only the last one stays. It belongs to one goroutine
// and keeps its buffers between logs but for the map of keys.
type Cleaner struct {
	o     CleanerOptions
	keys  offsetMap
	rw    *record.Rewriter
	out   []byte
	spent float64   // bytes since began
	began time.Time // of the throttle's count
}

// Cleaning is one cleaning of one log.
type Cleaning struct {
	Until     kafka.Offset    // Dirty.Until
	Producers []ProducerState // Producers.Active, taken no earlier than Dirty
	NowMS     int64
}

// Cleaned is what came of it.
type Cleaned struct {
	From, To                    kafka.Offset // what was dirty and is clean now
	ReadBytes, WrittenBytes     int64        // of batches, all segments that were looked at
	RecordsRead, RecordsKept    int64
	SegmentsBefore, SegmentsNow int
}

// MaxOpenedBatch bounds what compaction decompresses of one batch, in bytes: what a compacted topic may take.
const MaxOpenedBatch = 256 << 20

// NewCleaner makes a Cleaner.
func NewCleaner(o CleanerOptions) *Cleaner {
	if o.DedupeBytes <= 0 {
		o.DedupeBytes = 128 << 20
	}
	if !(o.LoadFactor > 0 && o.LoadFactor <= 1) { // NaN neither
		o.LoadFactor = 0.9
	}
	if o.Wait == nil {
		o.Wait = func(d time.Duration) error { time.Sleep(d); return nil }
	}
	return &Cleaner{o: o, rw: record.NewRewriter(o.Codecs)}
}

// Clean compacts a log up to w.Until, or as far as the map of keys reaches: what it has not seen stays dirty for the next
// time. Readers, appends, flushes and retention go on meanwhile; old segments stay for those who hold leases. What stays
// (KIP-58, KIP-534, Kafka's Cleaner): the last record of each key, tombstones until delete.retention.ms after they became
// clean, markers of transactions of which anything is left, the last batch of each live producer and the last one of each
// new segment, these two as empty headers if none of their records stays.
//
// An error leaves the log as it was, but for whole segments that were replaced before. ErrClosed when the log was closed,
// StopCleaning called or Config.Compact taken away meanwhile.
func (c *Cleaner) Clean(l *Log, w Cleaning) (Cleaned, error) {
	l.cleaning.Lock()
	defer l.cleaning.Unlock()
	defer c.keys.free()
	if err := l.ready(); err != nil {
		return Cleaned{}, err
	}
	p := &cleanPass{c: c, l: l, nowMS: w.NowMS, config: l.Config(), last: map[kafka.ProducerID]ProducerState{}}
	for _, s := range w.Producers {
		p.last[s.ID] = s
	}
	done, err := p.run(w.Until)
	if err != nil && !errors.Is(err, ErrClosed) {
		err = fmt.Errorf("clean %s: %w", l.Dir(), err)
	}
	return done, err
}

// cleanPass is one run of Clean.
type cleanPass struct {
	c      *Cleaner
	l      *Log
	config *Config
	nowMS  int64
	cuts   int // Log.work.cuts at its begin
	latest kafka.Offset
	last   map[kafka.ProducerID]ProducerState
	txns   *cleanTxns
	done   Cleaned
}

func (p *cleanPass) run(until kafka.Offset) (Cleaned, error) {
	l := p.l
	l.work.Lock()
	p.cuts = l.work.cuts
	l.work.Unlock()
	from := l.dirtyFrom()
	l.mu.Lock()
	var segs []*segment
	for _, s := range l.mu.segs[:len(l.mu.segs)-1] { // never the active one
		if s.end > until {
			break
		}
		segs = append(segs, s)
	}
	l.mu.Unlock()
	p.done.From, p.done.To = from, from
	if len(segs) == 0 || segs[len(segs)-1].end <= from {
		return p.done, nil
	}
	until = segs[len(segs)-1].end
	to, err := p.mapKeys(segs, from, until)
	if err != nil {
		return p.done, err
	}
	n := len(segs)
	for n > 0 && segs[n-1].base >= to {
		n--
	}
	segs = segs[:n]
	p.latest = to - 1
	aborted, err := l.AbortedTxns(l.StartOffset(), until)
	if err != nil {
		return p.done, err
	}
	p.txns = newCleanTxns(aborted)
	p.done.SegmentsBefore = len(segs)
	for _, g := range p.group(segs) {
		if err := p.cleanGroup(g); err != nil {
			return p.done, err
		}
	}
	if err := p.check(); err != nil {
		return p.done, err
	}
	l.cleanedTo.Store(int64(to))
	p.done.To = to
	return p.done, nil
}

// mapKeys puts the keys of [from, until) into the map and answers how far it came.
func (p *cleanPass) mapKeys(segs []*segment, from, until kafka.Offset) (kafka.Offset, error) {
	m := &p.c.keys
	m.reset(int64(until-from), p.c.o.DedupeBytes, p.c.o.LoadFactor)
	aborted, err := p.l.AbortedTxns(from, until)
	if err != nil {
		return from, err
	}
	txns := newCleanTxns(aborted)
	for _, s := range segs {
		if s.end <= from {
			continue
		}
		full, err := p.mapSegment(s, from, txns)
		if err != nil {
			return from, err
		}
		if full {
			return m.latest + 1, nil
		}
	}
	return until, nil
}

func (p *cleanPass) mapSegment(s *segment, from kafka.Offset, txns *cleanTxns) (full bool, err error) {
	m := &p.c.keys
	err = p.scan(s, from, func(_ int64, b record.Batch) error {
		switch {
		case b.LastOffset() < from:
			return nil
		case b.IsControl():
			_, _, err := txns.marker(b)
			return err
		case txns.batch(b):
			return nil // nobody ever sees these
		}
		if err := p.c.rw.Open(b, MaxOpenedBatch); err != nil {
			return err
		}
		for p.c.rw.Next() {
			r := p.c.rw.Record()
			off := b.BaseOffset() + kafka.Offset(r.OffsetDelta)
			if r.Key == nil || off < from {
				continue
			}
			if !m.put(r.Key, off) {
				full = true
				return io.EOF
			}
		}
		return p.c.rw.Err()
	})
	return full, err
}

// scan passes the batches of a segment, from the one that holds from on, to visit, checked. io.EOF of visit ends it.
func (p *cleanPass) scan(s *segment, from kafka.Offset, visit func(pos int64, b record.Batch) error) error {
	l := p.l
	if s.size == 0 {
		return nil
	}
	lease, err := l.acquire(s, kindLog)
	if err != nil {
		return p.cause(err)
	}
	defer lease.Release()
	sc := newScanner(lease, s.size, l.env.Pool, scanChunk)
	defer sc.close()
	pos := int64(0)
	if from > s.base {
		if pos, err = l.locate(&sc, s, from); err == io.EOF {
			return nil
		}
	}
	for err == nil {
		var b record.Batch
		if b, err = sc.batch(pos); err == io.EOF {
			return nil
		}
		if err == nil && b.ComputeCRC() != b.CRC() {
			err = fmt.Errorf("CRC is %08x, the batch has %08x: %w", b.CRC(), b.ComputeCRC(), ErrCorrupt)
		}
		if err != nil {
			break
		}
		if err = p.spend(len(b)); err != nil {
			return err
		}
		if err = visit(pos, b); err == io.EOF {
			return nil
		}
		pos += int64(len(b))
	}
	if errors.Is(err, errTorn) || errors.Is(err, record.ErrCorrupt) || errors.Is(err, compress.ErrCorrupt) || errors.Is(err, compress.ErrTooLarge) {
		err = errors.Join(err, ErrCorrupt)
	}
	if cerr := p.cause(err); cerr != err {
		return cerr
	}
	return fmt.Errorf("%s at %d: %w", lease.f.Name(), pos, err)
}

// cause is ErrClosed in place of an error that comes from the log having gone.
func (p *cleanPass) cause(err error) error {
	if gone := p.check(); gone != nil {
		return gone
	}
	return err
}

// check answers ErrClosed when the cleaning must end.
func (p *cleanPass) check() error {
	if p.l.notCleaned() {
		return ErrClosed
	}
	return nil
}

// notCleaned reports whether the log is no longer to be compacted: its cleanup.policy may change meanwhile too.
func (l *Log) notCleaned() bool {
	return l.cleaning.stop.Load() || l.state.Load() != stateReady || !l.Config().Compact
}

// spend accounts for bytes read or written and waits when there were too many.
func (p *cleanPass) spend(n int) error {
	if err := p.check(); err != nil {
		return err
	}
	c := p.c
	if c.o.BytesPerSec <= 0 || c.o.BytesPerSec >= math.MaxInt64 {
		return nil
	}
	if c.began.IsZero() || time.Since(c.began) > time.Duration(c.spent/c.o.BytesPerSec*float64(time.Second))+time.Second {
		c.began, c.spent = time.Now(), 0 // it was idle: what was not spent then is not saved up
	}
	c.spent += float64(n)
	for {
		ahead := time.Duration(c.spent/c.o.BytesPerSec*float64(time.Second)) - time.Since(c.began)
		if ahead <= 0 {
			return nil
		}
		if err := c.o.Wait(min(ahead, 50*time.Millisecond)); err != nil {
			return err
		}
		if err := p.check(); err != nil {
			return err
		}
	}
}

// group puts neighbouring segments together that fit one segment by bytes, index entries and relative offsets.
func (p *cleanPass) group(segs []*segment) (groups [][]*segment) {
	c := p.config
	var size, offsets, times int64
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	for _, s := range segs {
		o, t := int64(s.entriesLocked(kindIndex))*offsetEntryBytes, int64(s.entriesLocked(kindTime))*timeEntryBytes
		if n := len(groups); n > 0 {
			g := groups[n-1]
			if size+s.size <= c.segmentBytes() && offsets+o <= int64(c.segmentIndexBytes()) && times+t <= int64(c.segmentIndexBytes()) && s.end-1-g[0].base <= math.MaxInt32 {
				groups[n-1] = append(g, s)
				size, offsets, times = size+s.size, offsets+o, times+t
				continue
			}
		}
		groups = append(groups, []*segment{s})
		size, offsets, times = s.size, o, t
	}
	return groups
}

// cleanGroup writes one new segment from a group and puts it in its place.
func (p *cleanPass) cleanGroup(g []*segment) error {
	w, err := p.l.newCleaned(g[0].base)
	if err != nil {
		return p.cause(err)
	}
	end := len(g) - 1 // the last one that holds anything
	for end > 0 && g[end].size == 0 {
		end--
	}
	changed := len(g) > 1
	for i, s := range g {
		err = p.scan(s, s.base, func(pos int64, b record.Batch) error {
			out, err := p.filter(w, b, i == end && pos+int64(len(b)) == s.size)
			p.done.ReadBytes += int64(len(b))
			changed = changed || len(out) != len(b) || &out[0] != &b[0]
			if err != nil || len(out) == 0 {
				return err
			}
			p.done.WrittenBytes += int64(len(out))
			if err := p.spend(len(out)); err != nil {
				return err
			}
			return w.add(out)
		})
		if err != nil {
			return errors.Join(err, w.abandon())
		}
	}
	if !changed || w.s.size == 0 {
		p.done.SegmentsNow += len(g)
		return w.abandon()
	}
	p.done.SegmentsNow++
	w.s.end = g[len(g)-1].end
	w.s.lastWriteMS = g[len(g)-1].lastWriteMS
	if err = w.finish(); err == nil {
		err = p.l.replace(w, g, p.cuts)
	}
	if err != nil {
		return p.cause(errors.Join(err, w.abandon()))
	}
	return nil
}

// filter decides what becomes of a batch: itself, a part of it, an empty header, or nothing.
func (p *cleanPass) filter(w *cleaned, b record.Batch, last bool) ([]byte, error) {
	spent, err := p.judge(w, b)
	if err != nil {
		return nil, err
	}
	drop := spent
	if b.IsControl() {
		drop = spent && (b.NumRecords() == 0 || b.HasDeleteHorizon() && b.BaseTimestamp() <= p.nowMS)
	}
	rw := p.c.rw
	if err := rw.Open(b, MaxOpenedBatch); err != nil {
		return nil, err
	}
	tombstones := false
	for !drop && rw.Next() {
		p.done.RecordsRead++
		if r := rw.Record(); p.keeps(b, r) {
			p.done.RecordsKept++
			tombstones = tombstones || r.Value == nil
			rw.Keep()
		}
	}
	if rw.Err() != nil {
		return nil, rw.Err()
	}
	if rw.Kept() == 0 {
		switch {
		case !last && !p.lastOfProducer(b):
			return nil, nil
		case b.NumRecords() == 0:
			return b, nil
		}
		p.c.out = record.AppendEmpty(p.c.out[:0], b)
		return p.c.out, nil
	}
	horizon := record.NoTimestamp
	if !b.HasDeleteHorizon() && (b.IsControl() && spent || !b.IsControl() && tombstones && b.LastOffset() <= p.latest) {
		horizon = clock.Later(p.nowMS, p.config.DeleteRetentionMS)
	}
	if horizon == record.NoTimestamp && rw.Kept() == int(b.NumRecords()) {
		return b, nil
	}
	p.c.out, err = rw.Append(p.c.out[:0], horizon)
	return p.c.out, err
}

// judge follows the transactions. spent says that an aborted transaction's records, or a marker without any, can go.
func (p *cleanPass) judge(w *cleaned, b record.Batch) (spent bool, err error) {
	if !b.IsControl() {
		return p.txns.batch(b), nil
	}
	spent, entry, err := p.txns.marker(b)
	if err == nil && entry != nil {
		err = w.addTxn(*entry)
	}
	return spent, err
}

// keeps decides on one record of a batch that is not dropped whole.
func (p *cleanPass) keeps(b record.Batch, r *record.Record) bool {
	off := b.BaseOffset() + kafka.Offset(r.OffsetDelta)
	switch {
	case b.IsControl() || off > p.latest:
		return true
	case r.Key == nil || p.c.keys.superseded(r.Key, off):
		return false
	}
	return r.Value != nil || !b.HasDeleteHorizon() || p.nowMS < b.BaseTimestamp()
}

// lastOfProducer reports whether a live producer would be forgotten without this batch: it holds the last sequence
// number, or is a marker that tells the epoch where no data does.
func (p *cleanPass) lastOfProducer(b record.Batch) bool {
	s, ok := p.last[b.ProducerID()]
	if !ok || b.ProducerID() < 0 {
		return false
	}
	if s.LastOffset >= 0 {
		return s.LastOffset == b.LastOffset()
	}
	return b.IsControl() && b.ProducerEpoch() == s.Epoch
}

// Dirty says what of a log could be cleaned.
type Dirty struct {
	Clean, Bytes int64        // of the part that is clean, and of what could be cleaned
	Until        kafka.Offset // the end of that
	Due          bool         // some of it is older than max.compaction.lag.ms
}

// Ratio is the dirty share: what min.cleanable.dirty.ratio is compared with.
func (d Dirty) Ratio() float64 {
	if d.Bytes == 0 {
		return 0
	}
	return float64(d.Bytes) / float64(d.Clean+d.Bytes)
}

// Wanted reports whether the log should be cleaned now.
func (d Dirty) Wanted(c *Config) bool {
	return d.Bytes > 0 && (d.Due || d.Ratio() > c.MinCleanableRatio)
}

// Dirty works out what could be cleaned below limit, the last stable offset: whole segments, never the active one, none
// younger than min.compaction.lag.ms. A log whose cleanup.policy lacks compact has nothing. It reads one batch header at
// most, where max.compaction.lag.ms asks for it, and none of a log that nobody has used since the start.
func (l *Log) Dirty(limit kafka.Offset, nowMS int64) (Dirty, error) {
	c := l.Config()
	if !c.Compact || l.state.Load() == stateClosed {
		return Dirty{}, nil
	}
	from := l.dirtyFrom()
	d := dirtyOf(l.Segments(), l.EndOffset(), from, limit, c, nowMS)
	if d.Bytes == 0 || d.Due || c.MaxCompactionLagMS <= 0 || c.MaxCompactionLagMS == math.MaxInt64 || l.state.Load() != stateReady {
		return d, nil
	}
	l.mu.Lock()
	s := l.mu.segs[l.findLocked(from)]
	size := s.size
	l.mu.Unlock()
	lease, err := l.acquire(s, kindLog)
	if err != nil {
		return d, err
	}
	defer lease.Release()
	sc := newScanner(lease, size, l.env.Pool, record.HeaderBytes)
	defer sc.close()
	h, _, err := sc.header(0)
	if err != nil {
		return d, fmt.Errorf("read %s: %w", lease.f.Name(), err)
	}
	d.Due = h.MaxTimestamp() >= 0 && nowMS-h.MaxTimestamp() > max(c.MaxCompactionLagMS, c.MinCompactionLagMS)
	return d, nil
}

// Dirty is Log.Dirty for a log that is known by its summary alone; cleanedTo is from cleaner-offset-checkpoint.
func (s *Summary) Dirty(c *Config, cleanedTo kafka.Offset, nowMS int64) Dirty {
	if !c.Compact {
		return Dirty{}
	}
	if cleanedTo < s.Start || cleanedTo > s.End {
		cleanedTo = s.Start
	}
	return dirtyOf(s.Segments, s.End, cleanedTo, s.End, c, nowMS)
}

func dirtyOf(segs []Segment, end, from, limit kafka.Offset, c *Config, nowMS int64) (d Dirty) {
	for i, s := range segs[:max(len(segs)-1, 0)] {
		at := s.LastWriteMS
		if s.MaxTimestamp >= 0 {
			at = min(at, s.MaxTimestamp) // as retention does: a record cannot be younger than its file
		}
		switch end := segs[i+1].Base; {
		case end <= from:
			d.Clean += s.Size
			continue
		case end > limit || c.MinCompactionLagMS > 0 && nowMS-at < c.MinCompactionLagMS:
			return d
		default:
			if c.MaxCompactionLagMS > 0 && nowMS-at > max(c.MaxCompactionLagMS, c.MinCompactionLagMS) {
				d.Due = true
			}
			d.Bytes += s.Size
			d.Until = end
		}
	}
	return d
}

// CleanedTo is the offset up to which the log has been compacted: what cleaner-offset-checkpoint says.
func (l *Log) CleanedTo() kafka.Offset { return kafka.Offset(l.cleanedTo.Load()) }

// SetCleanedTo takes over what cleaner-offset-checkpoint said; 0 is nothing.
func (l *Log) SetCleanedTo(off kafka.Offset) { l.cleanedTo.Store(int64(off)) }

// dirtyFrom is where the dirty part begins.
func (l *Log) dirtyFrom() kafka.Offset {
	off, start := l.CleanedTo(), l.StartOffset()
	if off < start || off > l.EndOffset() {
		return start
	}
	return off
}

// StopCleaning ends a cleaning that is under way, waits for its end, and lets no other begin: the folder is about to be
// moved or removed.
func (l *Log) StopCleaning() {
	l.cleaning.stop.Store(true)
	l.cleaning.Lock()
	defer l.cleaning.Unlock() //nolint:staticcheck // only waiting
}

// holds reports whether the segments of g stand together in the log. [Log.mu]
func (l *Log) holdsLocked(g []*segment) (at int, ok bool) {
	at = slices.Index(l.mu.segs, g[0])
	return at, at >= 0 && at+len(g) < len(l.mu.segs) && slices.Equal(l.mu.segs[at:at+len(g)], g)
}
