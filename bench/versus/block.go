package versus

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemark/tidemark/bench/host"
	"github.com/tidemark/tidemark/loadgen/workload"
)

// idleTime is what an arm used in a block, and how much of that while it was measured itself.
type idleTime struct {
	cpu, own int64
	busy     time.Duration
	began    time.Time
}

// fewestPairs is how many runs of a side there are before it can be settled: those that its last five windows of equal
// work come from, at least two.
func (p Profile) fewestPairs(spec *workload.Spec) int {
	if parts := split(spec); parts > 1 {
		return max(2, (settleWindows+parts-1)/parts)
	}
	return p.Blocks
}

// block measures one row in the processes that run, for at most the time given or the fewest windows that can be judged.
func (s *session) block(ctx context.Context, r *Row, process int, atMost time.Duration) (*Block, error) {
	began := time.Now()
	arms := s.armsFor(r, process)
	b := &Block{Row: r.Name, Process: process, Build: s.build, Settled: map[string]string{}, From: map[string]int{}, Idle: map[string]float64{}}
	for _, a := range arms {
		b.Arms = append(b.Arms, a.info.Name)
	}
	spec, err := s.suite.spec(r)
	if err != nil {
		return b, err
	}
	topics, err := s.keptTopics(ctx, r, spec, arms)
	if err != nil {
		return b, err
	}
	specs, err := s.specsOf(ctx, r, spec, arms, b)
	if err != nil {
		return b, err
	}
	b.Beside = &Beside{Unit: "MB/CPU-s"}
	s.idleFrom(arms)
	pairs, last := 0, time.Duration(0)
	for ; ; pairs++ {
		from := time.Now()
		s.readBeside(r, b)
		if pairs >= s.profile.fewestPairs(spec) && (b.judge() || time.Since(began)+last > atMost) {
			break
		}
		for _, i := range Order(pairs, len(arms)) {
			w, err := s.timed(ctx, arms[i], job{row: r, spec: specs[i], process: process, pair: pairs, topic: topics[arms[i].info.Name]})
			if w != nil && ctx.Err() == nil {
				b.Windows = append(b.Windows, w)
			}
			if err != nil {
				return b, err
			}
			s.say("process %d  %-11s  %s", process, arms[i].info.Name, headline(r, w))
		}
		last = time.Since(from)
	}
	s.idleUntil(b, arms)
	if process == 1 { // a session that is cut short has them too
		if err := s.profiled(ctx, b, job{row: r, spec: specs[0], process: process, pair: pairs, topic: topics[s.arms[0].info.Name]}); err != nil {
			return b, err
		}
	}
	for _, a := range arms {
		if topic := topics[a.info.Name]; topic != "" {
			if err := dropTopic(ctx, a.target.Bootstrap, topic); err != nil {
				s.note(fmt.Sprintf("delete topic %s of %s: %v", topic, a.info.Name, err))
			}
		}
	}
	b.Seconds = time.Since(began).Seconds()
	return b, nil
}

// armsFor are ours and Kafka with its defaults, and in the first process Kafka's second setting where the profile has it;
// later ours and the setting of Kafka that did better in those before.
func (s *session) armsFor(r *Row, process int) []*arm {
	if len(s.arms) < 3 || process == 1 && s.profile.tunes(r.Name) {
		return s.arms
	}
	best := ""
	for _, result := range Analyse(s.doc) {
		if result.Row.Name == r.Name && len(result.Lines) > 0 {
			best = result.Lines[0].Best
		}
	}
	for _, a := range s.arms[1:] {
		if a.info.Name == best {
			return []*arm{s.arms[0], a}
		}
	}
	return s.arms[:2]
}

// readBeside measures the bare loop of a row once more; a row without a ceiling gets one of plain requests.
func (s *session) readBeside(r *Row, b *Block) {
	o := &s.options
	var c host.Ceiling
	requests := 0.0
	switch {
	case r.Ceiling.Sendfile:
		c = host.SendfileCeiling(o.Out, o.cores, o.loadCores, o.span)
	case r.Ceiling.None():
		c, requests = host.RequestCeiling(o.Out, o.cores, o.loadCores, plainFrame, plainWindow, o.span)
	default:
		c, requests = host.RequestCeiling(o.Out, o.cores, o.loadCores, r.Ceiling.Frame, r.Ceiling.Window, o.span)
	}
	if c.Error != "" || !(c.PerCPU > 0) {
		s.note("the bare loop beside " + r.Name + ": " + c.Error)
		c.PerCPU, requests = 0, 0
	}
	b.Beside.Name = c.Name
	b.Beside.PerCPU = append(b.Beside.PerCPU, c.PerCPU) // one for each pair, whatever came of it
	if !r.Ceiling.Sendfile {
		b.Beside.Requests = append(b.Beside.Requests, requests)
	}
}

