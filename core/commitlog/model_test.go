package commitlog

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"pgregory.net/rapid"
)

// machine runs random operations on a log under random settings, beside a model that is a list of batches.
type machine struct {
	w     *world
	want  []record.Batch
	seq   map[kafka.ProducerID]int32
	epoch kafka.LeaderEpoch
	later []func() error
	held  []heldSlice
	mark  kafka.Offset

	postpone atomic.Bool
}

// heldSlice is a read that has not been released, with what it must go on holding.
type heldSlice struct {
	s    *Slice
	want []byte
}

// The same history comes out whatever the settings: segment and index sizes, tail ring, bound of open files, work
// done at once or later, and restarts of every kind in between.
func TestMetamorphic(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := Config{
			SegmentBytes:       rapid.SampledFrom([]int64{1, 400, 3000, 1 << 20}).Draw(rt, "segmentBytes"),
			IndexIntervalBytes: rapid.SampledFrom([]int{1, 100, 4096}).Draw(rt, "indexInterval"),
			SegmentIndexBytes:  rapid.SampledFrom([]int{0, 48}).Draw(rt, "indexBytes"),
			Preallocate:        rapid.Bool().Draw(rt, "preallocate"),
		}
		m := &machine{seq: map[kafka.ProducerID]int32{}}
		m.w = newWorld(t, cfg)
		m.w.l.Abandon()
		m.w.env = (&Env{FS: m.w.mem, Postpone: &m.postpone, NowMS: func() int64 { return m.w.now }, Files: NewFileCache(rapid.SampledFrom([]int{1, 3, 100}).Draw(rt, "openFiles"))}).withDefaults()
		m.w.env.Room = roomOf(rapid.SampledFrom([]int{0, 128, 1024}).Draw(rt, "room"))
		if n := rapid.SampledFrom([]int64{0, 2000, 1 << 20}).Draw(rt, "tailBytes"); n > 0 {
			m.w.env.Tail = NewTailBudget(n)
		}
		if rapid.Bool().Draw(rt, "later") {
			m.w.env.Later = func(_ *Log, work func() error) { m.later = append(m.later, work) }
		}
		m.w.open(0, 0)
		rt.Repeat(map[string]func(*rapid.T){
			"append":     m.append,
			"appendMany": m.append,
			"read":       m.read,
			"hold":       m.hold,
			"work":       m.work,
			"flush":      m.flush,
			"restart":    m.restart,
			"retain":     m.retain,
			"truncate":   m.truncate,
			"time":       m.time,
			"":           m.check,
		})
		m.letGo(rt)
		if err := m.w.l.Close(); err != nil {
			rt.Fatal(err)
		}
		if n := m.w.env.Files.Open(); n != 0 {
			rt.Fatalf("%d files are open after Close", n)
		}
		if m.w.env.Tail != nil && m.w.env.Tail.Used() != 0 {
			rt.Fatalf("%d bytes are in the ring after Close", m.w.env.Tail.Used())
		}
	})
}

func (m *machine) append(rt *rapid.T) {
	var bs []record.Batch
	base := m.w.l.AppendEnd()
	m.epoch += kafka.LeaderEpoch(rapid.IntRange(0, 9).Draw(rt, "epochUp") / 9) // within one append there is one leader
	for range rapid.IntRange(1, 4).Draw(rt, "batches") {
		id := kafka.ProducerID(rapid.IntRange(0, 3).Draw(rt, "producer"))
		s := batchSpec{
			records:   rapid.IntRange(1, 5).Draw(rt, "records"),
			valueLen:  rapid.IntRange(0, 200).Draw(rt, "valueLen"),
			ts:        int64(rapid.IntRange(1000, 1100).Draw(rt, "ts")),
			codec:     rapid.SampledFrom([]compress.Codec{compress.None, compress.Lz4}).Draw(rt, "codec"),
			id:        id,
			seq:       m.seq[id],
			leaderEpo: m.epoch,
		}
		b := s.build(m.w.t, base)
		m.seq[id] += b.LastOffsetDelta() + 1
		base = b.LastOffset() + 1
		bs = append(bs, b)
	}
	m.w.now += 10
	if err := m.w.tryAppend(bs...); err != nil {
		rt.Fatal(err)
	}
	m.want = append(m.want, bs...)
}

