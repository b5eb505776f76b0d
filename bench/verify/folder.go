package verify

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// schema is the newest version of plan.json, run.json and result.json that this program knows.
const schema = 1

// ErrNewer says that a file was written by a later program.
var ErrNewer = errors.New("written by a newer version of tidemark: its schema is not known here")

// bench is the folder as this package reads it: only the fields that figures follow from.
type bench struct {
	dir      string
	plan     plan
	state    status
	runs     []*run // in the order in which they ran
	profiled []*run
	problems []Finding
	models   map[string]*fitted // of an effects design, by metric, once they are fitted
}

type plan struct {
	Schema    int      `json:"schema"`
	SuiteHash string   `json:"suiteHash"`
	Cells     []cell   `json:"cells"`
	Runs      []any    `json:"runs"`
	Primary   []string `json:"primary"`
	Allowance float64  `json:"allowance"`
	Objective float64  `json:"sloP99Ms"`
	Design    string   `json:"design"`
	Model     []term   `json:"model"`
	Stop      *struct {
		Width   float64  `json:"width"`
		Metrics []string `json:"metrics"`
	} `json:"stop"`
}

type cell struct {
	Number  int     `json:"number"`
	Name    string  `json:"name"`
	Role    string  `json:"role"` // probe, baseline, ladder, axis, capacity
	Kind    string  `json:"kind"` // latency, capacity
	Against int     `json:"against"`
	Repeats int     `json:"repeats"`
	Rate    float64 `json:"rate"`
	// Searched: a search decided how often it ran.
	Searched bool `json:"searched"`
	// Outside: the model of an effects design is not fitted to it.
	Outside  bool      `json:"outside"`
	Settings []setting `json:"settings"`
	Asked    asked     `json:"asked"`
}

// term is an effect of a model: settings that a cell has all of.
type term struct {
	Name     string    `json:"name"`
	Settings []setting `json:"settings"`
}

type setting struct{ Axis, Value string }

// asked is a workload as JSON has it.
type asked struct {
	Acks string
	all  map[string]json.RawMessage
}

func (a *asked) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, &a.all); err != nil {
		return err
	}
	for name, raw := range a.all { // files are indented, and not alike
		var b bytes.Buffer
		if err := json.Compact(&b, raw); err != nil {
			return err
		}
		a.all[name] = b.Bytes()
	}
	if raw, ok := a.all["acks"]; ok {
		return json.Unmarshal(raw, &a.Acks)
	}
	return nil
}

// stopped is a cell of which a stop rule left further runs out.
type stopped struct {
	Cell  int     `json:"cell"`
	Runs  int     `json:"runs"`
	Order int     `json:"order"`
	Width float64 `json:"width"`
}

type status struct {
	Stopped      []stopped     `json:"stopped"`
	State        string        `json:"state"`
	RateFixed    float64       `json:"rateFixed"`
	Error        string        `json:"error"`
	Calibrations []calibration `json:"calibrations"`
}

// calibration is what a session read of a known truth before its runs.
type calibration struct {
	Started  time.Time `json:"started"`
	OK       bool      `json:"ok"`
	Readings []reading `json:"readings"`
}

