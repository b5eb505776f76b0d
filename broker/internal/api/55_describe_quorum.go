package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// describeQuorum serves API key 55, versions 0 to 2: the metadata quorum, which has one voter here. As in Kafka a request that
// names anything else, or more, gets an error for all.
//
//   - 1 adds when a voter was last heard of and caught up: for the leader itself that is now
//   - 2 adds messages, directory ids (zero: the voters are fixed at start, as with kraft.version 0) and the voters' nodes
func (h *Handlers) describeQuorum(_ *Call, req kmsg.Request) kmsg.Response {
	r := req.(*kmsg.DescribeQuorumRequest)
	resp := kmsg.NewPtrDescribeQuorumResponse()
	q := h.Controller.Quorum()
	valid := len(r.Topics) == 1 && r.Topics[0].Topic == kafka.MetadataTopic && len(r.Topics[0].Partitions) == 1 && r.Topics[0].Partitions[0].Partition == 0
	for i := range r.Topics {
		t := kmsg.NewDescribeQuorumResponseTopic()
		t.Topic = r.Topics[i].Topic
		for _, asked := range r.Topics[i].Partitions {
			p := kmsg.NewDescribeQuorumResponseTopicPartition()
			p.Partition = asked.Partition
			p.CurrentVoters, p.Observers = []kmsg.DescribeQuorumResponseTopicPartitionReplicaState{}, []kmsg.DescribeQuorumResponseTopicPartitionReplicaState{}
			if !valid {
				p.ErrorCode = int16(kafka.UnknownTopicOrPartition)
				t.Partitions = append(t.Partitions, p)
				continue
			}
			p.LeaderID, p.LeaderEpoch, p.HighWatermark = int32(q.Leader), q.Epoch, int64(q.HighWatermark)
			for _, v := range q.Voters {
				s := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
				s.ReplicaID, s.LogEndOffset = int32(v.ID), int64(v.LogEndOffset)
				if v.ID == q.Leader {
					s.LastFetchTimestamp, s.LastCaughtUpTimestamp = h.NowMS(), h.NowMS()
				}
				p.CurrentVoters = append(p.CurrentVoters, s)
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	for _, v := range q.Voters {
		n := kmsg.NewDescribeQuorumResponseNode()
		n.NodeID = int32(v.ID)
		resp.Nodes = append(resp.Nodes, n)
	}
	return resp
}
