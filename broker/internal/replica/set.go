package replica

import (
	"hash/maphash"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/logdir"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/broker/internal/partition"
	"github.com/tidemark/tidemark/core/commitlog"
	"github.com/tidemark/tidemark/core/compress"
	"github.com/tidemark/tidemark/core/kafka"
)

// Set is this broker's partitions.
type Set struct {
	o      Options
	topics topics
	closed atomic.Bool
	first  bool // the first image has been applied
	plain  plain
	below  below
	gone   retirement
}

// below is what all topics fall back to where they have no settings of their own. [apply]
type below struct {
	topic                config.Topic
	producerExpirationMS int32
}

// plain is what the topics without settings of their own share. [apply]
type plain struct {
	of  *config.Broker // as it was when cfg was made
	cfg *partition.Config
}

// topic is one topic and its partitions' places, in one version of the map. A topic that gets more partitions is a new
// value that shares the slots and the life of the old one.
type topic struct {
	name  string
	id    kafka.TopicID
	parts []*slot
	*life
}

// life is what all versions of a topic share.
type life struct {
	cfg atomic.Pointer[partition.Config]
	// state is the topic's newest image. Apply stores it and then looks into the slots; open fills a slot and then looks at
	// state again: whichever comes second sees the other's, so no partition keeps an old role.
	state atomic.Pointer[metadata.Topic]
	// A deleted topic: retire.go.
	gone  atomic.Bool
	left  atomic.Int32          // partitions that are not retired yet, once it is gone
	done  chan struct{}         // made when it is gone, closed when left is 0
	prior atomic.Pointer[topic] // an earlier topic of the same name, gone, whose logs may still be in place
}

// slot is one partition's place: nil until its first use.
type slot struct {
	p  atomic.Pointer[partition.Partition]
	mu struct {
		sync.Mutex // held while the partition is opened or retired, which its disk may make long
		retired    bool
	}
}

func newSet(o Options) *Set {
	s := &Set{o: o}
	s.topics.seed = maphash.MakeSeed()
	o.Dirs.OnIdle(s.idle)
	return s
}

// ByTopic is ByName for a string.
func (s *Set) ByTopic(topic string, p kafka.Partition) (*partition.Partition, kafka.ErrorCode) {
	t := s.topics.named(topic)
	if t == nil {
		return nil, kafka.UnknownTopicOrPartition
	}
	return s.partition(t, p)
}

// partition finds a partition, opening its log at first use.
func (s *Set) partition(t *topic, n kafka.Partition) (*partition.Partition, kafka.ErrorCode) {
	if n < 0 || int(n) >= len(t.parts) {
		return nil, kafka.UnknownTopicOrPartition
	}
	if p := t.parts[n].p.Load(); p != nil {
		return p, kafka.None
	}
	return s.open(t, n)
}

// opened finds a partition that is in use; nil with kafka.None when it has not been opened yet.
func (s *Set) opened(t *topic, n kafka.Partition) (*partition.Partition, kafka.ErrorCode) {
	if n < 0 || int(n) >= len(t.parts) {
		return nil, kafka.UnknownTopicOrPartition
	}
	return t.parts[n].p.Load(), kafka.None
}

