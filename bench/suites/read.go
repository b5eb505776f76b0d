package suites

import (
	"net"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// suite reads the top level.
//
//tidy:long one line for each field of a suite
func (r *reader) suite(n ast.Node, s *Suite) {
	var seed int
	r.mapping(n, "the suite", []field{
		{"name", text(r, "name", &s.Name)},
		{"about", text(r, "about", &s.About)},
		{"target", func(n ast.Node) { r.target(n, &s.Target) }},
		{"seed", func(n ast.Node) { integer(r, "seed", 0, 1<<53, &seed)(n); s.Seed = uint64(seed) }},
		{"seconds", decimal(r, "seconds", 1, 1e6, &s.Seconds)},
		{"max-bytes", size(r, "max-bytes", &s.MaxBytes)},
		{"allowance", share(r, "allowance", &s.Allowance)},
		{"rate", decimal(r, "rate", 1, 1e9, &s.Rate)},
		{"rate-cap", share(r, "rate-cap", &s.RateCap)},
		{"warm-up", duration(r, "warm-up", &s.WarmUp)},
		{"window", duration(r, "window", &s.Window)},
		{"slo", duration(r, "slo", &s.SLO)},
		{"primary", func(n ast.Node) {
			r.sequence(n, "primary", func(n ast.Node) { s.Primary = append(s.Primary, r.scalar(n, "a primary comparison")) })
		}},
		{"broker", func(n ast.Node) {
			r.pairs(n, "broker", func(key string, _, v ast.Node) {
				s.Broker = append(s.Broker, Setting{Field: key, Value: r.scalar(v, key), At: r.at(v)})
			})
		}},
		{"baseline", func(n ast.Node) {
			r.mapping(n, "baseline", []field{
				{"repeats", integer(r, "repeats", 1, 10000, &s.BaselineRepeats)},
				{"set", settings(r, "set", &s.Baseline)},
			})
		}},
		{"probes", func(n ast.Node) {
			r.mapping(n, "probes", []field{
				{"repeats", integer(r, "repeats", 1, 100, &s.Probes.Repeats)},
				{"window", duration(r, "window", &s.Probes.Window)},
				{"max-bytes", size(r, "max-bytes", &s.Probes.MaxBytes)},
				{"set", settings(r, "set", &s.Probes.Set)},
			})
		}},
		{"ladder", func(n ast.Node) {
			r.mapping(n, "ladder", []field{
				{"repeats", integer(r, "repeats", 1, 10000, &s.Ladder.Repeats)},
				{"search", boolean(r, "search", &s.Ladder.Search)},
				{"shares", func(n ast.Node) {
					r.sequence(n, "shares", func(n ast.Node) { s.Ladder.Shares = append(s.Ladder.Shares, r.share(n, "a share of the capacity")) })
				}},
			})
		}},
		{"matrix", func(n ast.Node) { r.matrix(n, &s.Matrix) }},
		{"capacity", func(n ast.Node) {
			r.mapping(n, "capacity", []field{
				{"repeats", integer(r, "repeats", 1, 10000, &s.Capacity.Repeats)},
				{"window", duration(r, "window", &s.Capacity.Window)},
				{"max-bytes", size(r, "max-bytes", &s.Capacity.MaxBytes)},
				{"cells", func(n ast.Node) { s.Capacity.Cells = r.settingLists(n, "cells") }},
			})
		}},
		{"stop", func(n ast.Node) {
			r.mapping(n, "stop", []field{
				{"width", share(r, "width", &s.Stop.Width)},
				{"metrics", func(n ast.Node) {
					r.sequence(n, "metrics", func(n ast.Node) { s.Stop.Metrics = append(s.Stop.Metrics, r.scalar(n, "a metric")) })
				}},
			})
			r.stop(n, s)
		}},
		{"profiles", func(n ast.Node) { r.profiles(n, &s.Profiles) }},
	})
}

func (r *reader) target(n ast.Node, t *Target) {
	if v, ok := n.(*ast.StringNode); ok {
		if v.Value != "embedded" {
			r.fail(n, "target must be embedded, {bootstrap: HOST:PORT} or {command: [program, arguments]}, not %q", v.Value)
		}
		return
	}
	r.mapping(n, "target", []field{
		{"bootstrap", text(r, "bootstrap", &t.Bootstrap)},
		{"admin", text(r, "admin", &t.Admin)},
		{"command", func(n ast.Node) {
			r.sequence(n, "command", func(n ast.Node) { t.Command = append(t.Command, r.scalar(n, "an argument")) })
		}},
	})
}

func (r *reader) profiles(n ast.Node, p *Profiles) {
	r.mapping(n, "profiles", []field{
		{"cpu", boolean(r, "cpu", &p.CPU)},
		{"extra", func(n ast.Node) {
			p.Extra = r.scalar(n, "extra")
			if known := []string{"baseline", "all", "none"}; !slices.Contains(known, p.Extra) && r.err == nil {
				r.fail(n, "extra must be %s, not %q", strings.Join(known, ", "), p.Extra)
			}
		}},
		{"plain", integer(r, "plain", 0, 100, &p.Plain)},
	})
}

func (r *reader) matrix(n ast.Node, m *Matrix) {
	r.mapping(n, "matrix", []field{
		{"design", func(n ast.Node) {
			m.Design = r.scalar(n, "design")
			if known := designs(); !slices.Contains(known, m.Design) && r.err == nil {
				r.fail(n, "design must be %s, not %q", strings.Join(known, ", "), m.Design)
			}
		}},
		{"model", func(n ast.Node) {
			r.sequence(n, "model", func(n ast.Node) { m.Model = append(m.Model, strings.Split(r.scalar(n, "a term of the model"), "*")) })
		}},
		{"points", integer(r, "points", 1, 1000, &m.Points)},
		{"repeats", integer(r, "repeats", 1, 10000, &m.Repeats)},
		{"axes", func(n ast.Node) {
			r.pairs(n, "axes", func(key string, k, v ast.Node) {
				axis := Axis{Field: key}
				r.sequence(v, "the values of axis "+key, func(v ast.Node) { axis.Values = append(axis.Values, r.setting(key, k, v)) })
				if len(axis.Values) == 0 {
					r.fail(v, "axis %s has no value", key)
				}
				m.Axes = append(m.Axes, axis)
			})
		}},
		{"exclude", func(n ast.Node) { m.Exclude = r.settingLists(n, "exclude") }},
	})
}

func (r *reader) settingLists(n ast.Node, what string) [][]Setting {
	var lists [][]Setting
	r.sequence(n, what, func(n ast.Node) {
		var list []Setting
		settings(r, "an entry of "+what, &list)(n)
		lists = append(lists, list)
	})
	return lists
}

func empty(list []Setting) bool { return len(list) == 0 }

// mostCombinations bounds what a design makes, which is held in memory and run one after the other.
const mostCombinations = 10_000

// combinations is how many a full design makes, or how many pairs a pairwise one has to cover; it stops beyond the bound.
func combinations(m *Matrix) (n int) {
	switch m.Design {
	case "full":
		n = 1
		for _, a := range m.Axes {
			if n *= len(a.Values); n > mostCombinations {
				break
			}
		}
	case "effects":
		n = 1
		for _, a := range m.Axes { // the baseline's value is one of each
			if n *= 1 + len(a.Values); n > mostCombinations {
				break
			}
		}
	case "pairwise":
		before := 0
		for _, a := range m.Axes {
			if n += before * len(a.Values); n > mostCombinations {
				break
			}
			before += len(a.Values)
		}
	default:
		for _, a := range m.Axes {
			n += len(a.Values)
		}
	}
	return n
}

// leastRungs is the shortest ladder that a search can tell anything on: two rates that meet the objective and two that do not.
const leastRungs = 4

func hostPort(s string) bool {
	_, port, err := net.SplitHostPort(s)
	return err == nil && port != ""
}

// check refuses what can be read and has no meaning.
func (r *reader) check(n ast.Node, s *Suite) {
	switch {
	case s.Name == "":
		r.fail(n, "the suite has no name")
	case s.Rate == 0:
		r.fail(n, "the suite has no rate: records/s of the baseline and of the cells that change a setting")
	case len(s.Ladder.Shares) > 0 && s.Probes.Repeats == 0:
		r.fail(n, "a ladder takes its rates from the capacity found: set probes: {repeats: 2}")
	case s.Ladder.Search && s.SLO == 0:
		r.fail(n, "the ladder's search finds the highest rate that meets an objective: set slo, such as slo: 10ms")
	case s.Ladder.Search && s.Ladder.Repeats > 0:
		r.fail(n, "ladder: search decides how often a rate runs: leave repeats out")
	case s.Ladder.Search && len(s.Ladder.Shares) < leastRungs:
		r.fail(n, "ladder: a search needs at least %d shares, above the rate that is expected too: [20%%, 40%%, 60%%, 80%%, 100%%, 120%%]", leastRungs)
	case len(s.Matrix.Axes) == 0 && (s.Matrix.Design != "one-factor" || len(s.Matrix.Exclude) > 0):
		r.fail(n, "the matrix has no axes: name what to change, axes: {linger: [0s, 5ms]}")
	case s.Matrix.Design == "pairwise" && len(s.Matrix.Axes) < 2:
		r.fail(n, "a pairwise design needs two axes or more, the matrix has %d", len(s.Matrix.Axes))
	case slices.ContainsFunc(s.Matrix.Exclude, empty):
		r.fail(n, "an entry of exclude names no setting")
	case slices.ContainsFunc(s.Capacity.Cells, empty):
		r.fail(n, "an entry of capacity cells changes nothing: the baseline's own capacity is what probes measure")
	case combinations(&s.Matrix) > mostCombinations:
		r.fail(n, "the matrix is too large: its axes make over %d combinations or pairs; fewer axes or values, or design one-factor", mostCombinations)
	case s.Matrix.Design == "pairwise" && len(s.Primary) > 0:
		r.fail(n, "primary: a pairwise design finds cliffs and compares nothing; leave primary out, or use design one-factor")
	case r.model(n, s), r.stops(n, s):
	case s.RateCap > 0 && s.Probes.Repeats == 0:
		r.fail(n, "rate-cap is a share of the capacity found: set probes: {repeats: 2}")
	case s.Window == 0 && s.Seconds == 0:
		r.fail(n, "set window (of each latency cell) or seconds (of everything)")
	case len(s.Primary) > 6:
		r.fail(n, "%d primary comparisons: a suite names at most six", len(s.Primary))
	case s.Profiles.Plain > 0 && !s.Profiles.CPU:
		r.fail(n, "profiles: plain repeats show what the CPU profile costs, and cpu is false")
	case s.Target.Admin != "" && !hostPort(s.Target.Admin):
		r.fail(n, "admin of the target must be HOST:PORT, not %q", s.Target.Admin)
	case s.Target.Admin != "" && s.Target.Embedded():
		r.fail(n, "a target with admin needs bootstrap: HOST:PORT")
	case len(s.Broker) > 0 && !s.Target.Embedded():
		r.fail(n, "broker properties are for target: embedded")
	}
}
