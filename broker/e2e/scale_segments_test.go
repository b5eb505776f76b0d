package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/proc"
)

// setTopic changes settings of a topic while it is in use.
func setTopic(w *wire, topic string, configs map[string]string) {
	w.t.Helper()
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.Version = 1
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	for name, value := range configs {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = name, kmsg.StringPtr(value)
		res.Configs = append(res.Configs, c)
	}
	r.Resources = append(r.Resources, res)
	if got := ask[*kmsg.IncrementalAlterConfigsResponse](w, r).Resources[0]; got.ErrorCode != 0 {
		w.t.Fatalf("settings of %s: %d %v", topic, got.ErrorCode, got.ErrorMessage)
	}
}

// manySegments produces until the topic's partition 0 has n segments of one batch each, and returns the log's end.
func manySegments(w *wire, topic string, n int) int64 {
	w.t.Helper()
	value := make([]byte, 600)
	const pipelined = 1 // batches that come together share a write, and a segment
	for sent := 0; sent < n; sent += pipelined {
		r := produceRequest(topic, 0, 1, nil)
		for i := range pipelined {
			r.Topics[0].Partitions[0].Records = batch(nobody(), value, segmentTime(sent+i))
			w.send(r)
		}
		for range pipelined {
			if p := answer[*kmsg.ProduceResponse](w, r).Topics[0].Partitions[0]; p.ErrorCode != 0 {
				w.t.Fatalf("produce: %d", p.ErrorCode)
			}
		}
	}
	return int64(n)
}

// segmentTime is the timestamp of the batch at an offset: a second apart, all in the last day.
func segmentTime(offset int) int64 { return segmentEpoch + int64(offset)*1000 }

// segmentEpoch lies far enough back that no timestamp is refused as too new, and retention is off.
const segmentEpoch = 1_700_000_000_000

// TestScaleSegments gives one partition thousands of segments and looks up, reads and deletes in them, before and after a
// clean start and a kill. Held: a clean start reads no segment, a look-up opens few files, every look-up finds its batch, and
// retention takes the oldest segments alone.
func TestScaleSegments(t *testing.T) {
	n := scaled(10_000, 1000)
	f := newFigures(t, fmt.Sprintf("a partition of %d segments", n))
	o := proc.Options{Data: t.TempDir(), Properties: []string{"log.retention.check.interval.ms=50", "log.segment.delete.delay.ms=50"}}
	b := scaleStart(t, f, "", o)
	before := residentKiB(t, b.PID, "VmRSS")
	create(t, b, "t", 1, "segment.bytes=1048576", "retention.ms=-1", "index.interval.bytes=100")
	w := shape{}.patient(dial(t, b.Addr))
	setTopic(w, "t", map[string]string{"segment.bytes": "1048576", "segment.index.bytes": "12"})
	began := time.Now()
	end := manySegments(w, "t", n)
	f.took("produced", began)
	rss, _ := f.process("produced", b.PID)
	_, files := logBytes(t, o.Data, "t-0")
	f.add("segments", "%d", files)
	if files < n*9/10 {
		t.Fatalf("%d segments for %d batches", files, n)
	}
	if grown := (rss - before) * 1024 / files; grown > 4096+(32<<20)/files {
		t.Errorf("a segment takes %d bytes of memory", grown)
	}
	for _, how := range []string{"before a stop", "after a clean start", "after a kill"} {
		switch how {
		case "after a clean start":
			b = shape{}.restart(t, f, b, o, "")
			if read := readBytes(t, b.PID); read > 4<<20+200*n {
				t.Errorf("a clean start reads %d bytes", read)
			}
		case "after a kill":
			b.Kill()
			b = scaleStart(t, f, "start after a kill", o)
		}
		w = shape{}.patient(dial(t, b.Addr))
		lookUp(f, w, how, end)
		f.process(how, b.PID)
	}
	keep := files / 10
	began = time.Now()
	setTopic(w, "t", map[string]string{"retention.bytes": fmt.Sprint(keep * 700)})
	until(t, "retention has deleted nine tenths of the segments", func() bool {
		_, left := logBytes(t, o.Data, "t-0")
		return left <= keep+keep/2
	})
	f.took("nine tenths deleted by retention", began)
	first := w.listOffset("t", -2).Offset
	if p := w.fetchOne("t", first-1); first <= 0 || p.ErrorCode != 1 {
		t.Errorf("the log starts at %d; before it a fetch answers error %d", first, p.ErrorCode)
	}
	if got := batches(t, w.fetchOne("t", first).RecordBatches); len(got) == 0 || got[0].FirstOffset != first {
		t.Errorf("nothing to be read at the log's start %d", first)
	}
	until(t, "the deleted files are unlinked", func() bool {
		gone, _ := filepath.Glob(filepath.Join(o.Data, "t-0", "*.deleted"))
		return len(gone) == 0
	})
	names, _ := os.ReadDir(filepath.Join(o.Data, "t-0"))
	f.add("files left in the folder", "%d", len(names))
	f.process("after retention", b.PID)
}

// lookUp fetches at the beginning, middle and end, and finds offsets by their time.
func lookUp(f *figures, w *wire, how string, end int64) {
	w.t.Helper()
	for _, at := range []struct {
		what   string
		offset int64
	}{{"the beginning", 0}, {"the middle", end / 2}, {"the end", end - 1}} {
		began := time.Now()
		got := batches(w.t, w.fetchOne("t", at.offset).RecordBatches)
		if len(got) == 0 || got[0].FirstOffset != at.offset {
			w.t.Errorf("%s: nothing at offset %d", how, at.offset)
		}
		f.add("fetch at "+at.what+", "+how, "%v", time.Since(began))
	}
	began := time.Now()
	const lookups = 20
	for i := range int64(lookups) {
		offset := end * i / lookups
		if got := w.listOffset("t", segmentTime(int(offset))-500).Offset; got != offset {
			w.t.Errorf("%s: by its time offset %d is found at %d", how, offset, got)
		}
	}
	f.add("a look-up by time, "+how, "%v", time.Since(began)/lookups)
}
