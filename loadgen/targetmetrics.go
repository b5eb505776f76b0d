package loadgen

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/scrape"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// TargetMetrics says from which Prometheus pages the target's cost is read, one for each broker.
type TargetMetrics struct {
	URLs []string
	CPU  string // the counter of CPU seconds; "" is process_cpu_seconds_total
}

// Bounds of reading the target's pages.
const (
	scrapeTimeout = 5 * time.Second
	maxCounters   = 500 // that a result keeps
)

// targetReader reads the pages at both ends of the window. take does not wait: a page that comes late costs the run
// nothing, for each page carries the time at which it was asked. finish waits, at most scrapeTimeout.
type targetReader struct {
	o      TargetMetrics
	client http.Client
	own    []float64 // allocations that one reading of each page costs its process; NaN: it does not tell
	wg     sync.WaitGroup
	mu     struct {
		sync.Mutex
		pages [2][]*scrape.Page // begin and end, by the number of the URL; nil: failed
		notes []string
	}
}

func newTargetReader(o TargetMetrics) *targetReader {
	if o.CPU == "" {
		o.CPU = scrape.ProcessCPU
	}
	t := &targetReader{o: o, client: http.Client{Timeout: scrapeTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 1}}}
	for i := range t.mu.pages {
		t.mu.pages[i] = make([]*scrape.Page, len(o.URLs))
	}
	return t
}

// check reads each page once before the run, so that a wrong address is no surprise at its end. It also opens the
// connections that the window's two readings use.
func (t *targetReader) check(ctx context.Context) error {
	t.own = t.own[:0]
	for _, u := range t.o.URLs {
		p, err := scrape.Fetch(ctx, &t.client, u)
		if err != nil {
			return failure(fmt.Errorf("target-metrics: %w", err))
		}
		if _, ok := p.Value(t.o.CPU); !ok {
			near := p.Names("cpu")
			slices.Sort(near)
			also := ""
			if len(near) > 0 {
				also = "; it has " + strings.Join(near[:min(len(near), 5)], ", ")
			}
			return usage(fmt.Errorf("target-metrics: %s has no %s (--target-metrics-cpu names the counter of CPU seconds)%s", u, t.o.CPU, also))
		}
		t.own = append(t.own, t.ownAllocations(ctx, u, p))
	}
	return nil
}

// mallocs is the counter of heap objects that Prometheus's client for Go gives every process.
const mallocs = "go_memstats_mallocs_total"

// ownAllocations is what a reading itself makes a process allocate: the least difference of readings that follow on each
// other while nothing else is asked of it. A window holds one, and a page may cost as much as ten thousand records.
func (t *targetReader) ownAllocations(ctx context.Context, u string, last *scrape.Page) float64 {
	least := math.NaN()
	for range 3 {
		next, err := scrape.Fetch(ctx, &t.client, u)
		if err != nil {
			break
		}
		before, okBefore := last.Value(mallocs)
		after, okAfter := next.Value(mallocs)
		if d := after - before; okBefore && okAfter && d >= 0 && !(d >= least) {
			least = d
		}
		last = next
	}
	return least
}

// allocations are those of all processes between both readings, without what a reading costs; nil where one does not tell.
func (t *targetReader) allocations() *int64 {
	sum := 0.0
	for i := range t.o.URLs {
		begin, end := t.mu.pages[0][i], t.mu.pages[1][i]
		if begin == nil || end == nil || i >= len(t.own) {
			return nil
		}
		before, okBefore := begin.Value(mallocs)
		after, okAfter := end.Value(mallocs)
		if d := after - before - t.own[i]; okBefore && okAfter && after >= before && !math.IsNaN(d) {
			sum += max(0, d)
			continue
		}
		return nil
	}
	n := int64(sum)
	return &n
}

