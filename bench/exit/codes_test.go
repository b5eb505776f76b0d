package exit_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tidemark/tidemark/bench/exit"
)

func TestTheFirstCodeStays(t *testing.T) {
	plain := errors.New("x")
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0}, {plain, exit.Failure}, {exit.With(exit.Usage, nil), 0}, {exit.With(exit.Usage, plain), exit.Usage},
		{exit.With(exit.Failure, fmt.Errorf("y: %w", exit.With(exit.Invalid, plain))), exit.Invalid},
	} {
		if got := exit.Of(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
		var coded interface{ ExitCode() int } // as main asks
		if errors.As(c.err, &coded) && coded.ExitCode() != c.want {
			t.Errorf("%v tells main %d, want %d", c.err, coded.ExitCode(), c.want)
		}
	}
}
