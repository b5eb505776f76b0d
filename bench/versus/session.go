package versus

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tidemark/tidemark/bench/host"
	"github.com/tidemark/tidemark/bench/target"
	"github.com/tidemark/tidemark/broker/proc"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// Options says how a session is run.
type Options struct {
	Out      string        // folder of the results
	Profile  string        // of the suite: full, quick
	Rows     []string      // only these; nil: the profile's
	Budget   time.Duration // 0: the profile's
	Seed     uint64
	Resume   bool   // go on with the document in Out
	KeepSeed bool   // with the document's seed, whatever Seed is
	Bin      string // the tidemark binary; "" is this program
	Kafka    string // path of scripts/kafka/kafka
	Version  string // of this program
	Command  []string
	Env      []string // of all children
	Progress io.Writer

	// suite and other are for tests: another suite, and what stands in for Apache Kafka.
	suite            *Suite
	other            func(o *Options, s *Suite, k Kafka, log io.Writer) func(context.Context, *arm) (*target.Target, error)
	cores, loadCores []int
	span             time.Duration // of a reading of the bare loop; 0 is half a second
}

// What is set aside of the budget for the rows that are measured alone, and for starting the processes.
const (
	partitionsReserve = 4 * time.Minute
	generatorReserve  = 150 * time.Second
	processReserve    = 40 * time.Second
	ceilingSpan       = 500 * time.Millisecond
	plainFrame        = 16 << 10 // of the bare loop beside rows that have no ceiling
	plainWindow       = 5
	warmWindow        = 4 * time.Second // of a closed loop while a process is warmed up
	resumedNote       = "resumed: the blocks before and after that moment come from other processes of both sides"
)

// session is one run of the suite. It belongs to one goroutine.
type session struct {
	options Options
	suite   *Suite
	profile Profile
	rows    []*Row
	arms    []*arm // ours first
	alive   []*arm // those of them that this process of the session has started
	doc     *Document
	id      string // of topics
	order   int
	log     *os.File
	began   time.Time
	before  float64   // seconds that the calls before took, of a session that is gone on with
	end     time.Time // of the budget
	idle    map[string]*idleTime
	alone   aloneFigures
	classes string // Kafka's class path, for the tools of the generator's row
	build   string // of our broker and the generator
}

// Run runs the suite and returns the document, which is in the folder too. When ctx ends, what was measured is kept and the
// document says interrupted.
func Run(ctx context.Context, o Options) (*Document, error) {
	s := &session{options: o, began: time.Now(), idle: map[string]*idleTime{}}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	defer s.log.Close()
	err := s.measure(ctx)
	for _, a := range s.arms {
		err = errors.Join(err, a.down())
	}
	s.doc.State = "finished"
	switch {
	case ctx.Err() != nil:
		s.doc.State, err = "interrupted", nil
	case err != nil:
		s.doc.State, s.doc.Error = "failed", err.Error()
	}
	return s.doc, errors.Join(err, s.save(), os.RemoveAll(filepath.Join(o.Out, "data")))
}

