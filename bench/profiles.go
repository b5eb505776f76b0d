package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/pprof/profile"
	"github.com/spf13/cobra"

	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/profiles"
)

const profilesExample = `  tidemark profiles receive --listen 127.0.0.1:4040 --dir received
  tidemark profiles diff a/cells/002-baseline b/cells/002-baseline
  tidemark profiles diff before.pprof after.pprof --work-a 1000000 --work-b 1200000 --top 10`

// profilesCommand is `tidemark profiles`: what is done with profiles outside a bench.
func profilesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "profiles",
		Short:   "Receive pushed profiles, and tell what grew between two",
		Example: profilesExample,
	}
	cmd.AddCommand(receiveCommand(), diffCommand())
	return cmd
}

func receiveCommand() *cobra.Command {
	listen, dir, most := "127.0.0.1:4040", "", 0
	cmd := &cobra.Command{
		Use:   "receive --dir DIR",
		Short: "Take what a Pyroscope client pushes and keep it as pprof files",
		Long: `Serves Pyroscope's push API (POST /ingest) and keeps each profile as a file in --dir, with a line in index.jsonl. It
prints "ready HOST:PORT" when it listens, and ends at SIGINT or SIGTERM.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return failWith(exitUsage, errors.New("where to? name a folder with --dir"))
			}
			if most < 0 {
				return failWith(exitUsage, fmt.Errorf("--max %d: want 0, for no bound, or more", most))
			}
			ctx, stop := signalContext(cmd.Context())
			defer stop()
			return receive(ctx, cmd.OutOrStdout(), listen, dir, most)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", listen, "HOST:PORT; port 0 takes a free one")
	cmd.Flags().StringVar(&dir, "dir", "", "folder for the profiles")
	cmd.Flags().IntVar(&most, "max", 0, "end after so many profiles (0: never)")
	return cmd
}

// receive serves until ctx ends, or most profiles have come.
func receive(ctx context.Context, out io.Writer, listen, dir string, most int) error {
	receiver, err := profiles.NewReceiver(dir)
	if err != nil {
		return failWith(exitFailure, err)
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return failWith(exitFailure, fmt.Errorf("listen for profiles: %w", err))
	}
	full := make(chan struct{}, 1)
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		receiver.ServeHTTP(w, r)
		if most > 0 && receiver.Count() >= most {
			select {
			case full <- struct{}{}:
			default:
			}
		}
	})}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	fmt.Fprintf(out, "ready %s\n", l.Addr())
	select {
	case err := <-failed:
		return failWith(exitFailure, err)
	case <-ctx.Done():
	case <-full:
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		_ = server.Close()
	}
	fmt.Fprintf(out, "%s in %s\n", plural(receiver.Count(), "profile"), dir)
	return nil
}

// diffFlags are the flags of `profiles diff`.
type diffFlags struct {
	workA, workB  float64
	top           int
	process, kind string
}

func diffCommand() *cobra.Command {
	f := diffFlags{workA: 1, workB: 1, top: 20, process: "broker", kind: string(profiles.CPU)}
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Tell what grew from one profile to another, per unit of work",
		Long: `A and B are pprof files, or folders of bench results (a repeat, a cell, a whole run), whose profiles of --process and
--kind are merged. Each side is divided by the records that its runs had acknowledged, or by --work-a and --work-b: MB,
requests, or records where the profiles are files. Under 1,000 samples on a side of a CPU profile no difference is shown.

Exit codes: 0 shown, 2 usage, 3 too few samples to tell.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(seen(cmd.OutOrStdout()), args[0], args[1]) },
	}
	cmd.Flags().Float64Var(&f.workA, "work-a", f.workA, "what A's process did, in any unit")
	cmd.Flags().Float64Var(&f.workB, "work-b", f.workB, "what B's process did, in the same unit")
	cmd.Flags().IntVar(&f.top, "top", f.top, "how many functions to show")
	cmd.Flags().StringVar(&f.process, "process", f.process, "of folders: broker or load")
	cmd.Flags().StringVar(&f.kind, "kind", f.kind, "of folders: cpu, heap, mutex, block")
	return cmd
}

