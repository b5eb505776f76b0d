package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark/tidemark/bench/store"
)

// A client.properties is for the load process alone, which never writes a value of it down. The bench hands its path on,
// and keeps in the plan that there was one and what it was called: who resumes names the file again.

// accessTimeout is how long a cluster may take to answer the questions of a check.
const accessTimeout = time.Minute

// checkAccess has a load process say whether it can connect with --command-config, and be understood: a wrong password would
// else break every run.
func (r *runner) checkAccess() error {
	o := &r.options
	switch {
	case o.commandConfig == "":
		return nil
	case r.suite.Target.Embedded():
		return failWith(exitUsage, errors.New("--command-config is for a cluster that is there already (--bootstrap): the embedded broker listens in plaintext"))
	case len(r.suite.Target.Command) > 0:
		_, err := os.Stat(o.commandConfig) // nobody listens yet
		return failWith(exitUsage, err)
	}
	i := slices.IndexFunc(r.plan.Cells, func(c store.Cell) bool { return c.Kind == store.Capacity || c.Rate > 0 })
	if i < 0 {
		return nil
	}
	dir, err := os.MkdirTemp("", "tidemark-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	spec, file := r.plan.Cells[i].Asked.Clone(), filepath.Join(dir, "cell.yaml")
	spec.Prefix = r.plan.RunID + "-check"
	if err := os.WriteFile(file, spec.Marshal(), 0o600); err != nil {
		return err
	}
	bin := o.bin
	if bin == "" {
		if bin, err = os.Executable(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), accessTimeout)
	defer cancel()
	args := []string{"load", "--check-only", "--workload", file, "--bootstrap", strings.Join(r.suite.Target.Servers(), ",")}
	cmd := exec.CommandContext(ctx, bin, append(args, r.loadArgs()...)...)
	cmd.Env = append(os.Environ(), o.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err = cmd.Run(); err == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	if last := strings.TrimPrefix(lines[len(lines)-1], "tidemark: "); last != "" {
		err = errors.New(last)
	}
	if cmd.ProcessState.ExitCode() == exitUsage {
		return failWith(exitUsage, err)
	}
	return failWith(exitFailure, fmt.Errorf("with --command-config %s: %w", o.commandConfig, err))
}

// accessOf refuses to go on without the file that a run was begun with, or with one where there was none.
func (r *runner) accessOf(d *store.Data) error {
	begun, given := slices.Contains(d.Plan.Command, "--command-config"), r.options.commandConfig != ""
	switch {
	case begun && !given:
		return fmt.Errorf("%s was begun with --command-config: name the file again, no folder keeps it", r.options.out)
	case given && !begun:
		return fmt.Errorf("%s was begun without --command-config: leave it out to go on, or measure with it in another folder", r.options.out)
	}
	return nil
}
