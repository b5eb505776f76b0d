package loadgen

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// Condition is one condition of --fail-if: metric, comparison, value with its unit.
type Condition struct {
	Text   string
	metric string
	above  bool // the run fails above the limit; otherwise below it
	equal  bool // and at the limit
	limit  float64
}

// Outcomes of a condition.
const (
	conditionPassed = "passed"
	conditionFailed = "failed"
	conditionOpen   = "cannot tell"
)

// unit says how a metric's value is written.
type unit int

const (
	inNanos   unit = iota // 20ms
	inRecords             // a plain number
	inRate                // 20000 or 20000/s: records; 50MB/s: bytes
	inShare               // 99% or 0.99
	inCores               // 0.8 or 80%
	inBytes               // 512MiB
)

// measure is a metric that a condition may name.
type measure struct {
	unit  unit
	above bool // more is worse
	needs func(s *workload.Spec) string
	// value is what was measured; ok is false, and why says it, where that cannot be told.
	value func(res *result.Result, c *Condition) (v float64, why string, ok bool)
}

// clocksOfConditions are the clocks by the first part of a metric's name; a percentile alone is of the acks.
var clocksOfConditions = []string{result.Ack, result.Delivery}

// counts are the metrics that count records.
var countsOfConditions = map[string]func(res *result.Result) int64{
	"failed":       func(r *result.Result) int64 { return r.Ends.Failed },
	"errors":       func(r *result.Result) int64 { return r.Ends.Failed },
	"unanswered":   func(r *result.Result) int64 { return r.Ends.Unanswered },
	"unsent":       func(r *result.Result) int64 { return r.Ends.Unsent },
	"lost":         func(r *result.Result) int64 { return r.Verification.Lost },
	"duplicated":   func(r *result.Result) int64 { return r.Verification.Duplicated },
	"out-of-order": func(r *result.Result) int64 { return r.Verification.OutOfOrder },
	"corrupt":      func(r *result.Result) int64 { return r.Verification.Corrupt },
}

// verified are those counts that only a run which reads back can know.
var verifiedConditions = []string{"lost", "duplicated", "out-of-order", "corrupt"}

// measures makes the table of metrics.
func measures() map[string]measure {
	m := map[string]measure{
		"throughput": {unit: inRate, needs: needsProducers, value: func(r *result.Result, c *Condition) (float64, string, bool) {
			if strings.Contains(c.Text, "B/s") {
				return r.Produce.BytesPerSec, "", true
			}
			return r.Produce.RecordsPerSec, "", true
		}},
		"consumed": {unit: inRate, needs: needsConsumers, value: func(r *result.Result, c *Condition) (float64, string, bool) {
			if strings.Contains(c.Text, "B/s") {
				return r.Consume.BytesPerSec, "", true
			}
			return r.Consume.RecordsPerSec, "", true
		}},
		"held": {unit: inShare, needs: needsLatency, value: func(r *result.Result, _ *Condition) (float64, string, bool) { return r.Produce.HeldShare, "", true }},
		"lag": {unit: inRecords, above: true, needs: needsConsumers, value: func(r *result.Result, _ *Condition) (float64, string, bool) {
			most := int64(0)
			for _, g := range r.Consume.Groups {
				most = max(most, g.LagMax)
			}
			return float64(most), "", true
		}},
		"throttled": {unit: inNanos, above: true, value: func(r *result.Result, _ *Condition) (float64, string, bool) {
			return float64(r.Produce.ThrottleNanos + r.Consume.ThrottleNanos), "", true
		}},
		"broker.cpu": {unit: inCores, above: true, value: ofTarget(func(p *result.Process) float64 { return p.CPUShare() })},
		"broker.rss": {unit: inBytes, above: true, value: ofTarget(func(p *result.Process) float64 { return float64(p.RSSMaxBytes) })},
	}
	for name, count := range countsOfConditions {
		e := measure{unit: inRecords, above: true, value: func(r *result.Result, _ *Condition) (float64, string, bool) { return float64(count(r)), "", true }}
		if slices.Contains(verifiedConditions, name) {
			e.needs, e.value = needsVerification, func(r *result.Result, c *Condition) (float64, string, bool) {
				v := float64(count(r))
				if !r.Verification.Complete && !c.holds(v) {
					return v, "not all was read back: " + r.Verification.Reason, false
				}
				return v, "", true
			}
		}
		m[name] = e
	}
	for _, clock := range clocksOfConditions {
		for _, p := range percentiles {
			name := "p" + strconv.FormatFloat(p, 'f', -1, 64)
			e := measure{unit: inNanos, above: true, needs: needsLatency, value: percentileOf(clock, p)}
			if clock == result.Delivery {
				e.needs = needsDelivery
			} else {
				m[name] = e
			}
			m[clock+"."+name] = e
		}
		e := measure{unit: inNanos, above: true, needs: needsLatency, value: maxOf(clock)}
		if clock == result.Delivery {
			e.needs = needsDelivery
		}
		m[clock+".max"] = e
	}
	return m
}

