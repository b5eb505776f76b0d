// Package controller is the metadata quorum: it turns requests into metadata records, has them committed by a Raft
// group (go.etcd.io/raft/v3) whose log is core/commitlog in FOLDER/__cluster_metadata-0, and publishes the image that
// they make. The group has one voter, this node.
//
// What a request means is decided in pure functions (decide.go and its neighbours): image and request in, records and
// answer out. One goroutine, begun by Start and ended by Shutdown, owns Raft and its log. It takes all requests that wait,
// decides them one after another, each on the image that the one before would make, and commits their records together:
// a thousand CreateTopics that arrive during one fsync cost the next one, not a thousand.
//
//	requests -> decide -> Raft entry -> append, fsync -> committed -> next image -> subscribers -> answers
//
// The image is published and the subscribers have returned before a request is answered, so that a created topic can be
// used on the broker that answers. The goroutine may block on the disk and in subscribers, on nothing else.
package controller

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"path"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
)

// Options is what a controller needs from its broker.
type Options struct {
	Config *config.Broker
	FS     vfs.FS
	Dir    string // the log folder that holds __cluster_metadata-0
	NowMS  func() int64
	Logger *slog.Logger
	// OpenLog opens the log in a folder whose records from an offset on are to be read; nil opens one of core/commitlog.
	OpenLog func(dir string, from kafka.Offset) (Log, error)
	// ClusterID is the id that meta.properties names; "" draws one for a new cluster. Start refuses another cluster's log.
	ClusterID  string
	Registerer prometheus.Registerer // of metrics; may be nil
	// Failed is told once when the metadata log cannot be written any more: the process has to stop. May be nil.
	Failed func(error)
}

// Controller owns the Raft group's goroutine.
type Controller struct {
	o     Options
	dir   string // of the metadata log
	image atomic.Pointer[metadata.Image]
	ids   idBlock
	met   *metrics

	requests chan *request
	snapped  chan snapped
	stop     chan struct{}
	stopped  chan struct{}
	started  bool

	// What follows belongs to the goroutine, and to Open and Start before it runs.
	node        *raft.RawNode
	storage     *storage
	wal         *wal
	quorum      quorumState
	subscribers []func(*metadata.Image, metadata.Delta)
	announced   bool           // subscribers have been told the whole image: since RegisterBroker
	load        *metadata.Load // that makes the images until then; nil: they are immutable
	applied     uint64
	appliedTerm uint64
	imageBytes  int64 // of the newest snapshot; while one is written, what it may have at most
	sinceBytes  int64 // of entries since the last snapshot
	wantSize    bool  // something was refused for what the image may take: a snapshot tells what it does take
	snapping    bool
	full        bool // the disk had no room for the last entry; node is nil then
	saving      bool // the reserve is given up: only what frees room is taken
	failed      error
}

// request is one closure that decides, and its end.
type request struct {
	decide func(*decision) // it may be called twice; the second call counts
	frees  bool            // it helps to free the disk, or the broker cannot start without it
	done   chan struct{}
	err    error // why it was not committed
}

type snapped struct {
	snapshot snapshot
	err      error
}

// Open reads snapshot and log of the folder. Nothing runs, and Image is the snapshot's, until Start.
func Open(o Options) (*Controller, error) {
	c := &Controller{o: o, dir: o.Dir + "/" + kafka.MetadataTopic + "-0", requests: make(chan *request, 1024),
		snapped: make(chan snapped, 1), stop: make(chan struct{}), stopped: make(chan struct{})}
	c.met = newMetrics(o.Registerer, c)
	if err := makeDurable(o.FS, c.dir); err != nil {
		return nil, err
	}
	q, found, err := loadQuorumState(o.FS, c.dir)
	if err != nil {
		return nil, err
	}
	s, err := loadSnapshot(o.FS, c.dir)
	if err != nil {
		return nil, err
	}
	if !found {
		if s.index > 0 {
			return nil, fmt.Errorf("%s/%s is missing beside a snapshot: restore the folder from a copy", c.dir, quorumStateFile)
		}
		q.RaftID = newRaftID()
		if err := saveQuorumState(o.FS, c.dir, q); err != nil {
			return nil, err
		}
	}
	c.quorum = q
	open := o.OpenLog
	if open == nil {
		open = o.openCommitlog
	}
	log, err := open(c.dir, offsetOf(s.index+1))
	if err != nil {
		return nil, err
	}
	if err := c.openRaft(log, s); err != nil {
		log.Abandon()
		return nil, err
	}
	if err := c.keepRoom(); err != nil && !noRoom(err) {
		o.Logger.Warn("no room can be kept back for the metadata log", "folder", c.dir, "error", err)
	}
	return c, nil
}

