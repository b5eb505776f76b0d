package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/target"
)

// planned makes the runs of a list that are not done yet, in their order; from is the place of the first.
func (r *runner) planned(ctx context.Context, from int, runs []store.RunPlan) error {
	for i, planned := range runs {
		if planned.Cell < 1 || planned.Cell > len(r.plan.Cells) {
			return fmt.Errorf("plan.json: run %d is of cell %d, of %d", from+i+1, planned.Cell, len(r.plan.Cells))
		}
		c := &r.plan.Cells[planned.Cell-1]
		if r.folder.Done(c, planned.Repeat) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return context.Canceled
		}
		if r.enough(c, planned.Repeat, from+i) {
			continue
		}
		if err := r.one(ctx, from+i, planned, c); err != nil {
			return err
		}
	}
	return nil
}

// enough reports whether a repeat is left out by the plan's stop rule. Once a cell is stopped it stays so, also for a
// resume; who comes to the same place with the same runs decides alike.
func (r *runner) enough(c *store.Cell, repeat, order int) bool {
	if r.plan.Stop == nil || repeat > c.Repeats { // a profiled repeat is in no interval
		return false
	}
	if slices.ContainsFunc(r.status.Stopped, func(s store.Stopped) bool { return s.Cell == c.Number }) {
		return true
	}
	d := &store.Data{Plan: *r.plan, Runs: r.made}
	width, narrow := gate.Narrow(d, c)
	if !narrow {
		return false
	}
	made := len(d.RunsOf(c.Number))
	r.status.Stopped = append(r.status.Stopped, store.Stopped{Cell: c.Number, Runs: made, Order: order, Width: width})
	r.countPlanned()
	r.note("%s was stopped after %d of %d runs: its widest interval was ±%.2g%%, ±%.3g%% is enough", c.Name, made, c.Repeats, 100*width, 100*r.plan.Stop.Width)
	return true
}

// countPlanned brings up to date how many runs there are to be.
func (r *runner) countPlanned() {
	r.status.RunsPlanned = len(r.plan.Runs) + len(r.ran) - (&store.Data{Plan: *r.plan, Status: *r.status}).LeftOut()
}

// leftBehind notes the first topic that a run could not delete: all of the bench begin alike. What is embedded is removed whole.
func (r *runner) leftBehind(res *store.Run) {
	if res == nil || res.Result == nil || len(res.Result.Run.NotDeleted) == 0 || r.suite.Target.Embedded() || r.topicsTold {
		return
	}
	r.topicsTold = true
	left := res.Result.Run.NotDeleted[0]
	r.note("a topic of run %d was not deleted, and perhaps some of others: %s: %s; delete them with: kafka-topics.sh --bootstrap-server %s --delete --topic '%s-.*'",
		res.Order+1, left.Topic, left.Why, r.target.Bootstrap, r.plan.RunID)
}

// measured runs a job, and once more where its ceilings say that the host changed meanwhile (METHOD 5): what the second
// finds stands, marked where they were apart again. A first try that harmed data is never thrown away.
func (r *runner) measured(ctx context.Context, c *store.Cell, j target.Job) (*store.Run, error) {
	if err := r.use(ctx, j.Repeat); err != nil {
		return nil, err
	}
	r.target.SetLoadArgs(r.loadArgs())
	res, err := r.try(ctx, j)
	if err != nil || ctx.Err() != nil || !res.Marked(store.MarkCeilingMoved) || res.Status == store.Invalid || res.Status == store.Broken {
		return res, err
	}
	for _, one := range res.Ceilings {
		r.note("run %d, %s, was made again: the host's %s was %.0f %s before it and %.0f after", j.Order+1, c.Name, one.Name, one.Before, one.Unit, one.After)
	}
	if _, err := r.folder.Begin(c, j.Repeat); err != nil { // throws the first away
		return nil, err
	}
	j.Prefix += "-again"
	return r.try(ctx, j)
}

