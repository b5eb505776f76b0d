package versus

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/bench/store"
)

// Rows that are measured in processes of their own, or beside the windows.
const (
	aloneStart      = "start"      // the second start of each fresh process: the first one formats its folder
	aloneMemory     = "memory"     // after the start, and the most in the windows of a process
	alonePartitions = "partitions" // 10,000 of them
	aloneGenerator  = "generator"
)

// alones are all of them.
var alones = []string{aloneStart, aloneMemory, alonePartitions, aloneGenerator}

// The row with 10,000 partitions: Kafka refuses more than 10,000 in one request by policy.
const (
	manyTopics     = 2
	manyPartitions = 5000
	manySettle     = 3 * time.Second
)

// aloneFigures is the resident size of each arm right after its start, of this process.
type aloneFigures map[string]float64

// idle reads the resident sizes of arms that have nothing to do.
func (f *aloneFigures) idle(arms []*arm) {
	*f = aloneFigures{}
	for _, a := range arms {
		(*f)[a.info.Name] = float64(residentBytes(a.pid())) / (1 << 20)
	}
}

func residentBytes(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	var size, resident int64
	if _, scanErr := fmt.Sscan(string(b), &size, &resident); err != nil || scanErr != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}

func openFiles(pid int) int {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0
	}
	return len(entries)
}

// aloneRow finds the row of a kind among those asked for.
func (s *session) aloneRow(kind string) *Row {
	for _, r := range s.rows {
		if r.Alone == kind {
			return r
		}
	}
	return nil
}

// figures enters what was measured alone of one arm into the block of its row and process.
func (s *session) figures(row string, process int, w *Window) {
	w.Status = string(store.OK)
	for _, b := range s.doc.Blocks {
		if b.Row == row && b.Process == process && b.Build == s.build {
			for _, other := range b.Windows {
				if other.Arm == w.Arm {
					w.Pair = max(w.Pair, other.Pair+1)
				}
			}
			b.Windows = append(b.Windows, w)
			b.Settled[w.Arm] = ""
			return
		}
	}
	s.doc.Blocks = append(s.doc.Blocks, &Block{Row: row, Process: process, Build: s.build, Windows: []*Window{w}, Settled: map[string]string{w.Arm: ""}})
}

// freshStart starts an arm with an empty folder and, where the table asks for it, once more to see how long that takes.
func (s *session) freshStart(ctx context.Context, a *arm, process int) error {
	r := s.aloneRow(aloneStart)
	if err := a.up(ctx, true); err != nil {
		return err
	}
	if err := answers(ctx, a.target.Bootstrap); err != nil {
		return fmt.Errorf("%s: %w", a.info.Name, err)
	}
	if r == nil {
		return nil
	}
	if _, err := a.end(ctx, syscall.SIGTERM); err != nil {
		return err
	}
	began := time.Now()
	if err := a.up(ctx, false); err != nil {
		return err
	}
	if err := answers(ctx, a.target.Bootstrap); err != nil {
		return fmt.Errorf("%s: %w", a.info.Name, err)
	}
	w := &Window{Arm: a.info.Name, Alone: map[string]float64{"start ms": float64(time.Since(began).Microseconds()) / 1e3}}
	s.figures(r.Name, process, w)
	s.say("process %d  %-11s  started in %s ms", process, a.info.Name, figure(w.Alone["start ms"]))
	return nil
}

// answers asks for the API versions on a connection of its own until there is an answer.
func answers(ctx context.Context, bootstrap string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ticks := time.NewTicker(time.Millisecond)
	defer ticks.Stop()
	for {
		err := ask(ctx, bootstrap)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer from %s: %w", bootstrap, err)
		case <-ticks.C:
		}
	}
}

func ask(ctx context.Context, bootstrap string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", bootstrap)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	request := kmsg.NewPtrApiVersionsRequest()
	if _, err := conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("tidemark-versus")).AppendRequest(nil, request, 1)); err != nil {
		return err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	_, err = io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(size[:])))
	return err
}

