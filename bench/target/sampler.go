package target

import (
	"slices"
	"sync"
	"time"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/loadgen/result"
)

// samplePeriod is how often the target's counters are read. A reading costs about 100 µs for a broker of ten threads,
// and some milliseconds for a JVM (Options.LightSampling).
const samplePeriod = 100 * time.Millisecond

// reading is the counters of all target processes and of the cores at one moment.
type reading struct {
	nanos int64
	use   counters
	cores []coreTimes
	ok    bool // every process could be read
	light bool // what is summed over threads was not read
}

// sampler reads counters each samplePeriod from startSampler until stop. Its goroutine blocks on nothing but its
// ticker; stop ends it and waits.
type sampler struct {
	pids     []int
	light    bool      // between the first and the last reading, none of threads
	readings []reading // the goroutine's own until done is closed
	quit     chan struct{}
	done     chan struct{}
	once     sync.Once
}

func startSampler(pids []int, light bool) *sampler {
	s := &sampler{pids: pids, light: light, quit: make(chan struct{}), done: make(chan struct{})}
	s.read(false)
	go s.loop()
	return s
}

func (s *sampler) loop() {
	defer close(s.done)
	ticks := time.NewTicker(samplePeriod)
	defer ticks.Stop()
	for {
		select {
		case <-s.quit:
			s.read(false)
			return
		case <-ticks.C:
			s.read(s.light)
		}
	}
}

func (s *sampler) read(light bool) {
	r := reading{nanos: clock.Nanos(), cores: readCores(), ok: len(s.pids) > 0, light: light}
	of := readAll
	if light {
		of = readQuick
	}
	for _, pid := range s.pids {
		c, err := of(pid)
		if err != nil {
			r.ok = false
			break
		}
		r.use.add(c)
	}
	s.readings = append(s.readings, r)
}

// stop ends the sampling after a last reading and returns all of them.
func (s *sampler) stop() series {
	s.once.Do(func() { close(s.quit) })
	<-s.done
	return series{pids: s.pids, readings: s.readings}
}

// series is readings in the order of time.
type series struct {
	pids     []int
	readings []reading
}

// samples is the series as run.json holds it.
func (s series) samples() []store.Sample {
	var out []store.Sample
	for _, r := range s.readings {
		if r.ok {
			out = append(out, store.Sample{Nanos: r.nanos, CPUNanos: r.use.cpuNanos, RSSBytes: r.use.rssBytes})
		}
	}
	return out
}

// process is the use between two moments, with counters interpolated between the readings around each. It is nil where
// the readings do not reach that far, which is "not measured".
func (s series) process(start, end int64) *result.Process {
	a, okA := s.at(start)
	b, okB := s.at(end)
	if !okA || !okB || end <= start {
		return nil
	}
	p := &result.Process{
		Seconds: float64(end-start) / 1e9, CPUNanos: b.cpuNanos - a.cpuNanos, RunQueueNanos: b.queueNanos - a.queueNanos,
		VoluntarySwitches: b.voluntary - a.voluntary, InvoluntarySwitches: b.involuntary - a.involuntary,
		RSSBytes: b.rssBytes, Threads: b.threads,
	}
	if len(s.pids) == 1 {
		p.PID = s.pids[0]
	}
	if s.lightly() { // a window's share of what the threads did is not known
		p.RunQueueNanos, p.VoluntarySwitches, p.InvoluntarySwitches = 0, 0, 0
		p.Threads = s.readings[len(s.readings)-1].use.threads
		return s.mostResident(p, start, end)
	}
	diff := func(x, y int64) *int64 { d := y - x; return &d }
	p.ReadCalls, p.WriteCalls = diff(a.readCalls, b.readCalls), diff(a.writeCalls, b.writeCalls)
	p.ReadBytes, p.WriteBytes = diff(a.readBytes, b.readBytes), diff(a.writeBytes, b.writeBytes)
	return s.mostResident(p, start, end)
}

// lightly reports whether threads were left out of some readings.
func (s series) lightly() bool {
	return slices.ContainsFunc(s.readings, func(r reading) bool { return r.light })
}

// mostResident fills in the largest resident size between two moments.
func (s series) mostResident(p *result.Process, start, end int64) *result.Process {
	for _, r := range s.readings {
		if r.ok && r.nanos >= start && r.nanos <= end {
			p.RSSMaxBytes = max(p.RSSMaxBytes, r.use.rssBytes)
		}
	}
	p.RSSMaxBytes = max(p.RSSMaxBytes, p.RSSBytes)
	return p
}

// at interpolates the counters at a moment.
func (s series) at(nanos int64) (counters, bool) {
	for i := 1; i < len(s.readings); i++ {
		a, b := s.readings[i-1], s.readings[i]
		if nanos < a.nanos || nanos > b.nanos || !a.ok || !b.ok {
			continue
		}
		share := 0.0
		if b.nanos > a.nanos {
			share = float64(nanos-a.nanos) / float64(b.nanos-a.nanos)
		}
		mid := func(x, y int64) int64 { return x + int64(share*float64(y-x)) }
		u, v := a.use, b.use
		return counters{
			cpuNanos: mid(u.cpuNanos, v.cpuNanos), queueNanos: mid(u.queueNanos, v.queueNanos),
			voluntary: mid(u.voluntary, v.voluntary), involuntary: mid(u.involuntary, v.involuntary),
			readCalls: mid(u.readCalls, v.readCalls), writeCalls: mid(u.writeCalls, v.writeCalls),
			readBytes: mid(u.readBytes, v.readBytes), writeBytes: mid(u.writeBytes, v.writeBytes),
			rssBytes: mid(u.rssBytes, v.rssBytes), threads: v.threads,
		}, true
	}
	return counters{}, false
}

// cores is what the host's cores did between two moments, from the readings next to them: the kernel counts in ticks
// of 10 ms, so interpolating would pretend.
func (s series) cores(start, end int64) []result.Core {
	var a, b *reading
	for i := range s.readings {
		r := &s.readings[i]
		if a == nil || r.nanos <= start {
			a = r
		}
		b = r
		if r.nanos >= end {
			break
		}
	}
	if a == nil {
		return nil
	}
	return coresBetween(a.cores, b.cores)
}
