package logdir

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
	"github.com/tidemark/tidemark/core/vfs"
	"github.com/tidemark/tidemark/core/vfs/vfstest"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// testOwner stands over a log as a partition does.
type testOwner struct {
	sync.Mutex
	log                        *Log
	failed, flushed, unflushed int // times told
	stalled, givenUp           atomic.Bool
}

func (o *testOwner) Exclusive(fn func()) {
	o.Lock()
	defer o.Unlock()
	fn()
}
func (o *testOwner) HighWatermark() kafka.Offset { return o.log.EndOffset() }
func (o *testOwner) LogStartMoved()              {}
func (o *testOwner) Flushed()                    { o.flushed++ }
func (o *testOwner) Unflushed()                  { o.unflushed++ }
func (o *testOwner) Fail()                       { o.failed++ }
func (o *testOwner) Stalled(long bool) {
	o.stalled.Store(true)
	o.givenUp.Store(long)
}

// folderTest is log folders without a broker over a file system in memory, and the clock.
type folderTest struct {
	t    testing.TB
	fs   *vfs.Mem
	cfg  *config.Broker
	dirs *Dirs
	now  int64
	hook func(vfstest.Op) error // of all file calls from the next start on
	log  io.Writer              // of what the folders say from the next start on
}

func newFolderTest(t testing.TB, overrides ...string) *folderTest {
	t.Helper()
	cfg, _, err := config.Load("", append([]string{"log.dirs=d", "node.id=0"}, overrides...))
	if err != nil {
		t.Fatal(err)
	}
	f := &folderTest{t: t, fs: vfs.NewMem(nil), cfg: cfg, now: 1_700_000_000_000, log: io.Discard}
	f.start()
	return f
}

func (f *folderTest) start() {
	f.t.Helper()
	var fs vfs.FS = f.fs
	if f.hook != nil {
		fs = &vfstest.Faulty{FS: fs, Hook: f.hook}
	}
	var err error
	f.dirs, err = Open(Options{FS: fs, Dirs: f.cfg.LogDirs, NodeID: 0, Config: f.cfg, Logger: slog.New(slog.NewTextHandler(f.log, nil)), NowMS: func() int64 { return f.now },
		ElapsedMS: func() int64 { return f.now }})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.dirs.Adopt("cluster"); err != nil {
		f.t.Fatal(err)
	}
	if err := f.dirs.Recover(context.Background()); err != nil {
		f.t.Fatal(err)
	}
}

// kill lets go of the folders as the death of the process does.
func (f *folderTest) kill() {
	for _, r := range f.dirs.dirs {
		for _, tp := range r.sorted() {
			if e, _ := r.entry(tp); e.log != nil {
				e.log.Abandon()
			}
		}
		_ = r.lock.Close()
	}
}

