package commitlog

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
	"pgregory.net/rapid"
)

// cleanCrash is a compacted log whose cleanings are crashed before every call that changes or syncs a file. power is the
// chance, in percent, that a piece of unsynced work survives.
type cleanCrash struct {
	*world
	rnd    *rand.Rand
	power  int
	want   map[string]string // what consumers must see
	end    kafka.Offset
	clones int
	inside bool // a cleaning runs
	busy   bool // so does a check
}

// Whatever is left of a crash before any call of a cleaning, the log that opens shows consumers the same values, ends
// where it ended, knows the same producers, has no file left over, and can be cleaned again. So does a crash during the
// start that follows.
func TestCrashAtEveryStepOfCleaning(t *testing.T) {
	for _, power := range []int{0, 50, 90, 100} {
		for seed := range uint64(8) {
			cfg := compactConfig()
			cfg.SegmentBytes = 900
			c := &cleanCrash{world: newWorld(t, cfg), rnd: rand.New(rand.NewPCG(seed, uint64(power))), power: power}
			c.l.Abandon()
			c.env.FS = &vfstest.Faulty{FS: c.mem, Hook: func(op vfstest.Op) error {
				if op.Mutates() && c.inside && !c.busy {
					c.crash(c.end)
					c.crash(0)
				}
				return nil
			}}
			c.open(0, 0)
			c.drive()
			if c.clones < 100 {
				t.Fatalf("only %d crashes", c.clones)
			}
			if t.Failed() {
				t.Fatalf("survival %d%%, seed %d", power, seed)
			}
		}
	}
}

func (c *cleanCrash) drive() {
	seq := map[kafka.ProducerID]int32{}
	for range 4 {
		for range 30 {
			id := kafka.ProducerID(c.rnd.IntN(3))
			kvs := []kv{{fmt.Sprint(c.rnd.IntN(9)), fmt.Append(nil, c.rnd.IntN(1000))}, {fmt.Sprint(c.rnd.IntN(9)), nil}}
			c.put(batchSpec{ts: c.now, id: id, seq: seq[id], codec: compress.Codec(c.rnd.IntN(2) * 3)}, kvs[:1+c.rnd.IntN(2)]...)
			seq[id] += 2 // what is skipped does not matter: nobody checks
		}
		if _, err := c.l.Checkpoint(); err != nil {
			c.t.Fatal(err)
		}
		c.now += int64(c.rnd.IntN(1500))
		c.want, c.end = table(consume(c.t, c.l, false)), c.l.EndOffset()
		c.inside = true
		c.clean()
		c.inside = false
		verifyCleaned(c.t, c.l, c.want, c.end, c.l)
	}
}

// crash opens what may be left, cuts that start short at a step drawn at random, opens what is left of it, and checks both.
func (c *cleanCrash) crash(point kafka.Offset) {
	c.busy = true
	defer func() { c.busy = false }()
	c.clones++
	survives := func() bool { return c.rnd.IntN(100) < c.power }
	mem := c.mem.CrashClone(survives)
	second, stop := mem, c.rnd.IntN(40)
	first := &vfstest.Faulty{FS: mem, Hook: func(op vfstest.Op) error {
		if op.Mutates() {
			if stop--; stop == 0 {
				second = mem.CrashClone(survives)
			}
		}
		return nil
	}}
	l := c.reopenOn(first, point)
	if second != mem {
		l = c.reopenOn(second, point)
	}
	infos, err := l.env.FS.ReadDir(testDir)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, st := range infos {
		if strings.HasSuffix(st.Name, suffixCleaned) || strings.HasSuffix(st.Name, suffixSwap) || strings.HasSuffix(st.Name, suffixDeleted) {
			c.t.Fatalf("clone %d: %s is left over", c.clones, st.Name)
		}
	}
	if _, err := cleanLog(l, c.now, CleanerOptions{}); err != nil {
		c.t.Fatalf("clone %d: clean afterwards: %v", c.clones, err)
	}
	verifyCleaned(c.t, l, c.want, c.end, c.l)
}

func (c *cleanCrash) reopenOn(fs vfs.FS, point kafka.Offset) *Log {
	c.t.Helper()
	env := (&Env{FS: fs, NowMS: func() int64 { return c.now }}).withDefaults()
	l, err := Open(Options{Env: env, Config: c.cfg, Dir: testDir, RecoveryPoint: point})
	if err != nil {
		c.t.Fatalf("clone %d: %v", c.clones, err)
	}
	verifyCleaned(c.t, l, c.want, c.end, c.l)
	return l
}

