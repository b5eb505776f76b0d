package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark/tidemark/bench/export"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/verify"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
)

func verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify DIR",
		Short: "Recompute every published figure of a run by a second program, and check its hashes",
		Long: `Decodes each histogram log, takes percentiles, rates and cost of each repeat again, pools noise, compares cells and makes
the tables and each sentence of the Answer anew, by a program that shares no code with the one that published them. What
does not hold is named with its cell; what the files do not hold is listed as not checked. Then the SHA-256 of every file
is compared, which shows accidents, not forgery.

Exit codes: 0 all holds, 2 no such run, 4 something does not hold.`,
		Example: "  tidemark bench verify results/quick",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := verify.Dir(args[0])
			if err != nil {
				return failWith(exitUsage, err)
			}
			return printVerified(cmd.OutOrStdout(), args[0], o)
		},
	}
}

func printVerified(w io.Writer, dir string, o *verify.Outcome) error {
	w = seen(w)
	for _, f := range o.Findings {
		fmt.Fprintf(w, "%s: %s\n", f.Place, f.Text)
	}
	for _, n := range o.NotChecked {
		fmt.Fprintf(w, "not checked: %s\n", n)
	}
	sealed := fmt.Sprintf("%s match their hashes", plural(o.Files, "file"))
	if !o.Sealed {
		sealed += ", the folder itself is not sealed"
	}
	if len(o.Findings) > 0 {
		fmt.Fprintf(w, "DOES NOT HOLD %s in %s\n", plural(len(o.Findings), "finding"), dir)
		return failWith(exitInvalid, fmt.Errorf("verify: %s of %s %s not hold", plural(len(o.Findings), "figure"), dir, map[bool]string{true: "does", false: "do"}[len(o.Findings) == 1]))
	}
	fmt.Fprintf(w, "HOLDS %s, %s decoded, %s of runs, %s published, %s of the Answer recomputed; %s\n", plural(o.Cells, "cell"), plural(o.Histograms, "histogram"),
		plural(o.Figures, "figure"), plural(o.Published, "figure"), plural(o.Sentences, "sentence"), sealed)
	return nil
}

func exportCommand() *cobra.Command {
	format, out := "", ""
	names := make([]string, 0, 4)
	for _, f := range export.Formats() {
		names = append(names, string(f))
	}
	cmd := &cobra.Command{
		Use:   "export DIR --format FORMAT",
		Short: "Write a run's results in the forms that other tools take",
		Long: `  omb      one JSON a run, as OpenMessaging Benchmark writes them, into the folder --out
  gobench  Go benchmark text, one line a run, for benchstat
  gab      customBiggerIsBetter.json and customSmallerIsBetter.json for github-action-benchmark, into the folder --out
  csv      one row a run

Only runs that count are written; what was not measured is left out, never 0.`,
		Example: "  tidemark bench export results/quick --format gobench --out quick.txt\n  tidemark bench export results/quick --format omb --out quick-omb",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f := export.Format(format)
			if !strings.Contains(" "+strings.Join(names, " ")+" ", " "+format+" ") || format == "" {
				hint := ""
				if near := workload.Nearest(format, names); near != "" {
					hint = fmt.Sprintf(" (did you mean %q?)", near)
				}
				return failWith(exitUsage, fmt.Errorf("--format %q%s: want one of %s", format, hint, strings.Join(names, ", ")))
			}
			if f.Files() && out == "" {
				return failWith(exitUsage, fmt.Errorf("%s is several files: name a folder for them with --out", format))
			}
			d, err := store.Load(args[0])
			if err != nil {
				return failWith(exitUsage, err)
			}
			return failWith(exitFailure, exportTo(d, f, out, cmd.OutOrStdout()))
		},
	}
	cmd.Flags().StringVar(&format, "format", "", strings.Join(names, ", "))
	cmd.Flags().StringVar(&out, "out", "", "file, or folder where the format is several files (default: standard output)")
	return cmd
}

type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

