package commitlog

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// crashRun drives a log with random work and crashes it before every call that changes or syncs a file. power is the
// chance, in percent, that a piece of unsynced work survives: 100 is a killed process, 0 the worst power loss.
type crashRun struct {
	*world
	rnd     *rand.Rand
	power   int
	written []record.Batch // all that Append was given, truncated with the log
	point   kafka.Offset   // the recovery point as a checkpoint file would have it
	mark    kafka.Offset   // the written point, of use when nothing is lost
	clones  int
	busy    bool // inside a crash's own recovery
	cutting bool // inside a truncation, which may be done or not
}

// Whatever survives of a crash at any moment, the log that opens holds a first part of what was written, with all
// that was flushed, and goes on working. With everything surviving (kill -9) all that was published is there.
func TestCrashAtEveryWrite(t *testing.T) {
	for _, power := range []int{0, 50, 90, 100} {
		for seed := range uint64(6) {
			r := &crashRun{rnd: rand.New(rand.NewPCG(seed, uint64(power))), power: power}
			r.world = newWorld(t, Config{SegmentBytes: 700 + 800*int64(seed%2), IndexIntervalBytes: 120})
			r.l.Abandon()
			r.env.Room = roomOf(int(128 * (seed % 2)))
			r.env.FS = &vfstest.Faulty{FS: r.mem, Hook: func(op vfstest.Op) error {
				if op.Mutates() && !r.busy {
					r.crash()
				}
				return nil
			}}
			r.open(0, 0)
			r.drive(40)
			if r.clones < 50 {
				t.Fatalf("only %d crashes", r.clones)
			}
			if t.Failed() {
				t.Fatalf("survival %d%%, seed %d", power, seed)
			}
		}
	}
}

func (r *crashRun) drive(steps int) {
	seq := map[kafka.ProducerID]int32{}
	for i := range steps {
		switch n := r.rnd.IntN(100); {
		case n < 65:
			id := kafka.ProducerID(r.rnd.IntN(3))
			s := batchSpec{records: 1 + r.rnd.IntN(3), valueLen: r.rnd.IntN(120), ts: int64(1000 + i), id: id, seq: seq[id], leaderEpo: kafka.LeaderEpoch(i / 15)}
			b := s.build(r.t, r.l.AppendEnd())
			seq[id] += b.LastOffsetDelta() + 1
			r.written = append(r.written, b)
			if err := r.tryAppend(b); err != nil {
				r.t.Fatal(err)
			}
		case n < 75:
			if _, err := r.l.Flush(); err != nil {
				r.t.Fatal(err)
			}
		case n < 83:
			if _, err := r.l.Checkpoint(); err != nil {
				r.t.Fatal(err)
			}
			r.point = r.l.RecoveryPoint()
		case n < 86:
			if r.l.Mark(1) {
				if err := r.l.WriteMark(); err != nil {
					r.t.Fatal(err)
				}
				r.mark = r.l.WrittenPoint()
			}
		case n < 89:
			if err := r.l.Rest(); err != nil {
				r.t.Fatal(err)
			}
		case n < 94 && len(r.written) > 0:
			to := r.written[max(0, len(r.written)-1-r.rnd.IntN(4))].BaseOffset()
			r.cutting = true
			r.point, r.mark = min(r.point, to), min(r.mark, to) // as a follower does: the checkpoint first
			if err := r.l.TruncateTo(to); err != nil {
				r.t.Fatal(err)
			}
			r.cutting = false
			for len(r.written) > 0 && r.written[len(r.written)-1].LastOffset() >= to {
				r.written = r.written[:len(r.written)-1]
			}
		default:
			if err := r.l.Close(); err != nil {
				r.t.Fatal(err)
			}
			r.point = r.l.EndOffset()
			r.open(0, r.point)
		}
	}
}

// crash opens what may be left and checks it.
func (r *crashRun) crash() {
	r.busy = true
	defer func() { r.busy = false }()
	r.clones++
	fs := r.mem.CrashClone(func() bool { return r.rnd.IntN(100) < r.power })
	flushed, published := kafka.Offset(0), kafka.Offset(0)
	if r.l != nil {
		flushed, published = r.l.FlushedOffset(), r.l.EndOffset()
	}
	env := (&Env{FS: fs, NowMS: func() int64 { return 0 }}).withDefaults()
	o := Options{Env: env, Config: r.cfg, Dir: testDir, RecoveryPoint: r.point}
	if r.power == 100 {
		o.WrittenPoint = r.mark
	}
	l, err := Open(o)
	if err != nil {
		r.t.Fatalf("crash %d: %v", r.clones, err)
	}
	got := readAll(r.t, l, 0, l.EndOffset(), 1<<20)
	for i, b := range got {
		if i >= len(r.written) || !bytes.Equal(b, r.written[i]) {
			r.t.Fatalf("crash %d: batch %d at offset %d was never written there", r.clones, i, b.BaseOffset())
		}
	}
	need := flushed
	if r.power == 100 && !r.cutting {
		need = published
	}
	if l.EndOffset() < need {
		r.t.Fatalf("crash %d: log ends at %d, must reach %d (published %d, recovery point %d)", r.clones, l.EndOffset(), need, published, r.point)
	}
	expectState(r.t, l, got)
	b := batchSpec{ts: 5000, leaderEpo: 99}.build(r.t, l.AppendEnd())
	if err := l.Append([]AppendBatch{toAppend(b)}); err != nil {
		r.t.Fatalf("crash %d: append afterwards: %v", r.clones, err)
	}
	l.Publish()
	if err := l.Close(); err != nil {
		r.t.Fatalf("crash %d: close afterwards: %v", r.clones, err)
	}
}

// expectState checks producers and epochs against the batches of a log. Epochs that were assigned without a batch may
// be there or not.
func expectState(t testing.TB, l *Log, batches []record.Batch) {
	t.Helper()
	model := newProducers(func() int64 { return 0 })
	for _, b := range batches {
		if _, err := model.replay(b); err != nil {
			t.Fatal(err)
		}
	}
	p, err := l.Producers()
	if err != nil {
		t.Fatal(err)
	}
	got, want := p.Active(), model.Active()
	if len(got) != len(want) {
		t.Fatalf("%d producers, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("producer is %+v, want %+v", got[i], want[i])
		}
	}
	for _, b := range batches {
		if e := l.EpochFor(b.BaseOffset()); e != b.PartitionLeaderEpoch() {
			t.Fatalf("offset %d has leader epoch %d, was written under %d: %v", b.BaseOffset(), e, b.PartitionLeaderEpoch(), l.Epochs())
		}
	}
}

// The same without any fsync loses data under power loss: else the test above would prove nothing.
func TestPowerLossWithoutFlushLosesData(t *testing.T) {
	w := newWorld(t, Config{})
	w.append(batchSpec{})
	env := (&Env{FS: w.mem.CrashClone(func() bool { return false })}).withDefaults()
	l, err := Open(Options{Env: env, Config: w.cfg, Dir: testDir})
	if err != nil {
		t.Fatal(err)
	}
	if l.EndOffset() != 0 {
		t.Fatal("an unflushed record has survived a power loss: the file system forgets nothing")
	}
	if _, err := w.l.Flush(); err != nil {
		t.Fatal(err)
	}
	env = (&Env{FS: w.mem.CrashClone(func() bool { return false })}).withDefaults()
	if l, err = Open(Options{Env: env, Config: w.cfg, Dir: testDir}); err != nil {
		t.Fatal(err)
	}
	if l.EndOffset() != 1 {
		t.Fatal("a flushed record is lost")
	}
}
