package versus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/target"
	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
	"github.com/tidemark/tidemark/profiles"
)

// job is one window to be run.
type job struct {
	row      *Row
	spec     *workload.Spec
	process  int
	pair     int
	topic    string // kept; "" makes a fresh one
	profiled bool
}

// run runs one window against an arm. An error is for what keeps the session from going on; what went wrong with the
// window itself stands in its status.
func (s *session) run(ctx context.Context, a *arm, j job) (*Window, error) {
	s.order++
	name := fmt.Sprintf("%03d-%s-%s", s.order, j.row.Name, a.info.Name)
	folder := filepath.Join("runs", name)
	dir := filepath.Join(s.options.Out, folder)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	spec := j.spec.Clone()
	reads := spec.Producers == 0
	own := !reads && spec.Consumers == 0 && len(spec.Groups) == 0 // we read back ourselves
	var from offsets
	if j.topic != "" {
		spec.Topic, spec.Create, spec.KeepTopics = j.topic, workload.CreateNever, true
		if own {
			var err error
			if from, err = endsOf(ctx, a.target.Bootstrap, j.topic); err != nil {
				return nil, err
			}
		}
	}
	spec.KeepTopics = spec.KeepTopics || own || j.row.Deletes
	cell := store.Cell{Number: 1, Name: j.row.Name, Kind: store.Latency, Rate: spec.Rate, Asked: *spec}
	if spec.Question == workload.Capacity {
		cell.Kind = store.Capacity
	}
	todo := target.Job{
		Cell: cell, Repeat: j.pair + 1, Order: s.order, Dir: dir, Prefix: fmt.Sprintf("versus-%s-%d", s.id, s.order),
		Seed: s.doc.Seed + uint64(j.process)<<16 + uint64(j.pair), // the same for all arms of a pair
	}
	if j.profiled {
		todo.Profiles = []profiles.Kind{profiles.CPU}
	}
	compilers, began := compilerNanos(a.pid()), clock.Nanos()
	run, err := a.target.Run(ctx, todo)
	if err != nil {
		return nil, err
	}
	w := newWindow(a.info.Name, j.pair, run, reads)
	w.Folder = folder
	if elapsed := clock.Nanos() - began; elapsed > 0 {
		w.Compilers = float64(compilerNanos(a.pid())-compilers) / float64(elapsed)
	}
	w.Series = series(w, run, split(spec), reads)
	if ctx.Err() != nil {
		return w, ctx.Err()
	}
	if own && run.Result != nil {
		s.readBack(ctx, a, w, run.Result, from)
	}
	if j.row.Deletes && run.Result != nil {
		s.deleted(ctx, a, w, run.Result)
	}
	if j.topic == "" && run.Result != nil {
		for _, topic := range run.Result.Run.Topics {
			a.gone(ctx, topic)
		}
	}
	if !a.target.Alive() {
		return w, fmt.Errorf("%s ended during row %s", a.info.Name, j.row.Name)
	}
	return w, nil
}

// deleted looks whether retention deleted something, and removes the window's topics.
func (s *session) deleted(ctx context.Context, a *arm, w *Window, res *result.Result) {
	for _, topic := range res.Run.Topics {
		first, err := firstOffsets(ctx, a.target.Bootstrap, topic)
		err = errors.Join(err, dropTopic(ctx, a.target.Bootstrap, topic))
		if err == nil && first == 0 {
			err = errors.New("retention deleted nothing")
		}
		if err != nil {
			w.Status = string(store.Invalid)
			w.Reasons = append(w.Reasons, topic+": "+err.Error())
		}
	}
}

// newWindow takes over what the document keeps of a run.
func newWindow(arm string, pair int, run *store.Run, reads bool) *Window {
	w := &Window{
		Arm: arm, Pair: pair, Status: string(run.Status), Reasons: run.Reasons, Marks: run.Marks,
		DirtyBefore: run.Memory.Before.Dirty + run.Memory.Before.Writeback, FreeBefore: run.Memory.Before.Free, CachedPages: run.Memory.Before.Cached,
	}
	res := run.Result
	if res == nil {
		w.Reasons = append(w.Reasons, run.Error)
		return w
	}
	w.Seconds, w.GeneratorCPUSeconds = res.Window.Seconds(), float64(res.Generator.CPUNanos)/1e9
	if p := run.Target.Process; p != nil {
		w.CPUSeconds, w.RSSBytes = float64(p.CPUNanos)/1e9, p.RSSMaxBytes
	} else {
		w.Reasons = append(w.Reasons, "the broker's CPU could not be read")
	}
	w.Bytes, w.WireBytes = float64(res.Ends.AckedBytes), float64(res.Produce.Batches.WireBytes)
	w.ReadBytes = res.Consume.BytesPerSec * w.Seconds
	w.Records, w.Requests = float64(res.Ends.Acked), float64(res.Produce.Batches.Requests)
	if reads {
		w.Records, w.Requests = res.Consume.RecordsPerSec*w.Seconds, float64(res.Consume.Fetches)
	}
	w.Asked, w.Held = res.Produce.AskedPerSec, res.Produce.HeldShare
	if res.Question == workload.Capacity && !reads {
		w.Reached = res.Produce.RecordsPerSec
	}
	w.percentiles(res)
	v := res.Verification
	w.Acked, w.ReadBack = v.Acked, v.Delivered
	w.Lost, w.Duplicated, w.OutOfOrder, w.Corrupt = v.Lost, v.Duplicated, v.OutOfOrder, v.Corrupt
	if !v.On || !v.Complete {
		w.Unverified = v.Reason
	}
	if reads {
		w.Acked, w.Unverified = 0, "" // records of another run: checked when they were written
	}
	return w
}

