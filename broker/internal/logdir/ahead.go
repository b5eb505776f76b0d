package logdir

import (
	"path"

	"github.com/tidemark/tidemark/core/kafka"
)

// stopped is what a clean stop has left of a folder.
type stopped struct {
	clean bool // its mark and its manifest are there
	err   error
	boot  string // for which alone the manifest holds
	logs  map[kafka.TopicPartition]*entry
	order []found // as the manifest has them: sorted
}

// readAhead begins to read what the last stop has left, beside what a start does until it recovers the logs: with 100,000 of them it
// takes about as long as the metadata does. Its goroutine ends when it has read.
func (r *dir) readAhead() {
	r.ahead = make(chan stopped, 1)
	go func() { r.ahead <- r.readStopped() }()
}

func (r *dir) readStopped() (s stopped) {
	clean, err := r.readFile(cleanFile)
	if err != nil || clean == nil {
		return s
	}
	b, err := r.readFile(manifestFile)
	if err != nil || b == nil {
		return s
	}
	s.clean = true
	var list []manifestEntry
	if s.boot, list, s.err = parseManifest(b); s.err != nil || !r.holds(s) {
		return s
	}
	s.logs, s.order = make(map[kafka.TopicPartition]*entry, len(list)), make([]found, len(list))
	for i, m := range list {
		s.logs[m.tp] = &entry{summary: m.summary, start: m.summary.Start, recovery: m.summary.Recovery}
		s.order[i] = found{m.tp, m.summary.TopicID}
	}
	return s
}

// holds says whether a manifest may be trusted under this boot.
func (r *dir) holds(s stopped) bool { return s.boot == "" || s.boot == r.bootID }

// trusts says whether the logs are as the stop has left them, and tells why not.
func (r *dir) trusts(s stopped) bool {
	switch where := path.Join(r.path, manifestFile); {
	case !s.clean:
		return false
	case s.err != nil:
		r.d.o.Logger.Warn("manifest is ignored, every log is read", "file", where, "error", s.err)
		return false
	case !r.holds(s):
		r.d.o.Logger.Info("the system was started anew after the last stop, which had left logs to it to be written: every log is read", "file", where)
		return false
	}
	return true
}
