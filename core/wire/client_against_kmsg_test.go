package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

// body cuts a request frame's length and header off, which must say what was asked for.
func body(t *testing.T, frame []byte, key, version int16, flexible bool) []byte {
	t.Helper()
	if n := int(binary.BigEndian.Uint32(frame)); n != len(frame)-4 {
		t.Fatalf("the frame says %d bytes and has %d", n, len(frame)-4)
	}
	head := append(binary.BigEndian.AppendUint16(nil, uint16(key)), 0, byte(version), 0, 0, 0, 7, 0, 2, 'm', 'e')
	if flexible {
		head = append(head, 0)
	}
	if !bytes.HasPrefix(frame[4:], head) {
		t.Fatalf("header % x, want % x", frame[4:4+len(head)], head)
	}
	return frame[4+len(head):]
}

func TestProduceRequestsReadAsKmsgReadsThem(t *testing.T) {
	id := kafka.TopicID{1, 2, 3}
	batches := [][]byte{[]byte("first batch"), bytes.Repeat([]byte("x"), 300), []byte("third")}
	for v := int16(3); v <= 13; v++ {
		p := ClientProduce{Acks: -1, TimeoutMS: 1500, Topics: []ClientProduceTopic{
			{Name: "a", ID: id, Partitions: []ClientProducePartition{{0, len(batches[0])}, {7, len(batches[1])}}},
			{Name: "b", ID: kafka.TopicID{9}, Partitions: []ClientProducePartition{{1, len(batches[2])}}}}}
		head, cuts := AppendClientProduce(nil, ClientHeader{Version: v, CorrelationID: 7, ClientID: "me"}, &p, nil)
		var frame []byte
		at := 0
		for i, r := range batches {
			frame = append(append(frame, head[at:cuts[i]]...), r...)
			at = cuts[i]
		}
		frame = append(frame, head[at:]...)
		req := kmsg.NewPtrProduceRequest()
		req.Version = v
		if err := req.ReadFrom(body(t, frame, 0, v, v >= 9)); err != nil {
			t.Fatalf("v%d: %v", v, err)
		}
		if req.Acks != -1 || req.TimeoutMillis != 1500 || len(req.Topics) != 2 || len(req.Topics[0].Partitions) != 2 || req.TransactionID != nil {
			t.Fatalf("v%d: %+v", v, req)
		}
		if v < 13 && req.Topics[0].Topic != "a" || v >= 13 && kafka.TopicID(req.Topics[0].TopicID) != id {
			t.Errorf("v%d: topic %+v", v, req.Topics[0])
		}
		if q := req.Topics[0].Partitions[1]; q.Partition != 7 || !bytes.Equal(q.Records, batches[1]) {
			t.Errorf("v%d: %+v", v, q)
		}
		if q := req.Topics[1].Partitions[0]; q.Partition != 1 || string(q.Records) != "third" {
			t.Errorf("v%d: %+v", v, q)
		}
	}
}

