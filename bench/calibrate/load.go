package calibrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark/tidemark/broker/proc"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/loadgen/sink"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// Bounds of one load process.
const (
	hung         = 60 * time.Second // it keeps bounds of its own; a process that outlasts this one is ended
	exitNotValid = 4                // its result is there, and says why it does not count
)

// against runs the load process against a sink of the script and returns its result beside the sink's log.
func against(ctx context.Context, o *Options, script sink.Script, s *workload.Spec, dir string) (*result.Result, []sink.Arrival, error) {
	k, err := sink.New(script)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = k.Close() }()
	if s.Topic != "" { // a topic that the run makes itself takes its log with it
		k.Create(s.Topic, s.Partitions)
	}
	if err := s.Validate(); err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, err
	}
	file := dir + ".yaml" // beside the folder, which must be empty when the load starts
	if err := os.WriteFile(file, s.Marshal(), 0o644); err != nil {
		return nil, nil, err
	}
	bin := o.Bin
	if bin == "" {
		if bin, err = os.Executable(); err != nil {
			return nil, nil, err
		}
	}
	bound, cancel := context.WithTimeout(ctx, hung)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(bound, bin, "load", "--workload", file, "--bootstrap", k.Addr(), "--out", dir, "--no-progress")
	cmd.Env = append(os.Environ(), o.Env...)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := proc.Pinned(o.Cores, cmd.Start); err != nil {
		return nil, nil, fmt.Errorf("start the load process: %w", err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == exitNotValid) && !errors.Is(err, exec.ErrWaitDelay) {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return nil, nil, fmt.Errorf("load process: %w: %s", err, lines[len(lines)-1])
	}
	res, err := result.Read(dir)
	if err != nil {
		return nil, nil, err
	}
	return res, k.Arrivals(), nil
}