// verifyCleaned compares a log with what consumers must see, and its producers with those of another one.
func verifyCleaned(t testing.TB, l *Log, want map[string]string, end kafka.Offset, like *Log) {
	t.Helper()
	if got := table(consume(t, l, false)); !maps.Equal(got, want) {
		t.Fatalf("consumers see %v, want %v", got, want)
	}
	if l.EndOffset() != end {
		t.Fatalf("the log ends at %d, want %d", l.EndOffset(), end)
	}
	p, err := l.Producers()
	if err != nil {
		t.Fatal(err)
	}
	q := like.producers
	got, has := p.Active(), q.Active()
	if !slices.Equal(got, has) {
		t.Fatalf("producers are %+v, want %+v", got, has)
	}
}

// The same history comes out whenever compaction runs, and with whatever settings: who keeps the last value of each key
// cannot tell, and no record shows that was not written there.
func TestMetamorphicCompaction(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := compactConfig()
		cfg.SegmentBytes = rapid.SampledFrom([]int64{300, 2000, 1 << 20}).Draw(rt, "segmentBytes")
		cfg.IndexIntervalBytes = rapid.SampledFrom([]int{1, 100, 4096}).Draw(rt, "indexInterval")
		cfg.SegmentIndexBytes = rapid.SampledFrom([]int{0, 60}).Draw(rt, "indexBytes")
		cfg.DeleteRetentionMS = rapid.SampledFrom([]int64{0, 50, 1 << 40}).Draw(rt, "deleteRetention")
		w := newWorld(t, cfg)
		w.l.Abandon()
		w.env = (&Env{FS: w.mem, NowMS: func() int64 { return w.now }, Files: NewFileCache(rapid.SampledFrom([]int{1, 100}).Draw(rt, "openFiles"))}).withDefaults()
		w.env.Room = roomOf(rapid.SampledFrom([]int{0, 128}).Draw(rt, "room"))
		if rapid.Bool().Draw(rt, "tail") {
			w.env.Tail = NewTailBudget(1 << 20)
		}
		w.open(0, 0)
		slots := rapid.SampledFrom([]int64{1, 5, 1000}).Draw(rt, "slots")
		m := &compactMachine{w: w, slots: slots, written: map[kafka.Offset]seen{}, want: map[string]string{}, seq: map[kafka.ProducerID]int32{}, open: map[kafka.ProducerID]map[string]*string{}}
		rt.Repeat(map[string]func(*rapid.T){
			"append":   m.append,
			"append2":  m.append,
			"txn":      m.transaction,
			"end":      m.end,
			"roll":     func(*rapid.T) { w.roll() },
			"clean":    m.clean,
			"deadline": func(*rapid.T) { w.now += 60 },
			"restart":  m.restart,
			"":         m.check,
		})
	})
}

// compactMachine runs random work on a compacted log beside a model: the table that a consumer ends with.
type compactMachine struct {
	w       *world
	slots   int64
	written map[kafka.Offset]seen
	want    map[string]string
	seq     map[kafka.ProducerID]int32
	open    map[kafka.ProducerID]map[string]*string // transactions: what they will do to want
}

func (m *compactMachine) draw(rt *rapid.T) []kv {
	var kvs []kv
	for range rapid.IntRange(1, 4).Draw(rt, "records") {
		r := kv{key: fmt.Sprint(rapid.IntRange(0, 5).Draw(rt, "key"))}
		if rapid.IntRange(0, 3).Draw(rt, "tombstone") > 0 {
			r.value = fmt.Append(nil, rapid.IntRange(0, 1<<30).Draw(rt, "value"))
		}
		kvs = append(kvs, r)
	}
	return kvs
}

func (m *compactMachine) note(base kafka.Offset, ts int64, kvs []kv) {
	for i, r := range kvs {
		off := base + kafka.Offset(i)
		m.written[off] = seen{off, r.key, string(r.value), ts, r.value == nil}
	}
}

func (m *compactMachine) append(rt *rapid.T) {
	kvs := m.draw(rt)
	for _, r := range kvs { // a key that an open transaction has written is not for others: order would decide
		for _, o := range m.open {
			if _, taken := o[r.key]; taken {
				return
			}
		}
	}
	id := kafka.ProducerID(rapid.IntRange(0, 2).Draw(rt, "producer"))
	ts := int64(rapid.IntRange(1000, 1100).Draw(rt, "ts"))
	b := m.w.put(batchSpec{ts: ts, id: id, seq: m.seq[id], codec: rapid.SampledFrom([]compress.Codec{compress.None, compress.Zstd}).Draw(rt, "codec")}, kvs...)
	m.seq[id] += int32(len(kvs))
	m.note(b.BaseOffset(), ts, kvs)
	for _, r := range kvs {
		m.apply(r.key, r.value)
	}
}

