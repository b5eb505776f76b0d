package versus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark/tidemark/broker/proc"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// The generators' row: windows of each against our broker, each a process of its own; of kafka-producer-perf-test, which no goal
// is set by and which starts a JVM four times for a figure, fewer.
const (
	generatorRounds  = 5
	perfTestRounds   = 2
	generatorWindow  = 2 * time.Second
	generatorTimeout = 2 * time.Minute
)

// generators measures the records for each CPU-second of our two drivers and of kafka-producer-perf-test, against this
// program's broker.
func (s *session) generators(ctx context.Context, r *Row) error {
	a := s.arms[0]
	if err := a.up(ctx, true); err != nil {
		return err
	}
	for round := range generatorRounds {
		w := &Window{Arm: a.info.Name, Pair: round, Alone: map[string]float64{}}
		for _, size := range []struct {
			name  string
			bytes int
			batch string
		}{{"1 KiB", 1024, "64KiB"}, {"100 B", 100, "64KiB"}} {
			for _, driver := range []string{workload.DriverRaw, workload.DriverKgo} {
				v, err := s.driverCost(ctx, a, r, driver, size.bytes, size.batch, round)
				if err != nil {
					return err
				}
				w.Alone[driver+" "+size.name] = v
			}
			if s.classes == "" || round >= perfTestRounds {
				continue
			}
			v, err := s.perfTestCost(ctx, a, size.bytes)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				s.note("kafka-producer-perf-test: " + err.Error())
				continue
			}
			w.Alone["perf-test "+size.name] = v
		}
		s.figures(r.Name, 1, w)
		s.say("generators  %v", w.Alone)
		if err := s.save(); err != nil {
			return err
		}
	}
	return a.down()
}

// driverCost is the records for each CPU-second of a load process.
func (s *session) driverCost(ctx context.Context, a *arm, r *Row, driver string, size int, batch string, round int) (float64, error) {
	spec := workload.Default()
	spec.Name = r.Name + "-" + driver
	spec.Question, spec.Rate, spec.Driver, spec.Linger = workload.Capacity, 0, driver, workload.Duration(5*time.Millisecond)
	spec.WarmUp, spec.Window, spec.MaxBytes = workload.Duration(300*time.Millisecond), workload.Duration(generatorWindow), 1<<30
	for name, value := range map[string]string{"record-size": strconv.Itoa(size) + "B", "batch-size": batch, "request-max": "1MiB", "partitioner": "roundrobin", "idempotence": "true"} {
		if err := spec.Set(name, value); err != nil {
			return 0, fmt.Errorf("row %s: %s: %w", r.Name, name, err)
		}
	}
	res, err := s.loadOnly(ctx, a, r, &spec, round)
	if err != nil {
		return 0, err
	}
	return res, nil
}

// loadOnly runs a load and returns the records it got acked for each CPU-second of its own.
func (s *session) loadOnly(ctx context.Context, a *arm, r *Row, spec *workload.Spec, round int) (float64, error) {
	w, err := s.runBeside(ctx, a, job{row: &Row{Name: spec.Name, Title: r.Title}, spec: spec, pair: round})
	if err != nil {
		return 0, err
	}
	if w.GeneratorCPUSeconds <= 0 {
		return 0, fmt.Errorf("generator %s: no figure: %s %v", spec.Name, w.Status, w.Reasons)
	}
	return w.Records / w.GeneratorCPUSeconds, nil
}

// perfTestCost is the same of kafka-producer-perf-test. Starting a JVM costs a second or more: two runs of different length
// are compared, so that what both have cancels out.
func (s *session) perfTestCost(ctx context.Context, a *arm, size int) (float64, error) {
	s.order++
	topic := fmt.Sprintf("versus-%s-%d-perf", s.id, s.order)
	if err := makeTopic(ctx, a.target.Bootstrap, topic, 6, nil); err != nil {
		return 0, err
	}
	defer func() { _ = dropTopic(ctx, a.target.Bootstrap, topic) }()
	short, long := 100_000, 400_000
	if size < 1024 {
		short, long = 500_000, 2_000_000
	}
	var cpu [2]time.Duration
	for i, records := range []int{short, long} {
		var err error
		if cpu[i], err = s.perfTest(ctx, a, topic, records, size); err != nil {
			return 0, err
		}
	}
	if cpu[1] <= cpu[0] {
		return 0, errors.New("the longer run used no more CPU than the shorter one")
	}
	return float64(long-short) / (cpu[1] - cpu[0]).Seconds(), nil
}

func (s *session) perfTest(ctx context.Context, a *arm, topic string, records, size int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, generatorTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.options.Kafka, "run", "ProducerPerformance", "--topic", topic, "--num-records", strconv.Itoa(records),
		"--record-size", strconv.Itoa(size), "--throughput", "-1", "--command-property", "bootstrap.servers="+a.target.Bootstrap, "acks=all",
		"linger.ms=5", "batch.size=65536", "buffer.memory=67108864")
	cmd.Env = append(os.Environ(), "KAFKA_JVM=-Xmx512m")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := proc.Pinned(s.options.loadCores, cmd.Start); err != nil {
		return 0, err
	}
	if err := cmd.Wait(); err != nil {
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		return 0, fmt.Errorf("%w: %s", err, lines[len(lines)-1])
	}
	if !strings.Contains(out.String(), strconv.Itoa(records)+" records sent") {
		return 0, fmt.Errorf("it did not say that it sent %d records", records)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}
