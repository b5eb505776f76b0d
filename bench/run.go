package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark/tidemark/bench/calibrate"
	"github.com/tidemark/tidemark/bench/gate"
	"github.com/tidemark/tidemark/bench/host"
	"github.com/tidemark/tidemark/bench/matrix"
	"github.com/tidemark/tidemark/bench/report"
	"github.com/tidemark/tidemark/bench/stats"
	"github.com/tidemark/tidemark/bench/store"
	"github.com/tidemark/tidemark/bench/suites"
	"github.com/tidemark/tidemark/bench/target"
	"github.com/tidemark/tidemark/broker/proc"
	"github.com/tidemark/tidemark/core/lie"
	"github.com/tidemark/tidemark/loadgen/result"
	"github.com/tidemark/tidemark/profiles"
)

// bytesWithoutYes is what a plan may write before it wants --yes (METHOD 5).
const bytesWithoutYes = 10 << 30

type runOptions struct {
	out           string
	resume        bool
	yes           bool
	noProgress    bool
	seed          uint64
	seedSet       bool
	bootstrap     string
	commandConfig string
	pyroscope     string
	web           string
	bin           string
	builds        []string
	loadArgs      []string
	env           []string // tests only
	skipHost      bool     // tests only: no ceilings
}

func runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run SUITE",
		Short: "Run a matrix and write its results and report",
		Long: `SUITE is a built-in name (` + strings.Join(suites.Names(), ", ") + `) or a YAML file; tidemark bench plan SUITE shows what it does.

Results are plain files in --out, one folder a cell, each written before the next run starts. A run that was
interrupted, or killed, goes on with --resume: what is there stays as it is.

Every measured run keeps a CPU profile of the target (the embedded broker, or one whose suite names its admin address)
and of the generator; one repeat more, marked and out of all statistics, keeps heap, mutex and block profiles.
tidemark bench profile DIR reads them. --pyroscope pushes the same files to a server.

Exit codes: 0 done, report written, nothing lost; 2 usage; 4 data was lost or damaged, or a process died; 5 any other
failure, a signal and a target that cannot be reached among them.`,
		Example: "  tidemark bench run quick --out results/today\n  tidemark bench run --resume --out results/today",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.pyroscope != "" {
				if err := profiles.CheckAddress(o.pyroscope); err != nil {
					return failWith(exitUsage, fmt.Errorf("--pyroscope: %w", err))
				}
			}
			o.seedSet = cmd.Flags().Changed("seed")
			ctx, stop := signalContext(cmd.Context())
			defer stop()
			return run(ctx, args, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "", "folder for the results (default run-<time>)")
	f.BoolVar(&o.resume, "resume", false, "go on with the run in --out")
	f.BoolVar(&o.yes, "yes", false, "agree to more than 10 GiB written, or to a cluster that is not on loopback")
	f.BoolVar(&o.noProgress, "no-progress", false, "plain lines instead of one that rewrites itself")
	f.Uint64Var(&o.seed, "seed", 0, "order of the runs and base of every random number (default: the suite's)")
	f.StringVar(&o.bootstrap, "bootstrap", "", "measure the cluster at HOST:PORT,... instead of the suite's target")
	f.StringVar(&o.commandConfig, "command-config", "", "Kafka's client.properties for a cluster that wants TLS or SASL, as tidemark load takes it; no value of it is kept")
	f.StringArrayVar(&o.builds, "build", nil, "a binary of the embedded broker, several times: repeats run them in turns, so that no figure is one code layout's")
	f.StringVar(&o.web, "web", "", "serve a page that follows the run on HOST:PORT, loopback only; port 0 takes a free one")
	f.StringVar(&o.pyroscope, "pyroscope", "", "push each run's profiles to this Pyroscope server, between two runs, http://HOST:PORT")
	return cmd
}

