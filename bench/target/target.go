// Package target starts or reaches what a bench measures, and runs one cell against it.
//
//	embedded   `tidemark broker` as a child (broker/proc), on cores of its own where there are two
//	command    a program that the suite names: started, waited for until its bootstrap address accepts a connection
//	bootstrap  a cluster that runs already: nothing started, nothing measured but what the load sees
//
// A run is: write dirty pages out, note memory, start sampling, start `tidemark load` in a process of its own, wait,
// stop sampling, judge. The window's place in time comes from the load's result, on the same CLOCK_MONOTONIC; the
// target's counters are interpolated at its two ends (METHOD 4). This package ends only processes that it started. A
// Target belongs to one goroutine; the children's output is read by goroutines that end with them.
package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/suites"
	"github.com/tidemark/tidemark/broker/proc"
)

// Options says what to measure.
type Options struct {
	Target     suites.Target
	Bin        string           // the tidemark binary for broker and load; "" is this program
	Data       string           // folder for the embedded broker's data, made and removed by Start and Stop
	Properties []suites.Setting // of the embedded broker, over the bench's own
	Log        io.Writer        // gets the target's log
	Env        []string         // added to the environment of broker and load
	LoadArgs   []string         // added to the arguments of every `tidemark load`
	NoCeilings bool             // measure no ceiling beside capacity runs
	// LightSampling reads a target's CPU clock and resident size alone while it is loaded, and what has to be summed over its
	// threads at both ends: a reading of all costs a JVM of a hundred threads some milliseconds of a core, ten times a second.
	LightSampling bool
	NoTouch       bool   // leave memory as it is before a run: tests
	Version       string // of the tidemark binary, for the results
	// Cores and LoadCores pin target and load processes; both empty, SplitCores divides what this process may use.
	Cores, LoadCores []int
	StartTimeout     time.Duration // 0 is a minute for a command, broker/proc's own for the embedded broker
	KeepData         bool          // the embedded broker's data is the caller's: it may be there, and stays
}

// BenchProperties are the broker settings that a bench changes, each said in the results.
func BenchProperties() []suites.Setting {
	return []suites.Setting{
		{Field: "group.initial.rebalance.delay.ms", Value: "0"},
		{Field: "log.segment.delete.delay.ms", Value: "0"}, // or the topics of one run are deleted in the midst of another
	}
}

// Target is what is measured.
type Target struct {
	options   Options
	broker    *proc.Broker
	program   *program
	Bootstrap string // HOST:PORT,...
	Admin     string // HOST:PORT of the target's HTTP side, with /debug/pprof; "" where it has none
	PIDs      []int
	Cores     []int // of the target; empty: not pinned
	LoadCores []int
	Settings  []store.Setting
	Version   string
}

// SplitCores divides the cores this process may use: the target gets its own where there are two, half of them from
// four on. With one, both share it and neither is pinned.
func SplitCores(all []int) (target, load []int) {
	if len(all) < 2 {
		return nil, nil
	}
	n := max(1, len(all)/2)
	if len(all) == 3 {
		n = 1
	}
	return all[:n], all[n:]
}

// Start starts the target or checks that it can be reached.
func Start(ctx context.Context, o Options) (*Target, error) {
	t := &Target{options: o, Admin: o.Target.Admin}
	switch {
	case o.Target.Embedded():
		return t, t.startBroker(ctx)
	case len(o.Target.Command) > 0:
		return t, t.startProgram(ctx)
	}
	t.Bootstrap = strings.Join(o.Target.Servers(), ",")
	if err := reach(ctx, o.Target.Servers(), dialTimeout*time.Duration(len(o.Target.Servers())), nil); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Target) startBroker(ctx context.Context) error {
	if err := t.dropData(); err != nil {
		return err
	}
	if err := os.MkdirAll(t.options.Data, 0o755); err != nil {
		return err
	}
	t.pin()
	settings := append(BenchProperties(), t.options.Properties...)
	var properties []string
	t.Settings = nil
	for _, s := range settings {
		properties = append(properties, s.Field+"="+s.Value)
		t.Settings = append(t.Settings, store.Setting{Axis: s.Field, Value: s.Value})
	}
	b, err := proc.Start(ctx, proc.Options{
		Bin: t.options.Bin, Data: t.options.Data, Properties: properties, Env: t.options.Env, Cores: t.Cores, Stderr: t.options.Log,
		ReadyTimeout: t.options.StartTimeout,
	})
	if err != nil {
		_ = t.dropData()
		return err
	}
	t.broker = b
	t.Bootstrap, t.Admin, t.PIDs, t.Version = b.Addr, b.Admin, []int{b.PID}, strings.TrimSpace("tidemark "+t.options.Version)
	return nil
}

// dropData removes the embedded broker's data, where that is this package's.
func (t *Target) dropData() error {
	if t.options.KeepData {
		return nil
	}
	return os.RemoveAll(t.options.Data)
}

