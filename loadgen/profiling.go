package loadgen

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/profiles"
)

// Profiling says which profiles a run takes around its window, and what becomes of them beside being kept.
type Profiling struct {
	Kinds     []profiles.Kind // none: no profile
	Target    string          // HOST:PORT of the target's /debug/pprof; "" takes the generator's own alone
	Pyroscope string          // http://HOST:PORT to push them to; "" for nowhere
}

// Names of the two processes in the names of profile files.
const (
	profileOfLoad   = "load"
	profileOfTarget = "broker"
)

// Bounds of profiling, none of them inside the window.
const (
	profileLead  = 50 * time.Millisecond // profiles begin so long before the window opens
	profileGrace = 10 * time.Second      // how long the target may take to hand its profiles over
)

// profiler takes a run's profiles. begin and end never block on the target: the goroutines that begin starts wait for
// it, each for one kind, and finish waits for them, at most profileGrace. It is used by the run's own goroutine.
type profiler struct {
	o      Profiling
	from   time.Time
	until  time.Time
	closed chan struct{}
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     struct {
		sync.Mutex
		taken []profiles.Profile // App holds the process's name until they are pushed
		notes []string
	}
}

// begin starts profiling right before a window opens; length is what the window is planned to take.
func (p *profiler) begin(length time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.closed, p.from = cancel, make(chan struct{}), time.Now()
	if p.o.Target != "" {
		for _, k := range p.o.Kinds {
			p.wg.Go(func() { p.add(profileOfTarget, k, func() ([]byte, error) { return p.fetch(ctx, k, length) }) })
		}
	}
	end, err := profiles.Self(p.o.Kinds)
	if err != nil {
		p.note(err)
		return
	}
	p.wg.Go(func() {
		<-p.closed
		own, err := end()
		p.note(err)
		for _, k := range p.o.Kinds {
			if b, ok := own[k]; ok {
				p.add(profileOfLoad, k, func() ([]byte, error) { return b, nil })
			}
		}
	})
}

// fetch takes one profile of the target: CPU until the window's end, mutex and block for the whole seconds that fit into
// it, heap and goroutines as they are at its end.
func (p *profiler) fetch(ctx context.Context, k profiles.Kind, length time.Duration) ([]byte, error) {
	switch k {
	case profiles.CPU:
		c, err := profiles.StartCPU(ctx, p.o.Target, length+profileGrace)
		if err != nil {
			return nil, err
		}
		<-p.closed
		return c.End()
	case profiles.Mutex, profiles.Block:
		length = length.Truncate(time.Second)
	default:
		<-p.closed
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return profiles.Fetch(ctx, client, p.o.Target, k, length)
}

// add keeps a profile, or says what became of it.
func (p *profiler) add(process string, k profiles.Kind, take func() ([]byte, error)) {
	b, err := take()
	if err != nil {
		p.note(err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.taken = append(p.mu.taken, profiles.Profile{App: process, Kind: k, Data: b})
}

func (p *profiler) note(err error) {
	if err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.mu.notes, err.Error()) {
		p.mu.notes = append(p.mu.notes, err.Error())
	}
}

// end lets the profiles end. Encoding them takes both sides some 50 ms of CPU: the run calls it when the answers are in.
func (p *profiler) end() {
	p.until = time.Now()
	close(p.closed)
}

// finish waits for the profiles, writes them to dir, unless that is "", and pushes them where that was asked.
func (p *profiler) finish(res *result.Result, dir string) error {
	timer := time.AfterFunc(profileGrace, p.cancel)
	p.wg.Wait()
	timer.Stop()
	p.cancel()
	taken := p.mu.taken
	slices.SortFunc(taken, func(a, b profiles.Profile) int {
		if c := strings.Compare(a.App, b.App); c != 0 {
			return c
		}
		return slices.Index(profiles.Kinds, a.Kind) - slices.Index(profiles.Kinds, b.Kind)
	})
	out := &result.Profiles{Taken: []result.Profile{}}
	res.Profiles = out
	for i := range taken {
		t := &taken[i]
		t.From, t.Until = p.from, p.until
		one := result.Profile{Process: t.App, Kind: string(t.Kind), FromUTC: t.From.UTC().Format(time.RFC3339Nano), UntilUTC: t.Until.UTC().Format(time.RFC3339Nano)}
		if dir != "" {
			one.File = "profiles/" + profiles.Name(t.App, t.Kind)
			if err := writeProfile(dir, one.File, t.Data); err != nil {
				return err
			}
			if err := res.AddFile(dir, one.File, "pprof"); err != nil {
				return err
			}
		}
		out.Taken = append(out.Taken, one)
	}
	if !profiles.Light(p.o.Kinds) {
		res.Run.Profiled = true
		res.Add(result.Verdict{Kind: result.Profiled, Reason: "it carried more than a CPU profile, which costs: its figures enter no statistics"})
	}
	if p.o.Pyroscope != "" {
		out.Pushed = p.push(taken, res)
	}
	out.Notes = p.mu.notes
	return nil
}

func writeProfile(dir, name string, b []byte) error {
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	return nil
}

// push uploads what was taken and returns how many arrived. A server that fails costs one time-out and is told once.
func (p *profiler) push(taken []profiles.Profile, res *result.Result) int {
	pusher, err := profiles.NewPusher(p.o.Pyroscope)
	if err != nil {
		p.note(err)
		return 0
	}
	labels := map[string]string{"node": res.Host.Name, "suite": "none", "question": string(res.Question), "driver": res.Asked.Driver}
	if res.Asked.Name != "" {
		labels["workload"] = res.Asked.Name
	}
	for _, t := range taken {
		t.App, t.Labels = "tidemark."+t.App, labels
		pusher.Push(t)
	}
	sent, err := pusher.Close()
	if err != nil {
		p.note(fmt.Errorf("%d of %d profiles were pushed: %w", sent, len(taken), err))
	}
	return sent
}
