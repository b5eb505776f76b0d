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
		Use:   "profile DIR [CELL]",
		Short: "Print what the target and the generator spent their time on in a cell",
		Long: `CELL is a cell's name or number, the baseline where it is left out. CPU profiles are those of the cell's repeats,
merged; heap, mutex and block are those of its one profiled repeat. The files stand in DIR/cells/*/*/profiles/, for
go tool pprof.`,
		Example: profileExample,
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := profiles.ParseKind(kind)
			if err != nil {
				return failWith(exitUsage, err)
			}
			d, err := store.Load(args[0])
			if err != nil {
				return failWith(exitUsage, err)
			}
			name := "baseline"
			if len(args) > 1 {
				name = args[1]
			}
			c, err := cellCalled(d, name)
			if err != nil {
				return failWith(exitUsage, err)
			}
			return printProfiles(cmd.OutOrStdout(), d, c, k, top)
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

// printProfiles prints the top functions of both processes in a cell.
func printProfiles(w io.Writer, d *store.Data, c *store.Cell, k profiles.Kind, top int) error {
	runs := d.RunsOf(c.Number)
	if !profiles.Light([]profiles.Kind{k}) {
		runs = nil
		for _, r := range d.Profiled {
			if r.Cell == c.Number {
				runs = append(runs, r)
			}
		}
	}
	found := false
	for _, p := range processes {
		var files []string
		for _, r := range runs {
			files = append(files, filepath.Join(r.Dir, "profiles", profiles.Name(p.file, k)))
		}
		merged, n, err := mergeFiles(files)
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
		return failWith(exitUsage, fmt.Errorf("cell %q of %s keeps no %s profile; tidemark bench plan SUITE tells which cells do", c.Name, d.Dir, k))
	}
	return nil
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
