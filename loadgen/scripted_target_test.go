package loadgen

import (
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/sink"
	"github.com/tidemark/tidemark/loadgen/verify"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// again measures until a try finds nothing wrong, a few times at most. What a busy host spoils it spares another time; what
// is measured wrongly is wrong each time. Where the host held up each run, as the run's own counters have it, nothing is
// known.
func again(t *testing.T, try func() (res *result.Result, wrong string)) {
	t.Helper()
	wrong, always := "", true
	for range 6 {
		res, what := try()
		if what == "" || t.Failed() {
			return
		}
		wrong, always = what, always && heldUp(res)
	}
	if always {
		t.Skipf("others used the cores in each of six runs: %s", wrong)
	}
	t.Error(wrong)
}

// heldUp tells that threads of the run waited for cores that others used, or that the host took these away.
func heldUp(res *result.Result) bool {
	g := &res.Generator
	return res.Has(result.Steal) || g.Seconds > 0 && float64(g.RunQueueNanos)/1e9/g.Seconds*othersShare(res) > 0.01
}

func at(res *result.Result, clock string, p float64) time.Duration {
	q, _ := res.Clocks[clock].At(p)
	return time.Duration(q.Nanos)
}

// kept is a workload whose topic outlives the run, so that the sink's log does.
func kept(s *workload.Spec, to *sink.Sink) *workload.Spec {
	to.Create("kept", s.Partitions)
	s.Topic, s.Create = "kept", workload.CreateNever
	return s
}

// long is set for the forms that take minutes (make method).
func long() bool { return os.Getenv("TIDEMARK_METHOD") != "" }

// TestAFreezeShiftsThePercentilesAsMuchAsItMust: S freezes for a fifteenth of the window (the long form is METHOD's, 1 s of
// 60). Of the records intended meanwhile each waits for the end, so p99 and p95 are known: at a sixtieth 1% lies 0.4 of the
// freeze from its end.
func TestAFreezeShiftsThePercentilesAsMuchAsItMust(t *testing.T) {
	t.Parallel()
	window, freeze := 3*time.Second, 200*time.Millisecond
	if long() {
		window, freeze = time.Minute, time.Second
	}
	share := freeze.Seconds() / window.Seconds()
	again(t, func() (*result.Result, string) {
		s := latency(1000)
		s.Arrivals, s.Window, s.BufferRecords, s.Partitions = workload.ArrivalsConstant, workload.Duration(window), 50, 1
		to := target(t, sink.Script{LogArrivals: true, Freezes: []sink.Freeze{{AfterRecords: 700, For: freeze}}})
		res := load(t, kept(s, to), to)
		n := int64(1000 * window.Seconds())
		if ack := res.Clocks[result.Ack]; res.Ends.Intended != n || ack.Count != n {
			t.Errorf("intended %d, counted %d of %d", res.Ends.Intended, ack.Count, n)
		}
		truth := byTheLog(s, res, to.Arrivals())
		for _, p := range []float64{95, 99} {
			want := time.Duration((1 - (1-p/100)/share) * float64(freeze))
			got, log := at(res, result.Ack, p), truth[max(int(math.Ceil(p/100*float64(len(truth)))), 1)-1]
			if got < log-log/500 { // a busy host makes it later, never earlier
				t.Errorf("p%g is %v: the freeze makes it %v, the sink's log %v", p, got, want, log)
			}
			if log < want*7/8 { // the 700th record came so late that the freeze ends behind the window
				return res, fmt.Sprintf("p%g is %v by the sink's log, the freeze makes it %v", p, log, want)
			}
			if got > log+log/500+20*time.Millisecond {
				return res, fmt.Sprintf("p%g is %v, by the sink's log %v", p, got, log)
			}
			if long() && want > 0 && got > want*9/8 { // at a sixtieth p95 lies before the freeze
				return res, fmt.Sprintf("p%g is %v of %v", p, got, want)
			}
		}
		return res, ""
	})
}

// byTheLog is how long after its intended time each record of the window had its ack written, by seed and sink alone, in
// ascending order. One producer, one partition.
func byTheLog(s *workload.Spec, res *result.Result, arrivals []sink.Arrival) (latencies []time.Duration) {
	begin := res.Window.StartNanos - s.WarmUp.Nanos()
	var intended []int64
	schedule := workload.NewSchedule(s, 0)
	for at := schedule.Next(); at < s.WarmUp.Nanos()+s.Window.Nanos(); at = schedule.Next() {
		intended = append(intended, begin+at)
	}
	for _, a := range arrivals {
		for seq := a.FirstSequence; a.Producer == 0 && a.WrittenNanos > 0 && seq <= a.LastSequence && seq < uint64(len(intended)); seq++ {
			if intended[seq] >= res.Window.StartNanos {
				latencies = append(latencies, time.Duration(a.WrittenNanos-intended[seq]))
			}
		}
	}
	slices.Sort(latencies)
	return latencies
}

// TestTheIntendedListIsTheSeedsHoweverSmallTheBuffer: a client that takes 100 records and a target that takes none change
// nothing about what was intended, second by second.
func TestTheIntendedListIsTheSeedsHoweverSmallTheBuffer(t *testing.T) {
	t.Parallel()
	again(t, func() (*result.Result, string) {
		s := latency(1000)
		s.Driver, s.BufferRecords, s.Drain, s.Window = workload.DriverKgo, 100, workload.Duration(100*time.Millisecond), workload.Duration(1500*time.Millisecond)
		to := target(t, sink.Script{Freezes: []sink.Freeze{{AfterRecords: 100, For: time.Hour}}})
		res := load(t, s, to)
		var want [2]int64
		schedule := workload.NewSchedule(s, 0)
		for at := schedule.Next() - s.WarmUp.Nanos(); at < s.Window.Nanos(); at = schedule.Next() - s.WarmUp.Nanos() {
			if at >= 0 {
				want[at/1e9]++
			}
		}
		if len(res.Intervals) != 2 || res.Intervals[0].Intended != want[0] || res.Intervals[1].Intended != want[1] || res.Ends.Intended != want[0]+want[1] {
			t.Errorf("intended %+v, in all %d, the seed says %v", res.Intervals, res.Ends.Intended, want)
		}
		if to.Stats().Records < 100 {
			return res, "the run was over before 100 records had come"
		}
		if p, _ := res.Clocks[result.Ack].At(99); res.Ends.Unsent == 0 || !p.Censored {
			return res, fmt.Sprintf("the target took the last records alone: %+v, p99 %+v", res.Ends, p)
		}
		return res, ""
	})
}

func TestTwoPercentOfTimeoutsCensorTheP99(t *testing.T) {
	t.Parallel()
	s := latency(1000)
	s.BatchSize, s.Retries = 1, 0
	to := target(t, sink.Script{LogArrivals: true, Faults: []sink.Fault{{Kind: sink.Refuse, Code: kafka.RequestTimedOut, Batch: 25, Every: 50}}})
	res := load(t, kept(s, to), to)
	if share := float64(res.Ends.Failed) / float64(res.Ends.Intended); math.Abs(share-0.02) > 0.005 || res.Ends.Acked+res.Ends.Failed != res.Ends.Intended {
		t.Errorf("%+v", res.Ends)
	}
	ack := res.Clocks[result.Ack]
	p95, _ := ack.At(95)
	p99, _ := ack.At(99)
	if ack.Censored != res.Ends.Failed || p95.Censored || !p99.Censored || p99.Nanos < ack.MaxNanos {
		t.Errorf("p95 %+v, p99 %+v, %d censored", p95, p99, ack.Censored)
	}
	if len(res.Errors) != 1 || res.Errors[0].Records < res.Ends.Failed {
		t.Errorf("errors %+v", res.Errors)
	}
}

// TestAStallOfOverAMinuteIsItsOwnLength: by the books alone here; the long form freezes a target for 65 s.
func TestAStallOfOverAMinuteIsItsOwnLength(t *testing.T) {
	t.Parallel()
	const stall = 65 * int64(time.Second)
	w := &span{start: 1e9}
	w.end.Store(11e9)
	w.inTime.Store(12e9)
	b := &book{window: w, latency: true}
	for i := range int64(1000) {
		intended := 1e9 + i*1e7
		acked := intended + 2e6
		if i >= 900 {
			acked = 10e9 + stall
		}
		b.acked(&driver.Ack{AckedNanos: acked, Seqs: make([]uint64, 1), IntendedNanos: []int64{intended}})
	}
	_, _, clocks := totals([]*book{b})
	l := summarise(b.mu.clocks[clockAck].hist, clocks[clockAck].overflow, clocks[clockAck].negative, 0, clocks[clockAck].slots, 0)
	if p99, _ := l.At(99); l.Count != 1000 || l.Overflow != 0 || l.MaxNanos < stall || p99.Nanos < stall-2e9 {
		t.Errorf("max %d, p99 %+v of %d counted, %d above", l.MaxNanos, p99, l.Count, l.Overflow)
	}
	if !long() {
		return
	}
	s := latency(200)
	s.Window, s.Drain, s.RequestTimeout = workload.Duration(70*time.Second), workload.Duration(10*time.Second), workload.Duration(100*time.Second)
	res := load(t, s, target(t, sink.Script{Freezes: []sink.Freeze{{AfterRecords: 100, For: 65 * time.Second}}}))
	if ack := res.Clocks[result.Ack]; ack.MaxNanos < stall || res.Ends.Acked != res.Ends.Intended {
		t.Errorf("max %d ns, %+v", ack.MaxNanos, res.Ends)
	}
}

// TestDelayOnTheStoreIsInBoth is the other half of TestDelayOnFetchIsDeliverysAlone.
func TestDelayOnTheStoreIsInBoth(t *testing.T) {
	t.Parallel()
	delay := 20 * time.Millisecond
	again(t, func() (*result.Result, string) {
		delay *= 2 // what a busy host adds is a part of it in the end
		s := latency(12 / delay.Seconds())
		s.Consumers, s.InFlight, s.Window = 1, 50, workload.Duration(max(time.Second, 8*delay))
		res := load(t, s, target(t, sink.Script{StoreDelay: delay, KeepBytes: 8 << 20}))
		ack, delivery := at(res, result.Ack, 50), at(res, result.Delivery, 50)
		if ack < delay || delivery < delay {
			t.Errorf("read less than %v: ack %v, delivery %v", delay, ack, delivery)
		}
		if ack > delay*3/2 || delivery > delay*3/2 {
			return res, fmt.Sprintf("ack %v, delivery %v of %v", ack, delivery, delay)
		}
		return res, ""
	})
}

// TestAConsumerThatJoinsLateLeavesNoTrace: the window opens when every consumer has delivered a probe from each of its
// partitions.
func TestAConsumerThatJoinsLateLeavesNoTrace(t *testing.T) {
	t.Parallel()
	const late = 800 * time.Millisecond
	again(t, func() (*result.Result, string) {
		s := latency(1000)
		s.Groups = []int{2}
		res := load(t, s, target(t, sink.Script{RebalanceDelay: late, KeepBytes: 8 << 20}))
		if res.Window.ProbedNanos < int64(late) {
			t.Errorf("the window opened after %d ns", res.Window.ProbedNanos)
		}
		if d := res.Clocks[result.Delivery]; d.Count != res.Ends.Intended {
			t.Errorf("%d delivered of %d", d.Count, res.Ends.Intended)
		}
		if p99 := at(res, result.Delivery, 99); p99 > late/2 {
			return res, fmt.Sprintf("delivery p99 %v", p99)
		}
		return res, ""
	})
}

func TestAFreezeInTheWarmUpLeavesNoTrace(t *testing.T) {
	t.Parallel()
	again(t, func() (*result.Result, string) {
		s := latency(1000)
		s.WarmUp = workload.Duration(600 * time.Millisecond)
		res := load(t, s, target(t, sink.Script{Freezes: []sink.Freeze{{AfterRecords: 20, For: 300 * time.Millisecond}}}))
		if want := intended(s); res.Ends.Intended != want || res.Clocks[result.Ack].Count != want {
			t.Errorf("intended %d, counted %d; the seed says %d", res.Ends.Intended, res.Clocks[result.Ack].Count, want)
		}
		if p := at(res, result.Ack, 99); p > 150*time.Millisecond {
			return res, fmt.Sprintf("p99 %v", p)
		}
		return res, ""
	})
}

// TestAtFullRateEachFaultIsFoundAtItsOffset: one batch lost, one delivered twice, two swapped, one bit flipped, in a closed
// loop; each finding names an offset inside the batch that the sink harmed.
func TestAtFullRateEachFaultIsFoundAtItsOffset(t *testing.T) {
	t.Parallel()
	s := latency(0)
	s.Question, s.Partitions, s.Consumers, s.MaxBytes = workload.Capacity, 1, 1, 24<<20
	s.WarmUp, s.Window = 0, workload.Duration(5*time.Minute)
	to := target(t, sink.Script{KeepBytes: 64 << 20, LogArrivals: true, Faults: []sink.Fault{
		{Kind: sink.Lose, Batch: 100}, {Kind: sink.Repeat, Batch: 200}, {Kind: sink.Swap, Batch: 300}, {Kind: sink.Flip, Batch: 400},
	}})
	res := load(t, kept(s, to), to)
	harmed := map[string]sink.Arrival{}
	names := map[sink.Kind]string{sink.Lose: verify.Lost, sink.Repeat: verify.Duplicated, sink.Swap: verify.OutOfOrder, sink.Flip: verify.Corrupt}
	for _, a := range to.Arrivals() {
		if a.Harm != "" {
			harmed[names[a.Harm]] = a
		}
	}
	v := &res.Verification
	want := [...]int64{int64(harmed[verify.Lost].Records), int64(harmed[verify.Duplicated].Records), int64(harmed[verify.OutOfOrder].Records), 1}
	if got := [...]int64{v.Lost, v.Duplicated, v.OutOfOrder, v.Corrupt}; got != want || len(harmed) != 4 {
		t.Fatalf("lost, duplicated, out of order, corrupt: %v, the sink did %v\n%+v", got, want, v)
	}
	for _, f := range v.Findings {
		a := harmed[f.Kind]
		from, until := int64(a.Offset), int64(a.Offset)+int64(a.Records)
		if f.Kind == verify.Duplicated || f.Kind == verify.OutOfOrder { // found behind the place where they belong
			from, until = from+int64(a.Records), until+2*int64(a.Records)
		}
		if f.Partition != a.Partition || f.Offset < from || f.Offset >= until || f.Sequence < a.FirstSequence || f.Sequence > a.LastSequence {
			t.Errorf("found %+v, harmed %+v", f, a)
		}
	}
	if res.Valid {
		t.Error("the run calls itself valid")
	}
}

// TestASlowTargetIsNotThePacersFault: the rate is twice what the sink serves. The lateness that this causes is the
// target's; the pacer's clock stays what it is against a fast one.
func TestASlowTargetIsNotThePacersFault(t *testing.T) {
	t.Parallel()
	again(t, func() (*result.Result, string) {
		s := latency(2000)
		s.BufferRecords, s.Drain = 200, workload.Duration(500*time.Millisecond)
		res := load(t, s, target(t, sink.Script{Capacity: 1000}))
		if !res.Has(result.Saturated) {
			t.Error("a target at half the rate is not saturated:", reasons(res))
		}
		if blocked := at(res, result.Blocked, 90); blocked < 100*time.Millisecond {
			return res, fmt.Sprintf("blocked p90 %v", blocked)
		}
		if pacer, blocked := at(res, result.Pacer, 90), at(res, result.Blocked, 90); pacer > blocked/10 {
			return res, fmt.Sprintf("pacer p90 %v, blocked %v", pacer, blocked)
		}
		return res, ""
	})
}

func TestAnOpenLoopAboveCapacityEndsSaturated(t *testing.T) {
	t.Parallel()
	s := latency(1200)
	s.SLO, s.Drain, s.Window = workload.Duration(50*time.Millisecond), workload.Duration(500*time.Millisecond), workload.Duration(1500*time.Millisecond)
	res := load(t, s, target(t, sink.Script{Capacity: 1000}))
	if !res.Has(result.Saturated) || res.Produce.HeldShare > 0.99 {
		t.Errorf("held %v: %s", res.Produce.HeldShare, reasons(res))
	}
	if res.Countable() {
		t.Error("a saturated run counts")
	}
}

// TestMergedHistogramsEqualThePooledData: the parts are merged, and what comes out is what all values in one give.
func TestMergedHistogramsEqualThePooledData(t *testing.T) {
	t.Parallel()
	draws := workload.NewStream(7, 0, workload.ForArrivals)
	pooled, second := newHistogram(), sparse{}
	var total tally
	var values []int64
	for part := range 2 {
		h := newHistogram()
		for range 20000 {
			v := int64(1e6 * draws.Exponential() * math.Pow(40, float64(part)))
			values = append(values, v)
			if h.RecordValue(v) != nil || pooled.RecordValue(v) != nil {
				t.Fatalf("%d is out of range", v)
			}
		}
		packed := compact(h)
		if packed.total != h.TotalCount() {
			t.Errorf("%d values of %d", packed.total, h.TotalCount())
		}
		total.add(&packed)
		second = joined(second, packed)
	}
	merged := total.histogram()
	if !merged.Equals(pooled) || !second.spread().Equals(pooled) || second.total != pooled.TotalCount() {
		t.Error("merged is not pooled")
	}
	if tally(nil).histogram() != nil {
		t.Error("a clock that nobody recorded has a histogram")
	}
	slices.Sort(values)
	l := summarise(merged, 0, 0, 0, nil, 0)
	for _, q := range l.Percentiles {
		want := values[max(int(math.Ceil(q.P/100*float64(len(values)))), 1)-1]
		if math.Abs(float64(q.Nanos-want)) > 0.001*float64(want)+1 {
			t.Errorf("p%g is %d, of the raw values %d", q.P, q.Nanos, want)
		}
	}
}
