package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/bench/calibrate"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/broker/proc"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/workload"
	"github.com/tidemark/tidemark/profiles"
)

// Job is one run of one cell.
type Job struct {
	Cell   store.Cell // with its rate set
	Repeat int
	Order  int
	Seed   uint64
	Prefix string // of the run's topics and groups
	Dir    string // an empty folder that the run is filled into
	// Profiles are taken of the load process and, where it has an admin address, of the target, by the load process: it
	// knows when the window opens and when its answers are in.
	Profiles []profiles.Kind
	Sink     *calibrate.Reached // what the cell's workload reaches against the sink; nil: not measured
}

// interruptGrace is how long a load process may take to write its partial result after a signal.
const interruptGrace = 15 * time.Second

// Run runs a job and returns what run.json will hold. The run's own misfortunes are in its status; an error is for
// what keeps the bench from going on. When ctx ends, the load is interrupted and the run is partial.
func (t *Target) Run(ctx context.Context, j Job) (*store.Run, error) {
	spec := j.Cell.Asked.Clone()
	spec.Seed, spec.Prefix = j.Seed, j.Prefix
	cellFile := j.Dir + ".yaml" // beside the folder, which must be empty when the load starts
	if err := os.WriteFile(cellFile, spec.Marshal(), 0o644); err != nil {
		return nil, err
	}
	r := &store.Run{
		Schema: store.Schema, Cell: j.Cell.Number, Repeat: j.Repeat, Order: j.Order, Seed: j.Seed, Rate: j.Cell.Rate,
		Reasons: []string{}, Marks: []string{}, Target: t.description(), Sink: j.Sink,
	}
	if t.Mode() != "bootstrap" && t.options.Data != "" {
		if err := syncFS(t.options.Data); err != nil {
			return nil, err
		}
	}
	ceiling := t.ceilingBeside(&j.Cell)
	if t.Mode() != "bootstrap" && t.options.Data != "" && !t.options.NoTouch {
		var err error
		if r.Memory.FillBytes, err = t.Touch(willWrite(spec)); err != nil {
			return nil, err
		}
	}
	r.Memory.Before = ReadMemory()
	sampling := startSampler(t.PIDs, t.options.LightSampling)
	r.Started = time.Now()
	log, err := t.load(ctx, j, r, cellFile)
	r.Ended = time.Now()
	r.Memory.After = ReadMemory()
	use := sampling.stop()
	if err != nil {
		return nil, err
	}
	r.Ceilings = ceiling.again()
	err = errors.Join(os.Rename(cellFile, filepath.Join(j.Dir, "cell.yaml")), os.WriteFile(filepath.Join(j.Dir, "load.log"), log, 0o644))
	if err != nil {
		return nil, err
	}
	r.Target.Samples = use.samples()
	r.Result, err = result.Read(j.Dir)
	if err != nil {
		r.Error = lastLine(log, err)
	} else {
		if p := r.Result.Profiles; p != nil {
			for _, one := range p.Taken {
				r.Profiles = append(r.Profiles, path.Base(one.File))
			}
		}
		w := r.Result.Window
		r.Target.Process = use.process(w.StartNanos, w.EndNanos)
		if p := r.Target.Process; p != nil {
			p.Affinity, p.Version, p.Label = t.Cores, t.Version, "target"
		}
		r.Cores = use.cores(w.StartNanos, w.EndNanos)
	}
	if !profiles.Light(j.Profiles) {
		r.Marks = append(r.Marks, store.MarkProfiled)
	}
	Judge(&j.Cell, r, t.Alive())
	t.markMemory(r)
	return r, nil
}

// load runs the load process to its end and returns what it printed.
func (t *Target) load(ctx context.Context, j Job, r *store.Run, cellFile string) ([]byte, error) {
	bin := t.options.Bin
	if bin == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		bin = self
	}
	args := append([]string{"load", "--workload", cellFile, "--bootstrap", t.Bootstrap, "--out", j.Dir, "--no-progress"}, t.options.LoadArgs...)
	r.Command = []string{"tidemark", "load", "--workload", "cell.yaml", "--bootstrap", t.Bootstrap}
	args = append(args, t.profileArgs(j.Profiles)...)
	log := &boundedLog{}
	cmd := exec.Command(bin, args...)
	cmd.Env = append(os.Environ(), t.options.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := proc.Pinned(t.LoadCores, cmd.Start); err != nil {
		return nil, fmt.Errorf("start the load process: %w", err)
	}
	ended := make(chan struct{})
	go interrupt(ctx, cmd, ended, limit(&j.Cell.Asked))
	err := cmd.Wait()
	close(ended)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.ExitCode = exit.ExitCode()
		if r.ExitCode < 0 {
			r.ExitCode = 5
			r.Reasons = append(r.Reasons, "the load process ended by "+exit.String())
		}
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return nil, fmt.Errorf("load process: %w", err)
	}
	return log.bytes(), nil
}

// profileArgs asks the load process for profiles.
func (t *Target) profileArgs(kinds []profiles.Kind) []string {
	if len(kinds) == 0 {
		return nil
	}
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	args := []string{"--profile", strings.Join(names, ",")}
	if t.Admin != "" {
		args = append(args, "--profile-target", t.Admin)
	}
	return args
}

// limit is when a load process that does not end is taken to hang: well after every bound that it keeps itself.
func limit(w *workload.Spec) time.Duration { return w.MaxDuration.D() + 30*time.Second }

// interrupt passes the end of ctx on to the load process, first as SIGINT, and ends one that hangs.
func interrupt(ctx context.Context, cmd *exec.Cmd, ended <-chan struct{}, hung time.Duration) {
	timer := time.NewTimer(hung)
	defer timer.Stop()
	select {
	case <-ended:
		return
	case <-timer.C:
		_ = cmd.Process.Kill()
		return
	case <-ctx.Done():
	}
	_ = cmd.Process.Signal(os.Interrupt)
	timer.Reset(interruptGrace)
	select {
	case <-ended:
	case <-timer.C:
		_ = cmd.Process.Kill()
	}
}

func (t *Target) description() store.Target {
	return store.Target{
		Mode: t.Mode(), Bootstrap: t.Bootstrap, Version: t.Version, PIDs: t.PIDs, Cores: t.Cores, LoadCores: t.LoadCores, Settings: t.Settings,
	}
}

// syncFS writes the dirty pages of a folder's file system out, so that no run pays for the one before.
func syncFS(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// maxLog bounds what is kept of a load process's output.
const maxLog = 1 << 20

// boundedLog keeps the first and the last half of maxLog.
type boundedLog struct {
	mu   sync.Mutex // guards all below
	head []byte
	tail []byte
	cut  bool
}

func (l *boundedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(p)
	if room := maxLog/2 - len(l.head); room > 0 {
		take := min(room, len(p))
		l.head, p = append(l.head, p[:take]...), p[take:]
	}
	l.tail = append(l.tail, p...)
	if len(l.tail) > maxLog/2 {
		l.tail, l.cut = append([]byte(nil), l.tail[len(l.tail)-maxLog/2:]...), true
	}
	return n, nil
}

func (l *boundedLog) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return append(append(l.head, "\n... cut ...\n"...), l.tail...)
	}
	return append(l.head, l.tail...)
}

// lastLine is the last thing a failed load process said.
func lastLine(log []byte, err error) string {
	lines := bytes.Split(bytes.TrimSpace(log), []byte{'\n'})
	if last := strings.TrimSpace(string(lines[len(lines)-1])); last != "" {
		return last
	}
	return err.Error()
}
