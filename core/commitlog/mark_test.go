package commitlog

import (
	"fmt"
	"testing"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
)

// A start under the same boot reads only what was appended behind the last mark, and yet counts nothing as durable that
// was not flushed.
func TestStartBehindAMarkReadsLittle(t *testing.T) {
	w := newWorld(t, Config{SegmentBytes: 1 << 30})
	for i := range 2000 {
		w.append(batchSpec{id: kafka.ProducerID(1 + i%3), seq: int32(i / 3), ts: int64(i), valueLen: 1000})
	}
	if !w.l.Mark(MarkBytes) {
		t.Fatal("no mark is due after 2 MB")
	}
	if err := w.l.WriteMark(); err != nil {
		t.Fatal(err)
	}
	point := w.l.WrittenPoint()
	if point != 2000 || w.l.FlushedOffset() != 0 || w.l.RecoveryPoint() != 0 {
		t.Fatalf("written %d, flushed %d, recovery %d", point, w.l.FlushedOffset(), w.l.RecoveryPoint())
	}
	w.append(batchSpec{id: 1, seq: 667, ts: 9999})
	if w.l.Mark(MarkBytes) {
		t.Fatal("a mark for one record")
	}
	want := w.l.producers.Active()
	w.l.Abandon()
	read := 0
	env := (&Env{FS: &vfstest.Faulty{FS: w.mem, Hook: func(op vfstest.Op) error {
		if op.Kind == "read" {
			read += op.Bytes
		}
		return nil
	}}, NowMS: w.env.NowMS}).withDefaults()
	l, err := Open(Options{Env: env, Config: w.cfg, Dir: testDir, WrittenPoint: point})
	if err != nil {
		t.Fatal(err)
	}
	if l.EndOffset() != 2001 || l.FlushedOffset() != 0 || l.RecoveryPoint() != 0 {
		t.Fatalf("end %d, flushed %d, recovery %d", l.EndOffset(), l.FlushedOffset(), l.RecoveryPoint())
	}
	if got := l.producers.Active(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("producers %v, want %v", got, want)
	}
	if size := int(l.Size()); read > size/10 {
		t.Fatalf("%d bytes were read of a log of %d", read, size)
	}
	if _, err := l.Flush(); err != nil || l.FlushedOffset() != 2001 {
		t.Fatal(err, l.FlushedOffset())
	}
	// What was flushed survives a power loss, and what the mark vouched for is among it.
	lost, err := Open(Options{Env: (&Env{FS: w.mem.CrashClone(func() bool { return false })}).withDefaults(), Config: w.cfg, Dir: testDir})
	if err != nil || lost.EndOffset() != 2001 {
		t.Fatal(err, lost.EndOffset())
	}
}
