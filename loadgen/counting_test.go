package loadgen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/sink"
	"github.com/tidemark/tidemark/loadgen/verify"
	"github.com/tidemark/tidemark/loadgen/workload"
)

func target(t testing.TB, script sink.Script) *sink.Sink {
	t.Helper()
	if script.Partitions == 0 {
		script.Partitions = 6
	}
	s, err := sink.New(script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// latency is a run of a second against a target that answers: how long a busy host takes to work it off is free.
func latency(rate float64) *workload.Spec {
	s := workload.Default()
	s.Rate = rate
	s.WarmUp, s.Window, s.Drain = workload.Duration(200*time.Millisecond), workload.Duration(time.Second), workload.Duration(time.Minute)
	return &s
}

// load runs a workload against a sink. A busy host may convict the generator; that is not what these tests ask.
func load(t testing.TB, s *workload.Spec, to *sink.Sink) *result.Result {
	t.Helper()
	res, err := Run(t.Context(), Options{Spec: s, Bootstrap: []string{to.Addr()}})
	if res == nil {
		t.Fatal(err)
	}
	if !res.Ends.Sums() {
		t.Errorf("the four ends do not add up: %+v", res.Ends)
	}
	for name, l := range res.Clocks {
		if !l.Sound {
			t.Errorf("clock %s has lost counts", name)
		}
	}
	return res
}

func reasons(res *result.Result) string {
	var all []string
	for _, v := range res.Verdicts {
		all = append(all, v.Kind+": "+v.Reason)
	}
	return strings.Join(all, "; ")
}

func TestEveryIntendedRecordIsAckedAndRead(t *testing.T) {
	for _, name := range []string{workload.DriverRaw, workload.DriverKgo} {
		t.Run(name, func(t *testing.T) {
			s := latency(2000)
			s.Driver, s.Producers, s.Consumers, s.Groups = name, 2, 1, []int{2, 1}
			s.Keys = workload.Keys{Kind: workload.KeysZipf, N: 100, S: 1.1}
			res := load(t, s, target(t, sink.Script{KeepBytes: 8 << 20}))
			if !res.Valid {
				t.Fatal(reasons(res))
			}
			e, v := res.Ends, res.Verification
			if e.Intended == 0 || e.Acked != e.Intended || e.Failed+e.Unanswered+e.Unsent != 0 {
				t.Errorf("ends %+v", e)
			}
			if !v.On || !v.Complete || !v.Clean() || v.Delivered != 3*v.Acked {
				t.Errorf("verification %+v", v)
			}
			if ack := res.Clocks[result.Ack]; ack.Count != e.Acked || ack.Censored != 0 {
				t.Errorf("the ack clock holds %d of %d", ack.Count, e.Acked)
			}
			if d := res.Clocks[result.Delivery]; d.Count != 3*e.Intended || d.Censored != 0 {
				t.Errorf("the delivery clock holds %d of %d, %d censored", d.Count, 3*e.Intended, d.Censored)
			}
			if b := res.Produce.Batches; b.Batches == 0 || b.RecordsMedian < 1 || b.Requests == 0 {
				t.Errorf("batches %+v", b)
			}
			perSecond := int64(0)
			for _, iv := range res.Intervals {
				perSecond += iv.Intended
			}
			if perSecond != e.Intended {
				t.Errorf("the intervals hold %d intended records of %d", perSecond, e.Intended)
			}
		})
	}
}

// intended counts what the seed says, independently of the run.
func intended(s *workload.Spec) (n int64) {
	for p := range s.Producers {
		sched := workload.NewSchedule(s, int32(p))
		for at := sched.Next(); at < s.WarmUp.Nanos()+s.Window.Nanos(); at = sched.Next() {
			if at >= s.WarmUp.Nanos() {
				n++
			}
		}
	}
	return n
}

func TestAFrozenTargetHidesNothing(t *testing.T) {
	for _, name := range []string{workload.DriverRaw, workload.DriverKgo} {
		t.Run(name, func(t *testing.T) {
			again(t, func() (*result.Result, string) {
				s := latency(1000)
				s.Driver, s.BufferRecords, s.Drain = name, 100, workload.Duration(200*time.Millisecond)
				to := target(t, sink.Script{Freezes: []sink.Freeze{{AfterRecords: 600, For: time.Hour}}})
				res := load(t, s, to)
				if want := intended(s); res.Ends.Intended != want {
					t.Errorf("intended %d, the seed says %d", res.Ends.Intended, want)
				}
				if l := res.Clocks[result.Ack]; l.Count+l.Censored != res.Ends.Intended {
					t.Errorf("%d counted + %d censored != %d", l.Count, l.Censored, res.Ends.Intended)
				}
				if to.Stats().Records < 600 {
					return res, "the run was over before 600 records had come"
				}
				if p, _ := res.Clocks[result.Ack].At(99); res.Ends.Unsent == 0 || res.Ends.Unanswered == 0 || !p.Censored || !res.Has(result.Saturated) {
					return res, fmt.Sprintf("%+v, p99 %+v, %s", res.Ends, p, reasons(res))
				}
				return res, ""
			})
		})
	}
}

// TestAFreezeInTheMiddleIsInThePercentiles: every record intended in a freeze waits for its end. A generator that stops
// sending meanwhile, or counts from the moment at which it could send, would show a handful of late records.
func TestAFreezeInTheMiddleIsInThePercentiles(t *testing.T) {
	const freeze = 500 * time.Millisecond // a quarter of the window
	for _, name := range []string{workload.DriverRaw, workload.DriverKgo} {
		t.Run(name, func(t *testing.T) {
			again(t, func() (*result.Result, string) {
				s := latency(1000)
				s.Driver, s.BufferRecords, s.Window = name, 20, workload.Duration(2*time.Second)
				res := load(t, s, target(t, sink.Script{Freezes: []sink.Freeze{{AfterRecords: 500, For: freeze}}}))
				ack := res.Clocks[result.Ack]
				if want := intended(s); res.Ends.Intended != want || res.Ends.Acked != want || ack.Count != want || ack.Censored != 0 {
					t.Errorf("the seed says %d: %+v, %d counted", want, res.Ends, ack.Count)
				}
				// A tenth of the window is two fifths of the freeze: so many waited longer than its other three, unless the
				// 500th record came so late that the freeze ends behind the window.
				p90, _ := ack.At(90)
				p99, _ := ack.At(99)
				if p90.Nanos < int64(freeze)/2 || p99.Nanos < int64(freeze)*8/10 || ack.MaxNanos < int64(freeze)*9/10 {
					return res, fmt.Sprintf("frozen for %s: p90 %d, p99 %d, max %d ns", freeze, p90.Nanos, p99.Nanos, ack.MaxNanos)
				}
				if late, _ := res.Clocks[result.Pacer].At(90); late.Nanos > p90.Nanos/2 {
					return res, fmt.Sprintf("the wait was charged to the pacer: p90 %d of %d ns", late.Nanos, p90.Nanos)
				}
				if !res.Has(result.Saturated) {
					return res, "a full buffer is no verdict: " + reasons(res)
				}
				return res, ""
			})
		})
	}
}

func TestDelayOnFetchIsDeliverysAlone(t *testing.T) {
	delay := 20 * time.Millisecond
	median := func(script sink.Script) (res *result.Result, ack, delivery time.Duration) {
		s := latency(12 / delay.Seconds())
		s.Consumers, s.Window = 1, workload.Duration(max(time.Second, 8*delay))
		script.KeepBytes = 8 << 20
		res = load(t, s, target(t, script))
		return res, at(res, result.Ack, 50), at(res, result.Delivery, 50)
	}
	again(t, func() (*result.Result, string) {
		delay *= 2 // what a busy host adds is a part of it in the end
		res, ack, delivery := median(sink.Script{FetchDelay: delay})
		if delivery < delay {
			t.Errorf("fetch delayed by %v: delivery %v", delay, delivery)
		}
		if ack > delivery/2 {
			return res, fmt.Sprintf("fetch delayed by %v: ack %v, delivery %v", delay, ack, delivery)
		}
		return res, ""
	})
	if _, ack, delivery := median(sink.Script{AckDelay: delay}); ack < delay {
		t.Errorf("ack delayed by %v: ack %v, delivery %v", delay, ack, delivery)
	}
}

func TestFaultsAreFoundAndInvalidateTheRun(t *testing.T) {
	for kind, want := range map[sink.Kind]struct {
		result.Verification
		finding string
		behind  int64 // offsets between the harmed record and where it was found
	}{
		sink.Lose:   {result.Verification{Lost: 1}, verify.Lost, 0},
		sink.Repeat: {result.Verification{Duplicated: 1}, verify.Duplicated, 1},
		sink.Swap:   {result.Verification{OutOfOrder: 1}, verify.OutOfOrder, 1},
		sink.Flip:   {result.Verification{Corrupt: 1}, verify.Corrupt, 0},
	} {
		t.Run(string(kind), func(t *testing.T) {
			s := latency(500)
			s.Consumers, s.BatchSize = 1, 1 // one record a batch
			to := target(t, sink.Script{KeepBytes: 8 << 20, LogArrivals: true, Faults: []sink.Fault{{Kind: kind, Batch: 200}}})
			to.Create("kept", 6) // a topic of the run's own would take the arrival log with it
			s.Topic, s.Create = "kept", workload.CreateNever
			res := load(t, s, to)
			v := &res.Verification
			if v.Lost != want.Lost || v.Duplicated != want.Duplicated || v.OutOfOrder != want.OutOfOrder || v.Corrupt != want.Corrupt || v.Foreign != 0 {
				t.Errorf("%+v", v)
			}
			if res.Valid || len(v.Findings) != 1 {
				t.Fatalf("valid %v, findings %+v", res.Valid, v.Findings)
			}
			harmed := slices.DeleteFunc(to.Arrivals(), func(a sink.Arrival) bool { return a.Harm == "" })
			if len(harmed) != 1 {
				t.Fatalf("harmed: %+v", harmed)
			}
			f, a := v.Findings[0], harmed[0]
			if f.Kind != want.finding || f.Topic != a.Topic || f.Partition != a.Partition || f.Offset != int64(a.Offset)+want.behind ||
				f.Producer != a.Producer || f.Sequence != a.LastSequence {
				t.Errorf("found %+v, harmed %+v", f, a)
			}
		})
	}
}

func TestOverloadIsSaturated(t *testing.T) {
	s := latency(1500)
	s.SLO, s.Drain = workload.Duration(50*time.Millisecond), workload.Duration(100*time.Millisecond)
	res := load(t, s, target(t, sink.Script{Capacity: 1000}))
	if !res.Has(result.Saturated) {
		t.Error(reasons(res))
	}
}

func TestAClosedLoopTellsNoLatency(t *testing.T) {
	s := latency(0)
	s.Question, s.MaxBytes, s.Window, s.WarmUp = workload.Capacity, 64<<20, workload.Duration(5*time.Minute), 0
	to := target(t, sink.Script{})
	res := load(t, s, to)
	if len(res.Clocks) != 0 || res.Partial || !res.Valid || res.Window.EndedBy != "max-bytes" {
		t.Errorf("clocks %v, partial %v, %s, ended by %s", res.Clocks, res.Partial, reasons(res), res.Window.EndedBy)
	}
	if n := to.Stats().Records * 1024; n > 64<<20 {
		t.Errorf("%d bytes were sent past --max-bytes", n)
	}
	var out bytes.Buffer
	printResult(&out, res, "")
	if strings.Contains(out.String(), "p99") || !strings.Contains(out.String(), "records/s") {
		t.Errorf("printed:\n%s", out.String())
	}
}

func TestASignalLeavesAPartialResult(t *testing.T) {
	s := latency(1000)
	s.Window = workload.Duration(time.Minute)
	to := target(t, sink.Script{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for to.Stats().Records < 700 {
			<-time.After(time.Millisecond)
		}
		cancel()
	}()
	dir := filepath.Join(t.TempDir(), "out")
	res, err := Run(ctx, Options{Spec: s, Bootstrap: []string{to.Addr()}, Out: dir})
	if res == nil || !res.Partial || !res.Ends.Sums() || res.Ends.Acked == 0 || res.Window.EndedBy != "signal" {
		t.Fatalf("%+v, %v", res, err)
	}
	back, err := result.Read(dir)
	if err != nil || back.Ends != res.Ends {
		t.Errorf("read back: %v", err)
	}
}

func TestATargetThatDiesLeavesAnInvalidResult(t *testing.T) {
	for _, name := range []string{workload.DriverRaw, workload.DriverKgo} {
		t.Run(name, func(t *testing.T) {
			s := latency(1000)
			s.Driver, s.Window = name, workload.Duration(time.Minute)
			to := target(t, sink.Script{})
			go func() {
				for to.Stats().Records < 700 {
					<-time.After(time.Millisecond)
				}
				_ = to.Close()
			}()
			dir := filepath.Join(t.TempDir(), "out")
			res, err := Run(t.Context(), Options{Spec: s, Bootstrap: []string{to.Addr()}, Out: dir})
			if res == nil || res.Valid || res.Window.EndedBy != "target" || ExitCode(err) != 4 {
				t.Fatalf("%+v, exit %d, %v", res, ExitCode(err), err)
			}
			if back, err := result.Read(dir); err != nil || back.Valid {
				t.Errorf("read back: %v", err)
			}
		})
	}
}

func TestTheLogsHoldWhatTheResultSays(t *testing.T) {
	s := latency(2000)
	s.Consumers = 1
	s.Window = workload.Duration(2 * time.Second)
	dir := t.TempDir()
	to := target(t, sink.Script{KeepBytes: 8 << 20})
	res, err := Run(t.Context(), Options{Spec: s, Bootstrap: []string{to.Addr()}, Out: dir})
	if res == nil {
		t.Fatal(err)
	}
	for file, clock := range map[string]string{"ack.hlog": result.Ack, "delivery.hlog": result.Delivery} {
		f, err := os.Open(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		reader := hdrhistogram.NewHistogramLogReader(f)
		sum := newHistogram()
		for {
			h, err := reader.NextIntervalHistogram()
			if err != nil {
				t.Fatal(err)
			}
			if h == nil {
				break
			}
			if h.Tag() == "" {
				sum.Merge(h)
			}
		}
		if l := res.Clocks[clock]; sum.TotalCount() != l.Count {
			t.Errorf("%s holds %d values, the result %d", file, sum.TotalCount(), l.Count)
		}
	}
	if err := res.CheckFiles(dir); err != nil {
		t.Error(err)
	}
}

func TestPerfFormReadsAsKafkas(t *testing.T) {
	res := load(t, latency(1000), target(t, sink.Script{}))
	var out bytes.Buffer
	printPerf(&out, res)
	form := regexp.MustCompile(`^\d+ records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, [\d.]+ ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\.\n$`)
	if !form.MatchString(out.String()) {
		t.Errorf("%q", out.String())
	}
}

func TestCensoredPercentilesAndStalls(t *testing.T) {
	var c clockRecorder
	for i := range int64(1000) {
		v := int64(1e6)
		if i/100 == 3 || i/100 == 7 {
			v = 5e7
		}
		c.record(v, i*1e7)
	}
	l := summarise(c.hist, 0, 0, 0, c.slots, 0)
	p, _ := l.At(75)
	if p.Nanos > 2e6 || p.Above != 200 || p.Excursions != 2 || p.Censored {
		t.Errorf("p75 %+v", p)
	}
	if p, _ = summarise(c.hist, 0, 0, 20, c.slots, 0).At(99); !p.Censored {
		t.Errorf("2%% never arrived: p99 %+v", p)
	}
	if p, _ = summarise(c.hist, 0, 0, 5, c.slots, 0).At(99); p.Censored {
		t.Errorf("0.5%% never arrived: p99 %+v", p)
	}
	c.record(2*histogramMax, 0)
	c.record(-1, 0)
	l = summarise(c.hist, c.overflow, c.negative, 0, c.slots, 0)
	if l.Overflow != 1 || l.Negative != 1 || l.Count != 1000 || l.MaxNanos != 2*histogramMax {
		t.Errorf("%+v", l)
	}
	if l = summarise(nil, 0, 0, 0, nil, 0); l.Count != 0 || len(l.Percentiles) != 0 {
		t.Errorf("empty: %+v", l)
	}
}

func TestBooksSplitByIntendedTime(t *testing.T) {
	w := &span{start: 1e9}
	w.end.Store(3e9)
	w.inTime.Store(4e9)
	b := &book{window: w, latency: true}
	b.acked(&driver.Ack{AckedNanos: 35e8, Bytes: 40, Seqs: make([]uint64, 4), IntendedNanos: []int64{9e8, 1e9, 299e7, 3e9}})
	b.acked(&driver.Ack{AckedNanos: 5e9, Bytes: 10, Seqs: make([]uint64, 1), IntendedNanos: []int64{2e9}})
	b.acked(&driver.Ack{AckedNanos: 2e9, Err: errors.New("broken"), Seqs: make([]uint64, 2), IntendedNanos: []int64{15e8, 5e8}})
	sum, seconds, _ := totals([]*book{b})
	if sum.acked != 3 || sum.inTime != 2 || sum.failed != 1 || sum.ackedBytes != 30 || sum.errors["connection"].records != 2 {
		t.Errorf("%+v", sum)
	}
	if seconds[0].failed != 1 || seconds[2].acked != 4 {
		t.Errorf("%+v", seconds)
	}
}
