package web_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/bench/web"
)

func open(t *testing.T) *web.Page {
	t.Helper()
	p, err := web.New("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func get(t *testing.T, url, host string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		req.Host = host
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// follow opens a stream and returns a function that waits for its next state.
func follow(t *testing.T, p *web.Page) (next func() (web.State, bool)) {
	t.Helper()
	resp, err := http.Get(p.Address() + "events")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("content type %q", got)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return func() (s web.State, ok bool) {
		kind := ""
		for lines.Scan() {
			if k, found := strings.CutPrefix(lines.Text(), "event: "); found {
				kind = k
			}
			data, found := strings.CutPrefix(lines.Text(), "data: ")
			if !found {
				continue
			}
			if kind == "beat" {
				kind = ""
				continue
			}
			if err := json.Unmarshal([]byte(data), &s); err != nil {
				t.Fatal(err)
			}
			return s, true
		}
		return s, false
	}
}

// until waits for a state with a progress: a slow reader may skip those before it.
func until(t *testing.T, next func() (web.State, bool), progress string) {
	t.Helper()
	for {
		s, ok := next()
		if !ok {
			t.Fatalf("the stream ended before %q", progress)
		}
		if s.Progress == progress {
			return
		}
	}
}

func TestEachListenerGetsTheWholeStateAlsoAfterItReconnects(t *testing.T) {
	p := open(t)
	p.Show(web.State{Title: "quick", Progress: "one", Rows: [][]string{{"baseline", "0.91"}}})
	first := follow(t, p)
	until(t, first, "one")
	p.Show(web.State{Title: "quick", Progress: "two"})
	until(t, first, "two")
	second := follow(t, p) // as after a closed laptop
	until(t, second, "two")
	p.Show(web.State{Title: "quick", Progress: "three", Ended: "finished"})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, first, "three") // the last state comes before the end
	if _, ok := first(); ok {
		t.Error("the stream goes on after Close")
	}
}

func TestThePageShowsAndEscapesWithoutScript(t *testing.T) {
	p := open(t)
	p.Show(web.State{Title: `<script>alert(1)</script>`, Progress: "run 3", Answer: []string{"p99 <b>0.91</b>"}, Head: []string{"cell"}, Rows: [][]string{{`x" onload=y>`}}})
	resp, body := get(t, p.Address(), "")
	for _, want := range []string{"&lt;script&gt;alert(1)", "run 3", "p99 &lt;b&gt;0.91", "<td>x&#34; onload=y&gt;</td>", "load it again"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	if policy := resp.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "connect-src 'self'") {
		t.Errorf("policy %q", policy)
	}
}

func TestOnlyLoopbackIsServed(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "192.0.2.1:80", "example.com:80", "127.0.0.1"} {
		if p, err := web.New(addr); err == nil {
			_ = p.Close()
			t.Errorf("%s was taken", addr)
		}
	}
	p := open(t)
	if resp, _ := get(t, p.Address(), "evil.example:80"); resp.StatusCode != http.StatusForbidden {
		t.Errorf("another site's name: %d", resp.StatusCode)
	}
	if resp, _ := get(t, p.Address()+"../etc/passwd", ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("another path: %d", resp.StatusCode)
	}
	resp, err := http.Post(p.Address(), "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", resp.StatusCode)
	}
}
