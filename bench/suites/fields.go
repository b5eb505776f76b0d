package suites

import (
	"errors"

	"github.com/tidemark/tidemark/loadgen/workload"
)

// Owned reports whether the bench itself sets a workload field, from the suite's own settings.
func Owned(field string) bool {
	switch field {
	case "name", "question", "rate", "window", "warm-up", "max-bytes", "max-duration", "seed", "prefix", "topic", "keep-topics", "create", "slo":
		return true
	}
	return false
}

// Apply sets one field of a workload. The error says what was wrong, without the place.
func Apply(spec *workload.Spec, s Setting) error {
	err := spec.Set(s.Field, s.Value)
	var p *workload.Problem
	if errors.As(err, &p) {
		return errors.New(p.Text)
	}
	return err
}
