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
	if m.any && now-m.at < complainMS {
		m.unsaid, m.last = m.unsaid+1, err
		m.Unlock()
		return
	}
	more := m.unsaid
	m.any, m.at, m.unsaid, m.last = true, now, 0, nil
	m.Unlock()
	r.say(err, more)
}

// complaints is the schedule's: it says what was only counted.
func (r *dir) complaints(now int64) {
	m := &r.said.mu
	m.Lock()
	if m.unsaid == 0 || now-m.at < complainMS {
		m.Unlock()
		return
	}
	err, more := m.last, m.unsaid-1
	m.at, m.unsaid, m.last = now, 0, nil
	m.Unlock()
	r.say(err, more)
}

// say writes a line, without a lock: whoever reads the log may be slow.
func (r *dir) say(err error, more int) {
	if more > 0 {
		r.d.o.Logger.Error("log error", "folder", r.path, "error", err, "more", more)
	} else {
		r.d.o.Logger.Error("log error", "folder", r.path, "error", err)
	}
}
