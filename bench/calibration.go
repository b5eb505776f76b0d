package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/tidemark/tidemark/bench/calibrate"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/target"
	"github.com/tidemark/tidemark/broker/proc"
	"github.com/tidemark/tidemark/loadgen/result"
)

// calibrating is how a session calibrates: the binary and the cores of its measured runs.
func (r *runner) calibrating() calibrate.Options {
	_, loadCores := target.SplitCores(proc.Cores())
	return calibrate.Options{Bin: r.options.bin, Cores: loadCores, Env: r.options.env, Dir: r.folder.Dir()}
}

// calibrate holds the load process to a sink's log, anew in each session.
func (r *runner) calibrate(ctx context.Context) error {
	if r.options.skipHost {
		return nil
	}
	r.show.doing("calibration")
	for _, scratch := range []string{"calibration-*", "ceiling-*"} { // of a session that was killed in the midst of it
		left, _ := filepath.Glob(r.folder.Path(scratch))
		for _, dir := range left {
			_ = os.RemoveAll(dir)
		}
	}
	c := calibrate.Run(ctx, r.calibrating())
	if ctx.Err() != nil {
		return context.Canceled
	}
	r.status.Calibrations = append(r.status.Calibrations, *c)
	return r.writeStatus(nil)
}

// judgeCalibration makes a run invalid whose session's calibration failed.
func (r *runner) judgeCalibration(res *store.Run) {
	n := len(r.status.Calibrations)
	if r.options.skipHost || n == 0 || r.status.Calibrations[n-1].OK {
		return
	}
	if res.Status != store.Broken {
		res.Status = store.Invalid
	}
	res.Reasons = append(res.Reasons, r.status.Calibrations[n-1].Line())
}

// reaches is what the cell's workload reaches against the sink, measured right before the first run of its shape.
func (r *runner) reaches(ctx context.Context, c store.Cell) (*calibrate.Reached, error) {
	if r.options.skipHost {
		return nil, nil
	}
	shape := calibrate.Shape(&c.Asked)
	if known := r.reached[shape]; known != nil {
		return known, nil
	}
	got := calibrate.Rate(ctx, r.calibrating(), &c.Asked)
	if ctx.Err() != nil {
		return nil, context.Canceled
	}
	if got.Error != "" {
		r.note("what %s reaches against the sink is not known: %s", c.Name, got.Error)
	}
	if r.reached == nil {
		r.reached = map[string]*calibrate.Reached{}
	}
	r.reached[shape] = got
	return got, nil
}

// copyRepeat is what a lie takes for a repeat: the result of the one before.
func copyRepeat(from, to string) {
	if b, err := os.ReadFile(filepath.Join(from, result.FileName)); err == nil {
		_ = os.WriteFile(filepath.Join(to, result.FileName), b, 0o644)
	}
}

// printCalibrations prints the last calibration of a bench, with its readings where one is wrong.
func printCalibrations(w io.Writer, all []calibrate.Calibration) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w, all[len(all)-1].Line())
}

// printReadings prints truth beside reading.
func printReadings(w io.Writer, c *calibrate.Calibration) {
	fmt.Fprintf(w, "\n%s\n", c.Line())
	t := newTable("calibration", "", "truth", "reading", "unit", "right from", "to", "what")
	for _, r := range c.Readings {
		verdict := ""
		if !r.OK {
			verdict = "WRONG"
		}
		t.row(r.Name, verdict, figure(r.Truth), figure(r.Reading), r.Unit, figure(r.Low), figure(r.High), r.What)
	}
	if len(c.Readings) > 0 {
		t.print(w)
		fmt.Fprintf(w, "pacer p99 %.2f ms by its own account, %.2f ms until a record arrived, by the sink's log\n", float64(c.PacerP99Nanos)/1e6, float64(c.SentP99Nanos)/1e6)
	}
}
