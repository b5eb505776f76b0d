package verify

import (
	"fmt"
	"math"
	"slices"
)

// planned is how many runs the bench set out to make: the plan's, and those that a search made.
func (b *bench) planned() int {
	n := len(b.plan.Runs)
	for _, s := range b.state.Stopped {
		if s.Cell >= 1 && s.Cell <= len(b.plan.Cells) {
			n -= max(0, b.plan.Cells[s.Cell-1].Repeats-s.Runs)
		}
	}
	for _, r := range b.runs {
		if r.cell.Searched {
			n++
		}
	}
	return n
}

// underObjective is the clause of the Answer about the capacity under the suite's objective; "" without one.
func (b *bench) underObjective() string {
	at := map[float64]*tries{}
	ran := false
	up := climb{}
	for _, r := range b.runs {
		if r.cell.Role != "ladder" || b.plan.Objective <= 0 {
			continue
		}
		ran = true
		if !(r.Rate > 0) {
			continue
		}
		t := at[r.Rate]
		if t == nil {
			t = &tries{}
			at[r.Rate] = t
		}
		tells := r.result != nil && (r.Status == "saturated" && !r.marked("profiled") || r.counts())
		met := tells && r.Status != "saturated" && b.met(r)
		ofLadder := r.cell.Searched && up.takes(r.Rate, met, tells)
		switch {
		case tells:
			t.all++
			if met {
				t.passed++
			}
			if !ofLadder {
				t.fresh++
			}
		case r.cell.Searched:
			t.silent = true
		}
	}
	if !ran {
		return ""
	}
	text := fmt.Sprintf("the highest rate with a p99 within %s ms ", three(b.plan.Objective))
	low, high, why := edges(at)
	if why != "" {
		return text + "was not found: " + why
	}
	return text + fmt.Sprintf("lies between %s/s (three of three runs passed) and %s/s (three of three failed)", apart(low), apart(high))
}

// met reports whether a run that held its rate has its p99 within the objective, with no record failed or left over.
func (b *bench) met(r *run) bool {
	e := r.result.Ends
	c := r.clocks[clockOf(r.cell)]
	if e.Failed+e.Unanswered+e.Unsent > 0 || c == nil || !c.Sound {
		return false
	}
	for _, q := range c.Percentiles {
		if q.P == 99 {
			return !q.Censored && float64(q.Nanos) <= 1e6*b.plan.Objective
		}
	}
	return false
}

// tries are the runs at one rate: those that tell, how many of them passed and how many were fresh, and whether one tells
// nothing of a search that asked it to.
type tries struct {
	all, passed, fresh int
	silent             bool
}

// climb follows a search's ladder: rising rates, one run each, until two have not passed or one has told nothing. Its runs are
// not fresh: they decide which rates are run again.
type climb struct {
	rate   float64
	missed int
	over   bool
}

// takes reports whether the next run of a search is the ladder's.
func (c *climb) takes(rate float64, met, tells bool) bool {
	if c.over = c.over || rate <= c.rate || c.missed > 1; c.over {
		return false
	}
	c.rate, c.over = rate, !tells
	if !met {
		c.missed++
	}
	return true
}

// edges are the highest rate that three fresh runs passed and the lowest that three failed, after a fit that never rises with
// the rate: at each rate the least, over all stretches that begin at or below it, of the greatest mean over where they end.
func edges(at map[float64]*tries) (low, high float64, why string) {
	var rates []float64
	for r, t := range at {
		if t.all > 0 {
			rates = append(rates, r)
		}
	}
	slices.Sort(rates)
	share := func(from, to int) float64 {
		p, n := 0, 0
		for _, r := range rates[from : to+1] {
			p, n = p+at[r].passed, n+at[r].all
		}
		return float64(p) / float64(n)
	}
	for i, r := range rates {
		fit := math.Inf(1)
		for from := 0; from <= i; from++ {
			most := math.Inf(-1)
			for to := i; to < len(rates); to++ {
				most = max(most, share(from, to))
			}
			fit = min(fit, most)
		}
		switch t := at[r]; {
		case t.fresh < 3 || t.silent:
		case t.passed == t.all && fit == 1:
			low = r
		case t.passed == 0 && fit == 0 && high == 0:
			high = r
		}
	}
	switch {
	case len(rates) == 0:
		why = "no run tells, each was limited by the generator, throttled or cut short"
	case low == 0 && high == 0:
		why = "no rate has three runs that agree"
	case low == 0:
		why = "no rate passed three of three runs"
	case high == 0:
		why = "no rate failed three of three runs"
	}
	return low, high, why
}
