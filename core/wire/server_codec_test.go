package wire

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
)

func randomID(r *rand.Rand) (id [16]byte) {
	for i := range id {
		id[i] = byte(r.Uint32())
	}
	return id
}

func randomProduce(r *rand.Rand, version int16) *kmsg.ProduceRequest {
	p := kmsg.NewPtrProduceRequest()
	p.Version, p.Acks, p.TimeoutMillis = version, int16(r.IntN(3)-1), r.Int32()
	if r.IntN(2) == 0 {
		s := "transaction"
		p.TransactionID = &s
	}
	for range r.IntN(4) {
		t := kmsg.NewProduceRequestTopic()
		if version >= 13 {
			t.TopicID = randomID(r)
		} else {
			t.Topic = "topic"[:r.IntN(6)]
		}
		for range r.IntN(4) {
			q := kmsg.NewProduceRequestTopicPartition()
			q.Partition = r.Int32()
			if r.IntN(4) > 0 {
				q.Records = make([]byte, r.IntN(300))
			}
			if version >= 9 && r.IntN(3) == 0 {
				q.UnknownTags.Set(77, []byte("later"))
			}
			t.Partitions = append(t.Partitions, q)
		}
		p.Topics = append(p.Topics, t)
	}
	return p
}

func TestProduceRequestsReadAsKmsgWritesThem(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var got ProduceRequest
	for v := int16(ProduceMin); v <= ProduceMax; v++ {
		for range 200 {
			want := randomProduce(r, v)
			if err := got.Parse(want.AppendTo(nil), v); err != nil {
				t.Fatalf("version %d: %v", v, err)
			}
			if got.Acks != want.Acks || got.TimeoutMS != want.TimeoutMillis || len(got.Topics) != len(want.Topics) ||
				(got.TransactionalID == nil) != (want.TransactionID == nil) {
				t.Fatalf("version %d: %+v, want %+v", v, got, want)
			}
			for i, topic := range got.Topics {
				w := want.Topics[i]
				if string(topic.Name) != w.Topic || topic.ID != w.TopicID || topic.End-topic.First != len(w.Partitions) {
					t.Fatalf("version %d: topic %+v, want %+v", v, topic, w)
				}
				for j, p := range got.Partitions[topic.First:topic.End] {
					if int32(p.Partition) != w.Partitions[j].Partition || !bytes.Equal(p.Records, w.Partitions[j].Records) ||
						(p.Records == nil) != (w.Partitions[j].Records == nil) {
						t.Fatalf("version %d: partition %+v, want %+v", v, p, w.Partitions[j])
					}
				}
			}
		}
	}
}

func TestProduceResponsesAreKmsgsBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for v := int16(ProduceMin); v <= ProduceMax; v++ {
		for range 200 {
			var req ProduceRequest
			if err := req.Parse(randomProduce(r, v).AppendTo(nil), v); err != nil {
				t.Fatal(err)
			}
			want := kmsg.NewPtrProduceResponse()
			want.Version, want.ThrottleMillis = v, r.Int32()
			results := make([]ProduceResult, len(req.Partitions))
			for _, topic := range req.Topics {
				wt := kmsg.NewProduceResponseTopic()
				wt.Topic, wt.TopicID = string(topic.Name), topic.ID
				for i := topic.First; i < topic.End; i++ {
					p := &results[i]
					*p = ProduceResult{Err: kafka.ErrorCode(r.IntN(100)), Base: kafka.Offset(r.Int64()), LogAppendTime: r.Int64(), LogStart: kafka.Offset(r.Int64())}
					wp := kmsg.NewProduceResponseTopicPartition()
					wp.Partition, wp.ErrorCode, wp.BaseOffset = int32(req.Partitions[i].Partition), int16(p.Err), int64(p.Base)
					wp.LogAppendTime, wp.LogStartOffset = p.LogAppendTime, int64(p.LogStart)
					if r.IntN(2) == 0 {
						p.Text = "what went wrong"
						wp.ErrorMessage = &p.Text
					}
					if r.IntN(2) == 0 {
						p.HasBadRecord, p.BadRecord = true, r.Int32()
						bad := kmsg.NewProduceResponseTopicPartitionErrorRecord()
						bad.RelativeOffset, bad.ErrorMessage = p.BadRecord, wp.ErrorMessage
						wp.ErrorRecords = append(wp.ErrorRecords, bad)
					}
					if r.IntN(2) == 0 {
						p.HasLeader, p.Leader, p.LeaderEpoch = true, 3, 9
						if v >= 10 { // the field's first version; kmsg writes it in 9 too
							wp.CurrentLeader.LeaderID, wp.CurrentLeader.LeaderEpoch = 3, 9
						}
					}
					wt.Partitions = append(wt.Partitions, wp)
				}
				want.Topics = append(want.Topics, wt)
			}
			if got := AppendProduceResponse(nil, v, &req, results, want.ThrottleMillis); !bytes.Equal(got, want.AppendTo(nil)) {
				t.Fatalf("version %d:\n%x, want\n%x", v, got, want.AppendTo(nil))
			}
		}
	}
}

