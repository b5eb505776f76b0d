package export

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/loadgen/result"
)

// ombClocks are OMB's latencies by the clocks of a run, with how many of OMB's units are in a nanosecond: publish delay is
// in microseconds, the others in milliseconds.
var ombClocks = []struct {
	name, clock string
	perNano     float64
}{{"publishLatency", result.Ack, 1e-6}, {"publishDelayLatency", result.Accepted, 1e-3}, {"endToEndLatency", result.Delivery, 1e-6}}

// ombPercentiles are the suffixes of OMB's fields.
var ombPercentiles = []struct {
	suffix string
	p      float64
}{{"50pct", 50}, {"75pct", 75}, {"95pct", 95}, {"99pct", 99}, {"999pct", 99.9}, {"9999pct", 99.99}}

// writeOMB writes one file for each run that counts: of a closed loop in fresh memory, whose rates enter no ratio, none.
func writeOMB(d *store.Data, file func(string, func(io.Writer) error) error) error {
	for _, r := range d.Runs {
		c := d.Cell(r.Cell)
		if !r.Countable() || c.Kind == store.Capacity && r.Marked(store.MarkFreshMemory) {
			continue
		}
		one, err := ombRun(d, c, r)
		if err != nil {
			return err
		}
		err = file(fmt.Sprintf("%s-rep-%d.json", store.CellFolder(c), r.Repeat), func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			return e.Encode(one)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ombRun is one run in OMB's fields. What a run did not measure (latency of a closed loop, acks that nobody waits for) has
// no field, because 0 would be a figure.
func ombRun(d *store.Data, c *store.Cell, r *store.Run) (map[string]any, error) {
	a := r.Result.Asked
	out := map[string]any{
		"workload": c.Name, "driver": "tidemark " + r.Result.Run.Driver, "messageSize": int(a.RecordSize.Mean()), "topics": a.Topics, "partitions": a.Partitions,
		"producersPerTopic": a.Producers / max(1, a.Topics), "consumersPerTopic": consumers(r),
		"beginTime": r.Result.Run.StartUTC, "endTime": r.Result.Run.EndUTC,
	}
	var publish, failed, consume []float64
	var backlog []int64
	for _, i := range r.Result.Intervals {
		seconds := float64(i.LengthNanos) / 1e9
		if seconds <= 0 {
			continue
		}
		publish = append(publish, float64(i.Acked)/seconds)
		failed = append(failed, float64(i.Failed)/seconds)
		consume = append(consume, float64(i.Delivered)/seconds)
		backlog = append(backlog, i.Lag)
	}
	out["publishRate"], out["publishErrorRate"], out["consumeRate"], out["backlog"] = orEmpty(publish), orEmpty(failed), orEmpty(consume), orEmpty(backlog)
	if c.Kind != store.Latency {
		return out, nil
	}
	seconds, err := readSeconds(r.Dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Dir, err)
	}
	for _, k := range ombClocks {
		l, ok := r.Result.Clocks[k.clock]
		if !ok || l.Count == 0 {
			continue
		}
		series := map[string][]float64{}
		whole := hdrhistogram.New(1, 3_600_000_000_000, 3)
		for _, h := range seconds[k.clock] {
			if dropped := whole.Merge(h); dropped > 0 {
				return nil, fmt.Errorf("%s: %d values of %s lie above an hour", r.Dir, dropped, k.clock)
			}
			series["Avg"] = append(series["Avg"], h.Mean()*k.perNano)
			series["Max"] = append(series["Max"], float64(h.Max())*k.perNano)
			for _, p := range ombPercentiles {
				series[p.suffix] = append(series[p.suffix], float64(h.ValueAtPercentile(p.p))*k.perNano)
			}
		}
		for suffix, values := range series {
			out[k.name+suffix] = values
		}
		aggregate(out, "aggregated"+strings.ToUpper(k.name[:1])+k.name[1:], l, whole, k.perNano)
	}
	return out, nil
}

func consumers(r *store.Run) int {
	n := 0
	for _, g := range r.Result.Consume.Groups {
		n += g.Members
	}
	return n / max(1, r.Result.Asked.Topics)
}

// aggregate takes the percentiles from the result, where records that never arrived are the latest; a censored one is left
// out.
func aggregate(out map[string]any, name string, l result.Latency, whole *hdrhistogram.Histogram, perNano float64) {
	late := l.Censored + l.Overflow
	if late == 0 { // else both are of what arrived alone, and lower than those of all
		out[name+"Avg"] = l.MeanNanos * perNano
		out[name+"Max"] = float64(l.MaxNanos) * perNano
	}
	arrived := float64(whole.TotalCount()) / max(1, float64(whole.TotalCount()+late))
	for _, p := range ombPercentiles {
		if q, ok := l.At(p.p); ok && !q.Censored {
			out[name+p.suffix] = float64(q.Nanos) * perNano
		}
	}
	quantiles := map[string]float64{}
	for _, b := range whole.CumulativeDistribution() {
		quantiles[strconv.FormatFloat(b.Quantile*arrived, 'f', -1, 64)] = float64(b.ValueAt) * perNano
	}
	out[name+"Quantiles"] = quantiles
}

func orEmpty[T any](v []T) []T {
	if v == nil {
		return []T{}
	}
	return v
}

// maxLine bounds one line of a histogram log.
const maxLine = 4 << 20

// readSeconds reads the histograms of each clock from a run's logs, one for each second.
func readSeconds(dir string) (map[string][]*hdrhistogram.Histogram, error) {
	out, last := map[string][]*hdrhistogram.Histogram{}, map[string]float64{}
	for _, f := range []struct{ name, own string }{{"ack.hlog", result.Ack}, {"delivery.hlog", result.Delivery}} {
		text, err := os.ReadFile(filepath.Join(dir, f.name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		scan := bufio.NewScanner(bytes.NewReader(text))
		scan.Buffer(nil, maxLine)
		for n := 1; scan.Scan(); n++ {
			line := strings.TrimSpace(scan.Text())
			if line == "" || line[0] == '#' || line[0] == '"' {
				continue
			}
			clock := f.own
			if rest, ok := strings.CutPrefix(line, "Tag="); ok {
				clock, line, _ = strings.Cut(rest, ",")
				if clock == result.Delivery || f.own == result.Delivery {
					continue // untagged in delivery.hlog
				}
			}
			parts := strings.Split(line, ",")
			if len(parts) != 4 {
				return nil, fmt.Errorf("%s:%d: %d fields, want four", f.name, n, len(parts))
			}
			start, err := strconv.ParseFloat(parts[0], 64)
			if before, ok := last[f.name+clock]; err != nil || ok && start < before {
				return nil, fmt.Errorf("%s:%d: time %q does not follow %.3f", f.name, n, parts[0], before)
			}
			last[f.name+clock] = start
			h, err := decode(parts[3])
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", f.name, n, err)
			}
			out[clock] = append(out[clock], h)
		}
		if err := scan.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return out, nil
}

// decode decodes one histogram; a damaged one may trip the library.
func decode(text string) (h *hdrhistogram.Histogram, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("damaged histogram: %v", problem)
		}
	}()
	return hdrhistogram.Decode([]byte(text))
}
