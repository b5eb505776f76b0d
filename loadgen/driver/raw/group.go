package raw

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/core/clock"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/driver"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// errRejoin says that the group wants its members to join again.
var errRejoin = errors.New("the group rebalances")

// membership is a consumer's part in a classic group with an eager assignor. Joining, syncing and committing happen in
// the polling goroutine; heartbeats run in one of their own between a join and the next, which only sets flags and
// wakes the poller.
type membership struct {
	c        *Consumer
	protocol string
	deal     func([]member, []driver.Topic) map[string][]driver.TopicPartition

	coord      *conn
	memberID   string
	generation int32
	joined     bool
	rejoin     atomic.Bool
	lostSince  int64 // when partitions were given up, 0 while they are held
	nextCommit int64
	stopBeats  context.CancelFunc
	beats      sync.WaitGroup
	commits    sync.WaitGroup
}

func newMembership(c *Consumer) (*membership, error) {
	g := &membership{c: c, protocol: c.cfg.Assignor, generation: -1}
	switch c.cfg.Assignor {
	case "range":
		g.deal = assignRange
	case "roundrobin":
		g.deal = assignRoundRobin
	default:
		return nil, fmt.Errorf("driver raw does not know the assignor %q: use range or roundrobin, or driver kgo", c.cfg.Assignor)
	}
	return g, nil
}

// poll joins where that is due and commits automatically.
func (g *membership) poll(ctx context.Context) error {
	if g.rejoin.Load() || !g.joined {
		return g.join(ctx)
	}
	if now := clock.Nanos(); g.c.cfg.Commit == driver.CommitAuto && now >= g.nextCommit {
		g.nextCommit = now + int64(g.c.cfg.CommitInterval)
		return g.commit(ctx, false, false)
	}
	return nil
}

