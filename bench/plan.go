package bench

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark/tidemark/bench/matrix"
	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/suites"
)

func planCommand() *cobra.Command {
	var seed uint64
	cmd := &cobra.Command{
		Use:   "plan SUITE",
		Short: "Print the cells of a suite, the time they need and the bytes they may write",
		Long:  "SUITE is a built-in name (" + strings.Join(suites.Names(), ", ") + ") or a YAML file.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			suite, err := suites.Find(args[0])
			if err != nil {
				return failWith(exitUsage, err)
			}
			if !cmd.Flags().Changed("seed") {
				seed = suite.Seed
			}
			plan, err := matrix.Plan(suite, seed)
			if err != nil {
				return failWith(exitUsage, err)
			}
			return printPlan(cmd.OutOrStdout(), suite, plan)
		},
	}
	cmd.Flags().Uint64Var(&seed, "seed", 0, "order of the runs and base of every random number (default: the suite's)")
	return cmd
}

func printPlan(w io.Writer, suite *suites.Suite, p *store.Plan) error {
	w = seen(w)
	fmt.Fprintf(w, "%s  %d cells  %s  about %v  at most %s written  target %s  seed %d\n", p.Suite, len(p.Cells), runsOf(p),
		time.Duration(p.Seconds*float64(time.Second)).Round(time.Second), mib(p.MaxBytes), p.Target, p.Seed)
	if suite.About != "" {
		fmt.Fprintf(w, "%s\n", suite.About)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\ncell\tname\tquestion\trate\twindow\truns\tcompared with")
	for i := range p.Cells {
		c := &p.Cells[i]
		against := ""
		if c.Against > 0 {
			against = p.Cells[c.Against-1].Name
		}
		if c.Outside {
			against = "outside the design: the model must foretell it"
		}
		runs := fmt.Sprint(c.Repeats)
		if c.Searched {
			runs = "at most " + runs
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%v\t%s\t%s\n", c.Number, c.Name, c.Kind, rateOf(c), windowOf(c), runs, against)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nbaseline  %s\n", settingsText(p.Baseline))
	fmt.Fprintf(w, "profiles  %s\n", profilesText(p))
	if p.SLOP99MS > 0 {
		how := ""
		if len(p.Search) > 0 {
			how = ": the search goes up the ladder until it broke twice, then tries the rates around the break, three fresh runs each, in random order"
		}
		fmt.Fprintf(w, "objective p99 within %g ms%s\n", p.SLOP99MS, how)
	}
	if p.Stop != nil {
		fmt.Fprintf(w, "stop      no further repeats of a cell whose 95%% interval of %s is within ±%.3g%%, from its sixth run on; widths are looked at, never verdicts\n",
			strings.Join(p.Stop.Metrics, " and "), 100*p.Stop.Width)
	}
	printVisible(w, p)
	return nil
}

// runsOf is "51 runs", and the profiled ones beside them.
func runsOf(p *store.Plan) string {
	text := fmt.Sprintf("%d runs", len(p.Runs))
	if n := len(p.Search); n > 0 {
		text += fmt.Sprintf(", at most %d searching", n)
	}
	if n := len(p.Profiled); n > 0 {
		text += fmt.Sprintf(" and %d profiled", n)
	}
	return text
}

// profilesText says which runs carry profiles.
func profilesText(p *store.Plan) string {
	with, without := 0, ""
	for i := range p.Cells {
		if p.Cells[i].CPUProfile {
			with++
		} else if p.Cells[i].Role == store.Axis {
			without = fmt.Sprintf(" but those of %s, which show what it costs", p.Cells[i].Name)
		}
	}
	if with == 0 && len(p.Profiled) == 0 {
		return "none"
	}
	text := "none in measured runs"
	if with > 0 {
		text = "CPU of target and generator in every measured run" + without
	}
	names := make([]string, len(p.Profiled))
	for i, r := range p.Profiled {
		names[i] = p.Cells[r.Cell-1].Name
	}
	if len(names) > 0 {
		text += fmt.Sprintf("; heap, mutex and block in one repeat more of %s, at the end, out of all statistics", strings.Join(names, ", "))
	}
	return text
}

func rateOf(c *store.Cell) string {
	switch {
	case c.LoadShare > 0:
		return fmt.Sprintf("%.4g%% of the capacity found", 100*c.LoadShare)
	case c.Kind == store.Capacity:
		return "closed loop"
	}
	return grouped(c.Rate) + "/s"
}

func windowOf(c *store.Cell) string {
	window := (time.Duration(c.WindowMS) * time.Millisecond).String()
	if c.Kind == store.Capacity && c.MaxBytes > 0 {
		return window + " or " + mib(c.MaxBytes)
	}
	return window
}

func settingsText(settings []store.Setting) string {
	parts := make([]string, len(settings))
	for i, s := range settings {
		parts[i] = s.Axis + "=" + s.Value
	}
	return strings.Join(parts, " ")
}

// What one run is off by, in 95 of 100 cases, on the two-core hosts that this was tried on: percentiles of latency are
// several times as unsteady as cost. Only the plan uses them; results use the noise that they measured.
const (
	usualNoiseP99 = 0.25
	usualNoiseCPU = 0.06
)

// printVisible says what the comparisons will be able to see.
func printVisible(w io.Writer, p *store.Plan) {
	if p.Design == store.Effects {
		printModel(w, p)
		return
	}
	df, baseline, axis := 0, 0, 0
	for _, c := range p.Cells {
		if c.Kind == store.Latency {
			df += c.Repeats - 1
		}
		switch c.Role {
		case store.Baseline:
			baseline = c.Repeats
		case store.Axis:
			axis = c.Repeats
		}
	}
	if axis == 0 || baseline == 0 {
		return
	}
	if df < stats.MinDF {
		fmt.Fprintf(w, "noise will rest on %d degrees of freedom; verdicts need %d: every comparison will read \"cannot tell\"\n", df, stats.MinDF)
		return
	}
	visible := func(runNoise float64) float64 {
		n := stats.Noise{Sigma: 1, DF: df}
		n.Sigma = math.Log1p(runNoise) / n.T()
		return 100 * (n.SmallestVisible(axis, baseline) - 1)
	}
	fmt.Fprintf(w, "smallest change that %d against %d runs will show 4 times in 5: %.0f%% where one run is good to ±%.0f%% (usual for ack p99), %.0f%% where ±%.0f%% (CPU per GB)\n",
		axis, baseline, visible(usualNoiseP99), 100*usualNoiseP99, visible(usualNoiseCPU), 100*usualNoiseCPU)
}

// grouped prints a whole number with commas.
func grouped(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}