// visible is what the model says of [from, limit).
func (m *machine) visible(from, limit kafka.Offset) []byte {
	var b []byte
	for _, w := range m.want {
		if w.LastOffset() >= from && w.LastOffset() < limit {
			b = append(b, w...)
		}
	}
	return b
}

func (m *machine) read(rt *rapid.T) { m.readSlice(rt).s.Release() }

func (m *machine) hold(rt *rapid.T) { m.held = append(m.held, m.readSlice(rt)) }

func (m *machine) readSlice(rt *rapid.T) heldSlice {
	l := m.w.l
	from := kafka.Offset(rapid.Int64Range(int64(l.StartOffset()), int64(l.EndOffset())).Draw(rt, "from"))
	limit := kafka.Offset(rapid.Int64Range(int64(from), int64(l.EndOffset())+2).Draw(rt, "limit"))
	maxBytes := rapid.SampledFrom([]int{0, 150, 900, 20_000, 1 << 20}).Draw(rt, "maxBytes")
	minOne := rapid.Bool().Draw(rt, "minOne")
	s := &Slice{}
	if err := l.Read(s, from, maxBytes, limit, minOne); err != nil {
		rt.Fatalf("read [%d,%d): %v", from, limit, err)
	}
	got := make([]byte, s.Bytes)
	if err := s.CopyTo(got); err != nil {
		rt.Fatalf("read [%d,%d): %v", from, limit, err)
	}
	all := m.visible(from, limit)
	if !bytes.HasPrefix(all, got) {
		rt.Fatalf("read [%d,%d) gives other bytes than were written", from, limit)
	}
	first, _, _ := record.Next(all)
	if len(got) == 0 && len(all) > 0 && (minOne || len(first) <= maxBytes) {
		rt.Fatalf("read [%d,%d) of %d bytes gives nothing", from, limit, maxBytes)
	}
	if len(got) > maxBytes && !(minOne && len(got) == len(first)) {
		rt.Fatalf("read of %d bytes gives %d", maxBytes, len(got))
	}
	if n, err := l.BytesBetween(from, limit, 1<<30); err != nil || n == 0 && len(all) > 0 || n > l.Size() {
		rt.Fatalf("bytes in [%d,%d): %d, %v, want about %d", from, limit, n, err, len(all))
	}
	return heldSlice{s, got}
}

func (m *machine) letGo(rt *rapid.T) {
	for _, h := range m.held {
		got := make([]byte, h.s.Bytes)
		if err := h.s.CopyTo(got); err != nil || !bytes.Equal(got, h.want) {
			rt.Fatalf("a held read has changed: %v", err)
		}
		h.s.Release()
	}
	m.held = nil
}

func (m *machine) work(rt *rapid.T) {
	for _, f := range m.later {
		if err := f(); err != nil {
			rt.Fatal(err)
		}
	}
	m.later = nil
}

func (m *machine) flush(rt *rapid.T) {
	var err error
	switch rapid.IntRange(0, 3).Draw(rt, "how") {
	case 0:
		_, err = m.w.l.Flush()
	case 3:
		if m.w.l.Mark(1) {
			err = m.w.l.WriteMark()
			m.mark = m.w.l.WrittenPoint()
		}
	case 1:
		_, err = m.w.l.Checkpoint()
	default:
		err = m.w.l.Rest()
	}
	if err != nil {
		rt.Fatal(err)
	}
}