// makeDurable makes a folder and sees to it that a power loss leaves it where it is: its entry in its parent, and the
// parent's own.
func makeDurable(fsys vfs.FS, dir string) error {
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	parent := path.Dir(dir)
	err := fsys.SyncDir(path.Dir(parent))
	if errors.Is(err, fs.ErrPermission) {
		err = nil // a parent that this user may not read was not made just now
	}
	return errors.Join(err, fsys.SyncDir(parent))
}

// newRaftID draws the id of a new voter: never 0, and small enough for every reader of the file.
func newRaftID() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.BigEndian.Uint64(b[:])>>1 | 1
}

// openRaft makes the Raft node from the snapshot and the entries behind it.
func (c *Controller) openRaft(log Log, s snapshot) error {
	c.wal = newWAL(log)
	if log.EndOffset() < offsetOf(s.index+1) || log.StartOffset() > offsetOf(s.index+1) {
		if log.StartOffset() > offsetOf(s.index+1) {
			return fmt.Errorf("%w: it begins at offset %d, the newest snapshot ends at %d", errWAL, log.StartOffset(), s.index)
		}
		if err := log.Restart(offsetOf(s.index + 1)); err != nil {
			return err
		}
	}
	entries, err := c.wal.read(s.index + 1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		c.sinceBytes += int64(len(e.GetData()))
	}
	c.storage = &storage{conf: &raftpb.ConfState{Voters: []uint64{c.quorum.RaftID}}, first: s.index + 1, firstTerm: s.term, entries: entries}
	c.applied, c.appliedTerm = s.index, s.term
	c.image.Store(s.image)
	c.load = s.load
	c.imageBytes = int64(s.bytes)
	return c.newNode()
}

// newNode makes a Raft node, a follower, from what is durable.
func (c *Controller) newNode() (err error) {
	// A node that has never voted has no hard state: Raft begins in term 0.
	c.storage.hard = &raftpb.HardState{Term: proto.Uint64(c.quorum.Term), Vote: proto.Uint64(c.quorum.Vote), Commit: proto.Uint64(c.applied)}
	c.node, err = raft.NewRawNode(&raft.Config{
		ID: c.quorum.RaftID, ElectionTick: 6, HeartbeatTick: 1, Storage: c.storage, Applied: c.applied,
		MaxSizePerMsg: maxEntryBytes, MaxCommittedSizePerReady: math.MaxUint64, MaxInflightMsgs: 64,
		PreVote: true, CheckQuorum: true, Logger: newRaftLogger(c.o.Logger),
	})
	return err
}

// maxEntryBytes is where a round of requests is cut into several Raft entries. One topic's records stay together.
const maxEntryBytes = 1 << 20

// Subscribe registers a function that is called for each new image, in order, on the controller's goroutine and before
// the request that caused it is answered. The first call comes with RegisterBroker and tells of every topic as new. To be
// called before Start. The function must not wait for the controller.
func (c *Controller) Subscribe(f func(*metadata.Image, metadata.Delta)) {
	c.subscribers = append(c.subscribers, f)
}

// Image is the newest committed image. Safe from any goroutine. The topics of one that was taken before RegisterBroker has returned
// change.
func (c *Controller) Image() *metadata.Image { return c.image.Load() }

// Start elects this node, applies what its log holds, gives a new cluster its id, and begins the goroutine. An error
// leaves nothing running, and the log open until Shutdown.
func (c *Controller) Start(ctx context.Context) error {
	err := c.lead()
	if noRoom(err) && c.giveUpRoom() {
		if err = c.newNode(); err == nil {
			err = c.lead()
		}
	}
	if err != nil {
		return err
	}
	c.started = true
	go c.loop()
	_, err = c.submitFreeing(ctx, func(d *decision) { decideBootstrap(d, c.o.ClusterID, newClusterID) })
	if err != nil {
		return err
	}
	if id := c.Image().ClusterID; c.o.ClusterID != "" && id != c.o.ClusterID {
		return fmt.Errorf("%s holds cluster %s, meta.properties names %s: the folders belong to different clusters", c.dir, id, c.o.ClusterID)
	}
	return nil
}

// newClusterID draws an id in Kafka's form: 22 characters that do not begin with a dash, which tools take for a flag.
func newClusterID() string {
	for {
		var b [16]byte
		_, _ = rand.Read(b[:])
		if id := base64.RawURLEncoding.EncodeToString(b[:]); id[0] != '-' {
			return id
		}
	}
}

