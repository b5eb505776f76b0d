package suites

import "github.com/goccy/go-yaml/ast"

// stop checks a stop rule by itself.
func (r *reader) stop(n ast.Node, s *Suite) {
	switch {
	case s.Stop.Width == 0:
		r.fail(n, "stop: set width, how wide an interval may be to be enough: {width: 10%%, metrics: [ack p99]}")
	case s.Stop.Width > 1:
		r.fail(n, "stop: a width over 100%% is no bound")
	case len(s.Stop.Metrics) == 0:
		r.fail(n, "stop: name the metrics whose intervals are looked at: metrics: [ack p99, CPU per GB]")
	}
}

// stops checks it beside the rest of the suite; it reports whether something was wrong.
func (r *reader) stops(n ast.Node, s *Suite) bool {
	if s.Stop.Width > 0 && s.Matrix.Design == "effects" {
		r.fail(n, "stop: the runs of an effects design are what its model rests on, none can be left out; leave stop or the design out")
		return true
	}
	return false
}