// keptTopics makes the topics that stay for all windows of a block: those of a row that asks for it, and what a reading
// row reads.
func (s *session) keptTopics(ctx context.Context, r *Row, spec *workload.Spec, arms []*arm) (map[string]string, error) {
	topics := map[string]string{}
	if r.Topic == "" && r.Read == 0 {
		return topics, nil
	}
	fill, err := fillSpec(r, spec)
	if err != nil {
		return nil, err
	}
	for _, a := range arms {
		s.order++
		topic := fmt.Sprintf("versus-%s-%d-kept", s.id, s.order)
		if err := makeTopic(ctx, a.target.Bootstrap, topic, spec.Partitions, r.TopicConfigs); err != nil {
			return nil, fmt.Errorf("%s: %w", a.info.Name, err)
		}
		topics[a.info.Name] = topic
		if fill == nil {
			continue
		}
		w, err := s.runBeside(ctx, a, job{row: r, spec: fill, topic: topic})
		if err != nil {
			return nil, err
		}
		if w.Unverified != "" || w.damaged() {
			return nil, fmt.Errorf("%s: %s could not be filled: %v %s", a.info.Name, topic, w.Reasons, w.Unverified)
		}
	}
	return topics, nil
}

// primeRequest bounds the requests that write a kept topic's first records.
const primeRequest = 128 << 10

// fillSpec is what writes a kept topic before it is measured: what a reading row reads, or the first records of each
// partition, which cost Kafka two synced checkpoints. nil: nothing does.
func fillSpec(r *Row, spec *workload.Spec) (*workload.Spec, error) {
	fill := spec.Clone()
	fill.Name, fill.WarmUp, fill.Window = r.Name+"-fill", 0, workload.Duration(time.Minute)
	switch {
	case r.Read > 0:
		fill.Producers, fill.Consumers, fill.Groups = 1, 0, nil
		fill.BatchSize, fill.RequestMax, fill.Buffer, fill.MaxBytes = 1<<20, 1100<<10, 64<<20, r.Read
	case r.Prime > 0:
		// In small requests: one that syncs two files for each of a thousand partitions would outlast its timeout.
		fill.MaxBytes, fill.RequestMax = r.Prime, primeRequest
		fill.Drain, fill.MaxDuration = workload.Duration(time.Minute), workload.Duration(3*time.Minute)
	default:
		return nil, nil
	}
	if err := fill.Validate(); err != nil {
		return nil, fmt.Errorf("row %s: what is written before: %w", r.Name, err)
	}
	return fill, nil
}

// profiled runs one window more with the CPU profile of our broker: the measured ones carry none.
func (s *session) profiled(ctx context.Context, b *Block, j job) error {
	j.profiled = true
	w, err := s.runBeside(ctx, s.arms[0], j)
	if err != nil {
		return err
	}
	from := filepath.Join(s.options.Out, w.Folder, "profiles", "broker.cpu.pprof")
	content, err := os.ReadFile(from)
	if err != nil {
		s.note("no profile of row " + b.Row + ": " + err.Error())
		return nil
	}
	name := filepath.Join("profiles", b.Row+".broker.cpu.pprof")
	if err := os.MkdirAll(filepath.Join(s.options.Out, "profiles"), 0o755); err != nil {
		return err
	}
	b.Profile = name
	return writeFile(filepath.Join(s.options.Out, name), content)
}

// timed runs a window and keeps what the arm used for it.
func (s *session) timed(ctx context.Context, a *arm, j job) (*Window, error) {
	idle := s.idle[a.info.Name]
	cpu, began := a.cpu(), time.Now()
	w, err := s.run(ctx, a, j)
	if idle != nil {
		idle.own += a.cpu() - cpu
		idle.busy += time.Since(began)
	}
	return w, err
}

func (s *session) idleFrom(arms []*arm) {
	for _, a := range arms {
		s.idle[a.info.Name] = &idleTime{cpu: a.cpu(), began: time.Now()}
	}
}

// idleUntil writes down what each arm used while it was not the one that was measured.
func (s *session) idleUntil(b *Block, arms []*arm) {
	for _, a := range arms {
		i := s.idle[a.info.Name]
		if rest := time.Since(i.began) - i.busy; rest > 0 {
			b.Idle[a.info.Name] = float64(a.cpu()-i.cpu-i.own) / float64(rest.Nanoseconds())
		}
	}
}
