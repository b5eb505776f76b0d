package calibrate

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/sink"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// tenth makes a control group that gets a tenth of one core, in slices of 5 ms, and returns the file that takes members.
func tenth(t *testing.T) (members string) {
	t.Helper()
	name := fmt.Sprintf("tidemark-test-%d", os.Getpid())
	write := func(dir, file, text string) error { return os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644) }
	made := func(dir string, settings ...[2]string) bool {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return false
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		for _, s := range settings {
			if err := write(dir, s[0], s[1]); err != nil {
				return false
			}
		}
		return true
	}
	if dir := filepath.Join("/sys/fs/cgroup", name); made(dir, [2]string{"cpu.max", "5000 50000"}) {
		return filepath.Join(dir, "cgroup.procs")
	}
	if dir := filepath.Join("/sys/fs/cgroup/cpu", name); made(dir, [2]string{"cpu.cfs_period_us", "50000"}, [2]string{"cpu.cfs_quota_us", "5000"}) {
		return filepath.Join(dir, "cgroup.procs")
	}
	t.Skip("no control group for CPU can be made under /sys/fs/cgroup: it needs root, or a delegated group")
	return ""
}

// TestAStarvedGeneratorConvictsItself gives the load process a tenth of a core. It must say that it was the limit, and how
// late it says that it was must be how late its records arrived by the sink's log.
func TestAStarvedGeneratorConvictsItself(t *testing.T) {
	members := tenth(t)
	s := base()
	s.Question, s.Rate, s.Arrivals, s.Verify = workload.Latency, 4000, workload.ArrivalsConstant, workload.VerifyOn
	s.WarmUp, s.Window = workload.Duration(200*time.Millisecond), workload.Duration(1500*time.Millisecond)
	wrong := ""
	const tries = 8
	for try := range tries {
		dir := filepath.Join(t.TempDir(), fmt.Sprint(try))
		res, arrivals, err := against(t.Context(), &Options{Env: []string{"JOIN_GROUP=" + members}}, sink.Script{LogArrivals: true}, &s, dir)
		if err != nil {
			t.Fatal(err)
		}
		pacer := res.Clocks[result.Pacer]
		truth := truthOf(&s, res, arrivals)
		q, _ := pacer.At(50)
		own, log := q.Nanos, percentile(truth.sent, 50)
		p99, _ := pacer.At(99)
		t.Logf("late by its own account p50 %d, p99 %d ns; by the log %d, %d ns; %v", own, p99.Nanos, log, percentile(truth.sent, 99), res.Verdicts)
		switch limited := res.Has(result.GeneratorLimited); {
		case !limited:
			wrong = fmt.Sprintf("a tenth of a core is enough, it says: pacer p99 %d ns, %+v", p99.Nanos, res.Verdicts)
		case try == tries-1 && log >= own && log-own < own/10:
			t.Log("a busy host: the sink woke late in every try")
			return
		case log-own > int64(100*time.Microsecond)+own/500 || own-log > own/500:
			wrong = fmt.Sprintf("late by its own account %d ns, by the log %d ns", own, log)
		default:
			return
		}
	}
	t.Error(wrong)
}
