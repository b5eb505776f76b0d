// Package web is the live page of a bench run: the Answer, the ladder and all cells so far, growing while it runs.
//
//	run's goroutine --Show(page)--> Page --event: parts as HTML--> every browser that listens
//
// The browser gets one page without a build step and listens for server-sent events; each event is the whole state, so
// that one which reconnects (EventSource does so by itself, also after a laptop slept) needs nothing that it missed. A
// beat comes each few seconds; a page that hears nothing for three times as long says that it is stale and how old
// its figures are. It needs script to follow; without, it shows the state at the time of loading and asks to be loaded
// again.
//
// The page binds to loopback and answers only requests that name a loopback host, so that no other site's page can read
// it. All that comes from outside is escaped. Show never blocks on a browser: a slow one skips states. New starts one
// goroutine, that of the HTTP server, and Close ends it and all listeners.
package web

import (
	"context"
	_ "embed" // page.html
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

//go:embed page.html
var shell string

// beat is how often an idle stream is kept alive.
const beat = 3 * time.Second

// maxListeners bounds how many browsers follow at once.
const maxListeners = 32

// State is what the page shows. Text is plain: the page escapes it.
type State struct {
	Title    string     `json:"title"`
	Progress string     `json:"progress"` // "2m3s of 3m, run 31 of 55, linger=5ms #2"
	Done     int        `json:"done"`
	Planned  int        `json:"planned"`
	Ended    string     `json:"ended"` // "" while it runs; then how it ended
	Answer   []string   `json:"answer"`
	Head     []string   `json:"head"`
	Rows     [][]string `json:"rows"` // one a cell
}

// Page serves a State.
type Page struct {
	server   *http.Server
	listener net.Listener
	closed   chan struct{}
	once     sync.Once
	mu       struct {
		sync.Mutex
		number  int    // of the state
		event   []byte // the state as an event's data
		state   State
		changed chan struct{} // closed at the next state
		readers int
	}
}

// New serves on addr, which must be on loopback; port 0 takes a free one.
func New(addr string) (*Page, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("the live page's address %q: %w: want 127.0.0.1:0 or another HOST:PORT on loopback", addr, err)
	}
	if !loopback(host) {
		return nil, fmt.Errorf("the live page's address %q is not on loopback: it has no password; forward a port to it instead", addr)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the live page: %w", err)
	}
	p := &Page{listener: l, closed: make(chan struct{})}
	p.mu.changed = make(chan struct{})
	p.Show(State{Title: "bench", Progress: "starting"})
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	go func() { _ = p.server.Serve(l) }() // ended by Close
	return p, nil
}

// Address is the page's URL.
func (p *Page) Address() string { return "http://" + p.listener.Addr().String() + "/" }

// Show replaces what the page shows. It may be called from any goroutine and never waits for a browser.
func (p *Page) Show(s State) {
	b, err := json.Marshal(s)
	if err != nil {
		return // no field of it can fail
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.number++
	p.mu.state, p.mu.event = s, b
	close(p.mu.changed)
	p.mu.changed = make(chan struct{})
}

// Close ends the server and lets go of every browser, after each that keeps up has got the last state.
func (p *Page) Close() error {
	p.once.Do(func() { close(p.closed) })
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := p.server.Shutdown(ctx); err != nil {
		return p.server.Close()
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// ServeHTTP answers GET / and GET /events.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	switch {
	case !loopback(host): // another name that points here: a page of another site
		http.Error(w, "ask for it by its loopback address", http.StatusForbidden)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "it only shows", http.StatusMethodNotAllowed)
	case r.URL.Path == "/":
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		_, _ = w.Write([]byte(p.page()))
	case r.URL.Path == "/events":
		p.stream(w, r)
	default:
		http.NotFound(w, r)
	}
}

// page is the shell with the state as it is now, for who has no script.
func (p *Page) page() string {
	p.mu.Lock()
	s := p.mu.state
	p.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "<h1>%s</h1><p id=\"progress\">%s</p><div id=\"answer\">", html.EscapeString(s.Title), html.EscapeString(strings.TrimSpace(s.Progress+" "+s.Ended)))
	for _, sentence := range s.Answer {
		fmt.Fprintf(&b, "<p>%s</p>", html.EscapeString(sentence))
	}
	b.WriteString("</div><table id=\"cells\">")
	for i, row := range append([][]string{s.Head}, s.Rows...) {
		cell := "td"
		if i == 0 {
			cell = "th"
		}
		b.WriteString("<tr>")
		for _, text := range row {
			fmt.Fprintf(&b, "<%s>%s</%s>", cell, html.EscapeString(text), cell)
		}
		b.WriteString("</tr>")
	}
	b.WriteString("</table>")
	return strings.Replace(shell, "<!--state-->", b.String(), 1)
}

var errFull = errors.New("too many follow this page")

func (p *Page) enter() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.readers >= maxListeners {
		return errFull
	}
	p.mu.readers++
	return nil
}

func (p *Page) leave() {
	p.mu.Lock()
	p.mu.readers--
	p.mu.Unlock()
}

// stream sends each state to one browser, the newest where it is slow.
func (p *Page) stream(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	if err := p.enter(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer p.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	if _, err := fmt.Fprint(w, "retry: 1000\n\n"); err != nil {
		return
	}
	ticks := time.NewTicker(beat)
	defer ticks.Stop()
	sent, last := 0, false
	for {
		p.mu.Lock()
		number, event, changed := p.mu.number, p.mu.event, p.mu.changed
		p.mu.Unlock()
		var err error
		if number != sent {
			_, err = fmt.Fprintf(w, "id: %d\ndata: %s\n\n", number, event)
			sent = number
		} else {
			_, err = fmt.Fprint(w, "event: beat\ndata: {}\n\n") // a comment would keep the connection, and tell the page nothing
		}
		if err = errors.Join(err, out.SetWriteDeadline(time.Now().Add(2*beat)), out.Flush()); err != nil || last {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-p.closed:
			last = true // once more round: the last state may have come meanwhile
		case <-changed:
		case <-ticks.C:
		}
	}
}