func (m *compactMachine) apply(key string, value []byte) {
	if value == nil {
		delete(m.want, key)
	} else {
		m.want[key] = string(value)
	}
}

func (m *compactMachine) transaction(rt *rapid.T) {
	id := kafka.ProducerID(rapid.IntRange(10, 11).Draw(rt, "transactional"))
	kvs := m.draw(rt)
	for _, r := range kvs {
		for other, o := range m.open {
			if _, taken := o[r.key]; taken && other != id {
				return
			}
		}
	}
	b := m.w.put(batchSpec{ts: 1000, id: id, epoch: 1, seq: m.seq[id], txn: true}, kvs...)
	m.seq[id] += int32(len(kvs))
	m.note(b.BaseOffset(), 1000, kvs)
	if m.open[id] == nil {
		m.open[id] = map[string]*string{}
	}
	for _, r := range kvs {
		m.open[id][r.key] = nil
		if r.value != nil {
			v := string(r.value)
			m.open[id][r.key] = &v
		}
	}
}

func (m *compactMachine) end(rt *rapid.T) {
	for _, id := range slices.Sorted(maps.Keys(m.open)) {
		commit := rapid.Bool().Draw(rt, "commit")
		m.w.append(batchSpec{id: id, epoch: 1, control: true, commit: commit, txn: true, ts: 1000})
		if commit {
			for k, v := range m.open[id] {
				if v == nil {
					delete(m.want, k)
				} else {
					m.want[k] = *v
				}
			}
		}
		delete(m.open, id)
	}
}

// clean cleans up to the last stable offset.
func (m *compactMachine) clean(rt *rapid.T) {
	l := m.w.l
	p, err := l.Producers()
	if err != nil {
		rt.Fatal(err)
	}
	p.AdvanceHighWatermark(l.EndOffset())
	limit := l.EndOffset()
	if u := p.FirstUnstable(); u >= 0 {
		limit = u
	}
	d, err := l.Dirty(limit, m.w.now)
	if err != nil {
		rt.Fatal(err)
	}
	if d.Bytes == 0 {
		return
	}
	c := NewCleaner(CleanerOptions{DedupeBytes: m.slots * mapSlotBytes})
	if done, err := c.Clean(l, Cleaning{Until: d.Until, Producers: p.Active(), NowMS: m.w.now}); err != nil || done.To <= done.From {
		rt.Fatalf("%+v, %v", done, err)
	}
}

func (m *compactMachine) restart(rt *rapid.T) {
	l := m.w.l
	point, cleaned := l.RecoveryPoint(), l.CleanedTo()
	if rapid.Bool().Draw(rt, "clean stop") {
		if err := l.Close(); err != nil {
			rt.Fatal(err)
		}
		point = l.EndOffset()
	} else {
		l.Abandon()
	}
	if rapid.Bool().Draw(rt, "all") {
		point = 0
	}
	m.w.open(0, point)
	if rapid.Bool().Draw(rt, "checkpoint") {
		m.w.l.SetCleanedTo(cleaned)
	}
}

func (m *compactMachine) check(rt *rapid.T) {
	committed := consume(m.w.t, m.w.l, true)
	for _, r := range committed {
		if m.written[r.off] != r {
			rt.Fatalf("%+v was never written, %+v was", r, m.written[r.off])
		}
	}
	got := map[string]string{}
	unstable := m.unstable()
	for _, r := range committed {
		if unstable[r.off] {
			continue
		}
		if r.dead {
			delete(got, r.key)
		} else {
			got[r.key] = r.value
		}
	}
	if !maps.Equal(got, m.want) {
		rt.Fatalf("consumers see %v, want %v", got, m.want)
	}
}

// unstable is the offsets of open transactions.
func (m *compactMachine) unstable() map[kafka.Offset]bool {
	list := map[kafka.Offset]bool{}
	for _, b := range readAll(m.w.t, m.w.l, m.w.l.StartOffset(), m.w.l.EndOffset(), 1<<20) {
		if b.IsTransactional() && !b.IsControl() && m.open[b.ProducerID()] != nil {
			if p := m.w.l.producers.byID[b.ProducerID()]; p != nil && p.txnFirst >= 0 && b.LastOffset() >= p.txnFirst {
				for o := b.BaseOffset(); o <= b.LastOffset(); o++ {
					list[o] = true
				}
			}
		}
	}
	return list
}
