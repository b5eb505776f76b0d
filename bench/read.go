package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark/tidemark/bench/calibrate"
	"github.com/tidemark/tidemark/bench/exit"
	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/host"
	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/target"
	"github.com/tidemark/tidemark/broker/proc"
)

func reportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "report DIR",
		Short: "Write report.html and report.md of a run anew and print its summary",
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return finish(args[0], cmd.OutOrStdout()) },
	}
}

// allowance is the flag --max-regression, a share that reads as 5% or 0.05.
type allowance float64

func (a *allowance) String() string { return fmt.Sprintf("%g%%", 100*float64(*a)) }

func (a *allowance) Type() string { return "percent" }

func (a *allowance) Set(s string) error {
	number, percent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(number, 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v > 0 && v < 1) {
		return fmt.Errorf("%q is not an allowance such as 5%%", s)
	}
	*a = allowance(v)
	return nil
}

func compareCommand() *cobra.Command {
	limit := allowance(0.05)
	cmd := &cobra.Command{
		Use:   "compare BASELINE CANDIDATE",
		Short: "Compare two runs cell by cell",
		Long: `Compares every metric of every cell that both folders have, by name, where both asked the same of it: settings, offered
rate, what an ack meant. It judges nothing as a whole: that is what gate is for. Exit codes: 0 compared, 2 usage, 3 nothing to compare.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			baseline, candidate, err := loadTwo(args)
			if err != nil {
				return err
			}
			return compare(cmd.OutOrStdout(), baseline, candidate, float64(limit))
		},
	}
	cmd.Flags().Var(&limit, "max-regression", "how much worse is still \"no worse\"")
	return cmd
}

func compare(w io.Writer, baseline, candidate *store.Data, limit float64) error {
	w = seen(w)
	comparisons, missing := gate.Compare(baseline, candidate, limit, nil)
	printComparisons(w, candidate, baseline, comparisons)
	printMissing(w, missing)
	printUnlike(w, gate.Different(baseline, candidate))
	printDoubts(w, baseline, candidate)
	stands, told := 0, 0
	for _, c := range comparisons {
		if !math.IsNaN(c.Judgement.Ratio.Value) {
			told++
		}
		if v := c.Judgement.Verdict; c.Stands && (v == stats.Better || v == stats.Worse) {
			stands++
		}
	}
	if told == 0 {
		fmt.Fprintln(w, "NOTHING COMPARED no cell of the same name has a metric on both sides")
		return failWith(exitInconclusive, errors.New("compare: nothing compared"))
	}
	fmt.Fprintf(w, "%s compared; about %.1f would stand out at 95%% by chance alone. %d stand (a false discovery rate of 5%%, and none by one run alone)\n",
		plural(told, "pair"), 0.05*float64(told), stands)
	return nil
}

func gateCommand() *cobra.Command {
	limit, release := allowance(0.05), ""
	cmd := &cobra.Command{
		Use:   "gate BASELINE CANDIDATE",
		Short: "Judge a run against another: exit 0 pass, 1 regression, 3 cannot tell",
		Long: `Compares cost (CPU per GB, CPU per request, read and write calls per record) of the cells that the suite names as
primary, or of all where it names none, and the verification of every run. Lost, repeated, reordered or damaged records
are a regression.

A regression is a metric that is worse for certain, among all gated ones together (Holm, 5%), by at least the allowance,
and not by one run alone. Anything that cannot be told, a cell that one side lacks or asked something else of, another
host and one run on both sides are no pass. --release compares with the last release too, so that many small losses do
not pass one by one.

Ends with PASS (exit 0), FAIL (1), CANNOT TELL (3) or NOTHING COMPARED (3).`,
		Example: "  tidemark bench gate results/main results/branch --release results/v1.0",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			baseline, candidate, err := loadTwo(args)
			if err != nil {
				return err
			}
			verdict := judge(cmd.OutOrStdout(), baseline, candidate, float64(limit))
			if release == "" {
				return verdict
			}
			last, err := store.Load(release)
			if err != nil {
				return failWith(exitUsage, err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "\nagainst the last release, %s\n", release)
			return graver(verdict, judge(cmd.OutOrStdout(), last, candidate, float64(limit)))
		},
	}
	cmd.Flags().Var(&limit, "max-regression", "how much worse is still \"no worse\"")
	cmd.Flags().StringVar(&release, "release", "", "folder of the last release's run, to be compared with too")
	return cmd
}

// graver is the error that says more against a candidate: a regression before what cannot be told before a pass.
func graver(a, b error) error {
	rank := func(err error) int {
		switch {
		case err == nil:
			return 0
		case exit.Of(err) == exitRegression:
			return 2
		}
		return 1
	}
	if rank(b) > rank(a) {
		return b
	}
	return a
}

func loadTwo(args []string) (baseline, candidate *store.Data, err error) {
	if baseline, err = store.Load(args[0]); err == nil {
		candidate, err = store.Load(args[1])
	}
	return baseline, candidate, failWith(exitUsage, err)
}

// gatedCells names the cells of a plan that a gate looks at: the primary ones with what they are compared with, or all.
func gatedCells(p *store.Plan) map[string]bool {
	names := map[string]bool{}
	for i := range p.Cells {
		c := &p.Cells[i]
		if len(p.Primary) == 0 || c.Role == store.Baseline || c.Role == store.Probe || slices.Contains(p.Primary, c.Name) {
			names[c.Name] = true
		}
	}
	return names
}

// judge prints a gate and returns its exit code as an error.
func judge(w io.Writer, baseline, candidate *store.Data, limit float64) error {
	w = seen(w)
	all, missing := gate.Compare(baseline, candidate, limit, func(m store.Metric) bool { return m.Gated })
	names := gatedCells(&candidate.Plan)
	for name := range gatedCells(&baseline.Plan) { // a candidate does not choose by itself what it is gated on
		names[name] = true
	}
	var gated []gate.Comparison
	var judgements []stats.Judgement
	metrics := map[string]bool{}
	for _, c := range all {
		if names[candidate.Cell(c.Cell).Name] {
			gated = append(gated, c)
			judgements = append(judgements, c.Judgement)
			metrics[c.Metric.Name] = true
		}
	}
	each := stats.GateEach(judgements)
	printGate(w, candidate, baseline, gated, each)
	printMissing(w, missing)
	different := gate.Different(baseline, candidate)
	printUnlike(w, different)
	apart := printDoubts(w, baseline, candidate)
	worse, unclear := 0, 0
	for _, o := range each {
		worse += btoi(o == stats.Regression)
		unclear += btoi(o == stats.Inconclusive)
	}
	lacking, unverified := 0, gate.Unverified(candidate)
	for _, name := range missing {
		lacking += btoi(names[name])
	}
	for _, u := range different {
		lacking += btoi(names[u.Cell])
	}
	if v := gate.Verification(candidate); v == stats.Regression {
		fmt.Fprintln(w, "FAIL the candidate lost, repeated, reordered or damaged records, or holds invalid runs")
		return failWith(exitRegression, errors.New("gate: data was lost or damaged"))
	}
	switch {
	case worse > 0:
		fmt.Fprintf(w, "FAIL %s worse, of %s in %s\n", plural(worse, "comparison"), plural(len(metrics), "metric"), plural(len(gated), "pair"))
		return failWith(exitRegression, errors.New("gate: a regression was found"))
	case len(gated) == 0:
		fmt.Fprintln(w, "NOTHING COMPARED no cell of the same name has a gated metric on both sides")
		return failWith(exitInconclusive, errors.New("gate: nothing compared"))
	case unclear+lacking+unverified > 0 || apart:
		text := ""
		if lacking > 0 {
			text += ", and " + plural(lacking, "gated cell") + " that both sides do not have alike"
		}
		if unverified > 0 {
			text += ", and " + plural(unverified, "run") + " of the candidate not verified to the end"
		}
		if apart {
			text += ", and what differs may not be the program's"
		}
		fmt.Fprintf(w, "CANNOT TELL %d of %s%s\n", unclear, plural(len(gated), "pair"), text)
		return failWith(exitInconclusive, errors.New("gate: cannot tell"))
	}
	fmt.Fprintf(w, "PASS compared %s in %s\n", plural(len(metrics), "metric"), plural(len(gated), "pair"))
	return nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func printComparisons(w io.Writer, candidate, baseline *store.Data, comparisons []gate.Comparison) {
	if len(comparisons) == 0 {
		return
	}
	t := newTable("cell", "metric", "baseline", "candidate", "ratio [95%]", "runs", "verdict")
	for _, c := range comparisons {
		t.row(append(compared(candidate, baseline, c), words(c.Judgement, c.Stands))...)
	}
	t.print(w)
}

// compared is a comparison in its cells: whose, what, both values, ratio, runs.
func compared(candidate, baseline *store.Data, c gate.Comparison) []string {
	old := stats.Mean(c.Metric.Values(baseline, c.Against), stats.Noise{})
	fresh := stats.Mean(c.Metric.Values(candidate, c.Cell), stats.Noise{})
	return []string{candidate.Cell(c.Cell).Name, c.Metric.Name + " " + c.Metric.Unit, figure(old.Value), figure(fresh.Value), ratio(c.Judgement.Ratio),
		fmt.Sprintf("%d/%d", c.Judgement.Ratio.NBaseline, c.Judgement.Ratio.NCandidate)}
}

// words is a judgement's, and what keeps it from standing.
func words(j stats.Judgement, stands bool) string {
	switch {
	case stands || j.Verdict != stats.Worse && j.Verdict != stats.Better:
		return j.Words()
	case j.Ratio.RestsOnOneRun():
		return j.Words() + ", but by one run alone"
	}
	return j.Words() + ", but that may be chance"
}

// printGate prints one line for each gated metric.
func printGate(w io.Writer, candidate, baseline *store.Data, gated []gate.Comparison, each []stats.Outcome) {
	if len(gated) == 0 {
		return
	}
	t := newTable("cell", "metric", "baseline", "candidate", "ratio [95%]", "runs", "allowed", "verdict")
	for i, c := range gated {
		v := c.Judgement.Verdict
		stands := each[i] == stats.Regression || v == stats.Better
		t.row(append(compared(candidate, baseline, c), fmt.Sprintf("%.3g%%", 100*c.Judgement.Allowance), words(c.Judgement, stands))...)
	}
	t.print(w)
}

func printMissing(w io.Writer, missing []string) {
	if len(missing) > 0 {
		fmt.Fprintf(w, "only on one side: %s\n", strings.Join(missing, ", "))
	}
}

// printUnlike lists cells that were not compared because they ask two questions.
func printUnlike(w io.Writer, different []gate.Unlike) {
	for i, u := range different {
		if i == maxUnlike {
			fmt.Fprintf(w, "not compared: %d cells more\n", len(different)-i)
			break
		}
		fmt.Fprintf(w, "not compared: %s\n", u)
	}
}

// maxUnlike bounds the list.
const maxUnlike = 12

// printDoubts says what makes a comparison doubtful, and reports whether a difference can be laid to the program at all.
func printDoubts(w io.Writer, baseline, candidate *store.Data) (apart bool) {
	doubts, apart := gate.Doubts(baseline, candidate)
	for _, text := range doubts {
		fmt.Fprintf(w, "note: %s\n", text)
	}
	return apart
}

func hostCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "host",
		Short: "Print what this host is, what it can do at best, and whether the load process reads it rightly",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signalContext(cmd.Context())
			defer stop()
			return printHost(ctx, cmd.OutOrStdout(), dir)
		},
	}
	cmd.Flags().StringVar(&dir, "data", os.TempDir(), "folder whose disk is measured")
	return cmd
}

func printHost(ctx context.Context, w io.Writer, dir string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return failWith(exitUsage, fmt.Errorf("--data %s is not a folder", dir))
	}
	f := host.Read(dir)
	limits := ""
	if f.CPULimitCores > 0 || f.MemoryLimitBytes > 0 {
		limits = fmt.Sprintf("  control group: %g cores, %s", f.CPULimitCores, mib(f.MemoryLimitBytes))
	}
	fmt.Fprintf(w, "host      %s  %s  kernel %s  %s\n", f.Hostname, f.OS, f.Kernel, f.Architecture)
	fmt.Fprintf(w, "cpu       %s  %d of %d cores usable  %.0f MHz  governor %s  hypervisor %s%s\n", f.CPUModel, f.Cores, f.CoresOnline, f.CPUMHz, orNone(f.Governor), orNone(f.Hypervisor), limits)
	fmt.Fprintf(w, "memory    %s  swap %s  huge pages %s  writeback starts at %d%% dirty, writers wait at %d%%\n", mib(f.MemoryBytes), mib(f.SwapBytes), orNone(f.HugePages), f.DirtyBackgroundRatio, f.DirtyRatio)
	fmt.Fprintf(w, "disk      %s on %s  rotational %s  %s free\n", orNone(f.FileSystem), orNone(f.Device), orNone(f.Rotational), mib(f.FreeBytes))
	fmt.Fprintf(w, "clock     %s  boot %s  load average %.2f\n\n", orNone(f.ClockSource), f.BootID, f.Load1)
	targetCores, loadCores := target.SplitCores(proc.Cores())
	t := newTable("ceiling", "", "value", "", "MB/CPU-s", "what")
	for _, c := range host.Ceilings(ctx, dir, targetCores, loadCores) {
		per := "-"
		if c.PerCPU > 0 {
			per = figure(c.PerCPU)
		}
		value := figure(c.Value)
		if c.Error != "" {
			value, c.What = "-", c.Error
		}
		t.row(c.Name, "", value, c.Unit, per, c.What)
	}
	t.print(w)
	printReadings(w, calibrate.Run(ctx, calibrate.Options{Cores: loadCores, Dir: dir}))
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