func (f *diffFlags) run(w io.Writer, a, b string) error {
	kind, err := profiles.ParseKind(f.kind)
	if err == nil && !slices.ContainsFunc(processes, func(p struct{ file, name string }) bool { return p.file == f.process }) {
		err = fmt.Errorf("--process %q: want broker or load", f.process)
	}
	if err != nil {
		return failWith(exitUsage, err)
	}
	before, recordsA, err := f.side(a, kind)
	if err != nil {
		return failWith(exitUsage, err)
	}
	after, recordsB, err := f.side(b, kind)
	if err != nil {
		return failWith(exitUsage, err)
	}
	if f.workA == 1 && f.workB == 1 && recordsA > 0 && recordsB > 0 {
		f.workA, f.workB = float64(recordsA), float64(recordsB)
		fmt.Fprintf(w, "for each of the %s and %s records that the runs had acknowledged\n", grouped(f.workA), grouped(f.workB))
	}
	changes, err := profiles.Diff(before, after, f.workA, f.workB)
	switch {
	case errors.Is(err, profiles.ErrFewSamples):
		return failWith(exitInconclusive, err)
	case err != nil:
		return failWith(exitUsage, err)
	}
	printChanges(w, before, after, f.workA, f.workB, changes, f.top)
	return nil
}

// printChanges prints what grew, each side divided by its own work.
func printChanges(w io.Writer, before, after *profile.Profile, workA, workB float64, changes []profiles.Change, top int) {
	_, unit := profiles.Value(before)
	_, totalA := profiles.Top(before)
	_, totalB := profiles.Top(after)
	show := func(v float64) string { return amount(v, unit) }
	if workA != 1 || workB != 1 {
		show = func(v float64) string { return perWork(v, unit) }
	}
	perA, perB := float64(totalA)/workA, float64(totalB)/workB
	fmt.Fprintf(w, "all  %s -> %s  %s\n", show(perA), show(perB), signed(show, perB-perA))
	t := newTable("function", "", "A", "B", "change")
	for _, c := range changes[:min(max(top, 0), len(changes))] {
		t.row("  "+shortName(c.Name), "", show(c.Before), show(c.After), signed(show, c.After-c.Before))
	}
	t.print(w)
}

func signed(show func(float64) string, v float64) string {
	if v < 0 {
		return "-" + show(-v)
	}
	return "+" + show(v)
}

// perWork prints what a unit of work cost, which is small.
func perWork(v float64, unit string) string {
	switch unit {
	case "nanoseconds":
		return fmt.Sprintf("%.4g ns", v)
	case "bytes":
		return fmt.Sprintf("%.4g B", v)
	}
	return fmt.Sprintf("%.4g", v)
}

// side reads a file, or merges what lies below a folder; records is what the runs that the profiles came from had
// acknowledged, 0 where there is no result beside each of them.
func (f *diffFlags) side(path string, kind profiles.Kind) (merged *profile.Profile, records int64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.IsDir() {
		merged, err = readProfile(path)
		return merged, 0, err
	}
	name := profiles.Name(f.process, kind)
	var files []string
	err = filepath.WalkDir(path, func(at string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && e.Name() == name {
			files = append(files, at)
		}
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	merged, n, err := mergeFiles(files)
	if err == nil && n == 0 {
		err = fmt.Errorf("%s holds no %s", path, name)
	}
	for _, file := range files {
		r, readErr := result.Read(filepath.Dir(filepath.Dir(file)))
		if readErr != nil {
			return merged, 0, err // a folder of profiles alone: nothing to divide by
		}
		records += r.Ends.Acked + r.Ends.HandedToSocket
	}
	return merged, records, err
}
