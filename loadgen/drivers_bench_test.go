package loadgen

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/loadgen/sink"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// TestMain makes the test binary a sink of its own where the environment says so: a target in the same process would be
// charged to the generator.
func TestMain(m *testing.M) {
	if os.Getenv("LOADGEN_TEST_SINK") == "" {
		os.Exit(m.Run())
	}
	if core, err := strconv.Atoi(os.Getenv("LOADGEN_TEST_SINK")); err == nil {
		pin(core)
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

// pin moves all threads of this process to one core, as far as the host allows it.
func pin(core int) {
	var set unix.CPUSet
	set.Set(core)
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, t := range tasks {
		if id, err := strconv.Atoi(t.Name()); err == nil {
			_ = unix.SchedSetaffinity(id, &set)
		}
	}
}

// sinkProcess starts a sink; where the caller was started on one core alone (taskset), the sink takes the neighbour.
func sinkProcess(tb testing.TB) string {
	tb.Helper()
	core := "any"
	var mine unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mine); err == nil && mine.Count() == 1 {
		core = "0"
		if mine.IsSet(0) {
			core = "1"
		}
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LOADGEN_TEST_SINK="+core)
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

// spent is what one or more runs cost.
type spent struct {
	records, cpu float64
	allocs       int64
}

func (s *spent) add(tb testing.TB, addr, driver string, size workload.Bytes, verifying string) {
	tb.Helper()
	w := workload.Default()
	w.Question, w.Rate, w.Driver, w.Verify = workload.Capacity, 0, driver, verifying
	w.RecordSize, w.BatchSize = workload.FixedSize(int(size)), 256<<10
	w.WarmUp, w.Window = workload.Duration(300*time.Millisecond), workload.Duration(time.Second)
	res, err := Run(context.Background(), Options{Spec: &w, Bootstrap: []string{addr}})
	if res == nil {
		tb.Fatal(err)
	}
	s.records += res.Produce.RecordsPerSec * res.Window.Seconds()
	s.cpu += float64(res.Generator.CPUNanos) / 1e9
	s.allocs += *res.Generator.Allocations
}

// BenchmarkDrivers is what a CPU-second of the generator is worth with each driver, in records: the whole of it, sources,
// envelopes, acks and books included. The two real drivers send to a sink in another process.
func BenchmarkDrivers(b *testing.B) {
	addr := sinkProcess(b)
	for _, size := range []workload.Bytes{100, 1 << 10} {
		for _, verifying := range []string{workload.VerifyOn, workload.VerifyOff} {
			for _, name := range []string{workload.DriverRaw, workload.DriverKgo, workload.DriverNull} {
				b.Run(fmt.Sprintf("size=%s/verify=%s/driver=%s", size, verifying, name), func(b *testing.B) {
					var s spent
					for b.Loop() {
						s.add(b, addr, name, size, verifying)
					}
					b.ReportMetric(s.records/s.cpu, "records/CPU-s")
					b.ReportMetric(float64(s.allocs)/s.records, "allocs/record")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// BenchmarkRawBesideKgo is what raw saves: each round runs raw, kgo, kgo, raw and null, so that a busy host is busy for
// all of them. The ratios are geometric means over the rounds.
func BenchmarkRawBesideKgo(b *testing.B) {
	addr := sinkProcess(b)
	for _, size := range []workload.Bytes{100, 1 << 10} {
		for _, verifying := range []string{workload.VerifyOn, workload.VerifyOff} {
			b.Run(fmt.Sprintf("size=%s/verify=%s", size, verifying), func(b *testing.B) {
				var all [3]spent
				ratio, rounds := 0.0, 0.0
				for b.Loop() {
					var raw, kgo, null spent
					raw.add(b, addr, workload.DriverRaw, size, verifying)
					kgo.add(b, addr, workload.DriverKgo, size, verifying)
					kgo.add(b, addr, workload.DriverKgo, size, verifying)
					raw.add(b, addr, workload.DriverRaw, size, verifying)
					null.add(b, addr, workload.DriverNull, size, verifying)
					ratio += math.Log(raw.records / raw.cpu * kgo.cpu / kgo.records)
					rounds++
					for i, s := range []spent{raw, kgo, null} {
						all[i].records += s.records
						all[i].cpu += s.cpu
					}
				}
				for i, name := range []string{"raw", "kgo", "null"} {
					b.ReportMetric(all[i].cpu/all[i].records*1e9, name+"-CPU-ns/record")
				}
				b.ReportMetric(math.Exp(ratio/rounds), "raw/kgo")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