func randomFetch(r *rand.Rand, version int16) *kmsg.FetchRequest {
	f := kmsg.NewPtrFetchRequest()
	f.Version, f.MaxWaitMillis, f.MinBytes, f.MaxBytes, f.IsolationLevel = version, r.Int32(), r.Int32(), r.Int32(), int8(r.IntN(2))
	f.SessionID, f.SessionEpoch, f.Rack = r.Int32(), r.Int32(), "rack"[:r.IntN(5)]
	if version <= 14 {
		f.ReplicaID = r.Int32()
	} else if r.IntN(2) == 0 {
		f.ReplicaState.ID, f.ReplicaState.Epoch = r.Int32(), r.Int64()
	}
	if version >= 12 && r.IntN(2) == 0 {
		s := "cluster"
		f.ClusterID = &s
	}
	for range r.IntN(4) {
		t := kmsg.NewFetchRequestTopic()
		forgotten := kmsg.NewFetchRequestForgottenTopic()
		if version >= 13 {
			t.TopicID, forgotten.TopicID = randomID(r), randomID(r)
		} else {
			t.Topic, forgotten.Topic = "topic", "other"
		}
		for range r.IntN(4) {
			p := kmsg.NewFetchRequestTopicPartition()
			p.Partition, p.FetchOffset, p.PartitionMaxBytes = r.Int32(), r.Int64(), r.Int32()
			p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.LogStartOffset = r.Int32(), r.Int32(), r.Int64()
			if version >= 17 && r.IntN(2) == 0 {
				p.ReplicaDirectoryID = randomID(r)
			}
			t.Partitions = append(t.Partitions, p)
			forgotten.Partitions = append(forgotten.Partitions, r.Int32())
		}
		f.Topics = append(f.Topics, t)
		if version >= 7 {
			f.ForgottenTopics = append(f.ForgottenTopics, forgotten)
		}
	}
	return f
}

