// Package scrape reads Prometheus pages, so that a target's own counters can be taken at both ends of a window. It keeps
// sums by name and judges nothing.
//
// Concurrency: functions of values.
package scrape

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/tidemark/tidemark/core/clock"
)

// maxPage bounds the bytes of one page.
const maxPage = 64 << 20

// The names that every Prometheus client library gives a process's cost.
const (
	ProcessCPU = "process_cpu_seconds_total"
	ProcessRSS = "process_resident_memory_bytes"
)

// Page is one page, summed over the labels of each name.
type Page struct {
	Nanos    int64              // CLOCK_MONOTONIC, the middle of the request
	Counters map[string]float64 // counters, and the _sum and _count of histograms and summaries
	Gauges   map[string]float64 // gauges and metrics without a type
}

// CheckURL refuses what is no http address, and one that holds a password: it would stand in the result.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("want http://HOST:PORT/metrics")
	case u.User != nil:
		return errors.New("the address holds a name or password, which would stand in the result: leave it out")
	}
	return nil
}

// Fetch reads the page at address.
func Fetch(ctx context.Context, client *http.Client, address string) (*Page, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	began := clock.Nanos()
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", address, resp.Status)
	}
	middle := began + (clock.Nanos()-began)/2 // the head is here: the body may be long
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxPage+1))
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", address, err)
	}
	if len(b) > maxPage {
		return nil, fmt.Errorf("GET %s: more than the %d bytes that are read", address, maxPage)
	}
	p, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("GET %s: no Prometheus page: %w", address, err)
	}
	p.Nanos = middle
	return p, nil
}

// Parse reads a page in Prometheus's text format 0.0.4.
func Parse(text []byte) (*Page, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	p := &Page{Counters: map[string]float64{}, Gauges: map[string]float64{}}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				p.Counters[name] += m.GetCounter().GetValue()
			case dto.MetricType_GAUGE:
				p.Gauges[name] += m.GetGauge().GetValue()
			case dto.MetricType_HISTOGRAM:
				p.Counters[name+"_sum"] += m.GetHistogram().GetSampleSum()
				p.Counters[name+"_count"] += float64(m.GetHistogram().GetSampleCount())
			case dto.MetricType_SUMMARY:
				p.Counters[name+"_sum"] += m.GetSummary().GetSampleSum()
				p.Counters[name+"_count"] += float64(m.GetSummary().GetSampleCount())
			default:
				p.Gauges[name] += m.GetUntyped().GetValue()
			}
		}
	}
	return p, nil
}

// Value is the sum under a name, whatever its type.
func (p *Page) Value(name string) (float64, bool) {
	if v, ok := p.Counters[name]; ok {
		return v, true
	}
	v, ok := p.Gauges[name]
	return v, ok
}

// Names lists the names that contain word, for a message about one that is missing.
func (p *Page) Names(word string) (names []string) {
	for _, m := range [...]map[string]float64{p.Counters, p.Gauges} {
		for name := range m {
			if strings.Contains(name, word) {
				names = append(names, name)
			}
		}
	}
	return names
}