func (f *folderTest) open(tp kafka.TopicPartition, id kafka.TopicID, cfg *commitlog.Config) *Log {
	f.t.Helper()
	l, err := f.dirs.Open(tp, id, cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	l.Attach(&testOwner{log: l})
	return l
}

// append writes one batch.
func (f *folderTest) append(l *Log, kvs ...[2][]byte) {
	f.t.Helper()
	b := record.NewBuilder(nil, 0, 0)
	b.Reset(f.now, kafka.NoProducerID, kafka.NoEpoch, record.NoSequence, 0)
	for _, r := range kvs {
		b.Append(f.now, r[0], r[1])
	}
	out, err := b.Finish(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	batch := record.Batch(out)
	if _, err := l.Producers(); err != nil {
		f.t.Fatal(err)
	}
	batch.SetBaseOffset(l.AppendEnd())
	batch.SetLeaderEpoch(1)
	if err := l.Append([]commitlog.AppendBatch{{Bytes: out, Base: batch.BaseOffset(), Last: batch.LastOffset(), Epoch: 1, MaxTimestamp: f.now}}); err != nil {
		f.t.Fatal(err)
	}
	l.Publish()
}

// table reads what a coordinator that loads the log ends with, and how many records it had to read.
func (f *folderTest) table(l *Log) (m map[string]string, records int) {
	f.t.Helper()
	m = map[string]string{}
	var s commitlog.Slice
	for at := l.StartOffset(); at < l.EndOffset(); at = s.Next {
		if err := l.Read(&s, at, 1<<20, l.EndOffset(), true); err != nil {
			f.t.Fatal(err)
		}
		b := make([]byte, s.Bytes)
		if err := s.CopyTo(b); err != nil || len(b) == 0 {
			f.t.Fatalf("nothing at %d: %v", at, err)
		}
		s.Release()
		for len(b) > 0 {
			batch, rest, err := record.Next(b)
			if err != nil {
				f.t.Fatal(err)
			}
			b = rest
			it, err := batch.Records(nil, 1<<20)
			if err != nil {
				f.t.Fatal(err)
			}
			for it.Next() {
				records++
				if r := it.Record(); r.Value == nil {
					delete(m, string(r.Key))
				} else {
					m[string(r.Key)] = string(r.Value)
				}
			}
		}
	}
	return m, records
}

// clean runs the schedule's cleaning to its end.
func (f *folderTest) clean() {
	for _, r := range f.dirs.dirs {
		r.cleanDue(f.now)
		r.cleaner.running.Wait()
		r.doWork(time.Hour)
	}
}

// A month of commits, one a minute by each of 20 groups, and groups that come and go: __consumer_offsets stays within a
// few segments, and what a coordinator loads is right at any moment, also after kills.
func TestOffsetsTopicStaysSmall(t *testing.T) {
	f := newFolderTest(t)
	tp, id := kafka.TopicPartition{Topic: kafka.OffsetsTopic}, kafka.TopicID{1}
	cfg := &commitlog.Config{SegmentBytes: 1 << 20, Compact: true, MinCleanableRatio: 0.5, DeleteRetentionMS: 24 * 3600 * 1000, FileDeleteDelayMS: 60_000}
	l := f.open(tp, id, cfg)
	key := func(group string, p int32) []byte {
		k := kmsg.OffsetCommitKey{Version: 1, Group: group, Topic: "topic", Partition: p}
		return k.AppendTo(nil)
	}
	want := map[string]string{}
	put := func(kvs ...[2][]byte) {
		f.append(l, kvs...)
		for _, r := range kvs {
			if r[1] == nil {
				delete(want, string(r[0]))
			} else {
				want[string(r[0])] = string(r[1])
			}
		}
	}
	const minutes = 30 * 24 * 60
	written, largest := int64(0), int64(0)
	for m := range minutes {
		f.now += 60_000
		for g := range 20 {
			if (m+g)%20 != 0 { // each commits every 20 minutes, what 20 of them do in one
				continue
			}
			var kvs [][2][]byte
			for p := range int32(20) {
				v := kmsg.OffsetCommitValue{Version: 3, Offset: int64(m), LeaderEpoch: -1, CommitTimestamp: f.now}
				kvs = append(kvs, [2][]byte{key(fmt.Sprint("group-", g), p), v.AppendTo(nil)})
			}
			put(kvs...)
		}
		if m%60 == 0 { // a console consumer that lives for an hour
			put([2][]byte{key(fmt.Sprint("console-", m), 0), []byte("offset")})
			if m > 60 {
				put([2][]byte{key(fmt.Sprint("console-", m-60), 0), nil})
			}
		}
		if m%15 == 0 {
			before := l.Size()
			f.clean()
			written += max(before-l.Size(), 0)
			largest = max(largest, before)
			if _, _, err := l.Retain(f.now, l.EndOffset()); err != nil {
				t.Fatal(err)
			}
		}
		if m%7000 == 6999 {
			f.kill()
			f.start()
			l = f.open(tp, id, cfg)
			got, _ := f.table(l)
			if len(got) != len(want) {
				t.Fatalf("minute %d: %d offsets after a kill, want %d", m, len(got), len(want))
			}
		}
	}
	got, records := f.table(l)
	for k, v := range want {
		if got[k] != v {
			t.Fatalf("offset of %q is %q, want %q", k, got[k], v)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d offsets, want %d", len(got), len(want))
	}
	t.Logf("%d MB were written, at most %d KB were there, %d records are read at a load of %d offsets", (written+l.Size())>>20, largest>>10, records, len(want))
	if largest > 3*cfg.SegmentBytes {
		t.Fatalf("the log had %d bytes", largest)
	}
	names, err := f.fs.ReadDir("d/" + tp.String())
	if err != nil || len(names) > 30 {
		t.Fatalf("%d files in the folder: %v", len(names), err)
	}
}

// Where cleaning has come to is kept over stops and kills, logs that are closed count by their summary, and a topic that
// is made again under its old name begins anew.
func TestCleanedOffsetsAreKept(t *testing.T) {
	f := newFolderTest(t)
	tp, id := tp("c", 0), kafka.TopicID{1}
	cfg := &commitlog.Config{Compact: true, MinCleanableRatio: 0.5}
	l := f.open(tp, id, cfg)
	for range 10 {
		f.append(l, [2][]byte{[]byte("k"), []byte("v")})
	}
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	f.now += 20_000
	f.clean()
	f.now += 20_000
	f.clean() // the schedule waits log.cleaner.backoff.ms first
	if l.CleanedTo() != 10 {
		t.Fatalf("cleaned to %d", l.CleanedTo())
	}
	b, err := f.dirs.dirs[0].readFile(cleanerFile)
	if err != nil || string(b) != "0\n1\nc 0 10\n" {
		t.Fatalf("checkpoint %q, %v", b, err)
	}
	f.kill()
	f.start()
	if l = f.open(tp, id, cfg); l.CleanedTo() != 10 {
		t.Fatalf("after a kill %d", l.CleanedTo())
	}
	if err := f.dirs.Close(); err != nil {
		t.Fatal(err)
	}
	f.start()
	if off := f.dirs.CleanedTo(tp); off != 10 {
		t.Fatalf("after a stop, closed, %d", off)
	}
	f.dirs.dirs[0].writeCleaned() // with the log closed
	if l = f.open(tp, id, cfg); l.CleanedTo() != 10 {
		t.Fatalf("after a stop %d", l.CleanedTo())
	}
	if err := f.dirs.Delete(tp, id, 0); err != nil {
		t.Fatal(err)
	}
	if l = f.open(tp, kafka.TopicID{2}, cfg); l.CleanedTo() != 0 {
		t.Fatalf("of the next topic %d", l.CleanedTo())
	}
}

// A log start that was checkpointed for a deleted topic is not taken for that of the next one of its name.
func TestNextTopicOfTheNameBeginsAtZero(t *testing.T) {
	f := newFolderTest(t)
	tp := tp("again", 0)
	l := f.open(tp, kafka.TopicID{1}, &commitlog.Config{})
	for range 5 {
		f.append(l, [2][]byte{nil, []byte("old")})
	}
	if err := l.DeleteBefore(4); err != nil {
		t.Fatal(err)
	}
	if err := f.dirs.dirs[0].checkpoint(); err != nil {
		t.Fatal(err)
	}
	if err := f.dirs.Delete(tp, kafka.TopicID{1}, 0); err != nil {
		t.Fatal(err)
	}
	l = f.open(tp, kafka.TopicID{2}, &commitlog.Config{})
	for range 5 {
		f.append(l, [2][]byte{nil, []byte("new")})
	}
	f.kill()
	f.start()
	if l = f.open(tp, kafka.TopicID{2}, &commitlog.Config{}); l.StartOffset() != 0 || l.EndOffset() != 5 {
		t.Fatalf("the log holds %d to %d", l.StartOffset(), l.EndOffset())
	}
}

// How far a deleted topic was compacted does not count for the next one of its name, whether the kill comes after the new one was
// made or before it, nor when a checkpoint has been written between.
func TestNextTopicOfTheNameIsNotCompacted(t *testing.T) {
	for _, way := range []string{"at once", "checkpoint between", "kill between", "stop between", "failed checkpoint between"} {
		t.Run(way, func(t *testing.T) {
			f := newFolderTest(t)
			tp, cfg := tp("again", 0), &commitlog.Config{Compact: true, MinCleanableRatio: 0.5}
			l := f.open(tp, kafka.TopicID{1}, cfg)
			for range 10 {
				f.append(l, [2][]byte{[]byte("k"), []byte("old")})
			}
			if err := l.Roll(); err != nil {
				t.Fatal(err)
			}
			f.clean()
			f.now += 20_000
			f.clean()
			if l.CleanedTo() != 10 {
				t.Fatalf("cleaned to %d", l.CleanedTo())
			}
			if err := f.dirs.Delete(tp, kafka.TopicID{1}, 0); err != nil {
				t.Fatal(err)
			}
			switch way {
			case "checkpoint between":
				if err := f.dirs.dirs[0].checkpoint(); err != nil {
					t.Fatal(err)
				}
			case "kill between":
				f.kill()
				f.start()
			case "stop between":
				if err := f.dirs.Close(); err != nil {
					t.Fatal(err)
				}
				f.start()
			case "failed checkpoint between":
				if err := f.fs.Mkdir("d/" + recoveryFile + ".tmp"); err != nil {
					t.Fatal(err)
				}
				if _, err := f.dirs.Open(tp, kafka.TopicID{2}, cfg); err == nil {
					t.Fatal("a log was made though the checkpoint could not be written")
				}
				if err := f.fs.RemoveAll("d/" + recoveryFile + ".tmp"); err != nil {
					t.Fatal(err)
				}
			}
			l = f.open(tp, kafka.TopicID{2}, cfg)
			if l.CleanedTo() != 0 {
				t.Fatalf("compacted to %d when it is made", l.CleanedTo())
			}
			for range 20 {
				f.append(l, [2][]byte{[]byte("k"), []byte("new")})
			}
			f.kill()
			f.start()
			if l = f.open(tp, kafka.TopicID{2}, cfg); l.EndOffset() != 20 || l.CleanedTo() != 0 {
				t.Fatalf("after a kill the log ends at %d and is compacted to %d", l.EndOffset(), l.CleanedTo())
			}
		})
	}
}

// The throttle holds a cleaning back, and a stop does not wait for it.
func TestStopDoesNotWaitForTheThrottle(t *testing.T) {
	f := newFolderTest(t, "log.cleaner.io.max.bytes.per.second=100")
	l := f.open(tp("c", 0), kafka.TopicID{1}, &commitlog.Config{Compact: true})
	for range 100 {
		f.append(l, [2][]byte{[]byte("k"), make([]byte, 1000)})
	}
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	r := f.dirs.dirs[0]
	r.cleanDue(f.now)
	f.now += 20_000
	r.cleanDue(f.now)
	if r.cleaner.active.Load() != 1 {
		t.Fatal("nothing is being cleaned")
	}
	began := time.Now()
	if err := f.dirs.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 300*time.Second { // 1,000 s by the throttle
		t.Fatalf("the stop took %v", took)
	}
	infos, err := f.fs.ReadDir("d/c-0")
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range infos {
		if strings.HasSuffix(st.Name, ".cleaned") {
			t.Fatalf("%s is left over", st.Name)
		}
	}
}

// A kill under the same boot loses nothing and the next start reads from the written points; those of another boot, or of
// another topic of the name, do not count.
func TestWrittenPointsAreOfOneBoot(t *testing.T) {
	f := newFolderTest(t)
	tp, id := tp("p", 0), kafka.TopicID{1}
	l := f.open(tp, id, &commitlog.Config{})
	for range 100 {
		f.append(l, [2][]byte{nil, make([]byte, 2000)})
	}
	r := f.dirs.dirs[0]
	if r.bootID == "" {
		t.Skip("the system does not tell its boot id")
	}
	if err := r.markLogs(); err != nil {
		t.Fatal(err)
	}
	b, _ := r.readFile(pointsFile)
	if got := parsePoints(b, r.bootID)[tp]; got.offset != 100 || got.id != id {
		t.Fatalf("%q", b)
	}
	if len(parsePoints(b, "another")) != 0 {
		t.Fatal("points of another boot count")
	}
	f.kill()
	f.start()
	l = f.open(tp, id, &commitlog.Config{})
	if l.WrittenPoint() != 100 || l.FlushedOffset() != 0 || l.EndOffset() != 100 {
		t.Fatalf("written %d, flushed %d, end %d", l.WrittenPoint(), l.FlushedOffset(), l.EndOffset())
	}
}