func (s *session) prepare(ctx context.Context) error {
	o := &s.options
	s.suite = o.suite
	if s.suite == nil {
		var err error
		if s.suite, err = BuiltIn(); err != nil {
			return err
		}
	}
	var err error
	if s.profile, err = s.suite.profile(o.Profile); err != nil {
		return failWith(exitUsage, err)
	}
	if s.rows, err = s.suite.chosen(s.profile, o.Rows); err != nil {
		return failWith(exitUsage, err)
	}
	if o.Budget == 0 {
		o.Budget = s.profile.Budget.D()
	}
	s.end = s.began.Add(o.Budget)
	if o.span == 0 {
		o.span = ceilingSpan
	}
	o.cores, o.loadCores = target.SplitCores(proc.Cores())
	random := make([]byte, 4)
	_, _ = rand.Read(random)
	s.id = hex.EncodeToString(random)
	if s.build, err = buildOf(o.Bin, o.Version); err != nil {
		return err
	}
	if err := s.document(); err != nil {
		return err
	}
	if s.log, err = os.OpenFile(filepath.Join(o.Out, "brokers.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
		return err
	}
	return s.makeArms(ctx)
}

// document begins the document or goes on with the one that is there.
func (s *session) document() error {
	o := &s.options
	old, err := Read(o.Out)
	sum := sha256.Sum256(builtIn)
	suiteHash := hex.EncodeToString(sum[:])
	switch {
	case err == nil && !o.Resume:
		return failWith(exitUsage, fmt.Errorf("%s holds a %s: give another --out, or --resume to go on with it", o.Out, FileName))
	case err == nil:
		if err := goesOn(old, suiteHash, s.profile.Name, host.Read(o.Out)); err != nil {
			return failWith(exitUsage, err)
		}
		if o.Seed != old.Seed && !o.KeepSeed {
			return failWith(exitUsage, fmt.Errorf("%s was begun with seed %d, not %d: say --seed %d or none, or give another --out", FileName, old.Seed, o.Seed, old.Seed))
		}
		s.doc, s.before = old, old.Seconds
		s.doc.Notes = append(s.doc.Notes, resumedNote)
		for _, b := range old.Blocks {
			s.order += len(b.all()) + 1
		}
		s.order += 100 // of a block that was lost
		if before := builds(old.Blocks); len(old.Blocks) > 0 && !slices.Equal(before, []string{s.build}) {
			s.note(fmt.Sprintf("resumed by %s: blocks before are of %s", s.build, strings.Join(before, ", ")))
		}
	case o.Resume:
		return failWith(exitUsage, fmt.Errorf("nothing to go on with: %w", err))
	default:
		if err := os.MkdirAll(o.Out, 0o755); err != nil {
			return failWith(exitUsage, err)
		}
		s.doc = &Document{
			Schema: Schema, Suite: s.suite.Name, SuiteHash: suiteHash, Profile: s.profile.Name, About: s.profile.About,
			Command: o.Command, Started: s.began.UTC(), Version: o.Version, GoVersion: runtime.Version(), Seed: o.Seed,
			MinPairs: s.profile.Pairs, Processes: s.profile.Processes, Missing: s.suite.Missing,
		}
	}
	s.doc.State, s.doc.Error = "running", ""
	s.doc.Host = host.Read(o.Out)
	s.tableRows()
	if len(o.cores) == 0 {
		s.note("one core for everything: broker and generator share it, and no figure here says much")
	}
	return nil
}

// tableRows enters the rows of the table: those asked for, and those that the session which is gone on with has measured.
func (s *session) tableRows() {
	s.doc.Rows, s.doc.LeftOut = nil, nil
	for i := range s.suite.Rows {
		r := &s.suite.Rows[i]
		if slices.Contains(s.rows, r) || len(s.doc.blocksOf(r.Name)) > 0 {
			s.doc.Rows = append(s.doc.Rows, rowInfo(s.suite, r))
		} else {
			s.doc.LeftOut = append(s.doc.LeftOut, r.Name)
		}
	}
}

func rowInfo(s *Suite, r *Row) RowInfo {
	info := RowInfo{Name: r.Name, Title: r.Title, Alone: r.Alone, Goals: r.Goals, Share: r.Share}
	if r.Alone != "" {
		return info
	}
	all := maps.Clone(s.Set)
	maps.Copy(all, r.Set)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		info.Settings = append(info.Settings, name+"="+all[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.Capacity)) {
		info.Settings = append(info.Settings, "capacity."+name+"="+r.Capacity[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.TopicConfigs)) {
		info.Settings = append(info.Settings, "topic."+name+"="+r.TopicConfigs[name])
	}
	switch {
	case r.Ceiling.Sendfile:
		info.Ceiling = "sendfile"
	case !r.Ceiling.None():
		info.Ceiling = fmt.Sprintf("requests of %d bytes, %d in flight: recv, CRC-32C, pwrite, answer", r.Ceiling.Frame, r.Ceiling.Window)
	}
	return info
}

// makeArms names the sides; none is started yet.
func (s *session) makeArms(ctx context.Context) error {
	o := &s.options
	data := func(name string) string { return filepath.Join(o.Out, "data", name) }
	ours := &arm{data: data("tidemark"), start: ownBroker(o, s.suite, s.log)}
	ours.info = ArmInfo{Name: "tidemark", Ours: true, About: "this program's broker at its defaults", Version: o.Version, Settings: s.suite.Broker,
		Cores: o.cores, Command: []string{"tidemark", "broker"}}
	s.arms = []*arm{ours}
	version := "stand-in"
	make := o.other
	if make == nil {
		fmt.Fprintln(o.Progress, "Apache Kafka comes from its Maven artifacts by scripts/kafka: the first time Maven downloads about 130 MB to where it keeps its downloads; nothing else is installed")
		var err error
		if s.classes, err = classPath(ctx, o.Kafka, o.Progress); err != nil {
			return err
		}
		version, make = kafkaVersion(s.classes), apacheKafka
	}
	settings := s.suite.Kafka
	if !s.profile.Tuned {
		settings = settings[:1]
	}
	for _, k := range settings {
		set := maps.Clone(s.suite.Broker)
		maps.Copy(set, k.Set)
		a := &arm{data: data(k.Name), start: make(o, s.suite, k, s.log)}
		a.info = ArmInfo{Name: k.Name, About: k.About, Version: version, Heap: k.Heap, Settings: set, Cores: o.cores,
			Command: []string{"scripts/kafka/kafka", "start", "DIR", "PORT"}}
		s.arms = append(s.arms, a)
	}
	before := s.doc.Arms
	if err := sameKafka(before, s.arms); err != nil {
		return failWith(exitUsage, err)
	}
	s.doc.Arms = nil
	for _, a := range s.arms {
		s.doc.Arms = append(s.doc.Arms, a.info)
	}
	for _, old := range before { // of a session that is gone on with without it
		if s.doc.arm(old.Name) == nil {
			s.doc.Arms = append(s.doc.Arms, old)
		}
	}
	return s.save()
}

// measure is the whole session: processes, and in each the rows; then what is measured alone.
func (s *session) measure(ctx context.Context) error {
	for process := 1; process <= s.profile.Processes; process++ {
		if s.processDone(process) {
			continue
		}
		if err := s.process(ctx, process); err != nil {
			return err
		}
	}
	return s.measureAlone(ctx)
}

// shared reports whether a row is measured while all arms are alive.
func shared(r *Row) bool { return r.Alone == "" }

func (s *session) has(row string, process int) bool {
	return slices.ContainsFunc(s.doc.Blocks, func(b *Block) bool { return b.Row == row && b.Process == process })
}

func (s *session) processDone(process int) bool {
	for _, r := range s.rows {
		if (shared(r) || r.Alone == aloneStart || r.Alone == aloneMemory) && !s.has(r.Name, process) {
			return false
		}
	}
	return true
}

// process starts fresh processes of all arms and takes them through the rows.
func (s *session) process(ctx context.Context, process int) error {
	s.alive = s.needed(process)
	for _, a := range s.alive {
		if err := s.freshStart(ctx, a, process); err != nil {
			return err
		}
	}
	s.alone.idle(s.alive)
	if err := s.save(); err != nil {
		return err
	}
	if err := s.warm(ctx); err != nil {
		return err
	}
	// A JVM that came to a row cold has been through all others by the end: what had not settled is measured once more.
	began := time.Now()
	for _, again := range []bool{false, true} {
		pass := time.Since(began)
		for i, r := range s.rows {
			if !shared(r) || s.has(r.Name, process) != again || again && !(s.profile.Again && s.unsettled(r.Name, process)) {
				continue
			}
			if again && !fits(s.left(process), pass, s.secondsOf(r.Name, process), s.profile.Processes-process) {
				s.note(fmt.Sprintf("no time to measure row %s once more in process %d", r.Name, process))
				continue
			}
			if err := s.row(ctx, r, i, process); err != nil {
				return err
			}
		}
	}
	s.memoryRow(process)
	for _, a := range s.arms {
		if err := a.down(); err != nil {
			return err
		}
	}
	return s.save()
}

// fits reports whether a block that took so long may be measured once more: the processes that follow need a pass through all
// rows each, as long as this one's.
func fits(left, pass, block time.Duration, processes int) bool {
	return left-pass*time.Duration(processes) >= block
}

// secondsOf is how long a row took in a process.
func (s *session) secondsOf(row string, process int) time.Duration {
	for _, b := range s.doc.blocksOf(row) {
		if b.Process == process {
			return time.Duration(b.Seconds * float64(time.Second))
		}
	}
	return 0
}

// needed are the arms that a row of this process is measured with.
func (s *session) needed(process int) []*arm {
	want := map[*arm]bool{s.arms[0]: true, s.arms[1]: true}
	for _, r := range s.rows {
		if shared(r) && !s.has(r.Name, process) {
			for _, a := range s.armsFor(r, process) {
				want[a] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(s.arms), func(a *arm) bool { return !want[a] })
}

// row measures one row in the processes that run, while there is budget for it.
func (s *session) row(ctx context.Context, r *Row, i, process int) error {
	if left := s.left(process); left <= 0 {
		s.note(fmt.Sprintf("the budget was spent before row %s in process %d", r.Name, process))
		return nil
	}
	b, err := s.block(ctx, r, process, s.share(i, process))
	if ctx.Err() != nil { // the block goes, but not what was lost in it
		s.keepDamaged(b.all()...)
		return ctx.Err()
	}
	if err != nil { // one row that failed must not cost the others
		b.Error = err.Error()
		s.note(fmt.Sprintf("row %s in process %d: %v", r.Name, process, err))
		s.say("row %s failed: %v", r.Name, err)
	}
	s.doc.Blocks = append(s.doc.Blocks, b)
	return errors.Join(s.save(), s.revive(ctx, process))
}

// unsettled reports whether a row was measured once in a process, without an error, and gives no ratio there.
func (s *session) unsettled(row string, process int) bool {
	blocks, missing := 0, false
	for _, b := range s.doc.Blocks {
		if b.Row == row && b.Process == process {
			blocks++
			missing = b.Error == "" && !slices.ContainsFunc(b.Arms, func(a string) bool { return a != s.arms[0].info.Name && b.Counts(s.arms[0].info.Name, a) })
		}
	}
	return blocks == 1 && missing
}

// revive starts an arm that died anew, so that the rows behind are measured.
func (s *session) revive(ctx context.Context, process int) error {
	for _, a := range s.alive {
		if a.target != nil && a.target.Alive() {
			continue
		}
		s.note(fmt.Sprintf("%s ended in process %d and was started anew", a.info.Name, process))
		a.target = nil
		if err := a.up(ctx, true); err != nil {
			return err
		}
		if err := answers(ctx, a.target.Bootstrap); err != nil {
			return fmt.Errorf("%s: %w", a.info.Name, err)
		}
	}
	return nil
}

// left is what is left of the budget for the rows of this process and the ones behind it.
func (s *session) left(process int) time.Duration {
	left := time.Until(s.end) - time.Duration(s.profile.Processes-process)*(processReserve+s.profile.WarmUp.D())
	for _, r := range s.rows {
		switch {
		case s.has(r.Name, 1):
		case r.Alone == alonePartitions:
			left -= partitionsReserve
		case r.Alone == aloneGenerator:
			left -= generatorReserve
		}
	}
	return left
}

// share is how long the row at index i of this process may take: an equal part of what is left.
func (s *session) share(i, process int) time.Duration {
	cells := 0
	for j, r := range s.rows {
		if !shared(r) {
			continue
		}
		if j >= i {
			cells++
		}
		cells += s.profile.Processes - process
	}
	return min(s.left(process)/time.Duration(max(1, cells)), s.profile.SettleAtMost.D())
}

// warm takes all arms through the rows without keeping anything, so that no row meets a process in its first minutes.
func (s *session) warm(ctx context.Context) error {
	end := time.Now().Add(s.profile.WarmUp.D() * time.Duration(len(s.alive)-1)) // each JVM gets as much
	for pair := 0; time.Now().Before(end); pair++ {
		ran := false
		for _, r := range s.rows {
			if !shared(r) || r.Read > 0 || r.Topic != "" {
				continue
			}
			spec, err := s.suite.spec(r)
			if err != nil {
				return err
			}
			if spec.Question == workload.Capacity { // a compiler needs more of the same than a figure does
				spec.Window = max(spec.Window, workload.Duration(warmWindow))
			}
			ran = true
			for _, i := range Order(pair, len(s.alive)) {
				if i == 0 && pair > 0 { // ours is warm after one window, a JVM after many
					continue
				}
				if !time.Now().Before(end) {
					return nil
				}
				w, err := s.runBeside(ctx, s.alive[i], job{row: r, spec: spec, pair: pair})
				if err != nil {
					return err
				}
				s.say("warm up  %s  %s", s.alive[i].info.Name, headline(r, w))
			}
		}
		if !ran {
			return nil
		}
	}
	return nil
}

// runBeside runs a window that enters no block. What was lost in it is kept all the same.
func (s *session) runBeside(ctx context.Context, a *arm, j job) (*Window, error) {
	w, err := s.run(ctx, a, j)
	if w != nil && ctx.Err() == nil {
		s.keepDamaged(w)
	}
	return w, err
}

// keepDamaged keeps those of windows which no block has whose data were broken.
func (s *session) keepDamaged(windows ...*Window) {
	for _, w := range windows {
		if w.damaged() {
			s.doc.Damaged = append(s.doc.Damaged, w)
		}
	}
}

func (s *session) note(text string) {
	if !slices.Contains(s.doc.Notes, text) {
		s.doc.Notes = append(s.doc.Notes, text)
	}
}

func (s *session) save() error {
	s.doc.Ended = time.Now().UTC()
	s.doc.Seconds = s.before + time.Since(s.began).Seconds()
	for i, a := range s.arms {
		if i < len(s.doc.Arms) {
			s.doc.Arms[i].Version = a.info.Version
		}
	}
	return s.doc.Write(s.options.Out)
}

// say prints one line of progress.
func (s *session) say(format string, a ...any) {
	fmt.Fprintf(s.options.Progress, "%s  %s\n", time.Since(s.began).Round(time.Second), fmt.Sprintf(format, a...))
}

// headline is a window's first figure in words.
func headline(r *Row, w *Window) string {
	if len(r.Goals) == 0 {
		return r.Name + "  " + w.Status
	}
	text := r.Name
	for _, g := range r.Goals {
		m := measureOf(g)
		if v, why := m.figure(w); why == "" {
			text += fmt.Sprintf("  %s %s", g.Measure, figure(v))
		} else {
			text += fmt.Sprintf("  %s: %s", g.Measure, why)
		}
	}
	if len(w.Reasons) > 0 && w.Status != "ok" {
		text += "  (" + strings.Join(w.Reasons, "; ") + ")"
	}
	return text
}