// join gives the partitions up, takes part in a rebalance and takes the new ones.
func (g *membership) join(ctx context.Context) error {
	g.endBeats()
	if g.joined && g.c.cfg.Commit != driver.CommitNone && g.c.cfg.Commit != driver.CommitBefore {
		_ = g.commit(ctx, true, false) // a lost generation cannot commit; its records are then delivered again
	}
	if g.joined || g.lostSince == 0 {
		g.lostSince = clock.Nanos()
	}
	again := g.joined
	g.joined = false
	g.c.mu.Lock()
	g.c.mu.member = false
	g.c.mu.Unlock()
	g.c.assign(nil)
	for {
		tps, err := g.joinOnce(ctx)
		if err == nil {
			g.c.assign(tps)
			if err = g.positions(ctx); err == nil {
				break
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := g.recover(ctx, err); err != nil {
			return fmt.Errorf("join group %s: %w", g.c.cfg.Group, err)
		}
	}
	g.joined = true
	g.rejoin.Store(false)
	g.nextCommit = clock.Nanos() + int64(g.c.cfg.CommitInterval)
	g.c.mu.Lock()
	g.c.mu.member = true
	if again {
		g.c.mu.stats.Rebalances++
		g.c.mu.stats.RebalanceNanos += clock.Nanos() - g.lostSince
	}
	g.c.mu.Unlock()
	g.lostSince = 0
	g.startBeats()
	return nil
}

// recover decides what an error of joining means: nil is to try again.
func (g *membership) recover(ctx context.Context, err error) error {
	var code kafka.ErrorCode
	isCode := errors.As(err, &code)
	switch {
	case errors.Is(err, errRejoin), code == kafka.RebalanceInProgress, code == kafka.MemberIdRequired:
		return nil
	case code == kafka.UnknownMemberId, code == kafka.IllegalGeneration:
		g.memberID, g.generation = "", -1
		return nil
	case isCode && !code.Retriable() && code != kafka.NotCoordinator && code != kafka.CoordinatorNotAvailable && code != kafka.CoordinatorLoadInProgress:
		return err
	}
	if g.coord != nil {
		g.coord.fail(errClosed)
		g.coord = nil
	}
	if perr := pause(ctx, max(g.c.d.cfg.RetryBackoff, 10*time.Millisecond)); perr != nil {
		return fmt.Errorf("%w: %w", err, perr)
	}
	return nil
}

func (g *membership) coordinator(ctx context.Context) (*conn, error) {
	if g.coord != nil && g.coord.failure() == nil {
		return g.coord, nil
	}
	addr, err := g.c.d.cluster.Coordinator(ctx, g.c.cfg.Group)
	if err != nil {
		return nil, err
	}
	g.coord, err = dial(ctx, addr, g.c.clientID, g.c.d.cfg.Access)
	if err != nil {
		g.coord = nil
	}
	return g.coord, err
}

func (g *membership) instance() *string {
	if g.c.cfg.InstanceID == "" {
		return nil
	}
	return &g.c.cfg.InstanceID
}

// joinOnce goes once through JoinGroup and SyncGroup.
func (g *membership) joinOnce(ctx context.Context) ([]driver.TopicPartition, error) {
	k, err := g.coordinator(ctx)
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.InstanceID, req.ProtocolType = g.c.cfg.Group, g.memberID, g.instance(), "consumer"
	req.SessionTimeoutMillis = int32(g.c.cfg.SessionTimeout.Milliseconds())
	req.RebalanceTimeoutMillis = int32(g.c.cfg.RebalanceTimeout.Milliseconds())
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = g.protocol, g.subscription()
	req.Protocols = append(req.Protocols, p)
	kresp, err := k.ask(ctx, req, 9)
	if err != nil {
		return nil, err
	}
	resp := kresp.(*kmsg.JoinGroupResponse)
	if code := kafka.ErrorCode(resp.ErrorCode); code != kafka.None {
		if code == kafka.MemberIdRequired {
			g.memberID = resp.MemberID
		}
		return nil, code
	}
	g.memberID, g.generation = resp.MemberID, resp.Generation
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.Generation, sync.MemberID, sync.InstanceID = g.c.cfg.Group, g.generation, g.memberID, g.instance()
	kind := "consumer"
	sync.ProtocolType, sync.Protocol = &kind, &g.protocol
	if resp.LeaderID == resp.MemberID && !resp.SkipAssignment {
		sync.GroupAssignment = g.assignments(resp)
	}
	kresp, err = k.ask(ctx, sync, 5)
	if err != nil {
		return nil, err
	}
	sresp := kresp.(*kmsg.SyncGroupResponse)
	if code := kafka.ErrorCode(sresp.ErrorCode); code != kafka.None {
		return nil, code
	}
	return g.mine(sresp.MemberAssignment)
}

func (g *membership) subscription() []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Version = 1
	m.Topics = g.c.d.topicNames()
	return m.AppendTo(nil)
}

// assignments deals the partitions out, as the group's leader.
func (g *membership) assignments(resp *kmsg.JoinGroupResponse) []kmsg.SyncGroupRequestGroupAssignment {
	ms := make([]member, 0, len(resp.Members))
	for _, m := range resp.Members {
		one := member{id: m.MemberID}
		if m.InstanceID != nil {
			one.instance = *m.InstanceID
		}
		ms = append(ms, one)
	}
	sortMembers(ms)
	dealt := g.deal(ms, g.c.d.cfg.Topics)
	var out []kmsg.SyncGroupRequestGroupAssignment
	for _, m := range ms {
		a := kmsg.NewConsumerMemberAssignment()
		a.Version = 1
		byTopic := map[int32]int{}
		for _, tp := range dealt[m.id] {
			i, ok := byTopic[tp.Topic]
			if !ok {
				i = len(a.Topics)
				byTopic[tp.Topic] = i
				t := kmsg.NewConsumerMemberAssignmentTopic()
				t.Topic = g.c.d.cfg.Topics[tp.Topic].Name
				a.Topics = append(a.Topics, t)
			}
			a.Topics[i].Partitions = append(a.Topics[i].Partitions, tp.Partition)
		}
		one := kmsg.NewSyncGroupRequestGroupAssignment()
		one.MemberID, one.MemberAssignment = m.id, a.AppendTo(nil)
		out = append(out, one)
	}
	return out
}

func (g *membership) mine(b []byte) ([]driver.TopicPartition, error) {
	if len(b) == 0 {
		return nil, nil
	}
	var a kmsg.ConsumerMemberAssignment
	if err := a.ReadFrom(b); err != nil {
		return nil, fmt.Errorf("read assignment: %w", err)
	}
	var tps []driver.TopicPartition
	for _, t := range a.Topics {
		for i := range g.c.d.cfg.Topics {
			if g.c.d.cfg.Topics[i].Name != t.Topic {
				continue
			}
			for _, p := range t.Partitions {
				tps = append(tps, driver.TopicPartition{Topic: int32(i), Partition: p})
			}
		}
	}
	return tps, nil
}

// positions takes the committed offsets, and looks the others up.
func (g *membership) positions(ctx context.Context) error {
	if len(g.c.mu.parts) == 0 {
		return nil
	}
	k, err := g.coordinator(ctx)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = g.c.cfg.Group
	at := map[string]int{}
	for _, p := range g.c.mu.parts {
		name := g.c.d.cfg.Topics[p.topic].Name
		i, ok := at[name]
		if !ok {
			i = len(req.Topics)
			at[name] = i
			t := kmsg.NewOffsetFetchRequestTopic()
			t.Topic = name
			req.Topics = append(req.Topics, t)
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, int32(p.index))
	}
	kresp, err := k.ask(ctx, req, 7)
	if err != nil {
		return err
	}
	resp := kresp.(*kmsg.OffsetFetchResponse)
	if code := kafka.ErrorCode(resp.ErrorCode); code != kafka.None {
		return code
	}
	for _, t := range resp.Topics {
		for _, q := range t.Partitions {
			if code := kafka.ErrorCode(q.ErrorCode); code != kafka.None {
				return code
			}
			for _, p := range g.c.mu.parts {
				if q.Offset >= 0 && int32(p.index) == q.Partition && g.c.d.cfg.Topics[p.topic].Name == t.Topic {
					g.c.setPosition(p, kafka.Offset(q.Offset))
					p.committed = p.delivered
				}
			}
		}
	}
	return g.c.position(ctx)
}

// commit commits what has been handed over (or, before handling, what is about to be), where it has moved.
func (g *membership) commit(ctx context.Context, wait, before bool) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.MemberID, req.InstanceID = g.c.cfg.Group, g.generation, g.memberID, g.instance()
	at := map[int32]int{}
	for _, p := range g.c.mu.parts {
		o := p.delivered
		if before {
			o = p.next
		}
		if o < 0 || o == p.committed {
			continue
		}
		p.committed = o
		i, ok := at[p.topic]
		if !ok {
			i = len(req.Topics)
			at[p.topic] = i
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic = g.c.d.cfg.Topics[p.topic].Name
			req.Topics = append(req.Topics, t)
		}
		q := kmsg.NewOffsetCommitRequestTopicPartition()
		q.Partition, q.Offset, q.LeaderEpoch = int32(p.index), int64(o), -1
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, q)
	}
	if len(req.Topics) == 0 {
		return nil
	}
	k, err := g.coordinator(ctx)
	if err != nil {
		g.committed(err)
		return nil
	}
	if wait {
		g.committed(g.sendCommit(ctx, k, req))
		return nil
	}
	g.commits.Go(func() { g.committed(g.sendCommit(context.WithoutCancel(ctx), k, req)) })
	return nil
}

