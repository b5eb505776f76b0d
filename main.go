// Command tidemark is a Kafka-protocol broker, a load generator and a bench in one static binary.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/tidemark/tidemark/bench"
	"github.com/tidemark/tidemark/broker"
	"github.com/tidemark/tidemark/core/buildinfo"
	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/loadgen"
)

func main() {
	if len(os.Args) > 1 && (os.Args[1] == "broker" || os.Args[1] == "load") {
		_ = clock.CoarseTimers() // where it cannot be had, things cost more and work as well
	}
	root := &cobra.Command{Use: "tidemark", Short: "a Kafka-protocol broker, a load generator and a bench", SilenceUsage: true, SilenceErrors: true,
		Version: buildinfo.Version()}
	root.AddCommand(broker.Commands()...)
	root.AddCommand(loadgen.Commands()...)
	root.AddCommand(bench.Commands()...)
	// cobra looks at command, flags and arguments before this: what goes wrong until then is a usage error.
	began := false
	root.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return
	}
	if err.Error() != "" {
		fmt.Fprintln(os.Stderr, "tidemark: "+err.Error())
	}
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		os.Exit(coded.ExitCode())
	}
	if !began {
		os.Exit(2)
	}
	os.Exit(5)
}
