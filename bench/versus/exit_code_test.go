package versus

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/exit"
)

// TestTheExitCodeSaysHowASessionEnded: a script that runs a session must not read 0 from one that was cut short, measured
// nothing or found data broken.
func TestTheExitCodeSaysHowASessionEnded(t *testing.T) {
	failed := errors.New("a broker did not start")
	each := func(change func(b *Block)) func(*Document) {
		return func(d *Document) {
			for _, b := range d.Blocks {
				change(b)
			}
		}
	}
	invalid := func(change func(w *Window)) func(*Document) {
		return func(d *Document) {
			d.Blocks[1].Windows[0].Status = "invalid"
			change(d.Blocks[1].Windows[0])
		}
	}
	for _, c := range []struct {
		name   string
		change func(d *Document)
		err    error
		want   int
		text   string
	}{
		{"finished", func(*Document) {}, nil, 0, ""},
		{"interrupted", func(d *Document) { d.State = "interrupted" }, nil, exit.Failure, "--resume --out"},
		{"failed", func(d *Document) { d.State = "failed" }, failed, exit.Failure, failed.Error()},
		{"every row failed", each(func(b *Block) { b.Error = "topic not made" }), nil, exit.Failure, "topic not made"},
		{"nothing was begun", func(d *Document) { d.Blocks = nil }, nil, exit.Failure, "nothing was measured"},
		{"one row failed", func(d *Document) { d.Blocks[0].Error = "topic not made" }, nil, 0, ""},
		{"nothing settled", each(func(b *Block) { b.Settled["kafka"] = "trend" }), nil, exit.Inconclusive, "no block"},
		{"the budget was spent before the last rows", func(d *Document) {
			d.Blocks = d.Blocks[:1]
			d.Notes = []string{"the budget was spent before row x in process 1"}
		}, nil, 0, ""},
		{"repeated under idempotence", invalid(func(w *Window) { w.Duplicated = 1 }), nil, exit.Invalid, "repeated"},
		{"reordered under idempotence", invalid(func(w *Window) { w.OutOfOrder = 1 }), nil, exit.Invalid, "reordered"},
		{"lost", func(d *Document) { d.Blocks[1].Windows[1].Lost = 1 }, nil, exit.Invalid, "lost"},
		{"lost in a session that failed", func(d *Document) { d.State, d.Blocks[1].Windows[1].Lost = "failed", 1 }, failed, exit.Invalid, failed.Error()},
		{"lost in a session that was interrupted", func(d *Document) { d.State, d.Blocks[1].Windows[1].Lost = "interrupted", 1 }, nil, exit.Invalid, "--resume"},
		{"a window without a record", invalid(func(*Window) {}), nil, 0, ""},
		{"repeated where nobody promised", func(d *Document) { d.Blocks[1].Windows[0].Duplicated = 1 }, nil, 0, ""},
	} {
		p := repeat([2]float64{250, 100}, 2)
		d := document(Goal{Measure: "MB per CPU-s"}, [][][2]float64{p, p, p})
		c.change(d)
		err := ending(io.Discard, d, t.TempDir(), c.err)
		if exit.Of(err) != c.want || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: exit %d, want %d: %v", c.name, exit.Of(err), c.want, err)
		}
	}
}

// TestABrokenWindowIsNamed: one that repeated or reordered records against its promise, also beside the rows.
func TestABrokenWindowIsNamed(t *testing.T) {
	d := document(Goal{Measure: "MB per CPU-s"}, [][][2]float64{{{250, 100}}})
	s := &session{doc: d}
	s.keepDamaged(&Window{Arm: "kafka", Status: "invalid", Acked: 5, OutOfOrder: 3, Folder: "runs/009"}, &Window{Arm: "kafka", Status: "ok", OutOfOrder: 3})
	if len(d.Damaged) != 1 || !slices.ContainsFunc(damages(d), func(l string) bool { return strings.Contains(l, "out of order 3") && strings.Contains(l, "runs/009") }) {
		t.Errorf("%d kept, %q", len(d.Damaged), damages(d))
	}
}
