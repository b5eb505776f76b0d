package logdir

import (
	"fmt"
	"path"
	"slices"

	"github.com/tidemark/tidemark/core/kafka"
)

// found is a log as the start has found it.
type found struct {
	tp kafka.TopicPartition
	id kafka.TopicID // of its topic, zero when it is not known
}

// Strays moves aside what of the logs that the start has found is no partition's: those of which the cluster knows nothing, those of
// an earlier topic of the name (the renaming of a deleted topic's folder is lost with the power), and of two logs of one partition the
// emptier one, whose folder has failed at its first use. They are kept, under another name, for a person to look at. It does so once,
// and asks for the topic's id in the order of their names, about.
func (d *Dirs) Strays(topic func(kafka.TopicPartition) (id kafka.TopicID, known bool)) {
	for _, r := range d.dirs {
		keep := r.order[:0]
		for _, f := range r.order {
			switch id, known := topic(f.tp); {
			case !known:
				r.aside(f.tp, "the cluster knows no such partition")
			case f.id != id && !f.id.IsZero():
				r.aside(f.tp, "it is of an earlier topic of this name")
			default:
				keep = append(keep, f)
			}
		}
		r.order = keep
	}
	d.twins()
	for _, r := range d.dirs {
		r.order = nil
	}
}

// twins leaves one of two logs of a partition in place.
func (d *Dirs) twins() {
	for i, r := range d.dirs {
		for _, f := range r.order {
			for _, other := range d.dirs[i+1:] {
				b, there := other.entry(f.tp)
				if !there {
					continue
				}
				if a, _ := r.entry(f.tp); b.fuller(a) {
					r.aside(f.tp, "log folder "+other.path+" has a fuller one")
					break
				}
				other.aside(f.tp, "log folder "+r.path+" has a fuller one")
			}
		}
	}
}

// fuller says whether a log is rather a partition's than another one. One that could not be recovered may hold anything, so that an
// empty one must not take its place.
func (e *entry) fuller(than entry) bool {
	return slices.Compare(e.fill(), than.fill()) > 0
}

func (e *entry) fill() []int64 {
	const empty, unknown, records = 0, 1, 2
	end := kafka.Offset(0)
	switch {
	case e.log != nil:
		end = e.log.EndOffset()
	case e.summary != nil:
		end = e.summary.End
	default:
		return []int64{unknown, 0, 0}
	}
	kind, named := int64(empty), int64(0)
	if end > 0 {
		kind = records
	}
	if !e.topicID().IsZero() {
		named = 1
	}
	return []int64{kind, named, int64(end)}
}

// aside renames the folder of a log that is no partition's, and forgets it.
func (r *dir) aside(tp kafka.TopicPartition, why string) {
	e, _ := r.entry(tp)
	if e.log != nil {
		e.log.Abandon()
	}
	from, id := path.Join(r.path, tp.String()), e.topicID()
	to := from + straySuffix
	if _, err := r.fs.Stat(to); err == nil { // of an earlier one of the same name
		to = fmt.Sprintf("%s.%x%s", from, id[:], straySuffix)
	}
	if err := r.fs.Rename(from, to); err != nil {
		r.d.o.Logger.Error("log that is no partition's cannot be moved aside", "folder", from, "why", why, "error", err)
	} else {
		r.d.o.Logger.Warn("log that is no partition's moved aside; remove it when nobody misses it", "partition", tp.String(), "why", why, "topicId", id.String(), "to", to)
	}
	r.forgetCleaned(tp, nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deletedNameLocked(tp)
	delete(r.mu.logs, tp)
}
