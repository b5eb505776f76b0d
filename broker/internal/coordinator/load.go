package coordinator

import (
	"errors"
	"fmt"
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

// replay reads from the log's start to the end it had at the beginning: nobody else appends while the shard loads. A
// record that cannot be understood is logged and passed over: losing one group is better than losing all.
func (s *shard) replay(loaded chan struct{}, m *group.Machine, log Log) (records int, err error) {
	var buffer []byte
	var it record.Iterator
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
			from = b.LastOffset() + 1
			if b.IsControl() {
				continue
			}
			if err = it.Reset(b, nil, loadDecompressedBytes); err != nil {
				return records, fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
			}
			for it.Next() {
				r := it.Record()
				records++
				if err := m.Replay(r.Key, r.Value); err != nil {
					s.g.o.Logger.Error("group record is not understood and passed over", "topic", kafka.OffsetsTopic, "partition", s.p,
						"offset", b.BaseOffset()+kafka.Offset(r.OffsetDelta), "error", err)
				}
			}
			if err = it.Err(); err != nil {
				return records, fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
			}
		}
	}
	return records, nil
}
