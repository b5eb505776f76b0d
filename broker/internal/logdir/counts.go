package logdir

import "math"

// Counts is what one log folder counts. Asking for it touches no disk.
type Counts struct {
	Path                     string
	Logs, OpenFiles          int64
	Offline, Full, Stalled   bool
	FileCalls                int64 // under way
	Fsyncs                   int64 // since the start, of files and folders
	FlushRounds, FlushedLogs int64 // of group commit
	Cleaning                 Cleaning
}

// Cleaning is what compaction has done in a folder since the start.
type Cleaning struct {
	Logs                    int64 // cleanings of a log, each in as many steps as the map of keys made of it
	ReadBytes, WrittenBytes int64
	SinceMS                 int64   // the last one ended so long ago, -1: there was none
	MaxDirtyRatio           float64 // of the compacted logs in use, at the cleaner's last look
	Uncleanable             int64   // logs that are damaged and left alone until the next start
}

func (r *dir) cleaning() Cleaning {
	c := &r.cleaner
	out := Cleaning{Logs: c.cleaned.Load(), ReadBytes: c.readBytes.Load(), WrittenBytes: c.writtenBytes.Load(), SinceMS: -1,
		MaxDirtyRatio: math.Float64frombits(c.dirtiest.Load())}
	if at := c.endedMS.Load(); at > 0 {
		out.SinceMS = max(r.d.o.ElapsedMS()-at, 0)
	}
	c.mu.Lock()
	out.Uncleanable = int64(len(c.mu.damaged))
	c.mu.Unlock()
	return out
}

// Counts tells f of every folder.
func (d *Dirs) Counts(f func(Counts)) {
	for _, r := range d.dirs {
		r.mu.Lock()
		logs := len(r.mu.logs)
		r.mu.Unlock()
		f(Counts{Path: r.path, Logs: int64(logs), OpenFiles: int64(r.env.Files.Open()), Offline: r.offline.Load(), Full: r.full.Load(), Stalled: r.stalled.Load(),
			FileCalls: int64(r.gate.InUse()), Fsyncs: r.gate.Syncs(), FlushRounds: r.flush.rounds.Load(), FlushedLogs: r.flush.files.Load(),
			Cleaning: r.cleaning()})
	}
}

// TailBytes is the memory of all tail rings.
func (d *Dirs) TailBytes() int64 {
	if d.o.Tail == nil {
		return 0
	}
	return d.o.Tail.Used()
}
