package loadgen

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/loadgen/sink"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// TestMain makes the test binary a sink of its own where the environment says so: a target in the same process would be
// charged to the generator.
func TestMain(m *testing.M) {
	if os.Getenv("LOADGEN_TEST_SINK") == "" {
		os.Exit(m.Run())
	}
	s, err := sink.New(sink.Script{Partitions: 6})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent has gone
	_ = s.Close()
}

func sinkProcess(tb testing.TB) string {
	tb.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LOADGEN_TEST_SINK=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// BenchmarkDrivers is what a CPU-second of the generator is worth with each driver, in records: the whole of it, sources,
// envelopes, acks and books included. The two real drivers send to a sink in another process.
func BenchmarkDrivers(b *testing.B) {
	addr := sinkProcess(b)
	for _, size := range []workload.Bytes{100, 1 << 10} {
		for _, name := range []string{workload.DriverRaw, workload.DriverKgo, workload.DriverNull} {
			b.Run(fmt.Sprintf("size=%s/driver=%s", size, name), func(b *testing.B) {
				var records, cpu float64
				var allocs int64
				for b.Loop() {
					s := workload.Default()
					s.Question, s.Rate, s.Driver = workload.Capacity, 0, name
					s.RecordSize, s.BatchSize = workload.FixedSize(int(size)), 256<<10
					s.WarmUp, s.Window = workload.Duration(300*time.Millisecond), workload.Duration(time.Second)
					res, err := Run(context.Background(), Options{Spec: &s, Bootstrap: []string{addr}})
					if res == nil {
						b.Fatal(err)
					}
					records += res.Produce.RecordsPerSec * res.Window.Seconds()
					cpu += float64(res.Generator.CPUNanos) / 1e9
					allocs += *res.Generator.Allocations
				}
				b.ReportMetric(records/cpu, "records/CPU-s")
				b.ReportMetric(float64(allocs)/records, "allocs/record")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
