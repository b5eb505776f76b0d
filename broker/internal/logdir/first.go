package logdir

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/tidemark/tidemark/core/kafka"
)

// A partition's first use makes its folder and may fail half-way. What it has made must not be forgotten: the next try is served by
// another folder, perhaps, and a later start would find two logs of one partition, or a topic made anew under the name would meet
// the earlier one's id. So the folder is removed, or stays known as one that holds nothing.

// errHolds says that a folder holds more than a first use that failed leaves.
var errHolds = errors.New("the folder holds more than a first use that failed leaves")

// unopened takes back what a first use that failed has made. What cannot be taken back stays the partition's: it is tried again, or
// taken back with its topic. A folder that was there before, and holds a log, is nobody's.
func (r *dir) unopened(tp kafka.TopicPartition, e *entry) {
	if !r.offline.Load() {
		if err := r.discard(tp); err == nil || errors.Is(err, errHolds) {
			r.forget(tp)
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.logs[tp] = e
}

// unnamed closes a log that the start has recovered without its topic's id: it is opened once more by that name, which writes
// partition.metadata. Without it a topic made anew under the name would take the log, after a kill.
func (r *dir) unnamed(e *entry, id kafka.TopicID) error {
	l := e.log
	if l == nil || !l.TopicID().IsZero() || id.IsZero() {
		return nil
	}
	err := l.Close()
	r.mu.Lock()
	e.start, e.recovery, e.log = l.StartOffset(), l.RecoveryPoint(), nil
	r.mu.Unlock()
	if err != nil {
		r.failed(err)
		return fmt.Errorf("open log %s: %w", l.Dir(), err)
	}
	return nil
}

// forget lets go of a log that nobody has opened.
func (r *dir) forget(tp kafka.TopicPartition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.logs, tp)
}

// discard removes the folder of a log that has no byte in its files but the topic's id. Any other is left as it is.
func (r *dir) discard(tp kafka.TopicPartition) error {
	folder := path.Join(r.path, tp.String())
	infos, err := r.fs.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, n := range infos {
		if strings.HasPrefix(n.Name, "partition.metadata") {
			continue
		}
		if st, err := r.fs.Stat(path.Join(folder, n.Name)); err != nil || st.Size > 0 || n.IsDir {
			return errors.Join(errHolds, err)
		}
	}
	for _, n := range infos {
		if err := r.fs.Remove(path.Join(folder, n.Name)); err != nil {
			return err
		}
	}
	return r.fs.Remove(folder)
}
