package partition

import (
	"sync/atomic"
	"testing"

	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
)

// hangingLog is a log whose disk does not answer until the test says so.
type hangingLog struct {
	Log
	begun  chan struct{} // told of each write that begins
	answer chan struct{} // closed: the disk answers
}

func (l *hangingLog) Append(b []commitlog.AppendBatch) error {
	l.begun <- struct{}{}
	<-l.answer
	return l.Log.Append(b)
}

// stalling is a partition over such a log, its folder's flag, and how many appends may probe it.
type stalling struct {
	*Partition
	t       *testing.T
	log     *hangingLog
	stalled atomic.Bool
	probes  int
	done    chan *Append
}

func newStalling(t *testing.T) *stalling {
	p := leader(t, 1, 0)
	s := &stalling{Partition: p, t: t, log: &hangingLog{Log: p.o.Log, begun: make(chan struct{}, 10), answer: make(chan struct{})}, done: make(chan *Append, 10)}
	p.o.Log, p.o.Stalled = s.log, s.stalled.Load
	p.o.Probe = func() bool { s.probes--; return s.probes >= 0 }
	return s
}

func (s *stalling) append() *Append {
	return &Append{Batch: one(s.t), Acks: 1, Done: Func(func(a *Append) { s.done <- a })}
}

// hang begins a write that hangs.
func (s *stalling) hang() *Append {
	a := s.append()
	go func() {
		if !s.Append(a) {
			s.done <- a
		}
	}()
	<-s.log.begun
	return a
}

// refused is what an append has come to that a stalled folder has turned away.
func (s *stalling) refused(what string, a *Append) {
	s.t.Helper()
	if r := a.Result; r.Err != kafka.KafkaStorageError || r.Text != stalledText || r.Base != kafka.NoOffset || r.LogStart != 0 {
		s.t.Errorf("%s: %+v", what, r)
	}
}

func (s *stalling) end(want kafka.Offset) {
	s.t.Helper()
	close(s.log.answer)
	s.Exclusive(func() {})
	if s.LogEnd() != want {
		s.t.Errorf("the log ends at %d, want %d", s.LogEnd(), want)
	}
}

// When a folder is found stalled, what waits behind the append that hangs is answered and never appended; metadata that waits there
// keeps its place. Further appends are answered at once, until the disk answers.
func TestNothingWaitsBehindAnAppendThatHangs(t *testing.T) {
	s := newStalling(t)
	first := s.hang()
	second, third := s.append(), s.append()
	if !s.Append(second) {
		t.Fatal("an append goes by another one")
	}
	s.BecomeLeader(2, []kafka.BrokerID{0})
	s.Enqueue(third)
	s.Settle()
	s.stalled.Store(true)
	s.Stalled(false)
	s.refused("an append that waited", <-s.done)
	s.refused("an append that was left", <-s.done)
	fourth, fifth := s.append(), s.append()
	if s.Append(fourth) {
		t.Error("an append waits behind one that hangs")
	} else {
		s.refused("an append", fourth)
	}
	s.Enqueue(fifth)
	s.refused("an append that is left", <-s.done)
	if s.probes != 0 {
		t.Errorf("%d probes behind an append that hangs", -s.probes)
	}

	close(s.log.answer)
	if a := <-s.done; a != first || a.Result.Err != 0 || a.Result.Base != 0 {
		t.Errorf("what was being written: %+v", a.Result)
	}
	s.stalled.Store(false)
	last := s.append()
	if s.Append(last) {
		<-s.done
	}
	if last.Result.Err != 0 || last.Result.Base != 1 {
		t.Errorf("an append when the disk answers: %+v", last.Result)
	}
	if s.LeaderEpoch() != 2 {
		t.Errorf("the leader epoch is %d", s.LeaderEpoch())
	}
}

// A flag that has gone again by the time that the partition is told turns nothing away.
func TestAFolderThatAnswersAgainTurnsNothingAway(t *testing.T) {
	s := newStalling(t)
	s.hang()
	if !s.Append(s.append()) {
		t.Fatal("an append goes by another one")
	}
	s.Stalled(false)
	s.end(2)
}

// Where nobody appends, a few appends find out whether a stalled disk answers, on no connection's goroutine: the caller goes on. Further
// ones are turned away.
func TestAFewAppendsProbeAStalledFolder(t *testing.T) {
	for what, try := range map[string]func(*Partition, *Append) bool{
		"append":  (*Partition).Append,
		"enqueue": func(p *Partition, a *Append) bool { p.Enqueue(a); p.Settle(); return true },
	} {
		s := newStalling(t)
		s.stalled.Store(true)
		s.probes = 1
		probe := s.append()
		if !try(s.Partition, probe) {
			t.Fatalf("%s: no probe: %+v", what, probe.Result)
		}
		<-s.log.begun
		s.end(1)
		if a := <-s.done; a != probe || a.Result.Err != 0 {
			t.Errorf("%s: the probe: %+v", what, a.Result)
		}
		late := s.append()
		if try(s.Partition, late) {
			<-s.done
		}
		s.refused(what+" beyond the probes", late)
		if s.LogEnd() != 1 {
			t.Errorf("%s: the log ends at %d", what, s.LogEnd())
		}
	}
}

// With tidemark.fsync=batch, who waits for a flush waits for as long as its producer would. One who waits for the other replicas, and for
// no flush, waits on.
func TestNobodyWaitsForeverForAFlushThatHangs(t *testing.T) {
	for _, batch := range []bool{false, true} {
		p := leader(t, 1, 0, 1)
		var stalled atomic.Bool
		p.o.Stalled, p.o.Probe, p.o.FlushSoon = stalled.Load, func() bool { return true }, func() {}
		cfg := *p.Config()
		cfg.FsyncBatch = batch
		p.SetConfig(&cfg)
		a, done := leave(p, sequenced(t, 0), -1)
		p.Settle()
		stalled.Store(true)
		p.Stalled(false)
		if *done != 0 {
			t.Fatalf("batch %v: not waited for: %+v", batch, a.Result)
		}
		p.Stalled(true)
		if told := *done == 1 && a.Result.Err == kafka.KafkaStorageError; told != batch {
			t.Errorf("batch %v: answered %d times, %+v", batch, *done, a.Result)
		}
	}
}