func (s *Set) open(t *topic, n kafka.Partition) (*partition.Partition, kafka.ErrorCode) {
	tp := kafka.TopicPartition{Topic: t.name, Partition: n}
	place := t.parts[n]
	if s.o.Dirs.Stalled(tp) && !s.probe(tp, place) { // a request that waits for its disk holds memory that the others need
		return nil, kafka.KafkaStorageError
	}
	s.retirePrior(t, n)
	place.mu.Lock()
	defer place.mu.Unlock()
	if p := place.p.Load(); p != nil {
		return p, kafka.None
	}
	image := t.state.Load()
	state := &image.Partitions[n]
	switch {
	case t.gone.Load():
		return nil, kafka.UnknownTopicOrPartition
	case s.closed.Load() || !slices.Contains(state.Replicas, s.o.NodeID):
		return nil, kafka.NotLeaderForPartition
	}
	cfg := t.cfg.Load()
	l, err := s.o.Dirs.Open(tp, t.id, cfg.Log)
	if err != nil {
		s.o.Logger.Error("partition cannot be opened", "partition", tp.String(), "error", err)
		return nil, kafka.KafkaStorageError
	}
	p, err := partition.New(partition.Options{Topic: t.name, ID: t.id, Number: n, Self: s.o.NodeID, Folder: l.Folder(), Log: l,
		Config: cfg, Failed: l.Failed, FlushSoon: l.FlushSoon, Full: l.Full(),
		Stalled: l.Stalled, Probe: l.Probe})
	if err != nil {
		l.Failed(err)
		s.o.Logger.Error("partition cannot be opened", "partition", tp.String(), "error", err)
		return nil, kafka.KafkaStorageError
	}
	l.Attach(p)
	p.SetReplicas(len(state.Replicas))
	if state.Leader == s.o.NodeID {
		p.BecomeLeader(state.LeaderEpoch, state.ISR)
	}
	place.p.Store(p)
	if newer := t.state.Load(); newer != image {
		s.role(p, &newer.Partitions[n])
	}
	if newer := t.cfg.Load(); newer != cfg {
		p.SetConfig(newer)
	}
	return p, kafka.None
}

// probe says whether one use more may try the stalled folder of a partition. Behind one that is trying nobody would find anything out.
func (s *Set) probe(tp kafka.TopicPartition, place *slot) bool {
	if !place.mu.TryLock() {
		return false
	}
	defer place.mu.Unlock()
	return s.o.Dirs.Probe(tp)
}

func (s *Set) apply(img *metadata.Image, d metadata.Delta) {
	if !s.first {
		s.first = true
		s.begin(img)
		return
	}
	next := s.topics.edit()
	var gone []*topic
	for _, c := range d.Topics {
		gone = append(gone, s.change(next, img, c)...)
	}
	next.publish()
	for _, t := range gone { // whoever is told that its topic has gone finds it gone
		s.remove(t)
	}
	s.configure(img, d.Configs)
}

// begin takes the first image.
func (s *Set) begin(img *metadata.Image) {
	s.below = s.fallback()
	list := make([]*topic, 0, img.NumTopics())
	for state := range img.Topics() {
		t := s.newTopic(img, state)
		t.state.Store(state)
		list = append(list, t)
	}
	s.topics.fill(list)
	at := 0
	s.o.Dirs.Strays(func(tp kafka.TopicPartition) (id kafka.TopicID, known bool) {
		for at < len(list) && list[at].name < tp.Topic { // mostly the next one: both go by the name
			at++
		}
		var t *topic
		if at < len(list) && list[at].name == tp.Topic {
			t = list[at]
		} else {
			t = s.topics.named(tp.Topic)
		}
		if t == nil || int(tp.Partition) >= len(t.parts) {
			return id, false
		}
		return t.id, true
	})
}

// single is what a topic of one partition takes, in one piece.
type single struct {
	topic topic
	life  life
	slot  slot
	part  [1]*slot
}

// newTopic makes a topic that is in no map yet.
func (s *Set) newTopic(img *metadata.Image, state *metadata.Topic) *topic {
	var t *topic
	if n := len(state.Partitions); n == 1 {
		one := &single{}
		t = &one.topic
		t.life, one.part[0], t.parts = &one.life, &one.slot, one.part[:]
	} else {
		t = &topic{parts: make([]*slot, n), life: &life{}}
		t.addSlots(0)
	}
	t.name, t.id = state.Name, state.ID
	t.cfg.Store(s.settings(img, state.Name))
	t.prior.Store(s.gone.find(state.Name))
	return t
}

// addSlots makes the places that a topic has not had before.
func (t *topic) addSlots(have int) {
	slots := make([]slot, len(t.parts)-have)
	for i := range slots {
		t.parts[have+i] = &slots[i]
	}
}

