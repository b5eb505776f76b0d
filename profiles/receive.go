package profiles

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/pprof/profile"
)

// Receiver takes pushes of Pyroscope's API (POST /ingest) and keeps each as a pprof file in a folder, with one line of JSON
// in index.jsonl. Everything else it answers with 404. It is small on purpose: a place to push to where no Pyroscope runs.
type Receiver struct {
	dir string
	mu  struct {
		sync.Mutex
		received int
	}
}

// Received is one line of index.jsonl.
type Received struct {
	File   string            `json:"file"`
	App    string            `json:"app"`
	Labels map[string]string `json:"labels"`
	From   time.Time         `json:"from"`
	Until  time.Time         `json:"until"`
	Types  []string          `json:"types"`
	Bytes  int               `json:"bytes"`
	SHA256 string            `json:"sha256"`
}

// NewReceiver makes the folder where it is missing.
func NewReceiver(dir string) (*Receiver, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return &Receiver{dir: dir}, nil
}

// Count is how many profiles have arrived.
func (r *Receiver) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.received
}

// ServeHTTP answers one request.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch {
	case req.URL.Path == "/ready" || req.URL.Path == "/healthz":
		fmt.Fprintln(w, "ready")
	case req.URL.Path != "/ingest":
		http.Error(w, "only POST /ingest is served here", http.StatusNotFound)
	case req.Method != http.MethodPost:
		http.Error(w, "use POST", http.StatusMethodNotAllowed)
	default:
		if err := r.ingest(req); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}
}

func (r *Receiver) ingest(req *http.Request) error {
	q := req.URL.Query()
	app, labels, err := parseLabels(q.Get("name"))
	if err != nil || app == "" {
		return fmt.Errorf("parameter name %q: want app{label=value,...}", q.Get("name"))
	}
	data, err := body(req)
	if err != nil {
		return err
	}
	p, err := profile.ParseData(data)
	if err != nil {
		return fmt.Errorf("the profile is not pprof: %w", err)
	}
	sum := sha256.Sum256(data)
	rec := Received{App: app, Labels: labels, Bytes: len(data), SHA256: hex.EncodeToString(sum[:])}
	if rec.From, err = parseTime(q.Get("from")); err != nil {
		return fmt.Errorf("parameter from: %w", err)
	}
	if rec.Until, err = parseTime(q.Get("until")); err != nil {
		return fmt.Errorf("parameter until: %w", err)
	}
	for _, t := range p.SampleType {
		rec.Types = append(rec.Types, t.Type)
	}
	return r.keep(rec, data)
}

// keep writes the file, then its line.
func (r *Receiver) keep(rec Received, data []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec.File = fmt.Sprintf("%06d-%s.%s.pprof", r.mu.received+1, fileSafe(rec.App), fileSafe(strings.Join(rec.Types, "+")))
	if err := os.WriteFile(filepath.Join(r.dir, rec.File), data, 0o644); err != nil {
		return err
	}
	line, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(r.dir, "index.jsonl"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	r.mu.received++
	return nil
}

func fileSafe(s string) string {
	safe := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '+' || c == '_' {
			return c
		}
		return '_'
	}, s)
	return safe[:min(len(safe), 80)]
}

// body is the pprof part of a multipart push, or the whole body of a plain one.
func body(req *http.Request) ([]byte, error) {
	limited := io.LimitReader(req.Body, maxProfileBytes+1)
	media, params, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(media, "multipart/") {
		return bounded(limited)
	}
	parts := multipart.NewReader(limited, params["boundary"])
	for {
		part, err := parts.NextPart()
		if err != nil {
			return nil, fmt.Errorf("no part named profile: %w", err)
		}
		if part.FormName() == "profile" {
			return bounded(part)
		}
	}
}

func bounded(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if len(b) > maxProfileBytes {
		return nil, fmt.Errorf("the profile is larger than %d bytes", maxProfileBytes)
	}
	return b, nil
}

// parseTime reads Unix time in seconds, milliseconds, microseconds or nanoseconds, as Pyroscope does: by its size.
func parseTime(s string) (time.Time, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is no Unix time", s)
	}
	switch {
	case n < 1e11:
		return time.Unix(n, 0), nil
	case n < 1e14:
		return time.UnixMilli(n), nil
	case n < 1e17:
		return time.UnixMicro(n), nil
	}
	return time.Unix(0, n), nil
}