// try makes one run and adds what only the bench knows of its target: which build it was, what it allocated by its own
// count, which the load process read, and what kernel threads spent for it until its pages were clean (METHOD 4).
func (r *runner) try(ctx context.Context, j target.Job) (*store.Run, error) {
	local := r.target.Mode() != "bootstrap" && !r.options.skipHost
	var before map[int]kernelThread
	began := time.Now()
	if local {
		before = kernelThreads()
	}
	res, err := r.target.Run(ctx, j)
	if err != nil {
		return nil, err
	}
	res.Target.Build = r.buildOf(j.Repeat)
	p := res.Target.Process
	if p == nil {
		return res, nil
	}
	if res.Result != nil && res.Result.Target != nil {
		p.Allocations = res.Result.Target.Allocations
	}
	if len(before) > 0 {
		if err := settle(r.folder.Dir()); err != nil {
			return nil, err
		}
		byCore, nanos := spentBetween(before, kernelThreads())
		settled := p.CPUNanos + nanos
		p.SettledCPUNanos = &settled
		for i := range res.Cores {
			res.Cores[i].Kernel = float64(byCore[res.Cores[i].Core]) / float64(max(1, time.Since(began)))
		}
	}
	return res, nil
}

// loadArgs are the arguments of the load process that this bench adds: consent, how to connect, and where the embedded broker
// counts what it allocates. Its address changes when it is started anew.
func (r *runner) loadArgs() []string {
	args := slices.Clone(r.options.loadArgs)
	if r.options.yes && r.suite.Target.Bootstrap != "" { // also on loopback: brokers may advertise other names
		args = append(args, "--yes")
	}
	if r.options.commandConfig != "" {
		args = append(args, "--command-config", r.options.commandConfig)
	}
	if r.target != nil && r.suite.Target.Embedded() && r.target.Admin != "" {
		args = append(args, "--target-metrics", "http://"+r.target.Admin+"/metrics")
	}
	return args
}

// keep remembers the runs of a search.
func (r *runner) keep(c *store.Cell, res *store.Run) {
	if c == nil || !c.Searched {
		return
	}
	if r.ran == nil {
		r.ran = map[store.RunPlan]*store.Run{}
	}
	r.ran[store.RunPlan{Cell: res.Cell, Repeat: res.Repeat}] = res
	r.countPlanned()
}

// search looks for the capacity under the suite's objective over the ladder's rates (METHOD 6). stats.Search decides which
// rate comes next; each run has topics of its own and begins with clean pages, as every run does. Seed and outcomes alone
// decide the way, so that a resumed search goes the same one over what is there.
func (r *runner) search(ctx context.Context) error {
	if len(r.plan.Search) == 0 {
		return nil
	}
	if r.status.Capacity == 0 {
		return fmt.Errorf("the search needs the capacity, and no probe found one: see %s", r.folder.Path("cells"))
	}
	cells := map[float64]*store.Cell{}
	var rates []float64
	for i := range r.plan.Cells {
		if c := &r.plan.Cells[i]; c.Searched {
			rate := r.status.Capacity * c.LoadShare
			cells[rate] = c
			rates = append(rates, rate)
		}
	}
	s := stats.NewSearch(rates, rand.New(rand.NewPCG(r.plan.Seed, 0x0b7e_c71e)))
	repeats := map[int]int{}
	for order := len(r.plan.Runs); ; order++ {
		rate, more := s.Next()
		if !more {
			return nil
		}
		c := cells[rate]
		repeats[c.Number]++
		next := store.RunPlan{Cell: c.Number, Repeat: repeats[c.Number]}
		if r.ran[next] == nil {
			i := slices.IndexFunc(r.plan.Search, func(p store.RunPlan) bool { return p.Cell == next.Cell && p.Repeat == next.Repeat })
			if i < 0 { // as many as a rate can need are planned
				s.Skip(rate)
				continue
			}
			if err := ctx.Err(); err != nil {
				return context.Canceled
			}
			if err := r.one(ctx, order, r.plan.Search[i], c); err != nil {
				return err
			}
		}
		if passed, told := gate.Passes(r.plan, c, r.ran[next]); told {
			s.Record(rate, passed)
		} else {
			s.Skip(rate)
		}
	}
}
