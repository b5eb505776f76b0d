package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/broker/proc"
)

// TestFullDisk fills a small tmpfs: produce is refused with KAFKA_STORAGE_ERROR, what was acknowledged stays readable, the
// broker lives and stops in order; with room again it takes records again.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small tmpfs needs root")
	}
	data := t.TempDir()
	if err := unix.Mount("tmpfs", data, "tmpfs", 0, "size=160m"); err != nil {
		t.Skipf("mounting a small tmpfs is not allowed here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(data, unix.MNT_DETACH) })
	b := start(t, proc.Options{NoAdmin: true, Data: data})
	t.Cleanup(b.Kill) // before the unmount
	create(t, b, "t", 1)
	create(t, b, "u", 1)
	ballast := filepath.Join(data, "ballast")
	var fs unix.Statfs_t
	if err := unix.Statfs(data, &fs); err != nil {
		t.Fatal(err)
	}
	free := int64(fs.Bavail) * fs.Bsize
	if free < 4<<20 {
		t.Fatalf("only %d bytes are free in a new folder", free)
	}
	if err := os.WriteFile(ballast, make([]byte, free-(3<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	w := dial(t, b.Addr)
	acked, refused := int64(0), false
	for range 100 {
		r := w.produce("t", 0, batch(nobody(), make([]byte, 100_000), nowMS()))
		if r.ErrorCode == 56 {
			refused = true
			break
		}
		if r.ErrorCode != 0 || r.BaseOffset != acked {
			t.Fatalf("record %d: %+v", acked, r)
		}
		acked++
	}
	if !refused || acked == 0 {
		t.Fatalf("%d records of 100 kB fit in 3 MiB; refused: %v", acked, refused)
	}
	for from := range acked {
		if got := batches(t, w.fetchOne("t", from).RecordBatches); len(got) == 0 || got[0].FirstOffset != from {
			t.Fatalf("record %d cannot be read on a full disk", from)
		}
	}
	freeFullDisk(t, b, acked)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	until(t, "the broker takes records again", func() bool {
		r := w.produce("t", 0, batch(nobody(), []byte("v"), nowMS()))
		return r.ErrorCode == 0 && r.BaseOffset == acked
	})
	if err := b.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	b = start(t, proc.Options{NoAdmin: true, Data: data})
	if end := dial(t, b.Addr).listOffset("t", -1); end.Offset != acked+1 {
		t.Errorf("the end is %d, want %d", end.Offset, acked+1)
	}
	c := newClient(t, b, kgo.DefaultProduceTopic("t"))
	if err := c.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr(); err != nil {
		t.Error(err)
	}
	b.Kill()
}

// freeFullDisk does what frees room on a full disk: records and a topic are deleted and retention is shortened.
func freeFullDisk(t *testing.T, b *proc.Broker, acked int64) {
	t.Helper()
	admin := adminOf(t, b)
	var o kadm.Offsets
	o.AddOffset("t", 0, acked, -1)
	if r, err := admin.DeleteRecords(t.Context(), o); err != nil || r.Error() != nil {
		t.Errorf("delete records on a full disk: %v %v", err, r.Error())
	}
	if r, err := admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "retention.ms", Value: kadm.StringPtr("1000")}}, "t"); err != nil || r[0].Err != nil {
		t.Errorf("shorten retention on a full disk: %v %v", err, r)
	}
	if r, err := admin.DeleteTopic(t.Context(), "u"); err != nil || r.Err != nil {
		t.Errorf("delete a topic on a full disk: %v %v", err, r)
	}
	if start := dial(t, b.Addr).listOffset("t", -2); start.Offset != acked {
		t.Errorf("the log starts at %d after records up to %d were deleted", start.Offset, acked)
	}
}
