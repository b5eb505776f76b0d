package loadgen

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/tidemark/tidemark/loadgen/driver/raw"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// TestTheLastSecondEndsWithTheWindow: what the drain acknowledges and delivers is no part of the interval that the window's
// end cuts short, and what a closed loop carried is the sum of its intervals.
func TestTheLastSecondEndsWithTheWindow(t *testing.T) {
	spec := workload.Default()
	spec.Question = workload.Capacity
	r := &run{spec: &spec, collector: &collector{}}
	r.window.start = 1e9
	r.window.end.Store(25e8)
	r.window.inTime.Store(35e8)
	b := &book{window: &r.window}
	for _, at := range []int64{12e8, 22e8, 24e8, 26e8, 299e7} {
		b.acked(&driver.Ack{AckedNanos: at, Bytes: 100, Seqs: make([]uint64, 10), IntendedNanos: make([]int64, 10)})
		b.delivered(at, nil, 7, 70)
	}
	sum, seconds, _ := totals([]*book{b})
	res := &result.Result{Window: result.Window{StartNanos: r.window.start, EndNanos: r.window.end.Load()}}
	r.intervals(res, seconds)
	r.produced(res, &sum)
	var acked, ackedBytes, delivered, deliveredBytes int64
	for _, iv := range res.Intervals {
		acked, ackedBytes, delivered, deliveredBytes = acked+iv.Acked, ackedBytes+iv.AckedBytes, delivered+iv.Delivered, deliveredBytes+iv.DeliveredBytes
	}
	if len(res.Intervals) != 2 || res.Intervals[1].LengthNanos != 5e8 || res.Intervals[1].Acked != 20 {
		t.Errorf("%+v", res.Intervals)
	}
	if acked != 30 || ackedBytes != 300 || delivered != 21 || deliveredBytes != 210 {
		t.Errorf("%d records of %d bytes acked, %d of %d delivered", acked, ackedBytes, delivered, deliveredBytes)
	}
	if p := res.Produce; p.AckedInside != acked || p.AckedInsideBytes != ackedBytes || p.RecordsPerSec != 20 || p.BytesPerSec != 200 {
		t.Errorf("%+v", p)
	}
}

// TestOfSeveralTopicsTheLeastPromiseCounts: a record may be in any of them.
func TestOfSeveralTopicsTheLeastPromiseCounts(t *testing.T) {
	const never = "9223372036854775807"
	topic := func(replicas ...int) *raw.TopicView {
		v := &raw.TopicView{}
		for _, n := range replicas {
			v.Partitions = append(v.Partitions, raw.PartitionView{Replicas: n})
		}
		return v
	}
	for name, c := range map[string]struct {
		replicas [2][]int
		before   [2]map[string]string
		want     result.AckMeaning
	}{
		"alike": {[2][]int{{3, 3}, {3}}, [2]map[string]string{{"min.insync.replicas": "2", "flush.messages": never, "flush.ms": never}, {"min.insync.replicas": "2", "flush.messages": never, "flush.ms": never}},
			result.AckMeaning{Replicas: 3, MinISR: 2, FsyncMode: "none", Sentence: "written to the page cache of at least 2 of 3 brokers; no fsync"}},
		"the second promises less": {[2][]int{{3, 3}, {3, 2}}, [2]map[string]string{{"min.insync.replicas": "2", "tidemark.fsync": "batch"}, {"min.insync.replicas": "1", "flush.messages": never, "flush.ms": never}},
			result.AckMeaning{Replicas: 2, MinISR: 1, FsyncMode: "mixed", Sentence: "written to the page cache of at least 1 of 2 brokers; fsync not alike for all its topics"}},
		"the second does not tell": {[2][]int{{3}, {3}}, [2]map[string]string{{"min.insync.replicas": "2", "tidemark.fsync": "batch"}, nil},
			result.AckMeaning{Replicas: 3, MinISR: 0, FsyncMode: "mixed", Sentence: "written to the page cache of at least 1 of 3 brokers; fsync not alike for all its topics"}},
		"both flushed": {[2][]int{{1}, {1}}, [2]map[string]string{{"min.insync.replicas": "1", "tidemark.fsync": "batch"}, {"min.insync.replicas": "1", "tidemark.fsync": "batch"}},
			result.AckMeaning{Replicas: 1, MinISR: 1, FsyncMode: "batch", Sentence: "flushed to the disk of 1 broker; fsync before the ack"}},
	} {
		spec := workload.Default()
		r := &run{spec: &spec, topics: []driver.Topic{{Name: "a"}, {Name: "b"}},
			view:   &raw.View{Topics: map[string]*raw.TopicView{"a": topic(c.replicas[0]...), "b": topic(c.replicas[1]...)}},
			before: map[string]map[string]string{"a": c.before[0], "b": c.before[1]}}
		c.want.Acks = workload.AcksAll
		if got := r.ackMeant(); got != c.want {
			t.Errorf("%s: %+v\nwant %+v", name, got, c.want)
		}
	}
}

// TestAReadingOfAPageIsNoAllocationOfTheRun: the page itself costs more than thousands of records do.
func TestAReadingOfAPageIsNoAllocationOfTheRun(t *testing.T) {
	var mallocs atomic.Int64
	tells := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := mallocs.Add(4000)
		_, _ = fmt.Fprint(w, "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 1\n")
		if tells {
			_, _ = fmt.Fprintf(w, "# TYPE go_memstats_mallocs_total counter\ngo_memstats_mallocs_total %d\n", n)
		}
	}))
	defer server.Close()
	read := func() *result.Process {
		reader := newTargetReader(TargetMetrics{URLs: []string{server.URL}})
		if err := reader.check(context.Background()); err != nil {
			t.Fatal(err)
		}
		reader.take(0)
		reader.wg.Wait()
		mallocs.Add(12_345)
		reader.take(1)
		p, notes := reader.finish()
		if p == nil {
			t.Fatalf("no cost: %v", notes)
		}
		return p
	}
	p := read()
	if p.Allocations == nil || *p.Allocations != 12_345 {
		t.Errorf("allocations %v", p.Allocations)
	}
	res := &result.Result{Target: p, Ends: result.Ends{Acked: 12_345}, Asked: workload.Default()}
	if line := costLine(res); !strings.Contains(line, "1 allocations a record") {
		t.Error(line)
	}
	if tells = false; read().Allocations != nil {
		t.Error("a page that does not tell its allocations is said to have none")
	}
}
