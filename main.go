// Command tidemark is a Kafka-protocol broker, a load generator and a bench in one static binary.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{Use: "tidemark", Short: "Kafka-protocol broker, load generator and bench", SilenceUsage: true, SilenceErrors: true}
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "tidemark:", err)
		os.Exit(2)
	}
}
