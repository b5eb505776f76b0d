package loadgen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/lie"
	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/tidemark/tidemark/loadgen/driver/raw"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/security"
	"github.com/tidemark/tidemark/loadgen/verify"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// Options are what one run needs beside its workload.
type Options struct {
	Spec      *workload.Spec // validated
	Bootstrap []string
	Out       string    // the result's folder, "" for none
	Yes       bool      // the target may be another host
	Command   []string  // argv, for the result
	Progress  io.Writer // live progress; nil for none
	Terminal  bool      // Progress is a terminal
	KafkaPerf bool      // progress in the form of kafka-producer-perf-test
	Lines     io.Writer // nil, or where kafka-perf's lines go
	Logger    *slog.Logger
	Profile   Profiling // of the generator and the target, around the window

	Security  *security.Client // nil: PLAINTEXT
	Notes     io.Writer        // the lines of the first contact and warnings; nil for none
	Warnings  io.Writer        // what a person must know even where no progress is wanted; nil for none
	CheckOnly bool             // make first contact, print it, and send nothing
	FailIf    []Condition      // each of them makes the run fail where it holds
	Metrics   TargetMetrics    // pages from which the target's cost is read
}

// run is one run's life: prepare, ready, warm up, measure, drain, verify.
//
// Goroutines: one for each producer (pacer) and consumer, the driver's, a watch that ends the run (bounds, signal, a
// target that died), a collector that takes the histograms each second. Run starts them all and waits for all.
type run struct {
	o       Options
	spec    *workload.Spec
	id      uint64
	prefix  string
	cluster *raw.Cluster // nil with the driver null
	driver  driver.Driver
	topics  []driver.Topic
	made    []string // topics that this run created
	view    *raw.View
	before  map[string]map[string]string // effective topic settings

	unanswered bool // whether those in made are there the cluster has not told

	window    span
	begin     int64
	planned   int64
	stop      atomic.Bool
	endOnce   sync.Once
	endedBy   string
	stopEarly context.CancelFunc
	budget    atomic.Int64
	bounded   bool

	books     []*book
	pacers    []*pacer
	readers   []*reader
	groups    []*group
	ledger    *verify.Ledger
	recalls   []*recall
	keys      *workload.KeySpace
	payload   *workload.Payload
	collector *collector
	probed    time.Duration
	drained   time.Duration
	use       [2]usageSample
	stats     driver.Stats
	fetched   driver.Stats
	retries   int64 // batches that any producer of the run sent again, whenever
	started   time.Time
	complete  bool
	reason    string
	dead      atomic.Pointer[string] // see died
	res       *result.Result
	profiler  *profiler // nil: no profiles
	access    driver.Access
	met       *result.Contact
	metrics   *targetReader // nil: no pages of the target
	throttled time.Duration // of the client that was throttled longest
}

// Run does one run and returns what it measured. The result is nil only where nothing was measured; an error beside a
// result says why the result is not to be trusted, and ExitCode tells its exit code. With Out the result has been
// written.
func Run(ctx context.Context, o Options) (*result.Result, error) {
	r := &run{o: o, spec: o.Spec, started: time.Now(), reason: "the run ended before"}
	for r.id == 0 {
		r.id = rand.Uint64()
	}
	if len(o.Profile.Kinds) > 0 {
		r.profiler = &profiler{o: o.Profile}
	}
	if len(o.Metrics.URLs) > 0 {
		r.metrics = newTargetReader(o.Metrics)
	}
	if o.Logger == nil {
		r.o.Logger = slog.New(slog.DiscardHandler)
	}
	for i := range o.FailIf {
		if err := o.FailIf[i].suits(&o); err != nil {
			return nil, usage(fmt.Errorf("fail-if: %w", err))
		}
	}
	if o.CheckOnly {
		o.Out = ""
	}
	out, err := openOut(o.Out)
	if err != nil {
		return nil, err
	}
	defer out.abandon()
	bound, cancel := context.WithTimeoutCause(ctx, o.Spec.MaxDuration.D(), errMaxDuration)
	defer cancel()
	leave := sync.OnceValue(func() []result.LeftTopic {
		r.closeClients()
		return r.dropTopics()
	})
	defer leave()
	if err := r.prepare(bound); err != nil {
		if errors.Is(err, errChecked) {
			return nil, nil
		}
		return nil, err
	}
	if err := r.ready(bound); err != nil {
		if !r.diedEarly(ctx) {
			return nil, err
		}
	} else {
		r.measure(bound)
	}
	r.drain(ctx)
	r.conclude()
	conditions := r.conditionsError()
	if err := out.write(r); err != nil {
		return r.res, failure(err)
	}
	if r.res.Run.NotDeleted = leave(); len(r.res.Run.NotDeleted) > 0 { // the result stood before the target was asked again
		if err := out.rewrite(r.res); err != nil {
			return r.res, failure(err)
		}
	}
	if err := r.verdictError(); err != nil {
		return r.res, err
	}
	return r.res, conditions
}