// change follows one topic's change in a map that is not published yet; it answers topics that are gone.
func (s *Set) change(next *edit, img *metadata.Image, c metadata.TopicChange) (gone []*topic) {
	var old *topic
	if c.Old != nil {
		old = next.withID(c.Old.ID)
	}
	if old != nil && (c.New == nil || c.New.ID != c.Old.ID) {
		next.remove(old)
		s.gone.add(old) // before the next one of its name comes
		gone, old = append(gone, old), nil
	}
	if c.New != nil {
		s.addTopic(next, old, img, c.New)
	}
	return gone
}

// addTopic puts a topic, or its new state, into a map that is not published yet.
func (s *Set) addTopic(next *edit, old *topic, img *metadata.Image, state *metadata.Topic) {
	t := old
	switch {
	case old == nil:
		t = s.newTopic(img, state)
	case len(old.parts) < len(state.Partitions):
		t = &topic{name: state.Name, id: state.ID, parts: make([]*slot, len(state.Partitions)), life: old.life}
		t.addSlots(copy(t.parts, old.parts))
	}
	t.state.Store(state)
	next.put(t)
	for i := range t.parts {
		if p := t.parts[i].p.Load(); p != nil {
			s.role(p, &state.Partitions[i])
		}
	}
}

// role gives an open partition the role that the image wants. It waits for nothing: the partition's disk may hang.
func (s *Set) role(p *partition.Partition, state *metadata.Partition) {
	p.SetReplicas(len(state.Replicas))
	if state.Leader == s.o.NodeID {
		p.BecomeLeader(state.LeaderEpoch, state.ISR)
		return
	}
	p.Resign()
}

// configure follows changes of settings: a topic's, or the broker's, which all topics fall back to. Most of the latter are nothing to
// topics.
func (s *Set) configure(img *metadata.Image, changes []metadata.ConfigChange) {
	broker := false
	for _, c := range changes {
		if c.Kind != metadata.TopicResource {
			broker = true
		} else if t := s.topics.named(c.Name); t != nil {
			s.reconfigure(img, t)
		}
	}
	if !broker {
		return
	}
	if now := s.fallback(); !reflect.DeepEqual(now, s.below) {
		s.below = now
		for t := range s.topics.all {
			s.reconfigure(img, t)
		}
	}
}

func (s *Set) fallback() below {
	cfg := s.o.Config.Now()
	return below{cfg.TopicDefaults(), cfg.ProducerIDExpirationMS}
}

func (s *Set) reconfigure(img *metadata.Image, t *topic) {
	cfg := s.settings(img, t.name)
	t.cfg.Store(cfg)
	for i := range t.parts {
		if p := t.parts[i].p.Load(); p != nil {
			p.SetConfig(cfg)
		}
	}
}

// settings computes a topic's settings as its partitions need them.
func (s *Set) settings(img *metadata.Image, name string) *partition.Config {
	cfg, own := s.o.Config.Now(), img.Config(metadata.TopicResource, name)
	if len(own) > 0 {
		return s.effective(cfg, name, own)
	}
	if s.plain.of != cfg {
		s.plain = plain{cfg, s.effective(cfg, name, nil)}
	}
	return s.plain.cfg
}

func (s *Set) effective(cfg *config.Broker, name string, own map[string]string) *partition.Config {
	top, err := cfg.Topic(own)
	if err == nil {
		return Settings(&top, cfg)
	}
	// The others hold all the same: a compacted topic is not to lose its records to a retention that it has not asked for.
	good := map[string]string{}
	for key, value := range own {
		if err := config.ValidateTopic(map[string]string{key: value}); err != nil {
			s.o.Logger.Error("topic has a wrong setting, the broker's counts", "topic", name, "error", err)
			continue
		}
		good[key] = value
	}
	if top, err = cfg.Topic(good); err != nil { // each is right, and they were together: the broker's have changed since
		s.o.Logger.Warn("settings of a topic and of the broker contradict each other; the topic's count as they are", "topic", name, "error", err)
	}
	return Settings(&top, cfg)
}

