package calibrate

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/loadgen"
	"github.com/tidemark/tidemark/loadgen/result"
)

// TestMain lets this test binary be the load process: `<binary> load ...`. FALSIFY changes the result that it wrote, as a
// generator that measures wrongly would have.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "load" {
		os.Exit(load(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func load(args []string) int {
	if members := os.Getenv("JOIN_GROUP"); members != "" {
		if err := os.WriteFile(members, []byte("0"), 0o644); err != nil {
			return 5
		}
	}
	cmd := loadgen.Commands()[0]
	cmd.SetArgs(args)
	code := loadgen.ExitCode(cmd.Execute())
	falsify := falsehoods()[os.Getenv("FALSIFY")]
	if falsify == nil {
		return code
	}
	dir := args[slices.Index(args, "--out")+1]
	res, err := result.Read(dir)
	if err != nil {
		return 5
	}
	falsify(res)
	if err := res.Write(dir); err != nil {
		return 5
	}
	return code
}

// falsehoods are small changes to a result that a calibration must not let pass, by the reading that shows them.
func falsehoods() map[string]func(*result.Result) {
	scale := func(res *result.Result, p, by float64) {
		for i, q := range res.Clocks[result.Ack].Percentiles {
			if q.P == p {
				res.Clocks[result.Ack].Percentiles[i].Nanos = int64(by * float64(q.Nanos))
			}
		}
	}
	return map[string]func(*result.Result){
		"delay":    func(res *result.Result) { scale(res, 50, 0.5) },
		"freeze":   func(res *result.Result) { scale(res, 90, 0.5) },
		"intended": func(res *result.Result) { res.Ends.Intended--; res.Ends.Acked-- },
		"loss":     func(res *result.Result) { res.Verification.Lost = 0 },
		"repeat":   func(res *result.Result) { res.Verification.Duplicated++ },
		"capacity": func(res *result.Result) { res.Produce.RecordsPerSec *= 1.1 },
	}
}

// TestTheGeneratorReadsWhatTheSinkDid is the calibration itself. A busy host may make it wait and try again, and read acks
// later than they were written; a count that is wrong, or a time below the truth, fails however busy the host is.
func TestTheGeneratorReadsWhatTheSinkDid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var c *Calibration
	for range 3 {
		if c = Run(t.Context(), Options{Dir: dir}); c.OK {
			break
		}
	}
	t.Logf("%s, tries %d, %.1f s, pacer p99 %d ns, by the log %d ns: %+v", c.Line(), c.Tries, c.Seconds, c.PacerP99Nanos, c.SentP99Nanos, c.Readings)
	if c.Error != "" || len(c.Readings) != 6 {
		t.Fatalf("%s: %+v", c.Line(), c.Readings)
	}
	for _, r := range c.Readings {
		late := r.Unit == "ms" && r.Reading > r.High || r.Unit == "records/s"
		if !r.OK && !late {
			t.Errorf("%s: %s", r.Name, r.Words())
		}
	}
	if c.OK && (!strings.HasPrefix(c.Line(), "calibration ok (") || !strings.Contains(c.Line(), " ms read as ")) {
		t.Errorf("%q", c.Line())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestAWrongReadingFailsTheCalibration(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	for name := range falsehoods() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wrong := ""
			for range 4 { // a busy host may keep the load process from its batches
				c := &Calibration{Tries: 1}
				if err := c.try(t.Context(), &Options{Dir: t.TempDir(), Env: []string{"FALSIFY=" + name}}); err != nil {
					wrong = err.Error()
					continue
				}
				i := slices.IndexFunc(c.Readings, func(r Reading) bool { return r.Name == name })
				if i >= 0 && !c.Readings[i].OK && strings.HasPrefix(c.Line(), "calibration failed") && strings.Contains(c.Line(), name+": ") {
					return
				}
				wrong = c.Line()
			}
			t.Error(wrong)
		})
	}
}

func TestALoadProcessThatFailsIsSaidSo(t *testing.T) {
	c := Run(t.Context(), Options{Dir: t.TempDir(), Bin: "/bin/false"})
	if c.OK || c.Error == "" || !strings.Contains(c.Line(), "load process") {
		t.Errorf("%+v", c)
	}
}