// restart stops the log in one of four ways: cleanly with and without manifest, killed, and killed with the index
// files gone. A clean stop may be one of many logs, which writes little.
func (m *machine) restart(rt *rapid.T) {
	l, how := m.w.l, rapid.IntRange(0, 3).Draw(rt, "how")
	start, point := l.StartOffset(), l.RecoveryPoint()
	if how < 2 {
		m.postpone.Store(rapid.Bool().Draw(rt, "postpone"))
		err := l.Close()
		m.postpone.Store(false)
		if err != nil {
			rt.Fatal(err)
		}
		s := l.Summary()
		point, m.mark = s.Recovery, s.Written
	} else {
		l.Abandon()
	}
	m.later = nil
	if how == 1 {
		var err error
		if m.w.l, err = OpenFromSummary(Options{Env: m.w.env, Config: m.w.cfg, Dir: testDir}, l.Summary()); err != nil {
			rt.Fatal(err)
		}
		return
	}
	if how == 3 {
		for _, s := range l.Segments() {
			_ = m.w.mem.Remove(fmt.Sprintf("%s/%s.index", testDir, offsetName(s.Base)))
		}
	}
	if m.mark > m.w.l.EndOffset() {
		m.mark = 0
	}
	l, err := Open(Options{Env: m.w.env, Config: m.w.cfg, Dir: testDir, StartOffset: start, RecoveryPoint: point, WrittenPoint: m.mark})
	if err != nil {
		rt.Fatal(err)
	}
	m.w.l = l
}

func (m *machine) retain(rt *rapid.T) {
	l := m.w.l
	off := kafka.Offset(rapid.Int64Range(int64(l.StartOffset()), int64(l.EndOffset())).Draw(rt, "start"))
	if err := l.DeleteBefore(off); err != nil {
		rt.Fatal(err)
	}
	if _, _, err := l.Retain(m.w.now, l.EndOffset()); err != nil {
		rt.Fatal(err)
	}
}

func (m *machine) truncate(rt *rapid.T) {
	m.letGo(rt) // a file that is cut under a reader is short
	l := m.w.l
	if len(m.want) == 0 {
		return
	}
	to := m.want[len(m.want)-1-rapid.IntRange(0, min(5, len(m.want)-1)).Draw(rt, "back")].BaseOffset()
	if to < l.StartOffset() {
		return
	}
	m.mark = min(m.mark, to)
	if err := l.TruncateTo(to); err != nil {
		rt.Fatal(err)
	}
	for len(m.want) > 0 && m.want[len(m.want)-1].LastOffset() >= to {
		m.want = m.want[:len(m.want)-1]
	}
}

func (m *machine) time(rt *rapid.T) {
	l := m.w.l
	ts := int64(rapid.IntRange(990, 1110).Draw(rt, "ts"))
	find := func(fits func(int64) bool) FoundOffset {
		for _, b := range m.want {
			if b.LastOffset() < l.StartOffset() {
				continue
			}
			f, err := findInBatch(b, l.StartOffset(), l.EndOffset(), fits)
			if err != nil {
				rt.Fatal(err)
			}
			if f.Offset >= 0 {
				return f
			}
		}
		return notFound()
	}
	want := find(func(t int64) bool { return t >= ts })
	if got, err := l.OffsetForTime(ts, l.EndOffset()); err != nil || got != want {
		rt.Fatalf("offset for time %d is %+v (%v), want %+v", ts, got, err, want)
	}
}

func (m *machine) check(rt *rapid.T) {
	l := m.w.l
	end := kafka.Offset(0)
	if n := len(m.want); n > 0 {
		end = m.want[n-1].LastOffset() + 1
	}
	if l.EndOffset() != max(end, l.StartOffset()) {
		rt.Fatalf("log ends at %d, want %d", l.EndOffset(), end)
	}
	for _, b := range m.want {
		if b.BaseOffset() < l.StartOffset() {
			continue
		}
		if e := l.EpochFor(b.BaseOffset()); e != b.PartitionLeaderEpoch() {
			rt.Fatalf("offset %d has leader epoch %d, was written under %d: %v", b.BaseOffset(), e, b.PartitionLeaderEpoch(), l.Epochs())
		}
	}
}
