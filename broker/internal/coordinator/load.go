package coordinator

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tidemark/tidemark/broker/internal/group"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

// What loading reads and unpacks at a time; a single larger batch is read whole.
const (
	loadBytes             = 1 << 20
	loadDecompressedBytes = 64 << 20
)

// A load that has failed is tried again after firstRetry, after each further failure in twice the time.
const (
	firstRetry = 5 * time.Second
	lastRetry  = 5 * time.Minute
)

// maxToldPasses is how many batches and records that are passed over one load tells one by one.
const maxToldPasses = 100

// errNoBatch is a log that ends before its end.
var errNoBatch = errors.New("no batch before the log end")

// places bounds the loads under way, each log folder's by themselves.
type places struct {
	sync.Mutex
	byFolder map[int]chan struct{}
}

func (p *places) of(folder int) chan struct{} {
	p.Lock()
	defer p.Unlock()
	if p.byFolder == nil {
		p.byFolder = map[int]chan struct{}{}
	}
	if p.byFolder[folder] == nil {
		p.byFolder[folder] = make(chan struct{}, maxLoads)
	}
	return p.byFolder[folder]
}

// load reads the partition into a new machine and makes it the shard's. It runs on a goroutine of its own, which may
// block on the disk and waits for one of its log folder's places.
func (s *shard) load(loaded chan struct{}) {
	defer s.g.running.Done()
	defer close(loaded)
	folder := 0
	if s.g.o.Folder != nil {
		folder = s.g.o.Folder(s.p)
	}
	place := s.g.loads.of(folder)
	place <- struct{}{}
	defer func() { <-place }()
	if !s.stillLoads(loaded) {
		return
	}
	log, code := s.g.o.Open(s.p)
	if code != kafka.None {
		s.g.o.Logger.Error("group coordinator could not open its partition", "topic", kafka.OffsetsTopic, "partition", s.p, "error", code)
		s.install(loaded, nil, nil)
		return
	}
	began := time.Now()
	m := group.New(s.g.config, newUUID)
	records, err := s.replay(loaded, m, log)
	if err != nil {
		s.g.o.Logger.Error("group coordinator could not load its partition", "topic", kafka.OffsetsTopic, "partition", s.p, "error", err)
		s.install(loaded, nil, nil)
		return
	}
	if records > 0 {
		s.g.o.Logger.Info("group coordinator loaded its partition", "topic", kafka.OffsetsTopic, "partition", s.p,
			"records", records, "groups", m.Groups(), "took", time.Since(began))
	}
	s.g.met.loadSeconds.Observe(time.Since(began).Seconds())
	s.install(loaded, m, log)
}

// retryLocked has a shard whose load has failed loaded again after a while: a disk may come back, and nobody else tells.
func (s *shard) retryLocked(before chan struct{}) {
	wait := min(firstRetry<<min(s.mu.failures, 10), lastRetry)
	s.mu.failures++
	s.mu.retry = time.AfterFunc(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.mu.closed || s.mu.state != failed || s.mu.loaded != before {
			return // leadership has changed since
		}
		loaded := make(chan struct{})
		s.mu.state, s.mu.loaded = loading, loaded
		s.g.running.Add(1)
		go s.load(loaded)
	})
}

// replay reads from the log's start to the end it had at the beginning: nobody else appends while the shard loads. What
// cannot be understood, a record or a whole batch, is logged and passed over: losing one group is better than losing all.
func (s *shard) replay(loaded chan struct{}, m *group.Machine, log Log) (records int, err error) {
	var buffer []byte
	var it record.Iterator
	passed := passes{logger: s.g.o.Logger, p: s.p}
	defer passed.sum()
	from, end := log.LogStart(), log.LogEnd()
	for from < end {
		if !s.stillLoads(loaded) {
			return records, nil // install will drop it
		}
		if buffer, err = log.Read(buffer[:0], from, loadBytes); err != nil {
			return records, fmt.Errorf("read at offset %d: %w", from, err)
		}
		if len(buffer) == 0 {
			return records, fmt.Errorf("read at offset %d of %d: %w", from, end, errNoBatch)
		}
		for rest := buffer; len(rest) > 0; {
			var b record.Batch
			if b, rest, err = record.Next(rest); err != nil {
				return records, fmt.Errorf("batch after offset %d: %w", from, err)
			}
			if b.LastOffset() < from {
				return records, fmt.Errorf("batch at offset %d ends at %d, before %d: %w", b.BaseOffset(), b.LastOffset(), from, record.ErrCorrupt)
			}
			from = b.LastOffset() + 1
			if !b.IsControl() {
				records += replayBatch(m, &it, b, &passed)
			}
		}
	}
	return records, nil
}

// replayBatch replays one batch, as far as it can be read.
func replayBatch(m *group.Machine, it *record.Iterator, b record.Batch, passed *passes) (records int) {
	const unreadable = "group records are passed over, since their batch cannot be read; what groups committed in it is lost: " +
		"look at their offsets, and set them with kafka-consumer-groups --reset-offsets where they are missing or too old"
	if err := it.Reset(b, nil, loadDecompressedBytes); err != nil {
		passed.over(unreadable, b.BaseOffset(), err)
		return 0
	}
	for it.Next() {
		r := it.Record()
		records++
		if err := m.Replay(r.Key, r.Value); err != nil {
			passed.over("group record is not understood and passed over", b.BaseOffset()+kafka.Offset(r.OffsetDelta), err)
		}
	}
	if err := it.Err(); err != nil {
		passed.over(unreadable, b.BaseOffset(), err)
	}
	return records
}

// passes tells an operator what a load passes over: the first ones each by itself, of the others how many.
type passes struct {
	logger *slog.Logger
	p      kafka.Partition
	n      int
}

func (p *passes) over(text string, at kafka.Offset, err error) {
	if p.n++; p.n <= maxToldPasses {
		p.logger.Error(text, "topic", kafka.OffsetsTopic, "partition", p.p, "offset", at, "error", err)
	}
}

func (p *passes) sum() {
	if p.n > maxToldPasses {
		p.logger.Error("more group records and batches were passed over than are told one by one", "topic", kafka.OffsetsTopic,
			"partition", p.p, "count", p.n)
	}
}
