package bench

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
	"github.com/spf13/cobra"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/workload"
	"github.com/tidemark/tidemark/profiles"
)

const profileExample = `  tidemark bench profile run-20261129-221500
  tidemark bench profile run-20261129-221500 linger=5ms --top 5
  tidemark bench profile run-20261129-221500 baseline --kind heap`

func profileCommand() *cobra.Command {
	kind, top := string(profiles.CPU), 15
	cmd := &cobra.Command{
		Use:   "profile DIR [DIR2] [CELL]",
		Short: "Print what the target and the generator spent their time on in a cell, or what grew from one run to another",
		Long: `With two folders (tidemark bench profile results/main results/branch) it shows what grew from the first to the second, each divided by the records that its own runs had
acknowledged; under 1,000 samples on a side of a CPU profile no difference is shown (exit 3).

CELL is a cell's name or number, the baseline where it is left out. CPU profiles are those of the cell's repeats,
merged; heap, mutex and block are those of its one profiled repeat. The files stand in DIR/cells/*/*/profiles/, for
go tool pprof.`,
		Example: profileExample,
		Args:    cobra.RangeArgs(1, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := profiles.ParseKind(kind)
			if err != nil {
				return failWith(exitUsage, err)
			}
			d, err := store.Load(args[0])
			if err != nil {
				return failWith(exitUsage, err)
			}
			var second *store.Data
			if len(args) > 1 {
				if second, err = store.Load(args[1]); err == nil {
					args = args[1:]
				} else if len(args) > 2 || !errors.Is(err, store.ErrNoRun) {
					return failWith(exitUsage, err)
				}
			}
			name := "baseline"
			if len(args) > 1 {
				name = args[1]
			}
			c, err := cellCalled(d, name)
			if err != nil {
				return failWith(exitUsage, err)
			}
			if second != nil {
				other, err := cellCalled(second, c.Name)
				if err != nil {
					return failWith(exitUsage, err)
				}
				return printGrowth(seen(cmd.OutOrStdout()), d, second, c, other, k, top)
			}
			return printProfiles(seen(cmd.OutOrStdout()), d, c, k, top)
		},
	}
	cmd.Flags().StringVar(&kind, "kind", kind, "cpu, heap, mutex, block")
	cmd.Flags().IntVar(&top, "top", top, "how many functions of each process")
	return cmd
}

// cellCalled finds a cell by its number or name.
func cellCalled(d *store.Data, name string) (*store.Cell, error) {
	if n, err := strconv.Atoi(name); err == nil {
		if c := d.Cell(n); c != nil {
			return c, nil
		}
	}
	names := make([]string, len(d.Plan.Cells))
	for i := range d.Plan.Cells {
		c := &d.Plan.Cells[i]
		if names[i] = c.Name; c.Name == name {
			return c, nil
		}
	}
	hint := ""
	if near := workload.Nearest(name, names); near != "" {
		hint = fmt.Sprintf(" (did you mean %q?)", near)
	}
	return nil, fmt.Errorf("%s has no cell %q%s: its cells are %s", d.Dir, name, hint, strings.Join(names, ", "))
}

// processes whose profiles a run keeps, and how they are called.
var processes = []struct{ file, name string }{{"broker", "target"}, {"load", "generator"}}

// profileOf merges a process's profiles over a cell's runs; records is what those runs had acknowledged, together.
func profileOf(d *store.Data, c *store.Cell, process string, k profiles.Kind) (merged *profile.Profile, n int, records int64, err error) {
	runs := d.RunsOf(c.Number)
	if !profiles.Light([]profiles.Kind{k}) {
		runs = nil
		for _, r := range d.Profiled {
			if r.Cell == c.Number {
				runs = append(runs, r)
			}
		}
	}
	var files []string
	for _, r := range runs {
		file := filepath.Join(r.Dir, "profiles", profiles.Name(process, k))
		if _, err := os.Stat(file); err == nil && r.Result != nil {
			records += r.Result.Ends.Acked + r.Result.Ends.HandedToSocket
		}
		files = append(files, file)
	}
	merged, n, err = mergeFiles(files)
	return merged, n, records, err
}