// runner is one bench run.
type runner struct {
	options runOptions
	suite   *suites.Suite
	plan    *store.Plan
	folder  *store.Folder
	status  *store.Status
	target  *target.Target
	log     *os.File
	out     io.Writer
	show    progress
	pusher  *pusher
	live    *live
	probes  []float64 // records/s of finished probes
	began   time.Time // of this session

	profileTold   bool
	topicsTold    bool
	profileMisses int     // runs in a row without the target's profiles
	secondsBefore float64 // of the sessions before

	reached map[string]*calibrate.Reached // by shape, of this session
	made    []*store.Run                  // all runs that are there, in their order
	ran     map[store.RunPlan]*store.Run  // runs of a search, by cell and repeat
	hashes  map[string]string             // of binaries, by file
}

func run(ctx context.Context, args []string, o runOptions, out, errOut io.Writer) (ended error) {
	out, terminal := seen(out), isTerminal(errOut)
	if !terminal {
		errOut = seen(errOut)
	}
	r := &runner{options: o, out: out, began: time.Now()}
	var err error
	if r.live, err = openLive(o.web, errOut); err != nil {
		return err
	}
	defer func() { r.live.close(ended) }()
	if err := r.prepare(args); err != nil {
		return err
	}
	defer r.folder.Unlock()
	if err := r.consent(); err != nil {
		return failWith(exitUsage, err)
	}
	r.pusher = newPusher(o.pyroscope, r.plan)
	fmt.Fprintf(seen(errOut), "%s  %d cells  %s  about %v  at most %s written  -> %s\n", r.plan.Suite, len(r.plan.Cells), runsOf(r.plan),
		time.Duration(r.plan.Seconds*float64(time.Second)).Round(time.Second), mib(r.plan.MaxBytes), r.folder.Dir())
	r.show = newProgress(errOut, !o.noProgress && terminal, r.plan)
	err = r.measure(ctx)
	r.show.close()
	if errors.Is(err, context.Canceled) {
		r.status.State = store.Interrupted
		_ = r.writeStatus(nil)
		return failWith(exitFailure, fmt.Errorf("interrupted after %d of %d runs; go on with: %s",
			r.status.RunsDone, r.status.RunsPlanned, goOn(r.folder.Dir(), o)))
	}
	if err != nil {
		r.status.State = store.Failed
		_ = r.writeStatus(err)
		return failWith(exitFailure, err)
	}
	r.status.State = store.Finished
	if err := r.writeStatus(nil); err != nil {
		return failWith(exitFailure, err)
	}
	return finish(r.folder.Dir(), out)
}

// finish analyses a folder, writes its report and prints the summary, which ends with the report's path.
func finish(dir string, out io.Writer) error {
	d, err := store.Load(dir)
	switch {
	case errors.Is(err, store.ErrNoRun), errors.Is(err, store.ErrNewer):
		return failWith(exitUsage, err)
	case err != nil:
		return failWith(exitFailure, err)
	}
	a := gate.Analyse(d)
	if err := errors.Join(report.Write(d, a), store.Seal(dir)); err != nil {
		return failWith(exitFailure, err)
	}
	printSummary(seen(out), d, a)
	if a.Counts.CellsInvalid+a.Counts.CellsFailed > 0 {
		return failWith(exitInvalid, errInvalidRuns)
	}
	return nil // also when nothing counts: the summary and the report say so, and a gate never passes on it
}

