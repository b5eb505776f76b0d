package bench

import (
	"fmt"
	"io"
	"time"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/report"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/web"
)

// live feeds the page of --web, between runs and never during one. A nil live feeds nothing.
type live struct {
	page *web.Page
	last web.State
}

// openLive serves the page where an address was given, and says where.
func openLive(addr string, errOut io.Writer) (*live, error) {
	if addr == "" {
		return nil, nil
	}
	page, err := web.New(addr)
	if err != nil {
		return nil, failWith(exitUsage, err)
	}
	fmt.Fprintf(errOut, "live page  %s\n", page.Address())
	return &live{page: page}, nil
}

// close shows how the run ended and ends the page.
func (l *live) close(err error) {
	if l == nil {
		return
	}
	l.last.Ended = "finished"
	if err != nil {
		l.last.Ended = err.Error()
	}
	l.page.Show(l.last)
	_ = l.page.Close()
}

// running says what runs now, finished reads the folder again.
func (l *live) running(r *runner, order int, c store.Cell, repeat int) {
	if l == nil {
		return
	}
	planned := len(r.plan.Runs) + len(r.plan.Search) + len(r.plan.Profiled)
	l.last.Title, l.last.Planned, l.last.Done = r.plan.Suite, planned, order
	l.last.Progress = fmt.Sprintf("%v of about %v, run %d of %d: %s #%d", time.Since(r.began).Round(time.Second),
		time.Duration(r.plan.Seconds*float64(time.Second)).Round(time.Second), order+1, planned, c.Name, repeat)
	l.page.Show(l.last)
}

func (l *live) finished(r *runner) {
	if l == nil {
		return
	}
	d, err := store.Load(r.folder.Dir())
	if err != nil {
		return // the run itself meets it at its end
	}
	a := gate.Analyse(d)
	l.last.Answer = report.Answer(d, a)
	l.last.Head = []string{"cell", "runs", "records/s", "ack p50 ms", "ack p99 ms", "delivery p99 ms", "CPU-s/GB", "verdict"}
	l.last.Rows = nil
	for i := range d.Plan.Cells {
		c := &d.Plan.Cells[i]
		metric, main := "ack p99", "latency "
		if c.Kind == store.Capacity {
			metric, main = "throughput", "throughput "
		}
		verdict := whyNotCounted(d, c.Number)
		if k, ok := a.Comparison(c.Number, metric); ok && verdict == "" {
			verdict = main + words(k.Judgement, k.Stands)
		}
		l.last.Rows = append(l.last.Rows, []string{c.Name, counted(d, c.Number), estimate(d, a, c.Number, "records"), estimate(d, a, c.Number, "ack p50"),
			estimate(d, a, c.Number, "ack p99"), estimate(d, a, c.Number, "delivery p99"), estimate(d, a, c.Number, "CPU per GB"), verdict})
	}
	l.page.Show(l.last)
}
