// Package versus measures this broker beside Apache Kafka in one interleaved session on one machine (METHOD 5), and
// prints the table of what we measure ourselves against: `tidemark bench versus`, `make versus`.
//
//	processes (three times):  start tidemark, Kafka with its defaults, Kafka tuned; all stay alive, pinned to the broker's core
//	  row by row:             ceiling | T K U | U K T | T K U ... | ceiling       a window is one `tidemark load` on the other core
//	                          until the last five windows of each side are settled, or the row's share of the budget is spent
//	afterwards:               what needs a process of its own: start, memory, 10,000 partitions, the generators
//
// A window's figure is the work it did for each CPU-second of the broker, or a percentile of its latency. Windows of the two
// sides that ran next to each other are a pair; the ratio of a row is the geometric mean over the pairs of all processes
// with its interval (bench/stats), against the better of Kafka's two settings. A block that did not settle is dropped whole.
// What was acknowledged is read back in every window.
//
// The rows, the settings of both sides and the goals are data: versus.yaml. Everything that the tables and the report say is
// computed from versus.json (Document), which is written anew after every window; Analyse is pure. This package starts the
// brokers through bench/target and ends only what it started. One goroutine drives a session.
package versus

import "github.com/tidemark/tidemark/bench/exit"

// Exit codes of the interface.
const (
	exitUsage        = exit.Usage
	exitInconclusive = exit.Inconclusive
	exitInvalid      = exit.Invalid
	exitFailure      = exit.Failure
)

func failWith(code int, err error) error { return exit.With(code, err) }
