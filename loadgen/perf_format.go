package loadgen

import (
	"fmt"
	"io"

	"github.com/tidemark/tidemark/loadgen/result"
)

// printPerf writes the last line of kafka-producer-perf-test over the whole window. A capacity run has no latency, and its
// places hold 0: the form has no word for that.
func printPerf(w io.Writer, res *result.Result) {
	l := res.Clocks[result.Ack]
	at := func(p float64) int64 {
		q, _ := l.At(p)
		return (q.Nanos + 500_000) / 1_000_000
	}
	_, _ = fmt.Fprintf(w, "%d records sent, %.6f records/sec (%.2f MB/sec), %.2f ms avg latency, %.2f ms max latency, %d ms 50th, %d ms 95th, %d ms 99th, %d ms 99.9th.\n",
		res.Ends.Acked+res.Ends.HandedToSocket, res.Produce.RecordsPerSec, res.Produce.BytesPerSec/(1<<20), l.MeanNanos/1e6, float64(l.MaxNanos)/1e6,
		at(50), at(95), at(99), at(99.9))
}
