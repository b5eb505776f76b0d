package bench

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/bench/host"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/suites"
)

// goOn is the command that goes on with an interrupted run, with the flags that no folder keeps.
func goOn(dir string, o runOptions) string {
	command := "tidemark bench run --resume --out " + dir
	if o.yes {
		command += " --yes"
	}
	if o.commandConfig != "" {
		command += " --command-config " + o.commandConfig
	}
	if o.pyroscope != "" {
		command += " --pyroscope " + o.pyroscope
	}
	return command
}

// prepareResume takes up the plan of a folder, and opens it.
func (r *runner) prepareResume(args []string) error {
	if r.options.out == "" {
		return failWith(exitUsage, errors.New("--resume goes on in a folder: name it with --out"))
	}
	d, err := store.Load(r.options.out)
	if err != nil {
		return failWith(exitUsage, err)
	}
	if err := r.suiteOf(d, args); err != nil {
		return failWith(exitUsage, err)
	}
	if r.options.seedSet && r.options.seed != d.Plan.Seed {
		return failWith(exitUsage, fmt.Errorf("%s was begun with seed %d", r.options.out, d.Plan.Seed))
	}
	if err := errors.Join(r.targetOf(d), r.accessOf(d)); err != nil {
		return failWith(exitUsage, err)
	}
	r.plan, r.status, r.secondsBefore = &d.Plan, &d.Status, d.Status.Seconds
	r.resumedElsewhere(d)
	if err := r.checkAccess(); err != nil {
		return failWith(exitFailure, err)
	}
	if r.folder, err = store.Open(r.options.out); err != nil {
		return failWith(exitUsage, err)
	}
	if err := r.folder.Lock(); err != nil {
		return failWith(exitUsage, err)
	}
	r.status.Schema, r.status.State, r.status.Error = store.Schema, store.Running, ""
	r.status.RunsDone = 0
	r.countPlanned()
	for _, done := range d.Runs {
		r.seen(d.Cell(done.Cell), done)
	}
	return failWith(exitFailure, r.writeStatus(nil))
}

// suiteOf reads the suite that lies beside a plan, which says what of a target the plan does not: its properties. It refuses
// another text of it, there or in args.
func (r *runner) suiteOf(d *store.Data, args []string) error {
	file := filepath.Join(r.options.out, "suite.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(text); d.Plan.SuiteHash != "" && hex.EncodeToString(sum[:]) != d.Plan.SuiteHash {
		return fmt.Errorf("%s was changed: its suite.yaml is not the one that the plan was made of; put that one back, or begin with the new one in another folder", r.options.out)
	}
	if r.suite, err = suites.Parse(file, text); err != nil || len(args) == 0 {
		return err
	}
	asked, err := suites.Find(args[0])
	if err == nil && string(asked.Text) != string(text) {
		err = fmt.Errorf("%s was begun with another text of suite %s: leave the suite out to go on with that one", r.options.out, args[0])
	}
	return err
}

// targetOf takes target and builds from the plan. Others are refused: the runs of one cell would be of two things, and
// nothing would say so.
func (r *runner) targetOf(d *store.Data) error {
	o := &r.options
	if asked := (suites.Target{Bootstrap: o.bootstrap}).String(); o.bootstrap != "" && asked != d.Plan.Target {
		return fmt.Errorf("%s was begun with the target %s, and --bootstrap names %s: leave --bootstrap out to go on, or measure that one in another folder",
			o.out, d.Plan.Target, o.bootstrap)
	}
	o.bootstrap = ""
	if i := slices.Index(d.Plan.Command, "--bootstrap"); i >= 0 && i+1 < len(d.Plan.Command) {
		o.bootstrap = d.Plan.Command[i+1]
	}
	r.overrideTarget()
	planned := buildsOf(d.Plan.Command)
	if len(o.builds) > 0 && !slices.Equal(o.builds, planned) {
		begun := "without --build"
		if len(planned) > 0 {
			begun = "with --build " + strings.Join(planned, " --build ")
		}
		return fmt.Errorf("%s was begun %s: leave --build out to go on, or measure other builds in another folder", o.out, begun)
	}
	o.builds = planned
	if err := r.checkBuilds(); err != nil {
		return err
	}
	return r.sameBuilds(d)
}

// sameBuilds refuses a binary that is another one now than when the runs that are there were made by it.
func (r *runner) sameBuilds(d *store.Data) error {
	n := len(r.options.builds)
	if n == 0 {
		return nil
	}
	for _, run := range d.Runs {
		if now := r.buildOf(run.Repeat); run.Target.Build != "" && now != run.Target.Build {
			return fmt.Errorf("--build %s has changed: its SHA-256 begins with %s, runs in %s were made by one of %s; put that one back, or begin in another folder",
				r.options.builds[(run.Repeat-1)%n], now, r.options.out, run.Target.Build)
		}
	}
	return nil
}

// resumedElsewhere notes that what a resumed run adds was made by another build or on another host than what is there.
func (r *runner) resumedElsewhere(d *store.Data) {
	if old, now := d.Plan.Versions.String(), versions().String(); old != now && len(d.Runs) > 0 {
		r.note("resumed by another build, %s, after %d runs of %s: what differs between them may be the builds'", now, len(d.Runs), old)
	}
	if old, now := d.Host.Fingerprint, host.Read(d.Dir); old.CPUModel != "" && (old.CPUModel != now.CPUModel || old.Cores != now.Cores) {
		r.note("resumed on another host: %s with %d cores after %s with %d", now.CPUModel, now.Cores, old.CPUModel, old.Cores)
	}
}
