package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark/tidemark/bench/calibrate"
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
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			baseline, candidate, err := loadTwo(args)
			if err != nil {
				return err
			}
			comparisons, missing := gate.Compare(baseline, candidate, float64(limit), nil)
			printComparisons(cmd.OutOrStdout(), candidate, baseline, comparisons)
			printMissing(cmd.OutOrStdout(), missing)
			return nil
		},
	}
	cmd.Flags().Var(&limit, "max-regression", "how much worse is still \"no worse\"")
	return cmd
}

func gateCommand() *cobra.Command {
	limit := allowance(0.05)
	cmd := &cobra.Command{
		Use:   "gate BASELINE CANDIDATE",
		Short: "Judge a run against another: exit 0 pass, 1 regression, 3 cannot tell",
		Long: `Compares cost (CPU per GB, CPU per request) of the cells that the suite names as primary, or of all where it names
none, and the verification of every run. Lost, repeated, reordered or damaged records are a regression.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			baseline, candidate, err := loadTwo(args)
			if err != nil {
				return err
			}
			return judge(cmd.OutOrStdout(), baseline, candidate, float64(limit))
		},
	}
	cmd.Flags().Var(&limit, "max-regression", "how much worse is still \"no worse\"")
	return cmd
}

func loadTwo(args []string) (baseline, candidate *store.Data, err error) {
	if baseline, err = store.Load(args[0]); err == nil {
		candidate, err = store.Load(args[1])
	}
	return baseline, candidate, failWith(exitUsage, err)
}

// judge prints a gate and returns its exit code as an error.
func judge(w io.Writer, baseline, candidate *store.Data, limit float64) error {
	all, missing := gate.Compare(baseline, candidate, limit, func(m store.Metric) bool { return m.Gated })
	gated := all
	if len(candidate.Plan.Primary) > 0 {
		gated = nil
		for _, c := range all {
			if c.Primary || candidate.Cell(c.Cell).Role == store.Baseline || candidate.Cell(c.Cell).Role == store.Probe {
				gated = append(gated, c)
			}
		}
	}
	printComparisons(w, candidate, baseline, gated)
	printMissing(w, missing)
	var judgements []stats.Judgement
	metrics := map[string]bool{}
	worse, unclear := 0, 0
	for _, c := range gated {
		judgements = append(judgements, c.Judgement)
		metrics[c.Metric.Name] = true
		switch c.Judgement.Verdict {
		case stats.Worse:
			worse++
		case stats.CannotTell:
			unclear++
		}
	}
	outcome := stats.Gate(judgements)
	if v := gate.Verification(candidate); v == stats.Regression {
		fmt.Fprintln(w, "FAIL the candidate lost, repeated, reordered or damaged records, or holds invalid runs")
		return failWith(exitRegression, errors.New("gate: data was lost or damaged"))
	}
	switch {
	case len(gated) == 0:
		fmt.Fprintln(w, "NOTHING COMPARED no cell of the same name has a gated metric on both sides")
		return failWith(exitInconclusive, errors.New("gate: nothing compared"))
	case outcome == stats.Regression:
		fmt.Fprintf(w, "FAIL %s worse, of %s in %s\n", plural(worse, "comparison"), plural(len(metrics), "metric"), plural(len(gated), "pair"))
		return failWith(exitRegression, errors.New("gate: a regression was found"))
	case outcome == stats.Inconclusive:
		fmt.Fprintf(w, "CANNOT TELL %d of %s\n", max(unclear, 1), plural(len(gated), "pair"))
		return failWith(exitInconclusive, errors.New("gate: cannot tell"))
	}
	fmt.Fprintf(w, "PASS compared %s in %s\n", plural(len(metrics), "metric"), plural(len(gated), "pair"))
	return nil
}

func printComparisons(w io.Writer, candidate, baseline *store.Data, comparisons []gate.Comparison) {
	if len(comparisons) == 0 {
		return
	}
	t := newTable("cell", "metric", "baseline", "candidate", "ratio [95%]", "runs", "verdict")
	for _, c := range comparisons {
		old := stats.Mean(c.Metric.Values(baseline, c.Against), stats.Noise{})
		fresh := stats.Mean(c.Metric.Values(candidate, c.Cell), stats.Noise{})
		t.row(candidate.Cell(c.Cell).Name, c.Metric.Name+" "+c.Metric.Unit, figure(old.Value), figure(fresh.Value), ratio(c.Judgement.Ratio),
			fmt.Sprintf("%d/%d", c.Judgement.Ratio.NBaseline, c.Judgement.Ratio.NCandidate), c.Judgement.Words())
	}
	t.print(w)
}

func printMissing(w io.Writer, missing []string) {
	if len(missing) > 0 {
		fmt.Fprintf(w, "only on one side: %s\n", strings.Join(missing, ", "))
	}
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
