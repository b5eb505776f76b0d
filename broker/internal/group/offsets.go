package group

import (
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/kafka"
)

// committed is one committed offset.
type committed struct {
	offset      int64
	leaderEpoch int32 // -1 unknown
	metadata    string
	commitMS    int64    // wall clock of the commit
	expireMS    int64    // wall clock; -1: by offsets.retention.minutes
	topicID     [16]byte // zero: unknown
}

// groupOffsets are the committed offsets of a group. They live beside the group, not in it: every kind of group has them.
type groupOffsets struct {
	at map[offsetKey]committed
}

func (m *Machine) setOffset(group string, k offsetKey, o committed) {
	of := m.offsets[group]
	if of == nil {
		of = &groupOffsets{at: map[offsetKey]committed{}}
		m.offsets[group] = of
	}
	of.at[k] = o
}

func (m *Machine) removeOffset(group string, k offsetKey) {
	of := m.offsets[group]
	if of == nil {
		return
	}
	delete(of.at, k)
	if len(of.at) == 0 {
		delete(m.offsets, group)
	}
}

// OffsetCommit handles API key 8. Topics are named and, where known, carry their id in every version; the caller has made
// sure that they exist. Of a partition that is named again the last offset counts; Kafka writes a record for each, and its last
// one counts.
func (m *Machine) OffsetCommit(now Now, to Caller, req *kmsg.OffsetCommitRequest) {
	r := kmsg.NewPtrOffsetCommitResponse()
	r.Version = req.Version
	code := m.checkCommit(now, req)
	w := &commitWrite{to: to, group: req.Group, response: r}
	for i := range req.Topics {
		t := &req.Topics[i]
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for j := range t.Partitions {
			p := &t.Partitions[j]
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, int16(code)
			if code == kafka.None && p.Metadata != nil && (utf16Len(*p.Metadata) > int(m.config.OffsetMetadataMaxBytes) || len(*p.Metadata) > maxTextBytes) {
				rp.ErrorCode = int16(kafka.OffsetMetadataTooLarge)
			}
			rt.Partitions = append(rt.Partitions, rp)
			if rp.ErrorCode != 0 {
				continue
			}
			k := offsetKey{t.Topic, p.Partition}
			o := committed{offset: p.Offset, leaderEpoch: p.LeaderEpoch, commitMS: now.WallMS, expireMS: -1, topicID: t.TopicID}
			if p.Metadata != nil {
				o.metadata = *p.Metadata
			}
			if req.Version < 6 {
				o.leaderEpoch = -1
			}
			if req.Version >= 2 && req.Version <= 4 && req.RetentionTimeMillis >= 0 {
				o.expireMS = clock.Later(now.WallMS, req.RetentionTimeMillis)
			}
			w.add(m, now, k, &o)
		}
		r.Topics = append(r.Topics, rt)
	}
	if len(w.keys) == 0 {
		m.answer(to, r)
		return
	}
	w.g.commits++
	m.write(now, Write{Bytes: w.bytes(), Records: w}, w)
	w.ticket = m.ticket
}

// add takes one offset into the commit.
func (w *commitWrite) add(m *Machine, now Now, k offsetKey, o *committed) {
	if w.g == nil {
		if w.g = m.groups[w.group]; w.g == nil {
			w.g = m.create(now, w.group)
		}
	}
	p := w.g.writing[k]
	if p.last == w {
		w.offsets[p.at] = *o
	} else {
		p.commits, p.last, p.at = p.commits+1, w, len(w.keys)
		w.keys, w.offsets = append(w.keys, k), append(w.offsets, *o)
	}
	p.topicID = o.topicID
	w.g.writing[k] = p
}

func (w *commitWrite) bytes() (n int) {
	for i, k := range w.keys {
		n += offsetRecordBytes(w.group, k, &w.offsets[i])
	}
	return n
}

// Count implements Records.
func (w *commitWrite) Count() int { return len(w.keys) }

// Record implements Records.
func (w *commitWrite) Record(i int) Record { return offsetRecord(w.group, w.keys[i], &w.offsets[i]) }

// pending is the commits of one offset that are being written.
type pending struct {
	commits int
	last    *commitWrite
	at      int      // its place there
	topicID [16]byte // that the last one sets
}