// reading is right from Low to High.
type reading struct {
	Reading float64 `json:"reading"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
}

// run is one repeat.
type run struct {
	Schema  int      `json:"schema"`
	Cell    int      `json:"cell"`
	Repeat  int      `json:"repeat"`
	Order   int      `json:"order"`
	Status  string   `json:"status"`
	Reasons []string `json:"reasons"`
	Marks   []string `json:"marks"`
	Rate    float64  `json:"rate"`
	Exit    int      `json:"exitCode"`
	// Started is by the wall clock, as a calibration's is.
	Started  time.Time `json:"started"`
	Cores    []core    `json:"cores"`
	Ceilings []ceiling `json:"ceilings"`
	Sink     *reached  `json:"sink"`
	Memory   struct {
		Before struct {
			Free int64 `json:"freeBytes"`
		} `json:"before"`
		Fill int64 `json:"fillBytes"`
	} `json:"memory"`
	Target struct {
		Mode    string   `json:"mode"`
		Process *process `json:"process"`
		Samples []struct {
			Nanos int64 `json:"nanos"`
			CPU   int64 `json:"cpuNanos"`
		} `json:"samples"`
	} `json:"target"`

	result *result
	clocks map[string]*clock // by the arithmetic of this package
	cell   *cell
	dir    string
	place  string
}

type process struct {
	CPUNanos   int64  `json:"cpuNanos"`
	ReadCalls  *int64 `json:"readCalls"`
	WriteCalls *int64 `json:"writeCalls"`
	Objects    *int64 `json:"allocations"`
}

// core is one core's share over the window.
type core struct {
	Core  int     `json:"core"`
	Busy  float64 `json:"busy"`
	Steal float64 `json:"steal"`
}

type ceiling struct {
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// reached is what a workload reached against the sink.
type reached struct {
	RecordsPerSec float64 `json:"recordsPerSec"`
	SinkShare     float64 `json:"sinkShare"`
	Error         string  `json:"error"`
}

// generator is the load process over the window.
type generator struct {
	Seconds  float64 `json:"seconds"`
	CPU      int64   `json:"cpuNanos"`
	RunQueue int64   `json:"runQueueNanos"`
	Affinity []int   `json:"affinity"`
}

type group struct {
	Members   int   `json:"members"`
	Delivered int64 `json:"delivered"`
}

// taken is one profile of a run.
type taken struct {
	Kind string `json:"kind"`
}

// result is result.json.
type result struct {
	Schema   int    `json:"schema"`
	Question string `json:"question"`
	Asked    asked  `json:"asked"`
	Valid    bool   `json:"valid"`
	Partial  bool   `json:"partial"`
	Verdicts []struct {
		Kind string `json:"kind"`
	} `json:"verdicts"`
	Window struct {
		Start   int64  `json:"startNanos"`
		End     int64  `json:"endNanos"`
		EndedBy string `json:"endedBy"`
	} `json:"window"`
	Ends struct {
		Intended, Acked, Failed, Unanswered, Unsent int64
		AckedBytes                                  int64 `json:"ackedBytes"`
		AckedInTime                                 int64 `json:"ackedInTime"`
		HandedToSocket                              int64 `json:"handedToSocket"`
	} `json:"ends"`
	Clocks    map[string]summary `json:"clocks"`
	Intervals []struct {
		Acked      int64                 `json:"acked"`
		AckedBytes int64                 `json:"ackedBytes"`
		Clocks     map[string]ofInterval `json:"clocks"`
	} `json:"intervals"`
	Produce struct {
		RecordsPerSec float64 `json:"recordsPerSec"`
		BytesPerSec   float64 `json:"bytesPerSec"`
		Inside        int64   `json:"ackedInside"`
		InsideBytes   int64   `json:"ackedInsideBytes"`
		HeldShare     float64 `json:"heldShare"`
		Backlog       float64 `json:"backlogSlopePerSec"`
		Blocked       int64   `json:"blockedNanos"`
		Throttle      int64   `json:"throttleNanos"`
		Batches       struct {
			Requests  int64 `json:"requests"`
			WireBytes int64 `json:"wireBytes"`
		} `json:"batches"`
	} `json:"produce"`
	Consume struct {
		Fetches  int64   `json:"fetches"`
		Throttle int64   `json:"throttleNanos"`
		Groups   []group `json:"groups"`
	} `json:"consume"`
	Generator generator `json:"generator"`
	Cores     []core    `json:"cores"`
	Profiles  struct {
		Taken []taken `json:"taken"`
	} `json:"profiles"`
	Verification struct {
		On, Complete              bool
		Lost, Duplicated, Corrupt int64
		OutOfOrder                int64 `json:"outOfOrder"`
	} `json:"verification"`
	Files []struct {
		Name   string `json:"name"`
		Bytes  int64  `json:"bytes"`
		SHA256 string `json:"sha256"`
	} `json:"files"`
}

type summary struct {
	Count, Overflow, Negative, Censored int64
	Sound                               bool
	MaxNanos                            int64 `json:"maxNanos"`
	Percentiles                         []percentile
}

type percentile struct {
	P          float64
	Nanos      int64
	Censored   bool
	Above      int64
	Excursions int64
}

type ofInterval struct {
	Count int64 `json:"count"`
	P50   int64 `json:"p50Nanos"`
	P99   int64 `json:"p99Nanos"`
}

// seconds is the length of the run's window.
func (r *result) seconds() float64 { return float64(r.Window.End-r.Window.Start) / 1e9 }

func (r *run) marked(mark string) bool { return slices.Contains(r.Marks, mark) }

// maxFileBytes bounds a file that is read whole.
const maxFileBytes = 256 << 20

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%s is no regular file of at most %d MiB", path, maxFileBytes>>20)
	}
	return os.ReadFile(path)
}

func decode(path string, into any) error {
	text, err := readFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s is damaged: %w", path, err)
	}
	return nil
}

// read reads plan and runs. A run that cannot be read is a problem, a plan that cannot is an error.
func read(dir string) (*bench, error) {
	b := &bench{dir: dir}
	if err := decode(filepath.Join(dir, "plan.json"), &b.plan); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: no bench run here: there is no plan.json", dir)
		}
		return nil, err
	}
	if b.plan.Schema > schema {
		return nil, fmt.Errorf("%s: plan.json: schema %d: %w", dir, b.plan.Schema, ErrNewer)
	}
	for i := range b.plan.Cells {
		if b.plan.Cells[i].Number != i+1 {
			return nil, fmt.Errorf("%s: plan.json: cell %d has number %d", dir, i+1, b.plan.Cells[i].Number)
		}
	}
	if err := decode(filepath.Join(dir, "status.json"), &b.state); err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.problems = append(b.problems, Finding{"status.json", err.Error()})
	}
	folders, err := os.ReadDir(filepath.Join(dir, "cells"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	numbered := regexp.MustCompile(`^(\d{3,})-`)
	repeats := regexp.MustCompile(`^rep-(\d+)$`)
	for _, f := range folders {
		m := numbered.FindStringSubmatch(f.Name())
		if m == nil {
			continue
		}
		number, err := strconv.Atoi(m[1])
		if err != nil || number < 1 || number > len(b.plan.Cells) {
			b.problems = append(b.problems, Finding{f.Name(), "the plan has no such cell"})
			continue
		}
		entries, err := os.ReadDir(filepath.Join(dir, "cells", f.Name()))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			at := filepath.Join(dir, "cells", f.Name(), e.Name())
			if m := repeats.FindStringSubmatch(e.Name()); m != nil {
				b.add(&b.runs, number, m[1], at)
			} else if e.Name() == "profiled" {
				b.add(&b.profiled, number, "", at)
			}
		}
	}
	slices.SortStableFunc(b.runs, func(x, y *run) int { return cmp.Compare(x.Order, y.Order) })
	return b, nil
}

// add reads one repeat's folder into list.
func (b *bench) add(list *[]*run, number int, repeat, dir string) {
	c := &b.plan.Cells[number-1]
	r := &run{cell: c, dir: dir, place: fmt.Sprintf("cell %d %s, repeat %s", number, c.Name, repeat)}
	if repeat == "" {
		r.place = fmt.Sprintf("cell %d %s, profiled repeat", number, c.Name)
	}
	err := decode(filepath.Join(dir, "run.json"), r)
	if err == nil && r.Schema > schema {
		err = fmt.Errorf("run.json: schema %d: %w", r.Schema, ErrNewer)
	}
	if err == nil && (r.Cell != number || repeat != "" && strconv.Itoa(r.Repeat) != repeat) {
		err = fmt.Errorf("run.json says cell %d repeat %d", r.Cell, r.Repeat)
	}
	if err != nil {
		b.problems = append(b.problems, Finding{r.place, err.Error()})
		return
	}
	res := &result{}
	switch err := decode(filepath.Join(dir, "result.json"), res); {
	case errors.Is(err, fs.ErrNotExist) && (r.Status == "failed" || r.Status == "invalid"):
	case err != nil:
		b.problems = append(b.problems, Finding{r.place, err.Error()})
	case res.Schema > schema:
		b.problems = append(b.problems, Finding{r.place, fmt.Sprintf("result.json: schema %d: %v", res.Schema, ErrNewer)})
	default:
		r.result = res
	}
	*list = append(*list, r)
}

func (b *bench) runsOf(number int) []*run {
	var out []*run
	for _, r := range b.runs {
		if r.Cell == number {
			out = append(out, r)
		}
	}
	return out
}