func TestFetchRequestsReadAsKmsgWritesThem(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var got FetchRequest
	for v := int16(FetchMin); v <= FetchMax; v++ {
		for range 200 {
			b := randomFetch(r, v).AppendTo(nil)
			want := kmsg.NewPtrFetchRequest() // as kmsg reads it: fields that the version lacks have their defaults
			want.Version = v
			if err := want.ReadFrom(b); err != nil {
				t.Fatal(err)
			}
			if err := got.Parse(b, v); err != nil {
				t.Fatalf("version %d: %v", v, err)
			}
			replica, epoch := want.ReplicaID, int64(-1)
			if v >= 15 {
				replica, epoch = want.ReplicaState.ID, want.ReplicaState.Epoch
			}
			if got.MaxWaitMS != want.MaxWaitMillis || got.MinBytes != want.MinBytes || got.MaxBytes != want.MaxBytes || got.Isolation != want.IsolationLevel ||
				got.SessionID != want.SessionID || got.SessionEpoch != want.SessionEpoch || string(got.Rack) != want.Rack ||
				int32(got.ReplicaID) != replica || got.ReplicaEpoch != epoch || len(got.Topics) != len(want.Topics) || len(got.Forgotten) != len(want.ForgottenTopics) {
				t.Fatalf("version %d: %+v, want %+v", v, got, want)
			}
			for i, topic := range got.Topics {
				w := want.Topics[i]
				if string(topic.Name) != w.Topic || topic.ID != w.TopicID || topic.End-topic.First != len(w.Partitions) {
					t.Fatalf("version %d: topic %+v, want %+v", v, topic, w)
				}
				for j, p := range got.Partitions[topic.First:topic.End] {
					wp := w.Partitions[j]
					wantP := FetchPartition{kafka.Partition(wp.Partition), kafka.LeaderEpoch(wp.CurrentLeaderEpoch), kafka.Offset(wp.FetchOffset),
						kafka.LeaderEpoch(wp.LastFetchedEpoch), kafka.Offset(wp.LogStartOffset), wp.PartitionMaxBytes}
					if p != wantP {
						t.Fatalf("version %d: partition %+v, want %+v", v, p, wantP)
					}
				}
			}
			for i, topic := range got.Forgotten {
				w := want.ForgottenTopics[i]
				for j, p := range got.ForgottenPartitions[topic.First:topic.End] {
					if int32(p) != w.Partitions[j] || string(topic.Name) != w.Topic || topic.ID != w.TopicID {
						t.Fatalf("version %d: forgotten %+v, want %+v", v, topic, w)
					}
				}
			}
		}
	}
}

func TestFetchResponsesAreKmsgsBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for v := int16(FetchMin); v <= FetchMax; v++ {
		for range 200 {
			want := kmsg.NewPtrFetchResponse()
			want.Version, want.ThrottleMillis, want.ErrorCode, want.SessionID = v, r.Int32(), int16(r.IntN(90)), r.Int32()
			topics := r.IntN(3)
			got := AppendFetchHead(nil, v, want.ThrottleMillis, kafka.ErrorCode(want.ErrorCode), want.SessionID, topics)
			for range topics {
				wt := kmsg.NewFetchResponseTopic()
				wt.Topic, wt.TopicID = "name", randomID(r)
				parts := r.IntN(4)
				got = AppendFetchTopic(got, v, []byte("name"), wt.TopicID, parts)
				for range parts {
					before := len(got)
					wp, p := randomFetchResult(r, v)
					got = AppendFetchResult(got, v, &p)
					got = append(got, wp.RecordBatches...)
					got = AppendFetchResultEnd(got, v, &p)
					if n := len(got) - before - len(wp.RecordBatches); n > FetchResultBytes+len(p.Aborted)*AbortedTransactionBytes {
						t.Fatalf("version %d: a partition takes %d bytes", v, n)
					}
					wt.Partitions = append(wt.Partitions, wp)
				}
				got = AppendFetchEnd(got, v)
				want.Topics = append(want.Topics, wt)
			}
			if got = AppendFetchEnd(got, v); !bytes.Equal(got, want.AppendTo(nil)) {
				t.Fatalf("version %d:\n%x, want\n%x", v, got, want.AppendTo(nil))
			}
		}
	}
}

func randomFetchResult(r *rand.Rand, v int16) (kmsg.FetchResponseTopicPartition, FetchResult) {
	w := kmsg.NewFetchResponseTopicPartition()
	w.Partition, w.ErrorCode, w.HighWatermark, w.LastStableOffset, w.LogStartOffset = r.Int32(), int16(r.IntN(90)), r.Int64(), r.Int64(), r.Int64()
	w.PreferredReadReplica, w.RecordBatches = r.Int32(), make([]byte, r.IntN(200))
	p := FetchResult{Partition: kafka.Partition(w.Partition), Err: kafka.ErrorCode(w.ErrorCode), HighWatermark: kafka.Offset(w.HighWatermark),
		LastStable: kafka.Offset(w.LastStableOffset), LogStart: kafka.Offset(w.LogStartOffset), Preferred: kafka.BrokerID(w.PreferredReadReplica),
		Bytes: len(w.RecordBatches)}
	if r.IntN(2) == 0 {
		p.Committed = true
		w.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
		for range r.IntN(3) {
			a := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
			a.ProducerID, a.FirstOffset = r.Int64(), r.Int64()
			w.AbortedTransactions = append(w.AbortedTransactions, a)
			p.Aborted = append(p.Aborted, AbortedTransaction{kafka.ProducerID(a.ProducerID), kafka.Offset(a.FirstOffset)})
		}
	}
	if v >= FetchFlexible && r.IntN(2) == 0 {
		p.Diverging, p.DivergingEpoch, p.DivergingEnd = true, 5, 77
		w.DivergingEpoch.Epoch, w.DivergingEpoch.EndOffset = 5, 77
	}
	if v >= FetchFlexible && r.IntN(2) == 0 {
		p.HasLeader, p.Leader, p.LeaderEpoch = true, 2, 6
		w.CurrentLeader.LeaderID, w.CurrentLeader.LeaderEpoch = 2, 6
	}
	return w, p
}