// checkCommit tells whether the sender may commit: a member with the current generation, or, while the group is empty,
// anybody who claims to be none (generation -1).
func (m *Machine) checkCommit(now Now, req *kmsg.OffsetCommitRequest) kafka.ErrorCode {
	g := m.groups[req.Group]
	isMember := req.Generation >= 0 || req.MemberID != "" || req.InstanceID != nil
	switch {
	case len(req.Group) > maxTextBytes:
		return kafka.InvalidGroupId
	case g == nil && req.Generation < 0:
		return kafka.None
	case g == nil && req.Version >= 9:
		return kafka.GroupIdNotFound
	case g == nil:
		return kafka.IllegalGeneration
	case g.state == dead:
		return kafka.CoordinatorNotAvailable
	case g.state == empty && req.Generation < 0:
		return kafka.None
	case !isMember:
		return kafka.UnknownMemberId
	}
	if code := g.check(req.MemberID, req.InstanceID); code != kafka.None {
		return code
	}
	if req.Generation != g.generation {
		return kafka.IllegalGeneration
	}
	if g.state == completingRebalance {
		return kafka.RebalanceInProgress
	}
	m.heardUnlessFresh(now, g.byID[req.MemberID])
	return kafka.None
}

// utf16Len is a text's length as Kafka counts it against offset.metadata.max.bytes.
func utf16Len(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r > 0xFFFF {
			n++
		}
	}
	return n
}

// commitWrite waits for the records of one OffsetCommit.
type commitWrite struct {
	to       Caller
	group    string
	g        *classic
	response *kmsg.OffsetCommitResponse
	keys     []offsetKey
	offsets  []committed
	ticket   uint64
	fetches  []waitingFetch
	answered bool
}

func (w *commitWrite) written(m *Machine, _ Now, code kafka.ErrorCode) {
	w.g.commits--
	for _, k := range w.keys {
		p := w.g.writing[k]
		if p.commits--; p.commits == 0 {
			delete(w.g.writing, k)
			continue
		}
		w.g.writing[k] = p
	}
	if code != kafka.None {
		w.fail(m, commitError(code))
		m.dropIfUnused(w.g)
		return
	}
	for i, k := range w.keys {
		m.setOffset(w.group, k, w.offsets[i])
	}
	w.answer(m)
}

// late tells the client to try again. What it is told to have failed may count all the same, later: the record is on its
// way.
func (w *commitWrite) late(m *Machine, _ Now) { w.fail(m, commitError(kafka.RequestTimedOut)) }

func (w *commitWrite) answer(m *Machine) {
	if w.answered {
		return
	}
	w.answered = true
	m.answer(w.to, w.response)
	for _, f := range w.fetches {
		m.fx.Answers = append(m.fx.Answers, Answer{To: f.to, make: func() kmsg.Response { return fetchResponse(m.fetch(f.req, false)) }})
	}
	w.fetches = nil
}

func (w *commitWrite) abandon(m *Machine) {
	for _, f := range w.fetches {
		r := kmsg.NewOffsetFetchResponseGroup()
		r.Group, r.ErrorCode = f.req.Group, int16(kafka.NotCoordinator)
		m.answer(f.to, fetchResponse(r))
	}
	w.fetches = nil
	w.fail(m, kafka.NotCoordinator)
}

func (w *commitWrite) fail(m *Machine, code kafka.ErrorCode) {
	if w.answered {
		return
	}
	for i := range w.response.Topics {
		for j := range w.response.Topics[i].Partitions {
			if p := &w.response.Topics[i].Partitions[j]; p.ErrorCode == 0 {
				p.ErrorCode = int16(code)
			}
		}
	}
	w.answer(m)
}

// OffsetFetch gives the committed offsets of one group: those asked for, or all with nil Topics. Topics are named, and
// carry their id where it is known, in every version; an offset that was committed to another topic of the same name is
// not given. An unknown group has no offsets, which is no error. The answer is a response that holds this group alone. req
// must stay as it is until then.
//
// With requireStable an offset that a commit under way is about to change is UNSTABLE_OFFSET_COMMIT: who reads it again later
// gets the one that counts. Without, the fetch waits for the commits that came before it, as long as their clients do: one
// that sends both without waiting in between is told what it has committed.
func (m *Machine) OffsetFetch(to Caller, req *kmsg.OffsetFetchRequestGroup, requireStable bool) {
	if g := m.groups[req.Group]; g != nil && !requireStable {
		if w := g.lastCommit(req.Topics); w != nil {
			w.fetches = append(w.fetches, waitingFetch{to, req})
			return
		}
	}
	m.answer(to, fetchResponse(m.fetch(req, requireStable)))
}