// printProfiles prints the top functions of both processes in a cell.
func printProfiles(w io.Writer, d *store.Data, c *store.Cell, k profiles.Kind, top int) error {
	found := false
	for _, p := range processes {
		merged, n, _, err := profileOf(d, c, p.file, k)
		if err != nil {
			return failWith(exitFailure, err)
		}
		if n == 0 {
			continue
		}
		found = true
		of := "one repeat"
		if n > 1 {
			of = fmt.Sprintf("%d repeats merged", n)
		}
		fmt.Fprintf(w, "%s  %s of the %s, %s\n", c.Name, k, p.name, of)
		printTop(w, merged, top)
	}
	if !found {
		return noProfile(d, c, k)
	}
	return nil
}

func noProfile(d *store.Data, c *store.Cell, k profiles.Kind) error {
	return failWith(exitUsage, fmt.Errorf("cell %q of %s keeps no %s profile; tidemark bench plan SUITE tells which cells do", c.Name, d.Dir, k))
}

// printGrowth prints what grew in a cell from one run to another, for each record.
func printGrowth(w io.Writer, a, b *store.Data, cellA, cellB *store.Cell, k profiles.Kind, top int) error {
	shown := false
	var few error
	for _, p := range processes {
		before, nA, recordsA, errA := profileOf(a, cellA, p.file, k)
		after, nB, recordsB, errB := profileOf(b, cellB, p.file, k)
		if err := errors.Join(errA, errB); err != nil {
			return failWith(exitFailure, err)
		}
		if nA == 0 || nB == 0 {
			continue
		}
		fmt.Fprintf(w, "%s  %s of the %s for each record, %s against %s merged\n", cellA.Name, k, p.name, plural(nB, "repeat"), plural(nA, "repeat"))
		changes, err := profiles.Diff(before, after, float64(recordsA), float64(recordsB))
		if errors.Is(err, profiles.ErrFewSamples) {
			few = err
			fmt.Fprintf(w, "  no difference is shown: %v\n", err)
			continue
		}
		if err != nil {
			return failWith(exitFailure, err)
		}
		shown = true
		printChanges(w, before, after, float64(recordsA), float64(recordsB), changes, top)
	}
	switch {
	case shown:
		return nil
	case few != nil:
		return failWith(exitInconclusive, few)
	}
	return noProfile(a, cellA, k)
}

// mergeFiles reads the profiles that are there and merges them; n is how many.
func mergeFiles(files []string) (merged *profile.Profile, n int, err error) {
	var all []*profile.Profile
	for _, f := range files {
		p, err := readProfile(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, 0, nil
	}
	merged, err = profiles.Merge(all)
	return merged, len(all), err
}

func readProfile(path string) (*profile.Profile, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p, err := profiles.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

func printTop(w io.Writer, p *profile.Profile, top int) {
	funcs, total := profiles.Top(p)
	if len(funcs) == 0 {
		fmt.Fprintln(w, "nothing was sampled")
		return
	}
	_, unit := profiles.Value(p)
	fmt.Fprintf(w, "%s in all", amount(float64(total), unit))
	if n := profiles.Samples(p); n > 0 {
		fmt.Fprintf(w, ", %s samples", grouped(float64(n)))
		if n < profiles.MinSamples {
			fmt.Fprintf(w, ": under %s, shares are rough", grouped(profiles.MinSamples))
		}
	}
	fmt.Fprintln(w)
	t := newTable("function", "", "flat", "", "with calls", "")
	for _, f := range funcs[:min(max(top, 0), len(funcs))] {
		t.row("  "+shortName(f.Name), "", amount(float64(f.Flat), unit), share(f.Flat, total), amount(float64(f.Cum), unit), share(f.Cum, total))
	}
	t.print(w)
}

// shortName drops the path before a function's package and the types of a generic one, which run over whole lines.
func shortName(s string) string {
	if open, end := strings.IndexByte(s, '['), strings.LastIndexByte(s, ']'); open >= 0 && end > open {
		s = s[:open] + "[...]" + s[end+1:]
	}
	return s[strings.LastIndexByte(s, '/')+1:]
}

func share(part, total int64) string {
	if total == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(total))
}

// amount prints a value of a profile in its unit.
func amount(v float64, unit string) string {
	switch unit {
	case "nanoseconds":
		return fmt.Sprintf("%.2f s", v/1e9)
	case "bytes":
		return fmt.Sprintf("%.2f MiB", v/(1<<20))
	}
	return grouped(v)
}