// prepare reads the suite, makes the plan or takes up an old one, and opens the folder.
func (r *runner) prepare(args []string) error {
	o := &r.options
	if o.resume {
		return r.prepareResume(args)
	}
	if len(args) == 0 {
		return failWith(exitUsage, fmt.Errorf("which suite? built in are %s; or name a YAML file", strings.Join(suites.Names(), ", ")))
	}
	var err error
	if r.suite, err = suites.Find(args[0]); err != nil {
		return failWith(exitUsage, err)
	}
	r.overrideTarget()
	if err := r.checkBuilds(); err != nil {
		return failWith(exitUsage, err)
	}
	if !o.seedSet {
		o.seed = r.suite.Seed
	}
	if r.plan, err = matrix.Plan(r.suite, o.seed); err != nil {
		return failWith(exitUsage, err)
	}
	if o.out == "" {
		o.out = "run-" + time.Now().Format("20060102-150405")
	}
	var id [4]byte
	if _, err := rand.Read(id[:]); err != nil {
		return failWith(exitFailure, err)
	}
	r.plan.RunID = "bench-" + hex.EncodeToString(id[:])
	r.plan.Created = time.Now().UTC()
	r.plan.Command = []string{"tidemark", "bench", "run", args[0], "--seed", fmt.Sprint(o.seed)}
	if o.bootstrap != "" {
		r.plan.Command = append(r.plan.Command, "--bootstrap", o.bootstrap)
	}
	if o.commandConfig != "" {
		r.plan.Command = append(r.plan.Command, "--command-config", filepath.Base(o.commandConfig))
	}
	for _, file := range o.builds {
		r.plan.Command = append(r.plan.Command, "--build", file)
	}
	r.plan.Versions = versions()
	if err := r.consent(); err != nil {
		return failWith(exitUsage, err)
	}
	if err := r.reach(); err != nil { // before there is a folder
		return failWith(exitFailure, err)
	}
	if err := r.checkAccess(); err != nil {
		return failWith(exitFailure, err)
	}
	if r.folder, err = store.Create(o.out); err != nil {
		return failWith(exitUsage, err)
	}
	if err := r.folder.Lock(); err != nil {
		return failWith(exitUsage, err)
	}
	err = errors.Join(r.folder.WriteFile("suite.yaml", r.suite.Text), r.folder.WritePlan(r.plan))
	r.status = &store.Status{Schema: store.Schema, State: store.Running, Started: time.Now(), RunsPlanned: len(r.plan.Runs)}
	return failWith(exitFailure, errors.Join(err, r.writeStatus(nil)))
}

func (r *runner) overrideTarget() {
	if r.options.bootstrap != "" {
		r.suite.Target = suites.Target{Bootstrap: r.options.bootstrap}
		r.suite.Broker = nil
	}
}

// consent refuses what a person should agree to first.
func (r *runner) consent() error {
	if r.options.yes {
		return nil
	}
	if r.plan.MaxBytes > bytesWithoutYes {
		return fmt.Errorf("the plan may write %s; agree with --yes, or lower the suite's max-bytes", mib(r.plan.MaxBytes))
	}
	if t := r.suite.Target; t.Bootstrap != "" && !loopback(t.Servers()) {
		return fmt.Errorf("%s is not on loopback: a bench loads a cluster as hard as it can; agree with --yes", t.Bootstrap)
	}
	return nil
}

// reachWait is how long a bootstrap server may take to accept a connection.
const reachWait = 5 * time.Second

// reach refuses a target of which no bootstrap server accepts a connection.
func (r *runner) reach() error {
	t := r.suite.Target
	if t.Bootstrap == "" {
		return nil
	}
	last := errors.New("it names none")
	for _, addr := range t.Servers() {
		c, err := net.DialTimeout("tcp", addr, reachWait)
		if err == nil {
			return c.Close()
		}
		last = err
	}
	return fmt.Errorf("no bootstrap server of %s can be reached: %w", t.Bootstrap, last)
}

// loopback reports whether all servers are known to be on this host.
func loopback(servers []string) bool {
	return len(servers) > 0 && !slices.ContainsFunc(servers, func(addr string) bool {
		name, _, err := net.SplitHostPort(addr)
		return err != nil || name != "localhost" && !net.ParseIP(name).IsLoopback()
	})
}

