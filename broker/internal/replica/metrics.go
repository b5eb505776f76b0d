package replica

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark/tidemark/broker/internal/logdir"
)

// Register gives the figures of partitions and log folders to a registry. They are computed when a page is scraped.
func (s *Set) Register(r prometheus.Registerer) error { return r.Register(newMetrics(s)) }

// metrics is the figures of partitions and log folders as Prometheus sees them.
type metrics struct {
	s                                                        *Set
	partitions, logs, files, tail                            *prometheus.Desc
	offline, full, stalled, fsyncs, rounds, flushed, waiting *prometheus.Desc

	cleaned, cleanRead, cleanWritten, cleanSince, dirtiest, uncleanable *prometheus.Desc
}

func newMetrics(s *Set) *metrics {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &metrics{
		s:          s,
		partitions: d("tidemark_partitions_in_use", "Partitions that have been used since the start; the others cost a pointer."),
		logs:       d("tidemark_logs", "Logs that lie in a log folder.", "folder"),
		files:      d("tidemark_open_segment_files", "Files of segments that are open.", "folder"),
		tail:       d("tidemark_tail_bytes", "Memory that holds fresh batches for fetches (tidemark.tail.bytes)."),
		offline:    d("tidemark_log_folder_offline", "1 when a disk error has taken the log folder offline.", "folder"),
		full:       d("tidemark_log_folder_full", "1 while the log folder takes no records for want of room.", "folder"),
		stalled:    d("tidemark_log_folder_stalled", "1 while the log folder's disk answers none of the calls that wait for it.", "folder"),
		fsyncs:     d("tidemark_fsyncs_total", "Calls of fsync and fdatasync, on files and folders.", "folder"),
		rounds:     d("tidemark_flush_rounds_total", "Rounds of group commit (tidemark.fsync=batch).", "folder"),
		flushed:    d("tidemark_flush_round_logs_total", "Logs that rounds of group commit have flushed.", "folder"),
		waiting:    d("tidemark_file_calls", "File calls that are under way, at most 64 at once.", "folder"),

		cleaned:      d("tidemark_cleaner_logs_total", "Cleanings of a compacted log, a large one in several steps.", "folder"),
		cleanRead:    d("tidemark_cleaner_read_bytes_total", "Bytes of batches that compaction has read.", "folder"),
		cleanWritten: d("tidemark_cleaner_written_bytes_total", "Bytes of batches that compaction has kept.", "folder"),
		cleanSince:   d("tidemark_cleaner_seconds_since_last_run", "Time since a log was last compacted, -1 when none was since the start.", "folder"),
		dirtiest:     d("tidemark_cleaner_max_dirty_ratio", "Largest dirty ratio of the compacted logs in use, at the cleaner's last look.", "folder"),
		uncleanable:  d("tidemark_cleaner_uncleanable_partitions", "Logs that are damaged and not compacted until the next start.", "folder"),
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.partitions, m.logs, m.files, m.tail, m.offline, m.full, m.stalled, m.fsyncs, m.rounds, m.flushed, m.waiting,
		m.cleaned, m.cleanRead, m.cleanWritten, m.cleanSince, m.dirtiest, m.uncleanable} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	put := func(d *prometheus.Desc, kind prometheus.ValueType, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, float64(v), labels...)
	}
	put(m.partitions, prometheus.GaugeValue, int64(m.s.Open()))
	put(m.tail, prometheus.GaugeValue, m.s.o.Dirs.TailBytes())
	m.s.o.Dirs.Counts(func(c logdir.Counts) {
		put(m.logs, prometheus.GaugeValue, c.Logs, c.Path)
		put(m.files, prometheus.GaugeValue, c.OpenFiles, c.Path)
		put(m.offline, prometheus.GaugeValue, one(c.Offline), c.Path)
		put(m.full, prometheus.GaugeValue, one(c.Full), c.Path)
		put(m.stalled, prometheus.GaugeValue, one(c.Stalled), c.Path)
		put(m.waiting, prometheus.GaugeValue, c.FileCalls, c.Path)
		put(m.fsyncs, prometheus.CounterValue, c.Fsyncs, c.Path)
		put(m.rounds, prometheus.CounterValue, c.FlushRounds, c.Path)
		put(m.flushed, prometheus.CounterValue, c.FlushedLogs, c.Path)
		put(m.cleaned, prometheus.CounterValue, c.Cleaning.Logs, c.Path)
		put(m.cleanRead, prometheus.CounterValue, c.Cleaning.ReadBytes, c.Path)
		put(m.cleanWritten, prometheus.CounterValue, c.Cleaning.WrittenBytes, c.Path)
		put(m.uncleanable, prometheus.GaugeValue, c.Cleaning.Uncleanable, c.Path)
		since := -1.0
		if c.Cleaning.SinceMS >= 0 {
			since = float64(c.Cleaning.SinceMS) / 1000
		}
		ch <- prometheus.MustNewConstMetric(m.cleanSince, prometheus.GaugeValue, since, c.Path)
		ch <- prometheus.MustNewConstMetric(m.dirtiest, prometheus.GaugeValue, c.Cleaning.MaxDirtyRatio, c.Path)
	})
}

func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
