package commitlog

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs"
)

// benchLog is a log in a real folder, without retention.
func benchLog(b *testing.B, tailBytes int64) (*Log, *Env) {
	env := (&Env{FS: vfs.OS{}, Room: NewRoom(64 << 10), Later: func(l *Log, _ func() error) {}}).withDefaults()
	if tailBytes > 0 {
		env.Tail = NewTailBudget(tailBytes)
	}
	l, err := Open(Options{Env: env, Config: &Config{SegmentBytes: 64 << 20, DeleteOnRetention: true, RetentionBytes: 256 << 20, RetentionMS: -1}, Dir: b.TempDir() + "/topic-0"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(l.Abandon)
	return l, env
}

// BenchmarkAppend writes one batch from a pooled buffer, as a produce request does, with its producer's sequence.
func BenchmarkAppend(b *testing.B) {
	for i, size := range []int{256, 256, 1 << 10, 1 << 10, 16 << 10, 16 << 10, 256 << 10, 256 << 10, 1 << 20, 1 << 20} {
		b.Run(fmt.Sprintf("batch=%d/room=%v", size, i%2 == 1), func(b *testing.B) {
			l, env := benchLog(b, 16<<20)
			if i%2 == 0 {
				env.Room = nil
			}
			p, err := l.Producers()
			if err != nil {
				b.Fatal(err)
			}
			template := batchSpec{valueLen: size - 80, id: 1}.build(b, 0)
			list := make([]AppendBatch, 1)
			b.SetBytes(int64(len(template)))
			b.ReportAllocs()
			seq, n := int32(0), 0
			for b.Loop() {
				buf := env.Pool.Get(len(template))
				copy(buf.B, template)
				v := record.Batch(buf.B)
				v.SetBaseOffset(l.AppendEnd())
				v.SetProducer(1, 0, seq)
				seq++
				if _, dup, code := p.Check(v); dup || code != kafka.None {
					b.Fatal(dup, code)
				}
				if err := p.Stage(v); err != nil {
					b.Fatal(err)
				}
				list[0] = toAppend(v)
				list[0].Buf = buf
				if err := l.Append(list); err != nil {
					b.Fatal(err)
				}
				l.Publish()
				buf.Release()
				if n++; n%10_000 == 0 {
					if _, _, err := l.Retain(env.NowMS(), l.EndOffset()); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkAppendOwn is BenchmarkAppend on a file system that discards: what the package itself costs an append.
func BenchmarkAppendOwn(b *testing.B) {
	w := newWorld(b, Config{})
	w.ring(16 << 20)
	w.env.FS = discard{}
	w.l.env.Files.drop(&w.l.cur.files[kindLog], false)
	template := batchSpec{valueLen: 1000}.build(b, 0)
	list := make([]AppendBatch, 1)
	b.ReportAllocs()
	for b.Loop() {
		buf := w.env.Pool.Get(len(template))
		v := record.Batch(buf.B)
		copy(v, template)
		v.SetBaseOffset(w.l.AppendEnd())
		list[0] = AppendBatch{Bytes: v, Buf: buf, Base: w.l.AppendEnd(), Last: w.l.AppendEnd()}
		if err := w.l.Append(list); err != nil {
			b.Fatal(err)
		}
		w.l.Publish()
		buf.Release()
	}
}

// BenchmarkRead reads on from where the last read ended: from the tail ring, and as a piece of a file that is not
// copied.
func BenchmarkRead(b *testing.B) {
	for _, from := range []string{"tail", "file", "search"} {
		for _, maxBytes := range []int{64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("from=%s/max=%d", from, maxBytes), func(b *testing.B) {
				tailBytes := int64(0)
				if from == "tail" {
					tailBytes = 256 << 20
				}
				l, _ := benchLog(b, tailBytes)
				for l.Size() < 32<<20 {
					v := batchSpec{valueLen: 16 << 10}.build(b, l.AppendEnd())
					if err := l.Append([]AppendBatch{toAppend(v)}); err != nil {
						b.Fatal(err)
					}
					l.Publish()
				}
				var s Slice
				off := kafka.Offset(0)
				b.ReportAllocs()
				for b.Loop() {
					if err := l.Read(&s, off, maxBytes, l.EndOffset(), true); err != nil || s.Bytes == 0 {
						b.Fatal(err)
					}
					s.Release()
					off = s.Next
					if from == "search" {
						off += 37
					}
					if off >= l.EndOffset()-100 {
						off = 0
					}
				}
			})
		}
	}
}

// BenchmarkIdleLog reports what a log that was opened from a clean stop's manifest holds in memory.
func BenchmarkIdleLog(b *testing.B) {
	env := (&Env{FS: vfs.NewMem(nil)}).withDefaults()
	cfg := &Config{}
	sum := &Summary{Segments: []Segment{{}}, End: 100, Epochs: []EpochStart{{0, 0}}}
	const n = 10_000
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		logs := make([]*Log, n)
		for i := range logs {
			l, err := OpenFromSummary(Options{Env: env, Config: cfg, Dir: "data/topic-" + strconv.Itoa(i)}, sum)
			if err != nil {
				b.Fatal(err)
			}
			l.AssignEpoch(1, 100)
			logs[i] = l
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(logs)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/log")
}

// An idle partition may hold 1 KiB in all; its log takes most of that.
func TestIdleLogIsSmall(t *testing.T) {
	r := testing.Benchmark(BenchmarkIdleLog)
	if got := r.Extra["B/log"]; got > 900 {
		t.Errorf("an idle log holds %.0f bytes, want 900 at most", got)
	}
}

// BenchmarkRecovery checks and indexes 64 MiB of log, as after a kill without a recovery point.
func BenchmarkRecovery(b *testing.B) {
	l, env := benchLog(b, 0)
	for l.Size() < 64<<20 {
		v := batchSpec{valueLen: 16 << 10, id: 1}.build(b, l.AppendEnd())
		if err := l.Append([]AppendBatch{toAppend(v)}); err != nil {
			b.Fatal(err)
		}
		l.Publish()
	}
	l.Abandon()
	b.SetBytes(l.Size())
	b.ReportAllocs()
	for b.Loop() {
		again, err := Open(Options{Env: env, Config: l.Config(), Dir: l.Dir()})
		if err != nil {
			b.Fatal(err)
		}
		again.Abandon()
	}
}