// percentiles takes over the figures that goals use. One that falls among records which never arrived is none.
func (w *Window) percentiles(res *result.Result) {
	if res.Question != workload.Latency {
		return
	}
	w.Percentiles = map[string]Percentile{}
	for _, c := range []struct{ clock, prefix string }{{result.Ack, "ack "}, {result.Delivery, "delivery "}, {result.Pacer, "pacer "}} {
		l, ok := res.Clocks[c.clock]
		if !ok || !l.Sound || l.Count == 0 {
			continue
		}
		for _, p := range []float64{50, 99, 99.9} {
			if q, ok := l.At(p); ok && !q.Censored {
				w.Percentiles[fmt.Sprintf("%sp%g", c.prefix, p)] = Percentile{MS: float64(q.Nanos) / 1e6, Above: q.Above, Excursions: q.Excursions}
			}
		}
	}
}

// series is the cost in the windows of equal work of a run: all of it, or each second of it.
func series(w *Window, run *store.Run, parts int, reads bool) []float64 {
	if run.Result == nil || w.CPUSeconds <= 0 {
		return nil
	}
	if parts == 1 {
		work := w.Bytes
		if reads {
			work = w.ReadBytes
		}
		return positive(work / 1e6 / w.CPUSeconds)
	}
	var out []float64
	start := run.Result.Window.StartNanos
	for _, i := range run.Result.Intervals {
		if i.LengthNanos < int64(time.Second) {
			continue
		}
		from := start + i.StartNanos
		if cpu := cpuBetween(run.Target.Samples, from, from+i.LengthNanos); cpu > 0 {
			out = append(out, positive(float64(i.AckedBytes)/1e6/cpu)...)
		}
	}
	return out
}

func positive(v float64) []float64 {
	if !(v > 0) || math.IsInf(v, 0) {
		return nil
	}
	return []float64{v}
}

// cpuBetween interpolates the CPU seconds between two moments.
func cpuBetween(samples []store.Sample, from, to int64) float64 {
	at := func(nanos int64) (float64, bool) {
		for i := 1; i < len(samples); i++ {
			a, b := samples[i-1], samples[i]
			if nanos < a.Nanos || nanos > b.Nanos || b.Nanos == a.Nanos {
				continue
			}
			share := float64(nanos-a.Nanos) / float64(b.Nanos-a.Nanos)
			return (float64(a.CPUNanos) + share*float64(b.CPUNanos-a.CPUNanos)) / 1e9, true
		}
		return 0, false
	}
	a, okA := at(from)
	b, okB := at(to)
	if !okA || !okB {
		return 0
	}
	return b - a
}

// readBack reads what the window had acknowledged and removes the topic if it is the window's own.
func (s *session) readBack(ctx context.Context, a *arm, w *Window, res *result.Result, from offsets) {
	if len(res.Run.Topics) != 1 {
		w.Unverified = fmt.Sprintf("%d topics", len(res.Run.Topics))
		return
	}
	topic := res.Run.Topics[0]
	found, err := readTopic(ctx, a.target.Bootstrap, topic, res.Run.ID, from)
	if from == nil {
		if dropErr := dropTopic(ctx, a.target.Bootstrap, topic); dropErr != nil {
			w.Reasons = append(w.Reasons, "delete the topic: "+dropErr.Error())
		}
	}
	if err != nil {
		w.Unverified = err.Error()
		return
	}
	w.found(found, res.Verification.NotAcked, res.Asked.Idempotence)
}

// found enters what was read back of the records that the window had acknowledged and the ones that it had not.
func (w *Window) found(found *readBack, notAcked int64, idempotence bool) {
	w.Unverified = ""
	w.ReadBack, w.Duplicated, w.OutOfOrder, w.Corrupt = found.read, found.duplicated, found.outOfOrder, found.corrupt
	w.Lost = max(0, w.Acked-found.distinct)
	// Any of them that had no ack may be among those found, in the place of an acknowledged one that is not.
	w.Hidden = max(0, w.Acked-found.distinct+min(notAcked, found.distinct)) - w.Lost
	if sent := w.Acked + notAcked; found.distinct > sent {
		w.Unverified = fmt.Sprintf("%d records are there and %d were sent", found.distinct, sent)
	}
	if w.Lost+w.Corrupt > 0 || w.Duplicated+w.OutOfOrder > 0 && idempotence {
		w.Status = string(store.Invalid)
		w.Reasons = append(w.Reasons, fmt.Sprintf("read back: lost %d, duplicated %d, out of order %d, corrupt %d", w.Lost, w.Duplicated, w.OutOfOrder, w.Corrupt))
	}
}