var errMaxDuration = errors.New("max-duration is over")

// verdictError is the error that an invalid run ends with, or one that was cut before its window began.
func (r *run) verdictError() error {
	if r.res.Valid && r.res.Partial && r.res.Window.Seconds() <= 0 {
		i := slices.IndexFunc(r.res.Verdicts, func(v result.Verdict) bool { return v.Kind == result.Partial })
		return failure(errors.New(r.res.Verdicts[i].Reason))
	}
	if r.res.Valid && !r.res.Has(result.GeneratorLimited) {
		return nil
	}
	for _, kind := range []string{result.Invalid, result.GeneratorLimited} {
		for _, v := range r.res.Verdicts {
			if v.Kind == kind {
				return &exitError{exitInvalid, fmt.Errorf("%s: %s", kind, v.Reason)}
			}
		}
	}
	return &exitError{exitInvalid, errors.New("the run is invalid")}
}

// books are as many as cores: see book.
func (r *run) makeBooks() {
	for range max(1, runtime.GOMAXPROCS(0)) {
		r.books = append(r.books, &book{window: &r.window, perTop: r.spec.Partitions, latency: r.spec.Question == workload.Latency})
	}
}

func (r *run) bookFor(i int) *book { return r.books[i%len(r.books)] }

// stopped reports whether the run was ended early. At the window's end a pacer still offers what was intended inside.
func (r *run) stopped() bool { return r.stop.Load() }

// spend takes bytes from --max-bytes; where they are not left it ends the run.
func (r *run) spend(bytes int64) bool {
	if !r.bounded {
		return true
	}
	if r.budget.Add(-bytes) >= 0 {
		return true
	}
	r.end("max-bytes")
	return false
}

// end ends the measuring now. The first caller's reason counts.
func (r *run) end(by string) {
	r.endOnce.Do(func() {
		r.endedBy = by
		now := clock.Nanos()
		if by != "window" {
			if now < r.window.end.Load() {
				r.window.end.Store(max(now, r.window.start))
			}
			r.window.inTime.Store(min(r.window.inTime.Load(), now+r.inTimeAllowance()))
			r.stop.Store(true)
		}
		if r.stopEarly != nil {
			r.stopEarly()
		}
	})
}

func (r *run) inTimeAllowance() int64 {
	if r.spec.SLO > 0 {
		return r.spec.SLO.Nanos()
	}
	return int64(time.Second)
}

// measure runs warm-up and window.
func (r *run) measure(ctx context.Context) {
	measuring, cancel := context.WithCancel(context.Background())
	r.stopEarly = cancel
	defer cancel()
	r.begin = clock.Nanos() + int64(20*time.Millisecond)
	r.window.start = r.begin + r.spec.WarmUp.Nanos()
	r.planned = r.window.start + r.spec.Window.Nanos()
	if lie.Told == lie.WarmUpCounted {
		r.window.start = r.begin
	}
	r.window.end.Store(r.planned)
	r.window.inTime.Store(r.planned + r.inTimeAllowance())
	if r.spec.MaxBytes > 0 {
		r.bounded = true
		r.budget.Store(int64(r.spec.MaxBytes))
	}
	for _, rc := range r.recalls {
		rc.begin = r.begin
	}
	for _, rd := range r.readers {
		rd.counting.Store(true)
	}
	r.collector = newCollector(r)
	var wg, helpers sync.WaitGroup
	for i, p := range r.pacers {
		p.begin = r.begin
		if r.spec.Question == workload.Latency {
			p.schedule = workload.NewSchedule(r.spec, int32(i))
			wg.Go(p.open)
		} else {
			wg.Go(p.closed)
		}
	}
	helpers.Go(func() { r.watch(ctx, measuring) })
	helpers.Go(func() { r.collector.run(measuring) })
	if r.profiler != nil {
		r.waitUntil(measuring, r.window.start-int64(profileLead))
		r.profiler.begin(r.spec.Window.D() + profileLead)
	}
	r.waitUntil(measuring, r.window.start)
	if r.metrics != nil {
		r.metrics.take(0)
	}
	r.use[0] = sampleUsage()
	r.takeStats() // what came before the window
	r.waitUntil(measuring, r.planned)
	r.collector.windowEnds()
	r.end("window")
	if r.metrics != nil {
		r.metrics.take(1)
	}
	r.use[1] = sampleUsage()
	r.stats, r.fetched = r.takeStats()
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	r.flush(ctx, done)
	if r.profiler != nil {
		r.profiler.end()
	}
	helpers.Wait()
}