// lead campaigns; with a single voter that wins at once, and the new term's first entry commits all before it.
func (c *Controller) lead() error {
	if err := c.node.Campaign(); err != nil {
		return err
	}
	if err := c.drive(); err != nil {
		return err
	}
	if s := c.node.BasicStatus(); s.RaftState != raft.StateLeader {
		return fmt.Errorf("bug: the single voter is %s after its election", s.RaftState)
	}
	return nil
}

// loop serves requests until Shutdown, or until the log fails.
func (c *Controller) loop() {
	defer close(c.stopped)
	for {
		select {
		case <-c.stop:
			c.refuse(kafka.NotController)
			return
		case s := <-c.snapped:
			c.finishSnapshot(s)
		case r := <-c.requests:
			c.round(r)
		}
	}
}

// refuse answers what still waits.
func (c *Controller) refuse(err error) {
	for {
		select {
		case r := <-c.requests:
			r.err = err
			close(r.done)
		default:
			return
		}
	}
}

// maxRound is how many requests are decided together: their records wait for one fsync.
const maxRound = 4096

// round decides a request and all that wait behind it, commits their records, and ends them.
func (c *Controller) round(first *request) {
	round := []*request{first}
	for len(round) < maxRound {
		select {
		case r := <-c.requests:
			round = append(round, r)
			continue
		default:
		}
		break
	}
	c.met.requests.Add(float64(len(round)))
	err := c.failed
	if err == nil {
		err = c.serve(round)
	}
	for _, r := range round {
		if err != nil {
			r.err = err
		}
		close(r.done)
	}
	c.maybeSnapshot()
}

// commit proposes the decision's records and drives Raft until they are applied.
func (c *Controller) commit(d *decision) error {
	if d.err != nil {
		return d.err
	}
	if len(d.groups) > 0 {
		began := time.Now()
		defer func() { c.met.commitSeconds.Observe(time.Since(began).Seconds()) }()
	}
	for _, data := range d.entries() {
		err := c.node.Propose(data)
		if err == nil {
			err = c.drive()
		}
		if err != nil {
			return c.lost(err)
		}
	}
	if d.announce && !c.announced {
		c.announced, c.load = true, nil
		img := c.Image()
		c.tell(img, img.Everything())
	}
	return nil
}

// fail notes that the log is lost: nothing will be committed any more.
func (c *Controller) fail(err error) error {
	if c.failed == nil {
		c.failed = fmt.Errorf("%w: the metadata log failed: %w", kafka.KafkaStorageError, err)
		c.o.Logger.Error("the metadata log failed; nothing that changes the cluster's metadata is possible any more", "error", err)
		if c.o.Failed != nil {
			c.o.Failed(err)
		}
	}
	return c.failed
}

// drive does what Raft asks for until it asks for nothing more: make durable, then apply.
func (c *Controller) drive() error {
	for c.node.HasReady() {
		rd := c.node.Ready()
		if h := rd.HardState; !raft.IsEmptyHardState(h) && (h.GetTerm() != c.quorum.Term || h.GetVote() != c.quorum.Vote) {
			q := c.quorum
			q.Term, q.Vote = h.GetTerm(), h.GetVote()
			if err := saveQuorumState(c.o.FS, c.dir, q); err != nil {
				return err
			}
			c.quorum = q
		}
		if err := c.wal.append(rd.Entries, c.o.NowMS()); err != nil {
			return err
		}
		c.storage.append(rd.Entries)
		for _, e := range rd.Entries {
			c.sinceBytes += int64(len(e.GetData()))
		}
		if err := c.apply(rd.CommittedEntries); err != nil {
			return err
		}
		c.node.Advance(rd)
		c.storage.compact(c.applied)
	}
	return nil
}

// apply makes the next image from committed entries and publishes it.
func (c *Controller) apply(entries []*raftpb.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	var records []metadata.Record
	for _, e := range entries {
		var err error
		if records, err = decodeEntry(records, e.GetData()); err != nil {
			return fmt.Errorf("entry %d: %w", e.GetIndex(), err)
		}
	}
	last := entries[len(entries)-1]
	next, delta, err := c.next(records, int64(offsetOf(last.GetIndex())))
	if err != nil {
		return err
	}
	next = next.WithController(kafka.BrokerID(c.o.Config.NodeID), int32(last.GetTerm()))
	c.applied, c.appliedTerm = last.GetIndex(), last.GetTerm()
	c.image.Store(next)
	if c.announced {
		c.tell(next, delta)
	}
	return nil
}

