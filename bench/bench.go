// Package bench is the front door of the benchmark kit: the commands `bench ...`, `host` and `profiles ...`.
//
//	suites -> matrix -> target (one run after the other) -> store -> gate -> terminal, report
//
// It runs plans and prints; what is counted and when a difference is one is decided in the packages below it, by
// METHOD. Commands that read results never run a load. A run belongs to one goroutine; children are ended on every
// way out, and die with this process when it is killed.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tidemark/tidemark/bench/exit"
	"github.com/tidemark/tidemark/bench/versus"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// Exit codes of the interface.
const (
	exitRegression   = exit.Regression
	exitUsage        = exit.Usage
	exitInconclusive = exit.Inconclusive
	exitInvalid      = exit.Invalid
	exitFailure      = exit.Failure
)

func failWith(code int, err error) error { return exit.With(code, err) }

// Commands returns the commands of this half: bench, host and profiles.
func Commands() []*cobra.Command {
	bench := &cobra.Command{
		Use:   "bench",
		Short: "Run a matrix of workloads, read, compare and gate results",
		Example: `  tidemark bench run quick
  tidemark bench plan quick
  tidemark bench compare run-20261129-221500 run-20261130-101500
  tidemark bench verify results/quick`,
		Args: cobra.ArbitraryArgs,
	}
	bench.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return failWith(exitUsage, unknownCommand(cmd, args[0])) // a mistyped gate must not end with 0
	}
	bench.AddCommand(runCommand(), planCommand(), reportCommand(), compareCommand(), gateCommand(), profileCommand(), verifyCommand(), exportCommand(), schemaCommand(), versus.Command(func() string { return versions().String() }))
	return []*cobra.Command{usageErrors(bench), usageErrors(hostCommand()), usageErrors(profilesCommand())}
}

func unknownCommand(parent *cobra.Command, name string) error {
	var known []string
	for _, c := range parent.Commands() {
		known = append(known, c.Name())
	}
	hint := ""
	if near := workload.Nearest(name, known); near != "" {
		hint = fmt.Sprintf(" (did you mean %q?)", near)
	}
	return fmt.Errorf("%s has no command %q%s: it has %s", parent.CommandPath(), name, hint, strings.Join(known, ", "))
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

// isTerminal reports whether w is one.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// errInvalidRuns says that a bench holds runs whose numbers mean nothing.
var errInvalidRuns = errors.New("the bench holds invalid runs: data was lost or damaged, or a process died; see the report")

// usageErrors makes wrong flags and arguments end with the exit code of a usage error.
func usageErrors(cmd *cobra.Command) *cobra.Command {
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return failWith(exitUsage, err) })
	for _, c := range append(cmd.Commands(), cmd) {
		if check := c.Args; check != nil {
			c.Args = func(c *cobra.Command, args []string) error { return failWith(exitUsage, check(c, args)) }
		}
	}
	return cmd
}

func mib(bytes int64) string {
	if bytes >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20))
}