// memoryRow enters the resident sizes of a process: at rest, and the most in its windows.
func (s *session) memoryRow(process int) {
	r := s.aloneRow(aloneMemory)
	if r == nil || s.has(r.Name, process) {
		return
	}
	for _, a := range s.alive {
		most := int64(0)
		for _, b := range s.doc.Blocks {
			if b.Process != process || b.Build != s.build { // a process of another build was another one
				continue
			}
			for _, w := range b.windowsOf(a.info.Name) {
				most = max(most, w.RSSBytes)
			}
		}
		s.figures(r.Name, process, &Window{Arm: a.info.Name, Alone: map[string]float64{
			"idle MiB": s.alone[a.info.Name], "in use MiB": float64(most) / (1 << 20),
		}})
	}
}

// measureAlone is what comes after the processes.
func (s *session) measureAlone(ctx context.Context) error {
	if r := s.aloneRow(alonePartitions); r != nil {
		for _, a := range s.arms[:min(2, len(s.arms))] { // Kafka with its defaults: its tuned set changes nothing here
			if s.hasWindow(r.Name, a.info.Name) {
				continue
			}
			w, err := s.manyPartitions(ctx, a)
			if downErr := a.down(); downErr != nil {
				err = errors.Join(err, downErr)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				s.note(fmt.Sprintf("10,000 partitions, %s: %v", a.info.Name, err))
			}
			if len(w.Alone) > 0 {
				s.figures(r.Name, 1, w)
				s.say("10,000 partitions  %-11s  %v", a.info.Name, w.Alone)
			}
			if err := s.save(); err != nil {
				return err
			}
		}
	}
	if r := s.aloneRow(aloneGenerator); r != nil && !s.has(r.Name, 1) {
		if err := s.generators(ctx, r); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s.note("generators: " + err.Error())
		}
	}
	return nil
}

// hasWindow reports whether an arm was measured in a row.
func (s *session) hasWindow(row, arm string) bool {
	return slices.ContainsFunc(s.doc.blocksOf(row), func(b *Block) bool { return len(b.windowsOf(arm)) > 0 })
}

// manyPartitions takes an arm through its life with 10,000 partitions. What was found before an error is in the window.
func (s *session) manyPartitions(ctx context.Context, a *arm) (*Window, error) {
	w := &Window{Arm: a.info.Name, Alone: map[string]float64{}}
	if err := a.up(ctx, true); err != nil {
		return w, err
	}
	if err := answers(ctx, a.target.Bootstrap); err != nil {
		return w, err
	}
	for i := range manyTopics {
		if err := makeTopic(ctx, a.target.Bootstrap, fmt.Sprintf("many-%d", i), manyPartitions, nil); err != nil {
			return w, err
		}
	}
	if err := s.allLed(ctx, a); err != nil {
		return w, err
	}
	pause(ctx, manySettle)
	w.Alone["resident MB"], w.Alone["open files"] = float64(residentBytes(a.pid()))/1e6, float64(openFiles(a.pid()))
	took, err := a.end(ctx, syscall.SIGTERM)
	if err != nil {
		return w, err
	}
	w.Alone["stop s"] = took.Seconds()
	for _, c := range []struct {
		measure string
		before  syscall.Signal
	}{{"restart s", 0}, {"restart after kill -9 s", syscall.SIGKILL}} {
		if c.before != 0 {
			if _, err := a.end(ctx, c.before); err != nil {
				return w, err
			}
		}
		began := time.Now()
		if err := a.up(ctx, false); err != nil {
			return w, err
		}
		if err := s.allLed(ctx, a); err != nil {
			return w, err
		}
		w.Alone[c.measure] = time.Since(began).Seconds()
	}
	return w, nil
}

// allLed waits until the last partition of each topic takes a look at its end, which only its leader answers.
func (s *session) allLed(ctx context.Context, a *arm) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for i := range manyTopics {
		for {
			ends, err := endsOf(ctx, a.target.Bootstrap, fmt.Sprintf("many-%d", i))
			if err == nil && len(ends[fmt.Sprintf("many-%d", i)]) == manyPartitions {
				break
			}
			if ctx.Err() != nil {
				return fmt.Errorf("%s: not all partitions answered: %w", a.info.Name, errors.Join(err, ctx.Err()))
			}
			pause(ctx, 10*time.Millisecond)
		}
	}
	return nil
}

// pause waits, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