// pin chooses the cores of target and load.
func (t *Target) pin() {
	t.Cores, t.LoadCores = t.options.Cores, t.options.LoadCores
	if len(t.Cores)+len(t.LoadCores) == 0 {
		t.Cores, t.LoadCores = SplitCores(proc.Cores())
	}
}

// Alive reports whether the target's process still runs; a target that this package did not start counts as alive.
func (t *Target) Alive() bool {
	var done <-chan struct{}
	switch {
	case t.broker != nil:
		done = t.broker.Done()
	case t.program != nil:
		done = t.program.done
	}
	select {
	case <-done:
		return false
	default:
		return true
	}
}

// Restart starts a target anew that has died, with an empty data folder.
func (t *Target) Restart(ctx context.Context) error {
	switch {
	case t.broker != nil:
		t.broker.Kill()
		t.broker = nil
		return t.startBroker(ctx)
	case t.program != nil:
		t.program.kill()
		t.program = nil
		return t.startProgram(ctx)
	}
	return nil
}

// Stop ends what Start started and removes the embedded broker's data.
func (t *Target) Stop() error {
	var err error
	if t.broker != nil {
		err = t.broker.Stop()
		err = errors.Join(err, t.dropData())
	}
	if t.program != nil {
		err = errors.Join(err, t.program.stop())
	}
	return err
}

// Mode is the kind of target as store.Target names it.
func (t *Target) Mode() string {
	switch {
	case t.options.Target.Embedded():
		return "embedded"
	case len(t.options.Target.Command) > 0:
		return "command"
	}
	return "bootstrap"
}

// program is a target that the suite starts by a command of its own.
type program struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // after done
}

// errProgramEnded says that a command ended where it should have served.
var errProgramEnded = errors.New("the target's command ended")

func (t *Target) startProgram(ctx context.Context) error {
	argv := t.options.Target.Command
	if t.options.Target.Bootstrap == "" {
		return fmt.Errorf("target command %s: say where it listens: target: {command: [...], bootstrap: HOST:PORT}", argv[0])
	}
	servers := t.options.Target.Servers()
	for _, addr := range servers {
		if conn, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			conn.Close()
			return fmt.Errorf("something listens on %s already: end it, or use target: {bootstrap: %s}", addr, t.options.Target.Bootstrap)
		}
	}
	t.pin()
	p := &program{cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), t.options.Env...)
	p.cmd.Stdout, p.cmd.Stderr = t.options.Log, t.options.Log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.cmd.WaitDelay = 5 * time.Second
	if err := proc.Pinned(t.Cores, p.cmd.Start); err != nil {
		return fmt.Errorf("target command: %w", err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.program, t.Bootstrap = p, strings.Join(servers, ",")
	limit := t.options.StartTimeout
	if limit == 0 {
		limit = time.Minute
	}
	if err := reach(ctx, servers, limit, p.done); err != nil {
		p.kill()
		if errors.Is(err, errProgramEnded) {
			return fmt.Errorf("%w before it listened on %s: %v", errProgramEnded, t.Bootstrap, p.err)
		}
		return err
	}
	t.PIDs = group(p.cmd.Process.Pid)
	t.Version = filepath.Base(argv[0])
	return nil
}

func (p *program) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // its own process group, made by Start
	<-p.done
}

func (p *program) stop() error {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	timer := time.NewTimer(proc.DefaultStopTimeout)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // what its leader left behind
	<-p.done
	return nil
}

// group lists the processes of a process group: a start script's Java child is what works.
func group(leader int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return []int{leader}
	}
	var pids []int
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscanf(e.Name(), "%d", &pid); err != nil {
			continue
		}
		if g, err := syscall.Getpgid(pid); err == nil && g == leader {
			pids = append(pids, pid)
		}
	}
	return pids
}

// dialTimeout is how long one server may take to accept a connection.
const dialTimeout = 5 * time.Second

// reach dials servers in turn until one accepts a connection; what is not started here (ended is nil) is tried once.
func reach(ctx context.Context, servers []string, limit time.Duration, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticks := time.NewTicker(50 * time.Millisecond)
	defer ticks.Stop()
	dialer := net.Dialer{Timeout: dialTimeout}
	names := strings.Join(servers, ",")
	for {
		last := errors.New("no bootstrap server is named")
		for _, addr := range servers {
			conn, err := dialer.DialContext(ctx, "tcp", addr)
			if err == nil {
				return conn.Close()
			}
			last = err
		}
		if ended == nil {
			return fmt.Errorf("target %s cannot be reached: %w", names, last)
		}
		select {
		case <-ended:
			return errProgramEnded
		case <-ctx.Done():
			return fmt.Errorf("target %s did not accept a connection within %v: %w", names, limit, last)
		case <-ticks.C:
		}
	}
}