func versions() store.Versions {
	v := store.Versions{Tidemark: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Go, v.Tidemark = info.GoVersion, info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Tidemark = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (r *runner) writeStatus(err error) error {
	if err != nil {
		r.status.Error = err.Error()
	}
	r.status.Ended = time.Now()
	r.status.Seconds = r.secondsBefore + time.Since(r.began).Seconds()
	return r.folder.WriteStatus(r.status)
}

// measure starts the target and runs what is not done yet.
func (r *runner) measure(ctx context.Context) (err error) {
	if r.log, err = os.OpenFile(r.folder.Path("target.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return err
	}
	defer r.log.Close()
	if err := r.measureHost(ctx); err != nil {
		return err
	}
	if err := r.calibrate(ctx); err != nil {
		return err
	}
	r.target, err = target.Start(ctx, target.Options{
		Target: r.suite.Target, Bin: r.options.bin, Data: r.folder.Path("broker-data"), Properties: r.suite.Broker, Log: r.log,
		Env: r.options.env, LoadArgs: r.loadArgs(), NoCeilings: r.options.skipHost, NoTouch: r.options.skipHost, Version: r.plan.Versions.String(),
	})
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := r.target.Stop(); stopErr != nil && err == nil {
			r.note("the target did not stop cleanly: %v", stopErr)
		}
	}()
	r.note("%s", r.whereItRan())
	if r.target.Mode() != "bootstrap" && !r.options.skipHost {
		r.note("as much memory as each run writes was touched and given back right before it")
	}
	if err := r.planned(ctx, 0, r.plan.Runs); err != nil {
		return err
	}
	if err := r.search(ctx); err != nil {
		return err
	}
	if err := r.planned(ctx, len(r.plan.Runs)+len(r.plan.Search), r.plan.Profiled); err != nil {
		return err
	}
	if r.pusher.pushed > 0 {
		r.note("%d profiles were pushed to %s", r.status.Pushed, r.pusher.address)
	}
	return nil
}

// measureHost writes host.json, before anything is loaded; a resumed run keeps the old one.
func (r *runner) measureHost(ctx context.Context) error {
	if _, err := os.Stat(r.folder.Path("host.json")); err == nil {
		return nil
	}
	f := host.Read(r.folder.Dir())
	if need := r.plan.MaxBytes + r.plan.MaxBytes/10; r.suite.Target.Embedded() && f.FreeBytes < need {
		return fmt.Errorf("%s has %s free, the plan may write %s: free some, or lower the suite's max-bytes", f.DataDir, mib(f.FreeBytes), mib(r.plan.MaxBytes))
	}
	r.show.doing("host's ceilings")
	h := &store.Host{Schema: store.Schema, Fingerprint: f}
	if !r.options.skipHost {
		targetCores, loadCores := target.SplitCores(proc.Cores())
		h.Ceilings = host.Ceilings(ctx, r.folder.Dir(), targetCores, loadCores)
	}
	if ctx.Err() != nil {
		return context.Canceled // half the ceilings are none: a resume measures them
	}
	return r.folder.WriteHost(h)
}

func (r *runner) whereItRan() string {
	t := r.target
	properties := make([]string, len(t.Settings))
	for i, s := range t.Settings {
		properties[i] = s.Axis + "=" + s.Value
	}
	switch {
	case t.Mode() == "bootstrap":
		return "target " + t.Bootstrap + " was reached over the network: its CPU and memory are not measured"
	case len(t.Cores) == 0:
		return fmt.Sprintf("%s target and load process shared one core; %s", t.Mode(), strings.Join(properties, " "))
	}
	return fmt.Sprintf("%s target on core %s, load process on core %s; %s", t.Mode(), numbers(t.Cores), numbers(t.LoadCores), strings.Join(properties, " "))
}

func numbers(list []int) string {
	parts := make([]string, len(list))
	for i, n := range list {
		parts[i] = fmt.Sprint(n)
	}
	return strings.Join(parts, ",")
}

// note keeps a sentence about the whole run, once.
func (r *runner) note(format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	if !slices.Contains(r.status.Notes, text) {
		r.status.Notes = append(r.status.Notes, text)
	}
}

// one runs one run and brings it to the disk.
func (r *runner) one(ctx context.Context, order int, planned store.RunPlan, c *store.Cell) error {
	cell, err := r.rated(c)
	if err != nil {
		return err
	}
	if !r.target.Alive() {
		r.note("the target's process ended and was started anew with an empty folder, before run %d", order+1)
		if err := r.target.Restart(ctx); err != nil {
			return fmt.Errorf("restart the target: %w", err)
		}
	}
	r.show.running(order, cell, planned.Repeat)
	r.live.running(r, order, cell, planned.Repeat)
	dir, err := r.folder.Begin(c, planned.Repeat)
	if err != nil {
		return err
	}
	sink, err := r.reaches(ctx, cell)
	if err != nil {
		return errors.Join(err, r.folder.Discard(c, planned.Repeat))
	}
	kinds := measuredKinds(c)
	if planned.Repeat > c.Repeats {
		kinds = profiledKinds()
	}
	res, err := r.measured(ctx, c, target.Job{
		Profiles: kinds, Cell: cell, Repeat: planned.Repeat, Order: order, Seed: planned.Seed, Dir: dir, Sink: sink,
		Prefix: fmt.Sprintf("%s-%03d-%d", r.plan.RunID, c.Number, planned.Repeat),
	})
	r.leftBehind(res)
	if ctx.Err() != nil { // what the signal cut short is run again by a resume
		return errors.Join(context.Canceled, r.folder.Discard(c, planned.Repeat))
	}
	if err != nil {
		return err
	}
	if lie.Told == lie.RepeatCopied && planned.Repeat > 1 {
		copyRepeat(r.folder.RunDir(c, planned.Repeat-1), dir)
	}
	if planned.Repeat <= c.Repeats {
		r.seen(c, res) // before the calibration is asked: it says whether to believe, and the ladder needs a rate all the same
	}
	r.judgeCalibration(res)
	if err := r.folder.Commit(c, res); err != nil {
		return err
	}
	r.show.finished(res, cell)
	r.live.finished(r)
	r.profiled(order, c, res)
	return r.writeStatus(nil)
}

// profiled pushes a run's profiles and notes what failed about profiles, the first of each kind of failure.
func (r *runner) profiled(order int, c *store.Cell, res *store.Run) {
	before := r.pusher.pushed
	err := r.pusher.push(c, res)
	r.status.Pushed += r.pusher.pushed - before
	if err != nil {
		r.note("profiles are kept as files and no longer pushed, since run %d: %v", order+1, err)
	}
	p := resultProfiles(res)
	if p == nil {
		return
	}
	if len(p.Notes) > 0 && !r.profileTold {
		r.profileTold = true
		r.note("a profile is missing in run %d, and perhaps in others: %s", order+1, p.Notes[0])
	}
	if slices.ContainsFunc(p.Taken, func(one result.Profile) bool { return one.Process == processes[0].file }) || r.target.Admin == "" {
		r.profileMisses = 0
		return
	}
	if r.profileMisses++; r.profileMisses >= maxProfileMisses { // one that never answers makes every run wait
		r.note("the target was no longer asked for profiles after run %d: %d runs in a row had none", order+1, maxProfileMisses)
		r.target.Admin, r.profileMisses = "", 0
	}
}

// maxProfileMisses is after how many runs in a row without its profiles a target is no longer asked for any.
const maxProfileMisses = 3

func resultProfiles(r *store.Run) *result.Profiles {
	if r.Result == nil {
		return nil
	}
	return r.Result.Profiles
}

// seen counts a finished run and learns from probes.
func (r *runner) seen(c *store.Cell, res *store.Run) {
	r.status.RunsDone++
	r.made = append(r.made, res)
	r.keep(c, res)
	if c.Role != store.Probe || res.Result == nil || res.Status == store.Invalid || res.Status == store.Broken {
		return
	}
	if v := res.Result.Produce.RecordsPerSec; v > 0 {
		r.probes = append(r.probes, v)
		r.status.Capacity = stats.Median(r.probes)
	}
}

// rated is the cell with the rate that the probes' finding gives it.
func (r *runner) rated(c *store.Cell) (store.Cell, error) {
	if c.Kind == store.Capacity {
		return *c, nil
	}
	found := r.status.Capacity
	if c.Role == store.Ladder {
		if found == 0 {
			return *c, fmt.Errorf("cell %q needs the capacity, and no probe found one: see %s", c.Name, r.folder.Path("cells"))
		}
		return matrix.SetRate(*c, found*c.LoadShare)
	}
	rate := c.Rate
	if r.plan.RateCap > 0 && found > 0 && rate > r.plan.RateCap*found {
		rate = r.plan.RateCap * found
		r.note("the fixed rate is %s records/s instead of %s: %.4g%% of the capacity found (%s)", grouped(rate), grouped(c.Rate), 100*r.plan.RateCap, grouped(found))
	}
	r.status.RateFixed = rate
	return matrix.SetRate(*c, rate)
}
