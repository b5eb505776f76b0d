package scrape

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const page = `# HELP process_cpu_seconds_total CPU
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 12.5
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 1.5e+07
# TYPE requests_total counter
requests_total{key="Produce"} 3
requests_total{key="Fetch"} 4
# TYPE seconds histogram
seconds_bucket{le="1"} 2
seconds_bucket{le="+Inf"} 5
seconds_sum 7
seconds_count 5
untyped_thing 9
`

func TestAPageIsSummedByName(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(page))
	}))
	defer server.Close()
	p, err := Fetch(t.Context(), server.Client(), server.URL+"/metrics")
	if err != nil || p.Nanos == 0 {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{ProcessCPU: 12.5, ProcessRSS: 1.5e7, "requests_total": 7, "seconds_sum": 7, "seconds_count": 5, "untyped_thing": 9} {
		if got, ok := p.Value(name); !ok || got != want {
			t.Errorf("%s is %v %v, want %v", name, got, ok, want)
		}
	}
	if _, ok := p.Value("nowhere"); ok {
		t.Error("a metric that is not there has a value")
	}
	if _, err := Fetch(t.Context(), server.Client(), server.URL+"/other"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("%v", err)
	}
}

func TestAddressesWithoutHostOrWithPasswordAreRefused(t *testing.T) {
	for _, bad := range []string{"", "127.0.0.1:9644", "ftp://a/metrics", "http://", "http://u:p@a:1/metrics", "http://a b/"} {
		if CheckURL(bad) == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if err := CheckURL("https://broker.example:9644/metrics"); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(page))
	f.Add([]byte("<html></html>"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := Parse(text); err == nil && p == nil {
			t.Error("no page and no error")
		}
	})
}
