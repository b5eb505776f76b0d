package logdir

import "github.com/tidemark/tidemark/core/kafka"

// Folder is one log folder as DescribeLogDirs tells it.
type Folder struct {
	Path          string
	Offline       bool  // the rest is not known
	Total, Usable int64 // bytes of its file system, -1 unknown
	Logs          []LogSize
}

// LogSize is one log and the bytes of its segments.
type LogSize struct {
	kafka.TopicPartition
	Bytes int64
}

// Describe tells of every folder. It may block on the disks.
func (d *Dirs) Describe() []Folder {
	out := make([]Folder, 0, len(d.dirs))
	for _, r := range d.dirs {
		f := Folder{Path: r.path, Offline: r.offline.Load(), Total: -1, Usable: -1}
		if !f.Offline {
			f.Logs = r.sizes()
			if n, err := r.fs.TotalBytes(r.path); err == nil {
				f.Total = n
			}
			if n, err := r.fs.FreeBytes(r.path); err == nil {
				f.Usable = n
			}
		}
		out = append(out, f)
	}
	return out
}

// sizes lists the folder's logs, sorted.
func (r *dir) sizes() []LogSize {
	order := r.sorted()
	list := make([]LogSize, 0, len(order))
	for _, tp := range order {
		e, ok := r.entry(tp)
		size := LogSize{TopicPartition: tp}
		switch {
		case !ok:
			continue
		case e.log != nil:
			size.Bytes = e.log.Size()
		case e.summary != nil:
			for _, s := range e.summary.Segments {
				size.Bytes += s.Size
			}
		}
		list = append(list, size)
	}
	return list
}

// DeleteBefore is commitlog's; the new start is written to the checkpoint soon, so that a crash does not bring the records
// back.
func (l *Log) DeleteBefore(off kafka.Offset) error {
	before := l.StartOffset()
	if err := l.Log.DeleteBefore(off); err != nil {
		return err
	}
	if l.StartOffset() != before {
		l.dir.startMoved.Store(true)
		select {
		case l.dir.wake <- struct{}{}:
		default:
		}
	}
	return nil
}
