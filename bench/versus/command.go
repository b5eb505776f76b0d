package versus

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// Command returns `versus`, for `tidemark bench`. version names this build.
func Command(version func() string) *cobra.Command {
	var o Options
	var quick, reportOnly bool
	cmd := &cobra.Command{
		Use:   "versus",
		Short: "Measure this broker beside Apache Kafka, interleaved on this machine, and print the table",
		Long: `Starts this program's broker and Apache Kafka (with its defaults, and tuned for two cores) as children, all alive at
once on one core, loads them in turns from the other core, and compares pairs of windows: cost for each CPU-second of
the broker, latency, memory, starts. What was acknowledged is read back.

Apache Kafka comes from its Maven artifacts by scripts/kafka: it needs java (17 or newer) and mvn, which downloads about
130 MB to its own folder the first time. Nothing else is installed.

Results are plain files in --out: versus.json is written after every row, report.html and report.md at the end, also of a
session that was interrupted; --resume goes on with it, or measures further --rows into the same table: on the same host,
with the same suite, profile and Kafka. Rows whose blocks are of several builds say so, and tell no goal.

It ends with 0 also where the budget was spent before the last row, with 3 where no block settled, with 4 where data were
lost or damaged, or repeated or reordered although idempotence is on, and with 5 where it was interrupted, could not go on,
or every row failed. --report ends with 4 or 0.`,
		Example: "  tidemark bench versus --out results/versus-today\n  tidemark bench versus --quick --out run-versus\n  tidemark bench versus --report --out results/versus-today",
		Args:    func(cmd *cobra.Command, args []string) error { return failWith(exitUsage, cobra.NoArgs(cmd, args)) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Out == "" {
				o.Out = "run-versus-" + time.Now().UTC().Format("20060102-150405")
			}
			if reportOnly {
				d, err := Read(o.Out)
				if err != nil {
					return failWith(exitUsage, err)
				}
				return finish(cmd.OutOrStdout(), d, o.Out)
			}
			if quick {
				o.Profile = "quick"
			}
			if err := needs(o.Kafka); err != nil {
				return failWith(exitUsage, err)
			}
			o.KeepSeed = !cmd.Flags().Changed("seed")
			o.Version, o.Progress, o.Command = version(), cmd.ErrOrStderr(), append([]string{"tidemark"}, os.Args[1:]...)
			var err error
			if o.Kafka, err = filepath.Abs(o.Kafka); err != nil {
				return err
			}
			if o.Out, err = filepath.Abs(o.Out); err != nil {
				return err
			}
			ctx, stop := signalContext(cmd.Context())
			defer stop()
			d, err := Run(ctx, o)
			if d == nil {
				return failWith(exitFailure, err)
			}
			return ending(cmd.OutOrStdout(), d, o.Out, err)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Out, "out", "", "folder for the results (default run-versus-<time>)")
	f.StringVar(&o.Profile, "profile", "full", "full (three processes of each side, Kafka's tuned set beside in some rows), defaults (the same without it) or quick")
	f.BoolVar(&quick, "quick", false, "the same as --profile quick: under 8 minutes, one process of each side, fewer rows")
	f.StringSliceVar(&o.Rows, "rows", nil, "only these rows, by name")
	f.DurationVar(&o.Budget, "budget", 0, "how long all may take (default the profile's: 60m, defaults 58m, quick 8m)")
	f.Uint64Var(&o.Seed, "seed", 7, "base of every random number; --resume keeps the session's")
	f.BoolVar(&o.Resume, "resume", false, "go on with the session in --out, row by row, where host, suite, profile and Kafka are the same")
	f.BoolVar(&reportOnly, "report", false, "measure nothing: print the table of --out and write its report again")
	f.StringVar(&o.Kafka, "kafka", "scripts/kafka/kafka", "the script that brings and starts Apache Kafka")
	return cmd
}

// signalContext ends at SIGINT and SIGTERM; a second signal has its usual effect, and the children die with us.
func signalContext(parent context.Context) (context.Context, context.CancelFunc) {
	if parent == nil {
		parent = context.Background()
	}
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop()
	}()
	return ctx, stop
}
