package raw

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/loadgen/driver"
)

// Cluster asks a Kafka cluster for what is no record: metadata, topics, offsets, groups. It keeps one connection for
// each broker and may be used from any goroutine.
type Cluster struct {
	bootstrap []string
	clientID  string
	access    driver.Access

	mu struct {
		sync.Mutex
		conns map[string]*conn
	}
}

// NewCluster makes a Cluster; nothing is connected yet.
func NewCluster(bootstrap []string, clientID string, access driver.Access) *Cluster {
	c := &Cluster{bootstrap: bootstrap, clientID: clientID, access: access}
	c.mu.conns = map[string]*conn{}
	return c
}

// Close drops the connections.
func (c *Cluster) Close() {
	c.mu.Lock()
	conns := c.mu.conns
	c.mu.conns = map[string]*conn{}
	c.mu.Unlock()
	for _, k := range conns {
		k.fail(errClosed)
	}
}

func (c *Cluster) conn(ctx context.Context, addr string) (*conn, error) {
	c.mu.Lock()
	k := c.mu.conns[addr]
	c.mu.Unlock()
	if k != nil && k.failure() == nil {
		return k, nil
	}
	k, err := dial(ctx, addr, c.clientID, c.access)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.mu.conns[addr]; other != nil && other.failure() == nil {
		go k.fail(errClosed)
		return other, nil
	}
	c.mu.conns[addr] = k
	return k, nil
}

// Ask sends req to any broker of the bootstrap list that answers, in the newest version that both know.
func (c *Cluster) Ask(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	var errs []error
	for _, addr := range c.bootstrap {
		k, err := c.conn(ctx, addr)
		if err == nil {
			var resp kmsg.Response
			if resp, err = k.ask(ctx, req, req.MaxVersion()); err == nil {
				return resp, nil
			}
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// AskBroker sends req to one broker.
func (c *Cluster) AskBroker(ctx context.Context, addr string, req kmsg.Request) (kmsg.Response, error) {
	k, err := c.conn(ctx, addr)
	if err != nil {
		return nil, err
	}
	return k.ask(ctx, req, req.MaxVersion())
}

// View is what the cluster said about some topics at one moment.
type View struct {
	ClusterID    string
	ControllerID kafka.BrokerID
	Brokers      map[kafka.BrokerID]string // id: host:port
	Topics       map[string]*TopicView
}

// TopicView is one topic of a View. Err is not None where the cluster would not tell.
type TopicView struct {
	ID         kafka.TopicID
	Err        kafka.ErrorCode
	Internal   bool
	Partitions []PartitionView // by number
}

// PartitionView is one partition of a TopicView.
type PartitionView struct {
	Err         kafka.ErrorCode
	Leader      kafka.BrokerID // -1: none
	LeaderEpoch kafka.LeaderEpoch
	Replicas    int
	ISR         int
}

// View asks for the metadata of the topics, none of which is created by asking. No name asks for the brokers alone.
func (c *Cluster) View(ctx context.Context, topics ...string) (*View, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	kresp, err := c.Ask(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := kresp.(*kmsg.MetadataResponse)
	v := &View{ControllerID: kafka.BrokerID(resp.ControllerID), Brokers: map[kafka.BrokerID]string{}, Topics: map[string]*TopicView{}}
	if resp.ClusterID != nil {
		v.ClusterID = *resp.ClusterID
	}
	for _, b := range resp.Brokers {
		v.Brokers[kafka.BrokerID(b.NodeID)] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	for i := range resp.Topics {
		if t := &resp.Topics[i]; t.Topic != nil {
			v.Topics[*t.Topic] = viewTopic(t)
		}
	}
	return v, nil
}

func viewTopic(t *kmsg.MetadataResponseTopic) *TopicView {
	tv := &TopicView{ID: t.TopicID, Err: kafka.ErrorCode(t.ErrorCode), Internal: t.IsInternal, Partitions: make([]PartitionView, len(t.Partitions))}
	for i := range tv.Partitions {
		tv.Partitions[i] = PartitionView{Err: kafka.LeaderNotAvailable, Leader: -1, LeaderEpoch: -1}
	}
	for _, p := range t.Partitions {
		if int(p.Partition) < len(tv.Partitions) && p.Partition >= 0 {
			tv.Partitions[p.Partition] = PartitionView{Err: kafka.ErrorCode(p.ErrorCode), Leader: kafka.BrokerID(p.Leader),
				LeaderEpoch: kafka.LeaderEpoch(p.LeaderEpoch), Replicas: len(p.Replicas), ISR: len(p.ISR)}
		}
	}
	return tv
}

// Coordinator finds the address of a group's coordinator, and asks again while there is none yet.
func (c *Cluster) Coordinator(ctx context.Context, group string) (string, error) {
	for {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey, req.CoordinatorKeys = group, []string{group}
		kresp, err := c.Ask(ctx, req)
		if err != nil {
			return "", fmt.Errorf("find coordinator of group %s: %w", group, err)
		}
		resp := kresp.(*kmsg.FindCoordinatorResponse)
		code, host, port := resp.ErrorCode, resp.Host, resp.Port
		if len(resp.Coordinators) > 0 {
			code, host, port = resp.Coordinators[0].ErrorCode, resp.Coordinators[0].Host, resp.Coordinators[0].Port
		}
		ec := kafka.ErrorCode(code)
		if ec == kafka.None {
			return net.JoinHostPort(host, strconv.Itoa(int(port))), nil
		}
		if !ec.Retriable() {
			return "", fmt.Errorf("find coordinator of group %s: %w", group, ec)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return "", fmt.Errorf("find coordinator of group %s: %w: %w", group, ec, err)
		}
	}
}

// pause waits for d or for the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
