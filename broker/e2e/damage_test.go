package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark/tidemark/broker/proc"
)

// damaged is a folder whose partition t-0 has several segments of known records, and whose broker was killed or stopped.
func damaged(t *testing.T, clean bool) (data string, n int) {
	t.Helper()
	data = t.TempDir()
	b := start(t, proc.Options{NoAdmin: true, Data: data})
	create(t, b, "t", 1, "segment.index.bytes=80", "index.interval.bytes=1")
	w := dial(t, b.Addr)
	const batches, records = 35, 3
	for i := range batches {
		if r := w.produce("t", 0, batch(nobody(), fmt.Appendf(nil, "batch %d", i), nowMS(), nowMS(), nowMS())); r.ErrorCode != 0 {
			t.Fatalf("%+v", r)
		}
	}
	if clean {
		if err := b.Stop(); err != nil {
			t.Fatal(err)
		}
	} else {
		b.Kill()
	}
	if files := partFiles(t, data, "*.log"); len(files) < 3 {
		t.Fatalf("segments: %v", files)
	}
	return data, batches * records
}

// partFiles lists files of partition t-0, oldest first.
func partFiles(t *testing.T, data, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(data, "t-0", pattern))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// change rewrites a file, which may be missing.
func change(t *testing.T, path string, f func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, f(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

// readBack reads t-0 by every offset and by time, and finds n records; it appends one more.
func readBack(t *testing.T, b *proc.Broker, n int) {
	t.Helper()
	w := dial(t, b.Addr)
	if end := w.listOffset("t", -1); end.ErrorCode != 0 || end.Offset != int64(n) {
		t.Fatalf("the end is %+v, want %d", end, n)
	}
	for from := range int64(n) {
		p := w.fetchOne("t", from)
		got := batches(t, p.RecordBatches)
		if p.ErrorCode != 0 || len(got) == 0 || got[0].FirstOffset != from/3*3 || !bytes.Contains(got[0].Records, fmt.Appendf(nil, "batch %d", from/3)) {
			t.Fatalf("fetch at %d: error %d, %d batches", from, p.ErrorCode, len(got))
		}
	}
	if n > 0 {
		if r := w.listOffset("t", 1); r.ErrorCode != 0 || r.Offset != 0 {
			t.Errorf("the first record by time is %+v", r)
		}
	}
	if r := w.produce("t", 0, batch(nobody(), fmt.Appendf(nil, "batch %d", n/3), nowMS(), nowMS(), nowMS())); r.ErrorCode != 0 || r.BaseOffset != int64(n) {
		t.Errorf("the next batch: %+v, want offset %d", r, n)
	}
	if p := w.fetchOne("t", int64(n)); len(batches(t, p.RecordBatches)) != 1 {
		t.Errorf("the next batch cannot be read: %+v", p)
	}
}

// TestDamagedFilesAtStart: index files that are cut, zero-padded, full of nonsense or gone are rebuilt; a torn or damaged
// last batch is cut off and everything before it kept; a recovery point that is ahead, checkpoints and manifests that say
// nonsense, and snapshots that cannot be read are survived.
func TestDamagedFilesAtStart(t *testing.T) {
	last := func(files []string) string { return files[len(files)-1] }
	zeros := func(b []byte) []byte { return append(b, make([]byte, 96)...) }
	cases := []struct {
		name   string
		lost   int // records
		damage func(t *testing.T, data string)
	}{
		{"nothing", 0, func(*testing.T, string) {}},
		{"last index zero-padded", 0, func(t *testing.T, d string) { change(t, last(partFiles(t, d, "*.index")), zeros) }},
		{"last time index zero-padded", 0, func(t *testing.T, d string) { change(t, last(partFiles(t, d, "*.timeindex")), zeros) }},
		{"every index cut in an entry", 0, func(t *testing.T, d string) {
			for _, f := range partFiles(t, d, "*index") {
				change(t, f, func(b []byte) []byte { return b[:len(b)-len(b)/3-min(1, len(b))] })
			}
		}},
		{"every index gone", 0, func(t *testing.T, d string) {
			for _, f := range partFiles(t, d, "*index") {
				if err := os.Remove(f); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"every index nonsense", 0, func(t *testing.T, d string) {
			for _, f := range partFiles(t, d, "*index") {
				change(t, f, func(b []byte) []byte { return bytes.Repeat([]byte{0xfe}, len(b)) })
			}
		}},
		{"torn last batch", 3, func(t *testing.T, d string) {
			change(t, last(partFiles(t, d, "*.log")), func(b []byte) []byte { return b[:len(b)-5] })
		}},
		{"zeros behind the last batch", 0, func(t *testing.T, d string) { change(t, last(partFiles(t, d, "*.log")), zeros) }},
		{"nonsense behind the last batch", 0, func(t *testing.T, d string) {
			change(t, last(partFiles(t, d, "*.log")), func(b []byte) []byte { return append(b, bytes.Repeat([]byte("nonsense"), 30)...) })
		}},
		{"a bit of the last batch flipped", 3, func(t *testing.T, d string) {
			change(t, last(partFiles(t, d, "*.log")), func(b []byte) []byte { b[len(b)-3] ^= 4; return b })
		}},
		{"recovery point ahead", 0, func(t *testing.T, d string) {
			change(t, filepath.Join(d, "recovery-point-offset-checkpoint"), func([]byte) []byte { return []byte("0\n1\nt 0 99999\n") })
		}},
		{"checkpoints nonsense", 0, func(t *testing.T, d string) {
			for _, f := range []string{"recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"} {
				change(t, filepath.Join(d, f), func([]byte) []byte { return []byte("\x00\xffnonsense\n\n") })
			}
		}},
		{"leader epochs nonsense", 0, func(t *testing.T, d string) {
			change(t, filepath.Join(d, "t-0", "leader-epoch-checkpoint"), func([]byte) []byte { return []byte("0\nmany\n") })
		}},
		{"snapshots nonsense", 0, func(t *testing.T, d string) {
			for _, f := range partFiles(t, d, "*.snapshot") {
				change(t, f, func(b []byte) []byte { return bytes.Repeat([]byte{7}, len(b)) })
			}
		}},
		{"unknown files and folders", 0, func(t *testing.T, d string) {
			for _, f := range []string{"lost+found", "t-0/lost+found", "notatopic", "x-y-z"} {
				if err := os.MkdirAll(filepath.Join(d, f), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range []string{"t-0/notes.txt", "t-0/00000000000000000009.log.cleaned", "stray.log"} {
				if err := os.WriteFile(filepath.Join(d, f), []byte("x"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}},
	}
	for _, clean := range []bool{false, true} {
		for _, c := range cases {
			t.Run(fmt.Sprintf("%s/clean=%v", c.name, clean), func(t *testing.T) {
				t.Parallel()
				data, n := damaged(t, clean)
				c.damage(t, data)
				readBack(t, start(t, proc.Options{NoAdmin: true, Data: data}), n-c.lost)
			})
		}
	}
}

// TestDamageInTheMiddle: a segment that is damaged before its end costs its own records, not the broker's start, nor other
// partitions; the reader is told by an error, never by wrong records.
func TestDamageInTheMiddle(t *testing.T) {
	data, _ := damaged(t, true)
	change(t, partFiles(t, data, "*.log")[1], func(b []byte) []byte { b[len(b)/2] ^= 0x55; return b })
	b := start(t, proc.Options{NoAdmin: true, Data: data})
	create(t, b, "other", 1)
	fill(t, b, "other", 0, 10, 10)
	w := dial(t, b.Addr)
	if p := w.fetchOne("t", 0); p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
		t.Errorf("before the damage: %+v", p)
	}
	if r := w.produce("t", 0, batch(nobody(), []byte("v"), nowMS())); r.ErrorCode != 0 {
		t.Errorf("behind the damage: %+v", r)
	}
}

// TestForeignMeta: a folder that belongs to another node is refused, and so is a meta.properties that cannot be read.
func TestForeignMeta(t *testing.T) {
	data := t.TempDir()
	b := start(t, proc.Options{NoAdmin: true, Data: data})
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if text, code := refuses(t, "--listen", "127.0.0.1:0", "--data", data, "-o", "node.id=9"); code == 0 || !containsAll(text, "meta.properties", "9") {
		t.Errorf("exit code %d, %q", code, text)
	}
	if _, err := tryStart(t, context.WithoutCancel(t.Context()), proc.Options{NoAdmin: true, Data: data}); err != nil {
		t.Errorf("the folder's own node is refused: %v", err)
	}
}

// TestCommittedOffsetsSurviveDamage: __consumer_offsets is a log like others: a torn end costs its last records alone.
func TestCommittedOffsetsSurviveDamage(t *testing.T) {
	data := t.TempDir()
	b := start(t, proc.Options{NoAdmin: true, Data: data, Properties: []string{"offsets.topic.num.partitions=1"}})
	create(t, b, "t", 1)
	fill(t, b, "t", 0, 10, 10)
	c := newClient(t, b, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for n := 0; n < 10; {
		n += c.PollFetches(t.Context()).NumRecords()
	}
	if err := c.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.CloseAllowingRebalance()
	b.Kill()
	logs, _ := filepath.Glob(filepath.Join(data, "__consumer_offsets-0", "*.log"))
	change(t, logs[len(logs)-1], func(b []byte) []byte { return append(b, make([]byte, 500)...) })
	b = start(t, proc.Options{NoAdmin: true, Data: data, Properties: []string{"offsets.topic.num.partitions=1"}})
	r, err := adminOf(t, b).FetchOffsets(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	if at, _ := r.Lookup("t", 0); at.At != 10 {
		t.Errorf("committed 10, found %+v", at)
	}
}