// Settings translates a topic's effective settings.
func Settings(t *config.Topic, b *config.Broker) *partition.Config {
	c := &partition.Config{
		MaxMessageBytes:   int(t.MaxMessageBytes),
		LogAppendTime:     t.MessageTimestampType == "LogAppendTime",
		BeforeMaxMS:       t.MessageTimestampBeforeMaxMS,
		AfterMaxMS:        t.MessageTimestampAfterMaxMS,
		Compacted:         t.Compacts(),
		Codec:             -1,
		MinInsyncReplicas: int(t.MinInsyncReplicas),
		MaxDecompressed:   int(t.MaxDecompressedMessageBytes),
		FlushMessages:     t.FlushMessages,
		FlushMS:           t.FlushMS,
		FsyncBatch:        t.TidemarkFsync == "batch",
		Log: &commitlog.Config{
			SegmentBytes:         int64(t.SegmentBytes),
			SegmentMS:            t.SegmentMS,
			SegmentJitterMS:      t.SegmentJitterMS,
			SegmentIndexBytes:    int(t.SegmentIndexBytes),
			IndexIntervalBytes:   int(t.IndexIntervalBytes),
			RetentionBytes:       t.RetentionBytes,
			RetentionMS:          t.RetentionMS,
			DeleteOnRetention:    t.Deletes(),
			FileDeleteDelayMS:    t.FileDeleteDelayMS,
			ProducerExpirationMS: int64(b.ProducerIDExpirationMS),
			Preallocate:          t.Preallocate,
			Compact:              t.Compacts(),
			DeleteRetentionMS:    t.DeleteRetentionMS,
			MinCompactionLagMS:   t.MinCompactionLagMS,
			MaxCompactionLagMS:   t.MaxCompactionLagMS,
			MinCleanableRatio:    t.MinCleanableDirtyRatio,
		},
	}
	name := t.CompressionType
	if name == "uncompressed" { // Kafka's word for none; "producer" is no codec
		name = compress.None.String()
	}
	if codec, err := compress.ParseCodec(name); err == nil {
		c.Codec = int8(codec)
		switch codec {
		case compress.Gzip:
			c.Level = max(int(t.CompressionGzipLevel), 0) // Kafka's -1 is the codec's default, here 0
		case compress.Lz4:
			c.Level = int(t.CompressionLz4Level)
		case compress.Zstd:
			c.Level = int(t.CompressionZstdLevel)
		}
	}
	return c
}

// idle opens a log that nobody has used since the start when its retention may have something to delete, or the cleaner to
// compact.
func (s *Set) idle(tp kafka.TopicPartition, sum *commitlog.Summary) {
	t := s.topics.named(tp.Topic)
	if t == nil {
		return
	}
	cfg, now := t.cfg.Load().Log, s.o.NowMS()
	if sum == nil || len(sum.Segments) == 0 || expires(cfg, sum, now) || sum.Dirty(cfg, s.o.Dirs.CleanedTo(tp), now).Wanted(cfg) {
		_, _ = s.partition(t, tp.Partition)
	}
}

// expires says whether commitlog.Retain would delete something of a log that is not open.
func expires(cfg *commitlog.Config, sum *commitlog.Summary, nowMS int64) bool {
	first, size := sum.Segments[0], int64(0)
	for _, g := range sum.Segments {
		size += g.Size
	}
	if len(sum.Segments) > 1 && sum.Segments[1].Base <= sum.Start { // DeleteRecords has passed it
		return true
	}
	newest := first.LastWriteMS
	if first.MaxTimestamp >= 0 {
		newest = min(newest, first.MaxTimestamp)
	}
	old := cfg.RetentionMS >= 0 && first.Size > 0 && nowMS-newest > cfg.RetentionMS
	large := cfg.RetentionBytes >= 0 && size > cfg.RetentionBytes
	return cfg.DeleteOnRetention && (old || large)
}

// Folders describes the log folders. It may block on the disks.
func (s *Set) Folders() []logdir.Folder { return s.o.Dirs.Describe() }

// Open counts the partitions that are in use.
func (s *Set) Open() (n int) {
	for t := range s.topics.all {
		for i := range t.parts {
			if t.parts[i].p.Load() != nil {
				n++
			}
		}
	}
	return n
}