func needsProducers(s *workload.Spec) string {
	if s.Producers == 0 {
		return "this workload produces nothing"
	}
	return ""
}

func needsConsumers(s *workload.Spec) string {
	if s.Consumers == 0 && len(s.Groups) == 0 {
		return "this workload consumes nothing (--consumers, --groups)"
	}
	return ""
}

func needsLatency(s *workload.Spec) string {
	if s.Question != workload.Latency {
		return "a capacity run measures no latency (--rate)"
	}
	return ""
}

func needsVerification(s *workload.Spec) string {
	if !s.Verifying() {
		return "--verify off checks nothing"
	}
	return needsConsumers(s)
}

func needsDelivery(s *workload.Spec) string {
	if why := needsLatency(s); why != "" {
		return why
	}
	return needsVerification(s)
}

func percentileOf(clock string, p float64) func(*result.Result, *Condition) (float64, string, bool) {
	return func(res *result.Result, _ *Condition) (float64, string, bool) {
		l, ok := res.Clocks[clock]
		q, found := l.At(p)
		switch {
		case !ok || !found || l.Count+l.Overflow+l.Negative+l.Censored == 0:
			return 0, "no record reached this clock", false
		case !l.Sound:
			return 0, "the clock has lost counts", false
		case q.Censored:
			return math.Inf(1), "", true // it falls among the records that never arrived
		case q.Above < 10 && p > 90:
			return float64(q.Nanos), fmt.Sprintf("fewer than 10 records are later than %s ms: a longer window", milliseconds(q.Nanos)), false
		}
		return float64(q.Nanos), "", true
	}
}

func maxOf(clock string) func(*result.Result, *Condition) (float64, string, bool) {
	return func(res *result.Result, _ *Condition) (float64, string, bool) {
		l, ok := res.Clocks[clock]
		switch {
		case !ok || !reached(l) && l.Censored == 0:
			return 0, "no record reached this clock", false
		case l.Censored > 0:
			return math.Inf(1), "", true
		}
		return float64(l.MaxNanos), "", true
	}
}

func ofTarget(value func(*result.Process) float64) func(*result.Result, *Condition) (float64, string, bool) {
	return func(res *result.Result, _ *Condition) (float64, string, bool) {
		if res.Target == nil {
			return 0, "the target was not measured", false
		}
		return value(res.Target), "", true
	}
}

// ParseCondition reads a condition such as p99>20ms, throughput<20000/s or lost>0: the run fails where it holds.
func ParseCondition(text string) (Condition, error) {
	c := Condition{Text: strings.Join(strings.Fields(text), "")}
	at := strings.IndexAny(c.Text, "<>=!")
	if at <= 0 {
		return c, fmt.Errorf("%q: want METRIC>VALUE or METRIC<VALUE, as in p99>20ms", text)
	}
	c.metric = c.Text[:at]
	op, value := c.Text[at:at+1], c.Text[at+1:]
	if rest, ok := strings.CutPrefix(value, "="); ok {
		c.equal, value = true, rest
	}
	all := measures()
	m, ok := all[c.metric]
	if !ok {
		names := make([]string, 0, len(all))
		for name := range all {
			names = append(names, name)
		}
		slices.Sort(names)
		near := ""
		if n := workload.Nearest(c.metric, names); n != "" {
			near = fmt.Sprintf(" (did you mean %q?)", n)
		}
		return c, fmt.Errorf("%q: unknown metric %q%s; there are %s", text, c.metric, near, strings.Join(names, ", "))
	}
	switch op {
	case ">", "<":
		c.above = op == ">"
	default:
		return c, fmt.Errorf("%q: compare with > >= < or <=", text)
	}
	if c.above != m.above {
		better := map[bool]string{true: "high", false: "low"}[c.above]
		return c, fmt.Errorf("%q would fail a run for a %s %s, which is good: turn the sign round", text, better, c.metric)
	}
	var err error
	if c.limit, err = parseLimit(value, m.unit); err != nil {
		return c, fmt.Errorf("%q: %w", text, err)
	}
	return c, nil
}

