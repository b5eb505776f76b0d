// Package logdir owns the broker's log folders (log.dirs): their lock and identity, recovery at start, which partition
// lives where, the schedules of retention, flush and checkpoints, and what happens when a disk fails. What is in a
// partition's folder is commitlog's.
//
// Files of a log folder, all in Apache Kafka's formats but the manifest:
//
//	meta.properties                    version=1, cluster.id, node.id, directory.id
//	.lock                              flock, our pid
//	.kafka_cleanshutdown               {"version":0,"brokerEpoch":N}, there only after a clean stop
//	recovery-point-offset-checkpoint   0 \n count \n topic partition offset ...
//	log-start-offset-checkpoint        the same
//	replication-offset-checkpoint      the same: high watermarks
//	cleaner-offset-checkpoint          the same: up to where logs are compacted
//	tidemark-written-points            what a start under the same boot need not read (points.go)
//	tidemark-deleted                   folders of deleted logs that a clean stop has left, a line for each
//	tidemark-manifest                  one checksummed record for each log, written by a clean stop (manifest.go)
//	topic-partition/                   a log
//	topic-partition.HEX-delete/        a deleted log, removed after file.delete.delay.ms
//
// # Concurrency
//
// Open and Recover run on the caller. Start starts one goroutine for each folder (the schedules); Close ends it, and those
// that compact while there is something to compact (cleaner.go). A folder's map of open logs has a lock that is never held across a file call.
package logdir

import (
	"context"
	"log/slog"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/core/buf"
	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
)

// Options is what the log folders are made of.
type Options struct {
	FS     vfs.FS
	Dirs   []string // log.dirs
	NodeID kafka.BrokerID
	Config *config.Broker
	Pool   *buf.Pool
	Tail   *commitlog.TailBudget
	Logger *slog.Logger
	NowMS  func() int64 // wall clock, milliseconds of the Unix epoch
	// ElapsedMS is a clock that nobody sets, in milliseconds since some moment; nil counts from Open.
	ElapsedMS func() int64
	// BootID names the run of the operating system whose page cache this is, "" when that is not known; nil is clock.BootID.
	BootID func() string
	// Failed is called once for each folder that went offline, without locks. all is true when it was the last one.
	Failed func(dir string, err error, all bool)
}

// Open locks the folders, making those that are missing, and reads their identity. A folder that another process holds
// is an error that names its pid.
func Open(o Options) (*Dirs, error) { return open(o) }

// ClusterID is the cluster.id of the folders, "" when they are new.
func (d *Dirs) ClusterID() string { return d.clusterID }

// Adopt writes meta.properties into new folders; it refuses folders of another cluster or node.
func (d *Dirs) Adopt(clusterID string) error { return d.adopt(clusterID) }

// Recover makes every log of a folder that was not stopped cleanly whole again, as many at once as
// num.recovery.threads.per.data.dir says. After it the folders are marked as in use.
func (d *Dirs) Recover(ctx context.Context) error { return d.recover(ctx) }

// Start begins the schedules.
func (d *Dirs) Start() { d.start() }

// Close closes every log, writes manifest, checkpoints and the clean-shutdown file, and gives the locks back. Up to 64 open
// logs are forced to disk. More of them write no files and are left to the page cache, as long as that is little to read again:
// the manifest then holds for the same boot alone (stop.go).
func (d *Dirs) Close() error { return d.close() }
