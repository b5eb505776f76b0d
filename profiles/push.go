package profiles

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/grafana/pyroscope-go/upstream"
	"github.com/grafana/pyroscope-go/upstream/remote"
)

// PushTimeout is the most that one upload may take.
const PushTimeout = 5 * time.Second

// Profile is one capture, as it is pushed.
type Profile struct {
	App         string            // tidemark.broker, tidemark.load
	Labels      map[string]string // suite, node, one for each axis of the cell
	Kind        Kind
	From, Until time.Time
	Data        []byte // pprof, gzipped as the runtime writes it
}

// Pusher uploads profiles to a Pyroscope server by its push API, through the client's own uploader. It never blocks its
// caller and never fails a run: the first error stops it, and Close says it.
type Pusher struct {
	remote *remote.Remote
	client *guardedClient
	jobs   chan *upstream.UploadJob
	done   chan struct{}
}

// CheckAddress refuses what is no address of a Pyroscope server, and one that holds a password: it would stand in the results.
func CheckAddress(address string) error {
	u, err := url.Parse(address)
	switch {
	case strings.Contains(address, "@") && (err != nil || u.User != nil || u.Host == ""):
		return errors.New("pyroscope address: it holds a name or password, which would stand in the results: want http://HOST:PORT")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("pyroscope address %q: want http://HOST:PORT", address)
	}
	return nil
}

// NewPusher checks the address (http://host:port) and starts the uploader.
func NewPusher(address string) (*Pusher, error) {
	if err := CheckAddress(address); err != nil {
		return nil, err
	}
	c := &guardedClient{inner: &http.Client{Timeout: PushTimeout, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	r, err := remote.NewRemote(remote.Config{Threads: 1, Address: address, Timeout: PushTimeout, Logger: c, HTTPClient: c})
	if err != nil {
		return nil, err
	}
	p := &Pusher{remote: r, client: c, jobs: make(chan *upstream.UploadJob, 1024), done: make(chan struct{})}
	r.Start()
	go p.feed()
	return p, nil
}

// feed hands one upload at a time to the uploader, whose own queue holds 20 and drops the rest.
func (p *Pusher) feed() {
	defer close(p.done)
	for j := range p.jobs {
		p.remote.Upload(j)
		p.remote.Flush()
	}
	p.remote.Stop()
}

// Push queues a profile. Data must not change afterwards.
func (p *Pusher) Push(pr Profile) {
	j := &upstream.UploadJob{Name: Labels(pr.App, pr.Labels), StartTime: pr.From, EndTime: pr.Until, SpyName: "gospy", SampleRate: 100,
		Units: "samples", AggregationType: "sum", Format: upstream.FormatPprof, Profile: pr.Data, SampleTypeConfig: sampleTypes[pr.Kind]}
	select {
	case p.jobs <- j:
	default:
		p.client.fail(errQueueFull)
	}
}

var errQueueFull = errors.New("more than 1,024 profiles waited for the Pyroscope server: the rest were dropped")

// Close waits for what is queued, which takes at most one time-out once the server has failed, and tells how many profiles
// arrived and the first error.
func (p *Pusher) Close() (sent int, err error) {
	close(p.jobs)
	<-p.done
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	return p.client.mu.sent, p.client.mu.err
}

// guardedClient is the uploader's HTTP client: after the first failure it refuses at once.
type guardedClient struct {
	inner *http.Client
	mu    struct {
		sync.Mutex
		sent int
		err  error
	}
}

var errGivenUp = errors.New("given up after an earlier failure")

// Do sends one upload.
func (c *guardedClient) Do(req *http.Request) (*http.Response, error) {
	c.mu.Lock()
	failed := c.mu.err != nil
	c.mu.Unlock()
	if failed {
		return nil, errGivenUp
	}
	resp, err := c.inner.Do(req)
	switch {
	case err != nil:
		c.fail(fmt.Errorf("pyroscope: %w", err))
	case resp.StatusCode != http.StatusOK:
		c.fail(fmt.Errorf("pyroscope at %s answered %s", req.URL.Host, resp.Status))
	default:
		c.mu.Lock()
		c.mu.sent++
		c.mu.Unlock()
	}
	return resp, err
}

func (c *guardedClient) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.err == nil {
		c.mu.err = err
	}
}

// Infof, Debugf and Errorf are the uploader's log; failures are told by Close instead.
func (c *guardedClient) Infof(string, ...any) {}

// Debugf drops a line.
func (c *guardedClient) Debugf(string, ...any) {}

// Errorf drops a line.
func (c *guardedClient) Errorf(string, ...any) {}