func (r *run) waitUntil(ctx context.Context, nanos int64) {
	if d := time.Duration(nanos - clock.Nanos()); d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
}

func (r *run) takeStats() (produced, fetched driver.Stats) {
	r.throttled = 0
	for _, p := range r.pacers {
		s := p.producer.TakeStats()
		produced.Add(&s)
		r.retries += s.Retries
		r.throttled = max(r.throttled, time.Duration(s.ThrottleNanos))
	}
	for _, rd := range r.readers {
		s := rd.consumer.TakeStats()
		rd.stats = s
		fetched.Add(&s)
		r.throttled = max(r.throttled, time.Duration(s.ThrottleNanos))
	}
	return produced, fetched
}

// flush waits until everything was offered and answered, as long as the drain allows, and closes the producers, which frees
// pacers that still wait for room.
func (r *run) flush(ctx context.Context, pacersDone <-chan struct{}) {
	from := time.Now()
	allowed := r.spec.Drain.D()
	if r.died() != "" {
		allowed = min(allowed, time.Second)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), allowed)
	var watch, wg sync.WaitGroup
	watch.Go(func() { r.watchDrain(ctx, cancel) })
	select {
	case <-pacersDone:
	case <-ctx.Done():
	}
	for _, p := range r.pacers {
		wg.Go(func() { _ = p.producer.Flush(ctx) })
	}
	wg.Wait()
	cancel()
	watch.Wait()
	r.drained = time.Since(from)
	for _, b := range r.books {
		b.close() // what has no answer now is unanswered, whatever closing the clients says
	}
	for _, p := range r.pacers {
		_ = p.producer.Close()
		s := p.producer.TakeStats()
		r.retries += s.Retries
	}
	<-pacersDone
}

// watchDrain ends the wait for the last answers when the target has died in the meantime, or so late in the window that the watch
// had no time to find out.
func (r *run) watchDrain(ctx context.Context, giveUp func()) {
	t := time.NewTicker(250 * time.Millisecond)
	defer t.Stop()
	var alive liveness
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if why := alive.check(ctx, r); why != "" && ctx.Err() == nil {
				r.dies(why)
				giveUp()
				return
			}
		}
	}
}

// watch ends the run at a signal, at a bound, when every pacer has failed, or when the target has died.
func (r *run) watch(ctx, measuring context.Context) {
	t := time.NewTicker(250 * time.Millisecond)
	defer t.Stop()
	var alive liveness
	for {
		select {
		case <-measuring.Done():
			return
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errMaxDuration) {
				r.end("max-duration")
			} else {
				r.end("signal")
			}
			return
		case <-t.C:
			if why := alive.check(measuring, r); why != "" {
				r.dies(why)
				r.end("target")
				return
			}
		}
	}
}

// died is why the target is gone, "" while it is not. The watch may find out while the window's end is already seen to.
func (r *run) died() string {
	if why := r.dead.Load(); why != nil {
		return *why
	}
	return ""
}

func (r *run) dies(why string) { r.dead.Store(&why) }

// liveness notices a target that has gone: nothing was answered for a while, and nobody listens any more. A target that
// is only slow, or frozen, still takes connections.
type liveness struct {
	ended   int64
	since   time.Time
	refused int
}

func (l *liveness) check(ctx context.Context, r *run) string {
	if r.cluster == nil {
		return ""
	}
	accepted, ended := int64(0), int64(0)
	for _, b := range r.books {
		b.mu.Lock()
		accepted += b.mu.ends.allAccepted
		ended += b.mu.ends.allEnded
		b.mu.Unlock()
	}
	if ended != l.ended || accepted == ended && len(r.pacers) > 0 {
		l.ended, l.since, l.refused = ended, time.Now(), 0
		return ""
	}
	if time.Since(l.since) < 500*time.Millisecond {
		return ""
	}
	why, refused := refusesAll(ctx, r.addresses())
	if !refused {
		l.refused = 0
		return ""
	}
	if l.refused++; l.refused < 3 {
		return ""
	}
	return why
}

// addresses are the brokers known, and the bootstrap list, each once.
func (r *run) addresses() []string {
	out := append([]string(nil), r.o.Bootstrap...)
	if r.view != nil {
		for _, a := range r.view.Brokers {
			out = append(out, a)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (r *run) closeClients() {
	for _, p := range r.pacers {
		_ = p.producer.Close()
	}
	for _, rd := range r.readers {
		rd.close()
	}
	if r.driver != nil {
		_ = r.driver.Close()
	}
}