func TestTruncatedRequestsAreErrors(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for v := int16(FetchMin); v <= FetchMax; v++ {
		b := randomFetch(r, v).AppendTo(nil)
		var f FetchRequest
		for n := range len(b) {
			if f.Parse(b[:n], v) == nil {
				t.Fatalf("Fetch version %d cut to %d of %d bytes is accepted", v, n, len(b))
			}
		}
	}
	for v := int16(ProduceMin); v <= ProduceMax; v++ {
		b := randomProduce(r, v).AppendTo(nil)
		var p ProduceRequest
		for n := range len(b) {
			if p.Parse(b[:n], v) == nil {
				t.Fatalf("Produce version %d cut to %d of %d bytes is accepted", v, n, len(b))
			}
		}
	}
}

func TestParsingAllocatesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	b, c := randomProduce(r, 11).AppendTo(nil), randomFetch(r, 16).AppendTo(nil)
	var p ProduceRequest
	var f FetchRequest
	if n := testing.AllocsPerRun(100, func() {
		if p.Parse(b, 11) != nil || f.Parse(c, 16) != nil {
			t.Fatal("not parsed")
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func FuzzProduceRequest(f *testing.F) {
	r := rand.New(rand.NewPCG(13, 14))
	for v := int16(ProduceMin); v <= ProduceMax; v++ {
		f.Add(randomProduce(r, v).AppendTo(nil), v)
	}
	f.Fuzz(func(t *testing.T, b []byte, v int16) {
		v = ProduceMin + (v%11+11)%11
		var p ProduceRequest
		want := kmsg.NewPtrProduceRequest()
		want.Version = v
		if err, kerr := p.Parse(b, v), want.ReadFrom(b); err == nil && kerr == nil && (len(p.Topics) != len(want.Topics) || p.Acks != want.Acks) {
			t.Fatalf("%+v, kmsg reads %+v", p, want)
		}
	})
}

func FuzzFetchRequest(f *testing.F) {
	r := rand.New(rand.NewPCG(15, 16))
	for v := int16(FetchMin); v <= FetchMax; v++ {
		f.Add(randomFetch(r, v).AppendTo(nil), v)
	}
	f.Fuzz(func(t *testing.T, b []byte, v int16) {
		v = FetchMin + (v%15+15)%15
		var p FetchRequest
		want := kmsg.NewPtrFetchRequest()
		want.Version = v
		if err, kerr := p.Parse(b, v), want.ReadFrom(b); err == nil && kerr == nil && (len(p.Topics) != len(want.Topics) || p.SessionID != want.SessionID) {
			t.Fatalf("%+v, kmsg reads %+v", p, want)
		}
	})
}

func FuzzHeader(f *testing.F) {
	f.Add(kmsg.NewRequestFormatter(kmsg.FormatterClientID("c")).AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), 1)[4:])
	f.Fuzz(func(t *testing.T, b []byte) {
		h, body, err := ParseHeader(b, func(_, version int16) bool { return version >= 3 })
		if err == nil && len(body)+8+len(h.ClientID) > len(b) {
			t.Fatal("the header takes less than its fields")
		}
	})
}
