package logdir

import "sync"

// complainMS is how often a folder says that its calls fail, which each append may tell it.
const complainMS = 1000

// said is what a folder has said of errors that take it nowhere.
type said struct {
	mu struct {
		sync.Mutex
		any    bool
		at     int64 // by ElapsedMS
		unsaid int   // errors since
		last   error // of those
	}
}

// complain says an error, or counts it.
func (r *dir) complain(err error) {
	now := r.d.o.ElapsedMS()
	m := &r.said.mu
	m.Lock()
	defer m.Unlock()
	if m.any && now-m.at < complainMS {
		m.unsaid, m.last = m.unsaid+1, err
		return
	}
	r.sayLocked(now, err)
}

// complaints is the schedule's: it says what was only counted.
func (r *dir) complaints(now int64) {
	m := &r.said.mu
	m.Lock()
	defer m.Unlock()
	if m.unsaid > 0 && now-m.at >= complainMS {
		m.unsaid--
		r.sayLocked(now, m.last)
	}
}

func (r *dir) sayLocked(now int64, err error) {
	m := &r.said.mu
	if m.unsaid > 0 {
		r.d.o.Logger.Error("log error", "folder", r.path, "error", err, "more", m.unsaid)
	} else {
		r.d.o.Logger.Error("log error", "folder", r.path, "error", err)
	}
	m.any, m.at, m.unsaid, m.last = true, now, 0, nil
}