func parseLimit(text string, u unit) (float64, error) {
	switch u {
	case inNanos:
		var d workload.Duration
		if err := d.UnmarshalText([]byte(text)); err != nil {
			return 0, err
		}
		return float64(d), nil
	case inBytes:
		var b workload.Bytes
		if err := b.UnmarshalText([]byte(text)); err != nil {
			return 0, err
		}
		return float64(b), nil
	case inRate:
		rest, perSecond := strings.CutSuffix(text, "/s")
		if perSecond && strings.HasSuffix(rest, "B") {
			var b workload.Bytes
			if err := b.UnmarshalText([]byte(rest)); err != nil {
				return 0, err
			}
			return float64(b), nil
		}
		return plainNumber(rest, "a rate (as in 20000/s or 50MB/s)")
	case inShare, inCores:
		rest, percent := strings.CutSuffix(text, "%")
		v, err := plainNumber(rest, "a share (as in 99.5%)")
		if percent {
			v /= 100
		}
		if err == nil && u == inShare && v > 1 {
			return 0, fmt.Errorf("%s is more than the whole", text)
		}
		return v, err
	}
	v, err := plainNumber(text, "a number of records")
	if err == nil && v != math.Trunc(v) {
		return 0, fmt.Errorf("%q is not a whole number of records", text)
	}
	return v, err
}

func plainNumber(text, what string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0, fmt.Errorf("%q is not %s", text, what)
	}
	return v, nil
}

// suits refuses a condition that no run of the workload could tell.
func (c *Condition) suits(o *Options) error {
	m := measures()[c.metric]
	if m.needs != nil {
		if why := m.needs(o.Spec); why != "" {
			return fmt.Errorf("%s: %s", c.Text, why)
		}
	}
	if strings.HasPrefix(c.metric, "broker.") && len(o.Metrics.URLs) == 0 {
		return fmt.Errorf("%s: needs --target-metrics", c.Text)
	}
	return nil
}

func (c *Condition) holds(v float64) bool {
	switch {
	case c.equal && v == c.limit:
		return true
	case c.above:
		return v > c.limit
	}
	return v < c.limit
}

// judge says what became of the condition.
func (c *Condition) judge(res *result.Result) result.Condition {
	m := measures()[c.metric]
	out := result.Condition{Condition: c.Text, Outcome: conditionPassed}
	v, why, ok := m.value(res, c)
	if math.IsNaN(v) {
		why, ok = "it is not a number", false
	}
	if !ok {
		out.Outcome, out.Reason = conditionOpen, why
		return out
	}
	out.Measured = c.written(v, m.unit)
	if c.holds(v) {
		out.Outcome = conditionFailed
	}
	return out
}

func (c *Condition) written(v float64, u unit) string {
	switch {
	case math.IsInf(v, 1):
		return "censored: later than everything acknowledged"
	case u == inNanos:
		return time.Duration(v).Round(time.Microsecond).String()
	case u == inBytes:
		return size(int64(v))
	case u == inRate && strings.Contains(c.Text, "B/s"):
		return rate(v)
	case u == inRate:
		return thousands(int64(v)) + "/s"
	case u == inShare:
		return strconv.FormatFloat(100*v, 'f', 2, 64) + "%"
	case u == inCores:
		return strconv.FormatFloat(100*v, 'f', 0, 64) + "% of one core"
	}
	return thousands(int64(v))
}

// conditionsError judges --fail-if and gives the error that the run ends with: 1 where a condition holds or the target did
// not carry the load, 3 where nothing held but the run cannot tell. A run whose figures do not count never passes.
func (r *run) conditionsError() error {
	var failed, open []string
	for i := range r.o.FailIf {
		out := r.o.FailIf[i].judge(r.res)
		r.res.Conditions = append(r.res.Conditions, out)
		switch out.Outcome {
		case conditionFailed:
			failed = append(failed, fmt.Sprintf("%s (it was %s)", out.Condition, out.Measured))
		case conditionOpen:
			open = append(open, fmt.Sprintf("%s (%s)", out.Condition, out.Reason))
		}
	}
	switch {
	case len(r.o.FailIf) == 0:
		return nil
	case len(failed) > 0:
		return &exitError{exitFailed, errors.New("fail-if: " + strings.Join(failed, ", "))}
	case r.res.Has(result.Saturated) && r.res.Question == workload.Latency:
		return &exitError{exitFailed, errors.New("fail-if: the target is saturated: its figures are the run's length, and pass nothing")}
	case !r.res.Countable():
		kinds := make([]string, 0, len(r.res.Verdicts))
		for _, v := range r.res.Verdicts {
			kinds = append(kinds, v.Kind)
		}
		return &exitError{exitOpen, fmt.Errorf("fail-if: cannot tell, the run does not count: %s", strings.Join(kinds, ", "))}
	case len(open) > 0:
		return &exitError{exitOpen, errors.New("fail-if: cannot tell " + strings.Join(open, ", "))}
	}
	return nil
}
