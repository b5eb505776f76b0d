package loadgen

import (
	"fmt"
	"math"

	"github.com/tidemark/tidemark/loadgen/result"
)

// judgeEmpty tells a run that has nothing to show: its window never began, or the target refused every record.
func (r *run) judgeEmpty(res *result.Result) {
	if res.Window.Seconds() <= 0 {
		switch r.endedBy {
		case "max-bytes":
			res.Add(result.Verdict{Kind: result.Invalid, Reason: fmt.Sprintf("nothing was measured: --max-bytes %s were spent in the warm-up of %s; give more bytes or a shorter --warm-up",
				r.spec.MaxBytes, r.spec.WarmUp)})
		case "signal":
			res.Add(result.Verdict{Kind: result.Partial, Reason: fmt.Sprintf("nothing was measured: interrupted in the warm-up of %s", r.spec.WarmUp)})
		case "max-duration":
			res.Add(result.Verdict{Kind: result.Partial, Reason: fmt.Sprintf("nothing was measured: --max-duration %s was over in the warm-up of %s; give more time or a shorter --warm-up",
				r.spec.MaxDuration, r.spec.WarmUp)})
		}
		return
	}
	if len(r.pacers) > 0 && res.Ends.Intended == 0 && r.died() == "" && r.endedBy != "signal" {
		res.Add(result.Verdict{Kind: result.Invalid, Reason: fmt.Sprintf("nothing was measured: not one record was intended in a window of %.3g s; a longer --window or a higher --rate", res.Window.Seconds())})
		return
	}
	if res.Ends.Failed > 0 && res.Ends.Acked+res.Ends.HandedToSocket+res.Ends.Unanswered == 0 && r.died() == "" {
		res.Add(result.Verdict{Kind: result.Invalid, Reason: fmt.Sprintf("not one of %d records was acknowledged; see the errors", res.Ends.Intended)})
	}
}

// perSecond is what counts are divided by to make rates: the window's seconds, or infinity where the window never began,
// so that its rates are 0.
func perSecond(seconds float64) float64 {
	if seconds <= 0 {
		return math.Inf(1)
	}
	return seconds
}
