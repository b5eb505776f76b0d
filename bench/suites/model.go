package suites

import (
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/tidemark/tidemark/loadgen/workload"
)

func designs() []string { return []string{"one-factor", "full", "pairwise", "effects"} }

// model checks what the design "effects" needs, and that no other design has it; it reports whether something was wrong.
func (r *reader) model(n ast.Node, s *Suite) bool {
	m := &s.Matrix
	var axes []string
	for _, a := range m.Axes {
		axes = append(axes, a.Field)
	}
	switch {
	case m.Design != "effects" && (len(m.Model) > 0 || m.Points > 0):
		r.fail(n, "matrix: model and points are for design effects, this one is %s", m.Design)
		return true
	case m.Design != "effects":
		return false
	case len(m.Model) == 0:
		r.fail(n, "matrix: design effects fits a model, name its terms: model: [%s]", axes[0])
		return true
	case len(s.Primary) > 0:
		r.fail(n, "primary: the terms of an effects design's model are its comparisons; leave primary out")
		return true
	case s.BaselineRepeats < 2:
		r.fail(n, "baseline: it is the centre of the effects design, which is repeated: repeats: 3")
		return true
	}
	for i, term := range m.Model {
		switch {
		case len(term) > 2:
			r.fail(n, "model: a term has one axis or two, not %d", len(term))
		case len(term) == 2 && term[0] == term[1]:
			r.fail(n, "model: a term of axis %s with itself", term[0])
		case slices.ContainsFunc(m.Model[:i], func(t []string) bool { return sameTerm(t, term) }):
			r.fail(n, "model: a term stands twice")
		}
		for _, axis := range term {
			if !slices.Contains(axes, axis) {
				hint := ""
				if near := workload.Nearest(axis, axes); near != "" {
					hint = " (did you mean \"" + near + "\"?)"
				}
				r.fail(n, "model: no axis is called %q%s", axis, hint)
			} else if len(term) == 2 && !slices.ContainsFunc(m.Model, func(t []string) bool { return len(t) == 1 && t[0] == axis }) {
				r.fail(n, "model: %s*%s needs %s as a term of its own", term[0], term[1], axis)
			}
		}
	}
	for _, axis := range axes {
		if !slices.ContainsFunc(m.Model, func(t []string) bool { return slices.Contains(t, axis) }) {
			r.fail(n, "model: axis %s is in no term; what it does would pass for another's", axis)
		}
	}
	return r.err != nil
}

func sameTerm(a, b []string) bool {
	return len(a) == len(b) && (slices.Equal(a, b) || len(a) == 2 && a[0] == b[1] && a[1] == b[0])
}
