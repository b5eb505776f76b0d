package loadgen

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/lie"
	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// conclude makes the result of what was counted.
func (r *run) conclude() {
	sum, seconds, clocks := totals(r.books)
	res := &result.Result{Question: r.spec.Question, Asked: *r.spec, AskedHash: r.spec.Hash(), Valid: true, Clocks: map[string]result.Latency{}}
	r.res = res
	r.describe(res)
	r.windowAndEnds(res, &sum)
	r.clocks(res, &clocks)
	r.intervals(res, seconds)
	r.produced(res, &sum)
	r.consumed(res, &sum)
	r.payloadFacts(res, &sum)
	for kind, e := range sum.errors {
		res.Errors = append(res.Errors, result.ErrorCount{Kind: kind, Where: "produce", Count: e.events, Records: e.records, FirstNanos: e.firstNanos, First: e.text})
	}
	slices.SortFunc(res.Errors, func(a, b result.ErrorCount) int { return int(b.Records - a.Records) })
	if r.ledger != nil {
		res.Verification = r.ledger.Verification(r.complete, r.reason)
		if r.spec.Acks != workload.AcksNone {
			res.Verification.NotAcked = sum.notAcked()
		}
	}
	res.Generator = usedBetween(&r.use[0], &r.use[1])
	if res.Window.Seconds() <= 0 { // the window never began: a few microseconds convict nobody
		res.Generator.Seconds, res.Generator.CPUNanos, res.Generator.RunQueueNanos = 0, 0, 0
	}
	res.Generator.Version, res.Generator.Flags = res.Run.Version, []string{"GOMAXPROCS=" + strconv.Itoa(runtime.GOMAXPROCS(0))}
	res.Cores = coresBetween(&r.use[0], &r.use[1])
	res.Memory = &result.Memory{Before: r.use[0].memory, After: r.use[1].memory}
	res.Host = thisHost()
	res.Contact = r.met
	if r.metrics != nil {
		res.Target, res.TargetNotes = r.metrics.finish()
	}
	r.judgeEmpty(res)
	r.judge(res)
}

func (r *run) describe(res *result.Result) {
	res.Run = result.Run{ID: fmt.Sprintf("%016x", r.id), Name: r.spec.Name, Prefix: r.prefix, Seed: r.spec.Seed, Command: withoutPasswords(r.o.Command), Bootstrap: r.o.Bootstrap,
		StartUTC: utc(r.started), EndUTC: utc(time.Now()), GoVersion: runtime.Version(), Driver: r.spec.Driver, Made: r.made,
		ConnectionsOpened: len(r.pacers) + len(r.readers), Reconnections: int(r.stats.Reconnections + r.fetched.Reconnections)}
	if r.view != nil {
		res.Run.ClusterID = r.view.ClusterID
	}
	for _, t := range r.topics {
		res.Run.Topics = append(res.Run.Topics, t.Name)
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		res.Run.Version = info.Main.Version
		modified := ""
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				res.Run.Revision = s.Value
			case "vcs.modified":
				if s.Value == "true" {
					modified = "+dirty"
				}
			}
		}
		res.Run.Revision += modified
		for _, dep := range info.Deps {
			if r.spec.Driver == workload.DriverKgo && dep.Path == "github.com/twmb/franz-go" {
				res.Run.Driver = "kgo " + dep.Version
			}
		}
	}
	r.settings(res)
	res.AckMeant = r.ackMeant()
}

// withoutPasswords is argv with the passwords of its URLs taken out.
func withoutPasswords(argv []string) []string {
	out := slices.Clone(argv)
	for i, a := range out {
		before, rest, ok := strings.Cut(a, "://")
		host, tail := rest, ""
		if at := strings.IndexAny(rest, "/?#"); at >= 0 {
			host, tail = rest[:at], rest[at:]
		}
		if at := strings.LastIndexByte(host, '@'); ok && at >= 0 {
			out[i] = before + "://" + host[at+1:] + tail
		}
	}
	return out
}