// waitingFetch is an OffsetFetch that waits for a commit.
type waitingFetch struct {
	to  Caller
	req *kmsg.OffsetFetchRequestGroup
}

func fetchResponse(one kmsg.OffsetFetchResponseGroup) kmsg.Response {
	r := kmsg.NewPtrOffsetFetchResponse()
	r.Groups = append(r.Groups, one)
	return r
}

// lastCommit is the last commit of offsets that are asked for (nil: all) which is being written and whose client waits, nil for
// none. Those before it have ended when it does.
func (g *classic) lastCommit(topics []kmsg.OffsetFetchRequestGroupTopic) (last *commitWrite) {
	if len(g.writing) == 0 {
		return nil
	}
	look := func(p pending) {
		if w := p.last; w != nil && !w.answered && (last == nil || w.ticket > last.ticket) {
			last = w
		}
	}
	if topics == nil {
		for _, p := range g.writing {
			look(p)
		}
	}
	for i := range topics {
		if noTopic(topics[i].Topic) {
			continue
		}
		for _, n := range topics[i].Partitions {
			look(g.writing[offsetKey{topics[i].Topic, n}])
		}
	}
	return last
}

// noTopic tells that no topic can have such a name, so that nothing is committed for it. A look-up goes through all of a name: one of
// 3 MiB with 249,000 partitions, each looked up, would hold up a shard for a minute.
func noTopic(name string) bool { return len(name) > kafka.MaxTopicNameLength }

// fetch is what OffsetFetch gives now.
func (m *Machine) fetch(req *kmsg.OffsetFetchRequestGroup, requireStable bool) kmsg.OffsetFetchResponseGroup {
	r := kmsg.NewOffsetFetchResponseGroup()
	r.Group = req.Group
	r.Topics = []kmsg.OffsetFetchResponseGroupTopic{}
	of := m.offsets[req.Group]
	unstable := func(offsetKey) bool { return false }
	if g := m.groups[req.Group]; requireStable && g != nil {
		unstable = func(k offsetKey) bool { return g.writing[k].commits > 0 }
	}
	if req.Topics == nil {
		if of != nil {
			r.Topics = of.all(unstable)
		}
		return r
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		none := noTopic(t.Topic)
		for _, p := range t.Partitions {
			if none {
				rt.Partitions = append(rt.Partitions, (&committed{offset: -1, leaderEpoch: -1}).response(p))
				continue
			}
			o, ok := committed{}, false
			k := offsetKey{t.Topic, p}
			if unstable(k) {
				rt.Partitions = append(rt.Partitions, unstableResponse(p))
				continue
			}
			if of != nil {
				o, ok = of.at[k]
			}
			if !ok || o.topicID != t.TopicID && o.topicID != [16]byte{} && t.TopicID != [16]byte{} {
				o = committed{offset: -1, leaderEpoch: -1}
			}
			rt.Partitions = append(rt.Partitions, o.response(p))
		}
		r.Topics = append(r.Topics, rt)
	}
	return r
}

func (o *committed) response(partition int32) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, o.offset, o.leaderEpoch, kmsg.StringPtr(o.metadata)
	return p
}

func unstableResponse(partition int32) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := (&committed{offset: -1, leaderEpoch: -1}).response(partition)
	p.ErrorCode = int16(kafka.UnstableOffsetCommit)
	return p
}

// all gives every offset, sorted.
func (of *groupOffsets) all(unstable func(offsetKey) bool) []kmsg.OffsetFetchResponseGroupTopic {
	topics := []kmsg.OffsetFetchResponseGroupTopic{}
	for _, k := range slices.SortedFunc(maps.Keys(of.at), compareKeys) {
		o := of.at[k]
		if len(topics) == 0 || topics[len(topics)-1].Topic != k.topic {
			t := kmsg.NewOffsetFetchResponseGroupTopic()
			t.Topic, t.TopicID = k.topic, o.topicID
			topics = append(topics, t)
		}
		t := &topics[len(topics)-1]
		if unstable(k) {
			t.Partitions = append(t.Partitions, unstableResponse(k.partition))
			continue
		}
		t.Partitions = append(t.Partitions, o.response(k.partition))
	}
	return topics
}

func compareKeys(a, b offsetKey) int {
	if c := strings.Compare(a.topic, b.topic); c != 0 {
		return c
	}
	return int(a.partition) - int(b.partition)
}
