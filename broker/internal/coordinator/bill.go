package coordinator

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Afford takes memory for an answer from what the broker has for requests and answers; false when there is none now. It
// is called by one goroutine at a time, and not after the reply.
type Afford func(bytes int64) bool

// freeAnswerBytes is how much of an answer costs nothing: small ones are given however scarce memory is.
const freeAnswerBytes = 64 << 10

// What the elements of an answer take in memory, beside texts and bytes. Those are taken twice: the encoded answer grows by
// being copied.
const (
	describedMemberBytes = 300
	joinedMemberBytes    = 100
	listedGroupBytes     = 150
	fetchedTopicBytes    = 150
	fetchedOffsetBytes   = 150
)

// bill counts what an answer takes that several shards make together. A small request may ask for much: each group may be
// large, and many clients may ask for all of them at once.
type bill struct {
	sync.Mutex
	afford Afford
	bytes  int64
}

// take tells whether there is memory for n bytes more.
func (b *bill) take(n int64) bool {
	b.Lock()
	defer b.Unlock()
	pay := max(b.bytes+n, freeAnswerBytes) - max(b.bytes, freeAnswerBytes)
	if pay > 0 && !b.afford(pay) {
		return false
	}
	b.bytes += n
	return true
}

// affords takes memory for one large answer, which is encoded into a buffer of its size.
func (c *Client) affords(n int64) bool {
	return n <= freeAnswerBytes || c.Afford == nil || c.Afford(n-freeAnswerBytes)
}

// JoinedBytes is the most that a JoinGroup's answer takes, encoded.
func JoinedBytes(r *kmsg.JoinGroupResponse) int64 {
	n := joinedMemberBytes + len(r.LeaderID) + len(r.MemberID)
	for _, text := range []*string{r.ProtocolType, r.Protocol} {
		if text != nil {
			n += len(*text)
		}
	}
	for i := range r.Members {
		m := &r.Members[i]
		n += joinedMemberBytes + len(m.MemberID) + len(m.ProtocolMetadata)
		if m.InstanceID != nil {
			n += len(*m.InstanceID)
		}
	}
	return int64(n)
}

// SyncedBytes is the most that a SyncGroup's answer takes, encoded.
func SyncedBytes(r *kmsg.SyncGroupResponse) int64 {
	n := joinedMemberBytes + len(r.MemberAssignment)
	for _, text := range []*string{r.ProtocolType, r.Protocol} {
		if text != nil {
			n += len(*text)
		}
	}
	return int64(n)
}

func describedBytes(g *kmsg.DescribeGroupsResponseGroup) int64 {
	n := int64(describedMemberBytes)
	for i := range g.Members {
		m := &g.Members[i]
		texts := len(m.MemberID) + len(m.ClientID) + len(m.ClientHost) + len(m.ProtocolMetadata) + len(m.MemberAssignment)
		if m.InstanceID != nil {
			texts += len(*m.InstanceID)
		}
		n += describedMemberBytes + 2*int64(texts)
	}
	return n
}

func listedBytes(groups []kmsg.ListGroupsResponseGroup) (n int64) {
	for i := range groups {
		n += listedGroupBytes + 2*int64(len(groups[i].Group)+len(groups[i].ProtocolType))
	}
	return n
}

func fetchedBytes(g *kmsg.OffsetFetchResponseGroup) int64 {
	n := int64(fetchedTopicBytes)
	for i := range g.Topics {
		n += fetchedTopicBytes + 2*int64(len(g.Topics[i].Topic))
		for _, p := range g.Topics[i].Partitions {
			n += fetchedOffsetBytes
			if p.Metadata != nil {
				n += 2 * int64(len(*p.Metadata))
			}
		}
	}
	return n
}