func utc(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// settingNames says which of the driver's settings stands for which of the workload's.
var settingNames = map[string]string{
	"acks": "acks", "idempotence": "enable.idempotence", "in-flight": "max.in.flight.requests.per.connection", "linger": "linger.ms",
	"batch-size": "batch.size", "request-max": "max.request.size", "compression": "compression.type", "buffer": "buffer.memory",
	"delivery-timeout": "delivery.timeout.ms", "request-timeout": "request.timeout.ms", "retries": "retries", "retry-backoff": "retry.backoff.ms",
	"fetch-min": "fetch.min.bytes", "fetch-max": "fetch.max.bytes", "fetch-partition-max": "max.partition.fetch.bytes", "fetch-max-wait": "fetch.max.wait.ms",
}

// settings lists what was asked beside what is in effect: the driver's own, then the first topic's as the target tells.
func (r *run) settings(res *result.Result) {
	effective := r.driver.Effective()
	used := map[string]bool{}
	for _, name := range workload.Fields() {
		asked, _ := r.spec.Get(name)
		s := result.Setting{Name: name, Asked: asked, Effective: asked}
		if k, ok := settingNames[name]; ok {
			if v, ok := effective[k]; ok {
				s.Effective, used[k] = v, true
			}
		}
		res.Settings = append(res.Settings, s)
	}
	for _, k := range sortedKeys(effective) {
		if !used[k] {
			res.Settings = append(res.Settings, result.Setting{Name: "driver." + k, Effective: effective[k]})
		}
	}
	if len(r.topics) == 0 {
		return
	}
	topic := r.before[r.topics[0].Name]
	for _, k := range sortedKeys(topic) {
		res.Settings = append(res.Settings, result.Setting{Name: "topic." + k, Asked: r.spec.TopicConfigs[k], Effective: topic[k]})
	}
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (r *run) ackMeant() result.AckMeaning {
	m := result.AckMeaning{Acks: r.spec.Acks}
	if r.view == nil {
		m.Sentence = "nothing: the driver null sends nothing"
		return m
	}
	// Of several topics the least promise counts: a record may be in any of them.
	flushed := true
	for i, t := range r.topics {
		if tv := r.view.Topics[t.Name]; tv != nil {
			for p := range tv.Partitions {
				if n := tv.Partitions[p].Replicas; i+p == 0 || n < m.Replicas {
					m.Replicas = n
				}
			}
		}
		topic := r.before[t.Name]
		if n, err := strconv.Atoi(topic["min.insync.replicas"]); i == 0 || err != nil || n < m.MinISR {
			m.MinISR = n // 0: not told
		}
		flushed = flushed && topic["tidemark.fsync"] == "batch" // group commit: it alone says that the ack waited
		if mode := fsyncMode(topic); i == 0 || mode != m.FsyncMode && m.FsyncMode != "mixed" {
			if m.FsyncMode = mode; i > 0 {
				m.FsyncMode = "mixed"
			}
		}
	}
	fsync := map[string]string{"batch": "fsync for each batch", "none": "no fsync", "interval": "fsync at intervals", "mixed": "fsync not alike for all its topics"}[m.FsyncMode]
	if fsync == "" {
		fsync = "the target does not tell when it fsyncs"
	}
	brokers := "1 broker"
	if m.Replicas > 1 && r.spec.Acks == workload.AcksAll {
		brokers = fmt.Sprintf("at least %d of %d brokers", max(m.MinISR, 1), m.Replicas)
	}
	m.Sentence = "written to the page cache of " + brokers + "; " + fsync
	if flushed {
		m.Sentence = "flushed to the disk of " + brokers + "; fsync before the ack"
	}
	if r.spec.Acks == workload.AcksNone {
		m.Sentence = "handed to the socket; acks=0 has no answer"
	}
	return m
}

// fsyncMode says when the target flushes a topic, by the topic's settings.
func fsyncMode(topic map[string]string) string {
	switch every := topic["flush.messages"]; {
	case topic["tidemark.fsync"] == "batch", every == "1":
		return "batch"
	case every == strconv.FormatInt(math.MaxInt64, 10) && topic["flush.ms"] == every:
		return "none"
	case every != "" && topic["flush.ms"] != "":
		return "interval"
	}
	return "not known"
}

func (r *run) windowAndEnds(res *result.Result, sum *counts) {
	start, end := r.window.start, r.window.end.Load()
	boot := time.Now().Add(-time.Duration(clock.Nanos() - start))
	res.Window = result.Window{StartNanos: start, EndNanos: end, PlannedEnd: r.planned, StartUTC: utc(boot), ProbedNanos: int64(r.probed),
		WarmUpNanos: r.spec.WarmUp.Nanos(), DrainNanos: int64(r.drained), EndedBy: r.endedBy}
	e := result.Ends{Acked: sum.acked, Failed: sum.failed, AckedBytes: sum.ackedBytes, AckedInTime: sum.inTime, WarmUp: sum.warmUp}
	for _, p := range r.pacers {
		e.Intended += p.intended
	}
	e.Unanswered = sum.accepted - sum.acked - sum.failed
	e.Unsent = e.Intended - sum.accepted
	if r.spec.Acks == workload.AcksNone {
		e.HandedToSocket, e.Acked = e.Acked, 0
	}
	res.Ends = e
}

// clocks summarises every clock of a latency run. Records that never reached a clock's end count as later than all.
func (r *run) clocks(res *result.Result, clocks *[numClocks]clockRecorder) {
	if r.spec.Question != workload.Latency {
		return
	}
	e := &res.Ends
	for i := range clocks {
		c := &clocks[i]
		censored := int64(0)
		switch i {
		case clockAck:
			censored = e.Failed + e.Unanswered + e.Unsent
			if lie.Told == lie.FailedDropped {
				censored -= e.Failed
			}
		case clockAccepted:
			censored = e.Unsent
		case clockDelivery:
			if len(r.groups) == 0 || r.ledger == nil {
				continue
			}
			h := r.collector.total[i].histogram()
			reached := c.overflow + c.negative
			if h != nil {
				reached += h.TotalCount()
			}
			censored = max(0, e.Intended*int64(len(r.groups))-reached)
		}
		name := clockNames[i]
		res.Clocks[name] = summarise(r.collector.total[i].histogram(), c.overflow, c.negative, censored, c.slots, r.collector.dropped)
		if lie.Told == lie.PartsAveraged {
			averageParts(res.Clocks[name].Percentiles, r.collector.seconds, i)
		}
	}
}

func (r *run) intervals(res *result.Result, seconds []second) {
	start, end := r.window.start, r.window.end.Load()
	var intended []int64
	for _, p := range r.pacers {
		for i, n := range p.seconds {
			if i == len(intended) {
				intended = append(intended, 0)
			}
			intended[i] += n
		}
	}
	for i := 0; start+int64(i)*1e9 < end; i++ {
		iv := result.Interval{StartNanos: int64(i) * 1e9}
		iv.LengthNanos = min(1e9, end-start-iv.StartNanos)
		if i < len(intended) {
			iv.Intended = intended[i]
		}
		if i < len(seconds) {
			s := &seconds[i]
			iv.Acked, iv.AckedBytes, iv.Failed = s.acked-s.ackedAfter, s.ackedBytes-s.ackedBytesAfter, s.failed
			iv.Delivered, iv.DeliveredBytes, iv.BlockedNanos = s.delivered-s.deliveredAfter, s.deliveredBytes-s.deliveredBytesAfter, s.blockedNanos
		}
		for j := range r.collector.seconds {
			if c := &r.collector.seconds[j]; (c.start-start+5e8)/1e9 == int64(i) {
				r.fillInterval(&iv, c)
				break
			}
		}
		res.Intervals = append(res.Intervals, iv)
	}
}

func (r *run) fillInterval(iv *result.Interval, c *collected) {
	iv.Outstanding, iv.Lag = c.outstanding, c.lag
	iv.GeneratorCPU = float64(c.cpu) / float64(c.end-c.start)
	if r.spec.Question != workload.Latency {
		return
	}
	iv.Clocks = map[string]result.IntervalLatency{}
	for i, name := range clockNames {
		s := &c.clocks[i]
		if s.total == 0 {
			continue
		}
		h := s.spread()
		iv.Clocks[name] = result.IntervalLatency{Count: s.total, P50: h.ValueAtPercentile(50), P90: h.ValueAtPercentile(90),
			P99: h.ValueAtPercentile(99), P999: h.ValueAtPercentile(99.9), Max: h.Max()}
	}
}

func (r *run) produced(res *result.Result, sum *counts) {
	secs := perSecond(res.Window.Seconds())
	p := &res.Produce
	p.RecordsPerSec, p.BytesPerSec = float64(sum.acked)/secs, float64(sum.ackedBytes)/secs
	if r.spec.Question == workload.Capacity {
		// In a closed loop a record is intended when the driver is free, so what counts is what was completed inside.
		p.RecordsPerSec, p.BytesPerSec = float64(sum.ackedDuring)/secs, float64(sum.ackedDuringBytes)/secs
		p.AckedInside, p.AckedInsideBytes = sum.ackedDuring, sum.ackedDuringBytes
	}
	p.AskedPerSec = r.spec.Rate
	if res.Ends.Intended > 0 {
		p.HeldShare = float64(res.Ends.AckedInTime) / float64(res.Ends.Intended)
	}
	p.Batches = batches(&r.stats, secs)
	p.BlockedNanos, p.ThrottleNanos = sum.blockedNanos, r.stats.ThrottleNanos
	p.BacklogSlopePerSec = r.backlogSlope()
	p.PartitionSkew = skew(r.books, r.spec.Topics*r.spec.Partitions)
}

func batches(s *driver.Stats, secs float64) result.Batches {
	b := result.Batches{Batches: s.Batches, Requests: s.Requests, RequestsPerSec: float64(s.Requests) / secs,
		RecordsMedian: float64(s.RecordsPerBatch.Median()), RecordsMax: s.RecordsPerBatch.Max(),
		BytesMedian: float64(s.BytesPerBatch.Median()), BytesMax: s.BytesPerBatch.Max(), WireBytes: s.WireBytes,
		PerRequestMedian: float64(s.BatchesPerRequest.Median()), PerRequestMax: s.BatchesPerRequest.Max(),
		RequestBytesMedian: float64(s.BytesPerRequest.Median()), RequestBytesMax: s.BytesPerRequest.Max()}
	return b
}

// backlogSlope is the least-squares growth of the outstanding records, per second of the window. What was outstanding
// after the window says nothing about it: the drain has made it less.
func (r *run) backlogSlope() float64 {
	var n, sx, sy, sxx, sxy float64
	enter := func(at, outstanding int64) {
		x, y := float64(at-r.window.start)/1e9, float64(outstanding)
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	closing := r.collector.closing
	for i := range r.collector.seconds {
		if c := &r.collector.seconds[i]; c.end < closing.at {
			enter(c.end, c.outstanding)
		}
	}
	if closing.at > r.window.start {
		enter(closing.at, closing.outstanding)
	}
	if d := n*sxx - sx*sx; n >= 3 && d > 0 {
		return (n*sxy - sx*sy) / d
	}
	return 0
}

func (r *run) consumed(res *result.Result, sum *counts) {
	secs := perSecond(res.Window.Seconds())
	c := &res.Consume
	c.RecordsPerSec, c.BytesPerSec = float64(sum.deliveredDuring)/secs, float64(sum.deliveredBytesDuring)/secs
	c.Delivered, c.Fetches, c.EmptyFetches = sum.delivered, r.fetched.Requests, r.fetched.EmptyFetches
	c.FetchesPerSec, c.ThrottleNanos = float64(r.fetched.Requests)/secs, r.fetched.ThrottleNanos
	for _, g := range r.groups {
		out := result.Group{Name: g.name, Members: len(g.members), LagMax: g.lagMax, JoinedNanos: int64(g.joined)}
		if g.name != "" {
			out.Assignor = r.spec.Assignor
		}
		for _, rd := range g.members {
			out.Delivered += rd.count.Load()
			out.RecordsPerSec += float64(rd.stats.Records) / secs
			out.Rebalances = max(out.Rebalances, int(rd.stats.Rebalances))
			out.RebalanceNanos = max(out.RebalanceNanos, rd.stats.RebalanceNanos)
			out.Commits += rd.stats.Commits
			out.CommitErrors += rd.stats.CommitErrors
			if tps, _ := rd.consumer.Assigned(); len(tps) == 0 {
				out.IdleMembers++
			}
			out.LagEnd += max(0, rd.consumer.Lag())
		}
		c.Groups = append(c.Groups, out)
	}
}

func (r *run) payloadFacts(res *result.Result, sum *counts) {
	p := &res.Payload
	p.AskedCompressibility, p.Pool, p.Keys, p.Hash = r.spec.Compressibility, r.spec.PayloadPool, r.spec.Keys.String(), r.payload.Hash()
	p.RecordBytesMin = 1 << 30
	var records, bytes int64
	for _, pc := range r.pacers {
		p.RecordBytesMin, p.RecordBytesMax = min(p.RecordBytesMin, pc.source.minBytes), max(p.RecordBytesMax, pc.source.maxBytes)
		records, bytes = records+int64(pc.source.seq), bytes+pc.source.sumBytes
	}
	if records == 0 {
		p.RecordBytesMin = 0
		return
	}
	p.RecordBytesMean = float64(bytes) / float64(records)
	if r.stats.WireBytes > 0 && r.stats.Records > 0 {
		p.WireRatio = p.RecordBytesMean * float64(r.stats.Records) / float64(r.stats.WireBytes)
	}
	if r.spec.Compression != compress.None.String() && r.stats.WireBytes > 0 {
		p.ReferenceCodec, p.MeasuredRatio = r.spec.Compression, float64(r.stats.BatchBytes)/float64(r.stats.WireBytes)
		return
	}
	p.ReferenceCodec = compress.Zstd.String()
	sample := newSource(r.spec, r.id, 0, r.keys, r.payload)
	var plain []byte
	for len(plain) < 256<<10 {
		sample.begin()
		for len(sample.records) < chunkRecords {
			sample.next(0)
		}
		before := len(plain)
		for i := range sample.records {
			plain = append(append(plain, sample.records[i].Head...), sample.records[i].Value...)
		}
		if len(plain) == before { // records of no bytes
			break
		}
	}
	if packed, err := compress.New().Append(nil, compress.Zstd, 0, plain); err == nil && len(packed) > 0 {
		p.MeasuredRatio = float64(len(plain)) / float64(len(packed))
	}
}
