package logdir

// Counts is what one log folder counts. Asking for it touches no disk.
type Counts struct {
	Path                     string
	Logs, OpenFiles          int64
	Offline, Full            bool
	FileCalls                int64 // under way
	Fsyncs                   int64 // since the start, of files and folders
	FlushRounds, FlushedLogs int64 // of group commit
}

// Counts tells f of every folder.
func (d *Dirs) Counts(f func(Counts)) {
	for _, r := range d.dirs {
		r.mu.Lock()
		logs := len(r.mu.logs)
		r.mu.Unlock()
		f(Counts{Path: r.path, Logs: int64(logs), OpenFiles: int64(r.env.Files.Open()), Offline: r.offline.Load(), Full: r.full.Load(),
			FileCalls: int64(r.gate.InUse()), Fsyncs: r.gate.Syncs(), FlushRounds: r.flush.rounds.Load(), FlushedLogs: r.flush.files.Load()})
	}
}

// TailBytes is the memory of all tail rings.
func (d *Dirs) TailBytes() int64 {
	if d.o.Tail == nil {
		return 0
	}
	return d.o.Tail.Used()
}
