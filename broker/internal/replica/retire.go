package replica

import (
	"context"
	"fmt"
	"sync"

	"github.com/tidemark/tidemark/broker/internal/partition"
	"github.com/tidemark/tidemark/core/kafka"
)

// A change of metadata must not wait for a disk: it is told on the controller's goroutine, and a log folder that hangs would
// hold up the whole cluster's metadata. So a deleted topic leaves the map at once, its waiting requests are answered, and its
// logs are retired beside: closed, which waits for an append under way, and renamed. A topic made anew under the same name
// finds its place free all the same, because whoever opens one of its partitions first retires the earlier one's.

// retirement is the deleted topics whose logs are still in place, and the goroutines that retire them: one for each log folder
// that has any, for as long as it has, so that a folder that hangs holds up its own. They may block on files.
type retirement struct {
	mu struct {
		sync.Mutex
		topics map[string]*topic // by name, the newest
		ids    map[kafka.TopicID]*topic
		queues map[int][]leaving // by log folder; there while its goroutine runs
	}
	running sync.WaitGroup
}

// leaving is one partition to retire.
type leaving struct {
	t *topic
	n kafka.Partition
}

// find gives the newest deleted topic of a name whose logs may still be in place, or nil.
func (r *retirement) find(name string) *topic {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.topics[name]
}

// add takes in a topic that the map to come has no more.
func (r *retirement) add(t *topic) {
	t.left.Store(int32(len(t.parts)))
	t.done = make(chan struct{})
	t.gone.Store(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.topics == nil {
		r.mu.topics, r.mu.ids, r.mu.queues = map[string]*topic{}, map[kafka.TopicID]*topic{}, map[int][]leaving{}
	}
	r.mu.topics[t.name], r.mu.ids[t.id] = t, t
}

// remove ends the partitions of a topic that is gone, and leaves its logs to be retired. It waits for nothing.
func (s *Set) remove(t *topic) {
	r := &s.gone
	for i, place := range t.parts {
		n := kafka.Partition(i)
		if p := place.p.Load(); p != nil {
			p.Quit(kafka.UnknownTopicOrPartition)
		}
		if !place.mu.TryLock() {
			// It is being opened, in a folder that is not known yet. There are no more of these than requests that open one.
			r.running.Go(func() { s.retire(t, n) })
			continue
		}
		folder, there := s.o.Dirs.FolderOf(kafka.TopicPartition{Topic: t.name, Partition: n})
		done := place.mu.retired // by whoever opens one of the same name
		if !there {
			place.mu.retired = true
		}
		place.mu.Unlock()
		switch {
		case done:
		case there:
			s.queue(folder, leaving{t, n})
		default:
			s.retired(t)
		}
	}
	if len(t.parts) == 0 {
		s.forget(t)
	}
}

func (s *Set) queue(folder int, l leaving) {
	r := &s.gone
	r.mu.Lock()
	defer r.mu.Unlock()
	list, runs := r.mu.queues[folder]
	r.mu.queues[folder] = append(list, l)
	if !runs {
		r.running.Go(func() { s.retireFolder(folder) })
	}
}

// retireFolder retires what is queued for one log folder.
func (s *Set) retireFolder(folder int) {
	r := &s.gone
	for {
		r.mu.Lock()
		list := r.mu.queues[folder]
		if len(list) == 0 {
			delete(r.mu.queues, folder)
			r.mu.Unlock()
			return
		}
		r.mu.queues[folder] = nil
		r.mu.Unlock()
		for _, l := range list {
			s.retire(l.t, l.n)
		}
	}
}

// retire closes a partition of a deleted topic, and those before it of the same name, and renames their folders. It does
// nothing when that has been done.
func (s *Set) retire(t *topic, n kafka.Partition) {
	s.retirePrior(t, n)
	if int(n) >= len(t.parts) {
		return
	}
	place := t.parts[n]
	place.mu.Lock()
	defer place.mu.Unlock()
	if place.mu.retired {
		return
	}
	place.mu.retired = true
	if p := place.p.Swap(nil); p != nil {
		p.Close(kafka.UnknownTopicOrPartition)
	}
	tp := kafka.TopicPartition{Topic: t.name, Partition: n}
	if err := s.o.Dirs.Delete(tp, t.id, t.cfg.Load().Log.FileDeleteDelayMS); err != nil {
		s.o.Logger.Error("log of a deleted partition stays", "partition", tp.String(), "error", err)
	}
	s.retired(t)
}

// retirePrior sees to it that nothing of an earlier topic of the same name is in place.
func (s *Set) retirePrior(t *topic, n kafka.Partition) {
	if old := t.prior.Load(); old != nil {
		s.retire(old, n)
		if old.left.Load() == 0 {
			t.prior.CompareAndSwap(old, nil)
		}
	}
}

// retired counts a partition; with the last one the topic is forgotten.
func (s *Set) retired(t *topic) {
	if t.left.Add(-1) == 0 {
		s.forget(t)
	}
}

func (s *Set) forget(t *topic) {
	t.prior.Store(nil)
	close(t.done)
	s.gone.mu.Lock()
	defer s.gone.mu.Unlock()
	delete(s.gone.mu.ids, t.id)
	if s.gone.mu.topics[t.name] == t {
		delete(s.gone.mu.topics, t.name)
	}
}

// awaitRetired waits until nothing of a deleted topic is in place any more, or ctx ends.
func (s *Set) awaitRetired(ctx context.Context, id kafka.TopicID) {
	s.gone.mu.Lock()
	t := s.gone.mu.ids[id]
	s.gone.mu.Unlock()
	if t == nil {
		return
	}
	select {
	case <-t.done:
	case <-ctx.Done():
	}
}

// close ends every partition, and waits until none is being opened, appended to or retired any more. Each log folder is
// waited for by itself: one that hangs leaves the others closed when ctx ends.
func (s *Set) close(ctx context.Context) error {
	s.closed.Store(true)
	const unknown = -1 // of partitions that are being opened
	byFolder := map[int][]*slot{}
	for t := range s.topics.all {
		for _, place := range t.parts {
			if !place.mu.TryLock() {
				byFolder[unknown] = append(byFolder[unknown], place)
				continue
			}
			p := place.p.Load()
			place.mu.Unlock()
			if p != nil {
				byFolder[p.Folder()] = append(byFolder[p.Folder()], place)
			}
		}
	}
	var all sync.WaitGroup
	for _, places := range byFolder {
		all.Go(func() {
			for _, place := range places {
				if p := place.settle(); p != nil {
					p.Close(kafka.NotLeaderForPartition)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		s.gone.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close partitions: %w", ctx.Err())
	}
}

// settle waits until whoever opens the partition is done; the next one sees that the set is closed.
func (place *slot) settle() *partition.Partition {
	place.mu.Lock()
	defer place.mu.Unlock()
	return place.p.Load()
}