// take reads the pages, end 0 at the window's begin and 1 at its end.
func (t *targetReader) take(end int) {
	for i, u := range t.o.URLs {
		t.wg.Go(func() {
			p, err := scrape.Fetch(context.Background(), &t.client, u)
			t.mu.Lock()
			defer t.mu.Unlock()
			if err != nil {
				t.mu.notes = append(t.mu.notes, fmt.Sprintf("%s of the window: %v", [...]string{"at the begin", "at the end"}[end], err))
			}
			t.mu.pages[end][i] = p
		})
	}
}

// finish is the target's cost between both readings; nil, and notes that say why, where it could not be had whole.
func (t *targetReader) finish() (*result.Process, []string) {
	t.wg.Wait()
	t.client.CloseIdleConnections()
	t.mu.Lock()
	defer t.mu.Unlock()
	p, notes := costBetween(t.o, t.mu.pages[0], t.mu.pages[1], t.mu.notes)
	if p != nil {
		p.Allocations = t.allocations()
	}
	return p, notes
}

// costBetween adds up what the processes spent. It gives no part for the whole: one page that is missing, or one counter
// that went backwards, and the cost is not known.
func costBetween(o TargetMetrics, begin, end []*scrape.Page, notes []string) (*result.Process, []string) {
	p := &result.Process{Counters: map[string]float64{}}
	var hosts []string
	whole := true
	for i, u := range o.URLs {
		a, b := begin[i], end[i]
		if a == nil || b == nil {
			whole = false
			continue
		}
		host := u
		if parsed, err := url.Parse(u); err == nil {
			host = parsed.Host
		}
		hosts = append(hosts, host)
		cpuA, okA := a.Value(o.CPU)
		cpuB, okB := b.Value(o.CPU)
		spent := cpuB - cpuA
		if !okA || !okB || math.IsNaN(spent) || math.IsInf(spent, 0) || spent < 0 || b.Nanos <= a.Nanos {
			notes = append(notes, fmt.Sprintf("%s of %s is missing or went backwards: did the target start anew?", o.CPU, host))
			whole = false
			continue
		}
		p.CPUNanos += int64(spent * 1e9)
		p.Seconds = max(p.Seconds, float64(b.Nanos-a.Nanos)/1e9)
		rssA, _ := a.Value(scrape.ProcessRSS)
		rssB, _ := b.Value(scrape.ProcessRSS)
		p.RSSBytes += int64(rssB)
		p.RSSMaxBytes += int64(max(rssA, rssB))
		for name, v := range b.Counters {
			if d := v - a.Counters[name]; d > 0 && !math.IsInf(d, 0) {
				p.Counters[name] += d
			}
		}
	}
	if !whole || len(hosts) == 0 {
		return nil, notes
	}
	for _, name := range sortedNames(p.Counters)[min(maxCounters, len(p.Counters)):] {
		delete(p.Counters, name)
	}
	p.Label = "metrics of " + strings.Join(hosts, ", ")
	return p, notes
}

func sortedNames(m map[string]float64) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// costLine is what the target spent, for people. What was not measured is no 0.
func costLine(res *result.Result) string {
	if res.Asked.Driver == workload.DriverNull {
		return ""
	}
	if res.Target == nil {
		if len(res.TargetNotes) > 0 {
			return "not measured: " + strings.Join(res.TargetNotes, "; ")
		}
		return "not measured (--target-metrics http://HOST:PORT/metrics reads it)"
	}
	t := res.Target
	line := fmt.Sprintf("%.2f CPU-s, %.0f%% of one core", float64(t.CPUNanos)/1e9, 100*t.CPUShare())
	if bytes := res.Produce.BytesPerSec * res.Window.Seconds(); bytes > 0 {
		line += fmt.Sprintf("   %.2f CPU-s/GB", float64(t.CPUNanos)/bytes)
	}
	if t.RSSBytes > 0 {
		line += "   " + size(t.RSSBytes) + " resident"
	}
	if t.Allocations != nil && res.Ends.Acked > 0 {
		line += fmt.Sprintf("   %.3g allocations a record", float64(*t.Allocations)/float64(res.Ends.Acked))
	}
	return line + "   " + t.Label
}