func exportTo(d *store.Data, f export.Format, out string, stdout io.Writer) error {
	n := 0
	err := export.Write(d, f, func(name string) (io.WriteCloser, error) {
		n++
		switch {
		case out == "":
			return keepOpen{stdout}, nil
		case name == "":
			return os.Create(out)
		}
		if err := os.MkdirAll(out, 0o755); err != nil {
			return nil, err
		}
		return os.Create(filepath.Join(out, name))
	})
	if err == nil && n == 0 {
		err = errors.New("no run of it counts: nothing was written")
	}
	if err == nil && out != "" {
		fmt.Fprintf(stdout, "%s in %s\n", plural(n, "file"), out)
	}
	return err
}

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the files of a run and every field in them",
		Args:  cobra.NoArgs,
		Run:   func(cmd *cobra.Command, _ []string) { printSchema(cmd.OutOrStdout()) },
	}
}

// schemaFiles are the JSON files of a run with what is in them.
var schemaFiles = []struct {
	name, about string
	of          reflect.Type
}{
	{"plan.json", "what the run set out to do, written before its first run", reflect.TypeFor[store.Plan]()},
	{"status.json", "where it stands", reflect.TypeFor[store.Status]()},
	{"host.json", "what the host is and can do at best", reflect.TypeFor[store.Host]()},
	{"cells/NNN-NAME/rep-K/run.json", "one repeat: its state, the target's counters, memory, ceilings", reflect.TypeFor[store.Run]()},
	{"cells/NNN-NAME/rep-K/result.json", "what the load process measured", reflect.TypeFor[result.Result]()},
}

func printSchema(w io.Writer) {
	fmt.Fprintf(w, `A run is a folder of plain files, schema %d (result.json: %d). Fields are added and never change their meaning; one that went
would need another number. A reader refuses a file of a newer schema and reads all older ones.

  plan.json suite.yaml host.json status.json       the run
  cells/NNN-NAME/rep-K/                            one repeat, whole or not there
    cell.yaml                                      the workload as tidemark load was given it
    result.json run.json                           what was measured
    ack.hlog delivery.hlog                         HdrHistogram logs 1.3, one histogram a second, in nanoseconds; other
                                                   clocks stand in ack.hlog with their tag
    load.log target.log profiles/*.pprof
  cells/NNN-NAME/profiled/                         a repeat with heavy profiles, in no statistic
  report.html report.md                            what people read
  hashes.txt                                       SHA-256 of every other file: sha256sum -c hashes.txt

Times in ...Nanos are CLOCK_MONOTONIC or lengths, in nanoseconds; a percentile with censored=true is a lower bound; a
field that is absent or null was not measured, which is never 0.
`, store.Schema, result.Schema)
	for _, f := range schemaFiles {
		fmt.Fprintf(w, "\n%s: %s\n", f.name, f.about)
		fields(w, f.of, "  ", map[reflect.Type]bool{})
	}
}

// fields prints the fields of a struct, and below each those of its own.
func fields(w io.Writer, t reflect.Type, indent string, above map[reflect.Type]bool) {
	above[t] = true
	defer delete(above, t)
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "-" || !t.Field(i).IsExported() || name == "" {
			continue
		}
		of, suffix := t.Field(i).Type, ""
		for {
			switch of.Kind() {
			case reflect.Pointer:
				of, suffix = of.Elem(), suffix+" or null"
			case reflect.Slice:
				of, suffix = of.Elem(), " list of"+suffix
			case reflect.Map:
				of, suffix = of.Elem(), " by name"+suffix
			default:
				goto found
			}
		}
	found:
		kind := of.Kind().String()
		switch {
		case of.String() == "time.Time":
			kind = "time, RFC 3339"
		case of == reflect.TypeFor[workload.Spec]():
			kind = "the fields of a workload file"
		case of.Kind() == reflect.Struct:
			kind = "object"
		}
		fmt.Fprintf(w, "%s%-24s%s\n", indent, name, strings.TrimSpace(strings.TrimSuffix(suffix, " or null")+" "+kind+orNull(suffix)))
		if kind == "object" && !above[of] {
			fields(w, of, indent+"  ", above)
		}
	}
}

func orNull(suffix string) string {
	if strings.HasSuffix(suffix, " or null") {
		return " or null"
	}
	return ""
}
