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
	"github.com/tidemark/tidemark/loadgen"
)

func main() {
	root := &cobra.Command{Use: "tidemark", Short: "a Kafka-protocol broker, a load generator and a bench", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(broker.Commands()...)
	root.AddCommand(loadgen.Commands()...)
	root.AddCommand(bench.Commands()...)
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
	os.Exit(5)
}