func (g *membership) sendCommit(ctx context.Context, k *conn, req *kmsg.OffsetCommitRequest) error {
	ctx, cancel := context.WithTimeout(ctx, g.c.d.cfg.RequestTimeout)
	defer cancel()
	kresp, err := k.ask(ctx, req, 9)
	if err != nil {
		return err
	}
	for _, t := range kresp.(*kmsg.OffsetCommitResponse).Topics {
		for _, q := range t.Partitions {
			if code := kafka.ErrorCode(q.ErrorCode); code != kafka.None {
				return code
			}
		}
	}
	return nil
}

// committed counts a commit; an error that means another generation makes the member join again.
func (g *membership) committed(err error) {
	g.c.mu.Lock()
	g.c.mu.stats.Commits++
	if err != nil {
		g.c.mu.stats.CommitErrors++
	}
	g.c.mu.Unlock()
	if errors.Is(err, kafka.RebalanceInProgress) || errors.Is(err, kafka.IllegalGeneration) || errors.Is(err, kafka.UnknownMemberId) {
		g.rejoin.Store(true)
		g.c.poke()
	}
}

// startBeats sends heartbeats until the next join.
func (g *membership) startBeats() {
	ctx, cancel := context.WithCancel(context.Background())
	g.stopBeats = cancel
	k, generation, id := g.coord, g.generation, g.memberID
	g.beats.Go(func() {
		for pause(ctx, g.c.cfg.HeartbeatInterval) == nil {
			req := kmsg.NewPtrHeartbeatRequest()
			req.Group, req.Generation, req.MemberID, req.InstanceID = g.c.cfg.Group, generation, id, g.instance()
			one, stop := context.WithTimeout(ctx, g.c.cfg.SessionTimeout)
			kresp, err := k.ask(one, req, 4)
			stop()
			if ctx.Err() != nil {
				return
			}
			if err != nil || kresp.(*kmsg.HeartbeatResponse).ErrorCode != 0 {
				g.rejoin.Store(true)
				g.c.poke()
				return
			}
		}
	})
}

func (g *membership) endBeats() {
	if g.stopBeats != nil {
		g.stopBeats()
		g.beats.Wait()
	}
}

// leave commits, and leaves the group unless the member is static.
func (g *membership) leave() error {
	g.endBeats()
	ctx, cancel := context.WithTimeout(context.Background(), min(g.c.d.cfg.RequestTimeout, 5*time.Second))
	defer cancel()
	if g.joined && g.c.cfg.Commit != driver.CommitNone {
		_ = g.commit(ctx, true, false)
	}
	g.commits.Wait()
	defer func() {
		if g.coord != nil {
			g.coord.fail(errClosed)
		}
	}()
	if g.coord == nil || g.memberID == "" || g.c.cfg.InstanceID != "" || g.coord.failure() != nil {
		return nil
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = g.c.cfg.Group, g.memberID
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = g.memberID
	req.Members = append(req.Members, m)
	_, err := g.coord.ask(ctx, req, 5)
	return err
}
