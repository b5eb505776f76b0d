package gate

import (
	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// bracket judges each of the ladder's runs by the objective.
func bracket(d *store.Data) stats.Bracket {
	if d.Plan.SLOP99MS <= 0 {
		return stats.Bracket{Why: "the suite has no objective"}
	}
	var probes []stats.Probe
	tried, told := 0, 0
	climb := climbed(d)
	for _, r := range d.Runs {
		c := d.Cell(r.Cell)
		if c == nil || c.Role != store.Ladder {
			continue
		}
		tried++
		p := stats.Probe{Rate: r.Rate}
		switch passed, tells := Passes(&d.Plan, c, r); {
		case !tells && c.Searched:
			p.Untold = 1
		case !tells:
			continue
		case passed:
			p.Passed = 1
		default:
			p.Failed = 1
		}
		told += p.Passed + p.Failed
		if climb[r] {
			p.Climbed = 1
		}
		probes = append(probes, p)
	}
	if tried > 0 && told == 0 {
		return stats.Bracket{Why: "no run tells, each was limited by the generator, throttled or cut short"}
	}
	return stats.BracketOf(probes)
}

// climbed are the runs of a search's ladder, which are no fresh runs: one of each rate, upwards, until two did not pass or one
// told nothing.
func climbed(d *store.Data) map[*store.Run]bool {
	climb := map[*store.Run]bool{}
	rate, broke := 0.0, 0
	for _, r := range d.Runs {
		c := d.Cell(r.Cell)
		if c == nil || !c.Searched {
			continue
		}
		if !(r.Rate > rate) || broke == 2 {
			break
		}
		climb[r], rate = true, r.Rate
		passed, tells := Passes(&d.Plan, c, r)
		if !tells {
			break
		}
		if !passed {
			broke++
		}
	}
	return climb
}

// Passes reports whether a run met the suite's objective: its rate was held, no record of it failed or stayed without an
// answer, and its p99 is within. A saturated run did not; one that the generator or a quota limited, that was cut short or
// is invalid says nothing (told is false).
func Passes(p *store.Plan, c *store.Cell, r *store.Run) (passed, told bool) {
	switch {
	case r.Result == nil || r.Marked(store.MarkProfiled):
		return false, false
	case r.Status == store.Saturated:
		return false, true
	case !r.Countable():
		return false, false
	}
	l := r.Result.Clocks[result.Ack]
	if c.Asked.Acks == workload.AcksNone {
		l = r.Result.Clocks[result.Delivery]
	}
	q, ok := l.At(99)
	e := r.Result.Ends
	return ok && l.Sound && !q.Censored && float64(q.Nanos) <= p.SLOP99MS*1e6 && e.Failed+e.Unanswered+e.Unsent == 0, true
}