// next makes the image that follows the newest one. Until the subscribers have been told of the first, nobody keeps the ones before.
func (c *Controller) next(records []metadata.Record, offset int64) (*metadata.Image, metadata.Delta, error) {
	if c.load == nil {
		return c.Image().Apply(records, offset)
	}
	if err := c.load.Apply(records, offset); err != nil {
		return nil, metadata.Delta{}, err
	}
	img, err := c.load.Image(offset)
	return img, metadata.Delta{}, err
}

func (c *Controller) tell(img *metadata.Image, d metadata.Delta) {
	for _, f := range c.subscribers {
		f(img, d)
	}
}

// submit has a closure decide on the controller's goroutine and returns when its records are committed, applied and told
// to the subscribers. When ctx ends first, the closure may still run; what it writes must not be read then.
func (c *Controller) submit(ctx context.Context, decide func(*decision)) (*metadata.Image, error) {
	return c.ask(ctx, &request{decide: decide, done: make(chan struct{})})
}

// submitFreeing is submit for what is taken on a full disk too.
func (c *Controller) submitFreeing(ctx context.Context, decide func(*decision)) (*metadata.Image, error) {
	return c.ask(ctx, &request{decide: decide, frees: true, done: make(chan struct{})})
}

func (c *Controller) ask(ctx context.Context, r *request) (*metadata.Image, error) {
	select {
	case c.requests <- r:
	case <-c.stopped:
		return nil, kafka.NotController
	case <-ctx.Done():
		return nil, kafka.RequestTimedOut
	}
	select {
	case <-r.done:
		return c.Image(), r.err
	case <-c.stopped:
		select {
		case <-r.done:
			return c.Image(), r.err
		default:
			return nil, kafka.NotController
		}
	case <-ctx.Done():
		return nil, kafka.RequestTimedOut
	}
}

// codeOf is the protocol's error for why a request was not committed.
func codeOf(err error) kafka.ErrorCode {
	var code kafka.ErrorCode
	if errors.As(err, &code) {
		return code
	}
	return kafka.UnknownServerError
}

// maybeSnapshot begins a snapshot when enough was written since the last. It is written beside the loop: the image never
// changes.
func (c *Controller) maybeSnapshot() {
	enough := c.sinceBytes >= c.o.Config.MetadataLogMaxRecordBytesBetweenSnapshots || c.wantSize && c.sinceBytes > 0
	if c.snapping || c.failed != nil || !enough {
		return
	}
	c.imageBytes += c.sinceBytes
	c.snapping, c.sinceBytes = true, 0
	s := c.takeSnapshot()
	go func() {
		err := s.write(c.o.FS, c.dir, maxSnapshotBytes)
		c.snapped <- snapped{s, err}
	}()
}

func (c *Controller) takeSnapshot() snapshot {
	c.load = nil // the image is to stay as it is
	return snapshot{index: c.applied, term: c.appliedTerm, image: c.Image()}
}

// finishSnapshot drops what a new snapshot replaces. A snapshot that cannot be written costs room and a longer start,
// nothing else: the log still holds everything.
func (c *Controller) finishSnapshot(s snapped) {
	c.snapping = false
	c.imageBytes = int64(s.snapshot.bytes)
	err := s.err
	if err == nil {
		err = errors.Join(c.wal.forget(s.snapshot.index, c.o.NowMS()), removeOldSnapshots(c.o.FS, c.dir))
	}
	if s.err == nil {
		c.met.snapshots.Inc()
	}
	if err != nil {
		c.o.Logger.Warn("the metadata log was not shortened by a snapshot", "error", err)
	}
}

// restSnapshotBytes is how much a clean stop leaves to be applied at the next start.
const restSnapshotBytes = 256 << 10

// Shutdown stops the goroutine and closes the log. Waiting requests are answered with NOT_CONTROLLER. Call it once.
func (c *Controller) Shutdown(ctx context.Context) error {
	if c.started {
		close(c.stop)
		select {
		case <-c.stopped:
		case <-ctx.Done():
			return fmt.Errorf("the controller did not stop: %w", ctx.Err())
		}
	}
	if c.snapping {
		c.finishSnapshot(<-c.snapped)
	}
	if c.failed != nil {
		c.wal.log.Abandon()
		return nil
	}
	if c.started && c.sinceBytes > restSnapshotBytes {
		s := c.takeSnapshot()
		err := s.write(c.o.FS, c.dir, maxSnapshotBytes)
		c.finishSnapshot(snapped{s, err})
	}
	return c.wal.log.Close()
}
