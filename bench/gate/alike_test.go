package gate_test

import (
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// TestCellsThatAskTwoQuestionsAreNotCompared: a name is not enough, for a plan gives the same one to whatever it holds.
func TestCellsThatAskTwoQuestionsAreNotCompared(t *testing.T) {
	for name, c := range map[string]struct {
		change func(d *store.Data)
		want   string
	}{
		"nothing": {func(*store.Data) {}, ""},
		"names, seeds and how long": {func(d *store.Data) {
			a := &d.Plan.Cells[1].Asked
			a.Name, a.Prefix, a.Seed, a.MaxDuration, a.Window = "other", "mine", 99, 1, 7
		}, ""},
		"a setting":         {func(d *store.Data) { d.Plan.Cells[1].Asked.Linger = 5e6 }, "linger 1ms against 5ms"},
		"acks":              {func(d *store.Data) { d.Plan.Cells[1].Asked.Acks = "1" }, "acks all against 1"},
		"the rate planned":  {func(d *store.Data) { d.Plan.Cells[1].Rate = 2000; setRate(d, 2, 0) }, "1000 records/s offered against 2000"},
		"the rate offered":  {func(d *store.Data) { setRate(d, 2, 3000) }, "1000 records/s offered against 3000"},
		"a rate nearly one": {func(d *store.Data) { setRate(d, 2, 1010) }, ""},
		"what an ack meant": {func(d *store.Data) {
			for _, r := range d.RunsOf(2) {
				r.Result.AckMeant.Sentence = "fsync"
			}
		}, `an ack meant "page cache" against "fsync"`},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := asked(1), asked(2)
			c.change(b)
			got := gate.Different(a, b)
			compared, missing := gate.Compare(a, b, 0.05, nil)
			seen := false
			for _, one := range compared {
				seen = seen || one.Cell == 2
			}
			if len(missing) > 0 {
				t.Errorf("missing %v", missing)
			}
			if c.want == "" {
				if len(got) > 0 || !seen {
					t.Errorf("%v, compared %v", got, seen)
				}
				return
			}
			if len(got) != 1 || got[0].Cell != "axis 0" || !strings.Contains(got[0].String(), c.want) || seen {
				t.Errorf("%v, compared %v, want %s", got, seen, c.want)
			}
		})
	}
}

// asked is data with workloads, rates and what acks meant.
func asked(seed uint64) *store.Data {
	d := data(seed, 0.03, 1, 1)
	for i := range d.Plan.Cells {
		c := &d.Plan.Cells[i]
		c.Asked, c.Rate = workload.Default(), 1000
		c.Asked.Linger = 1e6
		setRate(d, c.Number, 1000)
		for _, r := range d.RunsOf(c.Number) {
			r.Result.AckMeant.Sentence = "page cache"
		}
	}
	return d
}

func setRate(d *store.Data, cell int, rate float64) {
	for _, r := range d.RunsOf(cell) {
		r.Rate = rate
	}
}

func TestCapacityCellsOfOtherLengthsAreOtherQuestions(t *testing.T) {
	a, b := data(1, 0.03, 1), data(2, 0.03, 1)
	for _, d := range []*store.Data{a, b} {
		d.Plan.Cells[1].Kind, d.Plan.Cells[1].MaxBytes, d.Plan.Cells[1].WindowMS = store.Capacity, 512<<20, 2500
	}
	if got := gate.Different(a, b); len(got) != 0 {
		t.Errorf("alike: %v", got)
	}
	b.Plan.Cells[1].MaxBytes = 8 << 30
	if got := gate.Different(a, b); len(got) != 1 || !strings.Contains(got[0].Why, "512 MiB") {
		t.Errorf("%v", got)
	}
}

func TestDoubtsAboutTwoFolders(t *testing.T) {
	for name, c := range map[string]struct {
		change func(a, b *store.Data)
		want   string
		apart  bool
	}{
		"none":        {func(_, _ *store.Data) {}, "", false},
		"one run":     {func(a, b *store.Data) { a.Plan.RunID, b.Plan.RunID = "bench-1", "bench-1" }, "one run, bench-1", true},
		"two runs":    {func(a, b *store.Data) { a.Plan.RunID, b.Plan.RunID = "bench-1", "bench-2" }, "", false},
		"another CPU": {func(_, b *store.Data) { b.Host.Fingerprint.CPUModel = "Xeon" }, "two hosts: CPU EPYC against Xeon", true},
		"more cores":  {func(_, b *store.Data) { b.Host.Fingerprint.Cores = 64 }, "usable cores 2 against 64", true},
		"not known":   {func(_, b *store.Data) { b.Host.Fingerprint.CPUModel = "" }, "", false},
		"a kernel":    {func(_, b *store.Data) { b.Host.Fingerprint.Kernel = "7.0" }, "two kernels", false},
		"cut short":   {func(_, b *store.Data) { b.Status.State, b.Runs = store.Interrupted, b.Runs[:3] }, "the candidate is interrupted: 3 of 13 runs", false},
		"two builds":  {func(a, b *store.Data) { build(a, "x"); build(b, "y") }, "1 build of the baseline against 1 of the candidate", false},
		"one build":   {func(a, b *store.Data) { build(a, "x"); build(b, "x") }, "", false},
		"three each":  {func(a, b *store.Data) { build(a, "x1", "x2", "x3"); build(b, "y1", "y2", "y3") }, "", false},
		"other cores": {func(_, b *store.Data) { b.Runs[0].Target.Cores = []int{3} }, "other cores", false},
	} {
		a, b := data(1, 0.03, 1), data(2, 0.03, 1)
		for _, d := range []*store.Data{a, b} {
			d.Host.Fingerprint.CPUModel, d.Host.Fingerprint.Cores, d.Host.Fingerprint.Kernel = "EPYC", 2, "6.18"
			for _, r := range d.Runs {
				d.Plan.Runs = append(d.Plan.Runs, store.RunPlan{Cell: r.Cell, Repeat: r.Repeat})
			}
		}
		c.change(a, b)
		got, apart := gate.Doubts(a, b)
		if text := strings.Join(got, "; "); apart != c.apart || (c.want == "") != (text == "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %v %q", name, apart, text)
		}
	}
}

func TestRunsThatWereNotReadBackAreTold(t *testing.T) {
	d := data(1, 0.03, 1)
	if n := gate.Unverified(d); n != 0 {
		t.Errorf("%d of verified runs", n)
	}
	d.Runs[0].Result.Verification.Complete = false
	d.Runs[1].Result.Verification.On = false
	if n := gate.Unverified(d); n != 2 {
		t.Errorf("%d, want 2", n)
	}
	d.Plan.Cells[0].Asked.Verify = workload.VerifyOff // that nobody asked for is said by the runs themselves
	if n := gate.Unverified(d); n != 0 {
		t.Errorf("%d though nobody asked", n)
	}
}

func build(d *store.Data, names ...string) {
	for i, r := range d.Runs {
		r.Target.Build = names[i%len(names)]
	}
}