func produceAnswer(v int16) []byte {
	resp := kmsg.NewPtrProduceResponse()
	resp.Version, resp.ThrottleMillis = v, 12
	for i, name := range []string{"a", "b"} {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic, rt.TopicID = name, [16]byte{byte(i + 1)}
		for p := range int32(2) {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition, rp.ErrorCode, rp.BaseOffset, rp.LogAppendTime, rp.LogStartOffset = p, int16(p)*6, 1000+int64(p), 77, 5
			if p == 1 {
				text := "why"
				rp.ErrorMessage = &text
				rp.CurrentLeader.LeaderID, rp.CurrentLeader.LeaderEpoch = 3, 4
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	b := resp.AppendTo(nil)
	if v >= 9 {
		b = append([]byte{0}, b...)
	}
	return b
}

func TestProduceAnswersReadAsKmsgWritesThem(t *testing.T) {
	for v := int16(3); v <= 13; v++ {
		a := ParseClientProduceAnswer(produceAnswer(v), v)
		var p ClientProduced
		n := 0
		for a.Next(&p) {
			part := n % 2
			if int(p.Index) != part || int(p.Err) != part*6 || int(p.BaseOffset) != 1000+part || p.LogAppendMS != 77 || v >= 5 && p.LogStart != 5 {
				t.Errorf("v%d: %+v", v, p)
			}
			if v >= 8 && part == 1 && string(p.Message) != "why" || v >= 10 && part == 1 && (p.LeaderID != 3 || p.LeaderEpoch != 4) {
				t.Errorf("v%d: %+v", v, p)
			}
			if v < 13 && string(p.Topic.Name) != string("ab"[n/2]) || v >= 13 && p.Topic.ID[0] != byte(n/2+1) {
				t.Errorf("v%d: topic %+v", v, p.Topic)
			}
			n++
		}
		if a.Err() != nil || n != 4 || a.ThrottleMS != 12 {
			t.Errorf("v%d: %d partitions, throttle %d, %v", v, n, a.ThrottleMS, a.Err())
		}
		whole := produceAnswer(v)
		for cut := range whole {
			a := ParseClientProduceAnswer(whole[:cut], v)
			for a.Next(&p) {
			}
			if a.Err() == nil {
				t.Errorf("v%d: cut at %d of %d and taken as whole", v, cut, len(whole))
			}
		}
	}
}

func TestFetchRequestsReadAsKmsgReadsThem(t *testing.T) {
	for v := int16(4); v <= 18; v++ {
		f := ClientFetch{MaxWaitMS: 500, MinBytes: 1, MaxBytes: 1 << 20, Isolation: kafka.ReadCommitted, SessionID: 11, SessionEpoch: 3,
			Topics: []ClientFetchTopic{{Name: "a", ID: kafka.TopicID{1}, Partitions: []ClientFetchPartition{{Index: 4, LeaderEpoch: 2, Offset: 99, MaxBytes: 1000}}}}}
		if v >= 7 {
			f.Forgotten = []ClientFetchTopic{{Name: "b", ID: kafka.TopicID{2}, Partitions: []ClientFetchPartition{{Index: 5}}}}
		}
		req := kmsg.NewPtrFetchRequest()
		req.Version = v
		if err := req.ReadFrom(body(t, AppendClientFetch(nil, ClientHeader{Version: v, CorrelationID: 7, ClientID: "me"}, &f), 1, v, v >= 12)); err != nil {
			t.Fatalf("v%d: %v", v, err)
		}
		p := req.Topics[0].Partitions[0]
		if req.MaxWaitMillis != 500 || req.MinBytes != 1 || req.MaxBytes != 1<<20 || req.IsolationLevel != 1 || p.Partition != 4 || p.FetchOffset != 99 || p.PartitionMaxBytes != 1000 {
			t.Errorf("v%d: %+v", v, req)
		}
		if v >= 7 && (req.SessionID != 11 || req.SessionEpoch != 3 || len(req.ForgottenTopics) != 1 || req.ForgottenTopics[0].Partitions[0] != 5) {
			t.Errorf("v%d: %+v", v, req)
		}
		if v >= 9 && p.CurrentLeaderEpoch != 2 || v < 13 && req.Topics[0].Topic != "a" || v >= 13 && req.Topics[0].TopicID != [16]byte{1} {
			t.Errorf("v%d: %+v", v, req.Topics)
		}
	}
}

func fetchAnswer(v int16) []byte {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version, resp.ThrottleMillis, resp.SessionID, resp.ErrorCode = v, 9, 44, 0
	for i, name := range []string{"a", "b"} {
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = name, [16]byte{byte(i + 1)}
		for p := range int32(3) {
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition, rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset = p, 100, 90, 10
			rp.RecordBatches = fmt.Appendf(nil, "records of %d", p)
			if p == 1 {
				for k := range int64(2) {
					at := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
					at.ProducerID, at.FirstOffset = 70+k, 80+k
					rp.AbortedTransactions = append(rp.AbortedTransactions, at)
				}
			}
			if p == 2 {
				rp.ErrorCode, rp.RecordBatches = 6, nil
				rp.CurrentLeader.LeaderID, rp.CurrentLeader.LeaderEpoch = 3, 4
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	b := resp.AppendTo(nil)
	if v >= 12 {
		b = append([]byte{0}, b...)
	}
	return b
}

func TestFetchAnswersReadAsKmsgWritesThem(t *testing.T) {
	for v := int16(4); v <= 18; v++ {
		a := ParseClientFetchAnswer(fetchAnswer(v), v)
		var p ClientFetched
		n := 0
		for a.Next(&p) {
			part := n % 3
			if int(p.Index) != part || p.HighWatermark != 100 || p.LastStable != 90 || v >= 5 && p.LogStart != 10 {
				t.Errorf("v%d: %+v", v, p)
			}
			if part < 2 && string(p.Records) != fmt.Sprintf("records of %d", part) || part == 2 && (p.Err != 6 || len(p.Records) != 0) {
				t.Errorf("v%d: %+v", v, p)
			}
			if part == 1 {
				id, first := p.AbortedAt(1)
				if none, _ := p.AbortedAt(2); p.Aborted != 2 || id != 71 || first != 81 || none != -1 {
					t.Errorf("v%d: aborted %d %d %d", v, p.Aborted, id, first)
				}
			}
			if v >= 12 && part == 2 && (p.LeaderID != 3 || p.LeaderEpoch != 4) {
				t.Errorf("v%d: leader %+v", v, p)
			}
			n++
		}
		if a.Whole() != nil || n != 6 || a.ThrottleMS != 9 || v >= 7 && a.SessionID != 44 {
			t.Errorf("v%d: %d partitions, %v", v, n, a.Whole())
		}
		whole := fetchAnswer(v)
		for cut := range whole {
			a := ParseClientFetchAnswer(whole[:cut], v)
			for a.Next(&p) {
			}
			if a.Whole() == nil {
				t.Errorf("v%d: cut at %d of %d and taken as whole", v, cut, len(whole))
			}
		}
	}
}

func FuzzClientProduceAnswer(f *testing.F) {
	for v := int16(3); v <= 13; v++ {
		f.Add(produceAnswer(v), v)
	}
	f.Fuzz(func(t *testing.T, b []byte, v int16) {
		a := ParseClientProduceAnswer(b, 3+max(v, 0)%11)
		var p ClientProduced
		for a.Next(&p) {
		}
		_ = a.Err()
	})
}

func FuzzClientFetchAnswer(f *testing.F) {
	for v := int16(4); v <= 18; v++ {
		f.Add(fetchAnswer(v), v)
	}
	f.Fuzz(func(t *testing.T, b []byte, v int16) {
		a := ParseClientFetchAnswer(b, 4+max(v, 0)%15)
		var p ClientFetched
		for a.Next(&p) {
			for i := range p.Aborted {
				p.AbortedAt(i)
			}
		}
		_ = a.Whole()
	})
}
