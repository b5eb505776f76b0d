package e2e

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/proc"
)

// transfers are the ways by which stored bytes reach a connection; everything about fetching holds for each.
var transfers = []string{"auto", "sendfile", "splice", "copy"}

// TestFetchWithinAndBeyond: an offset inside a batch brings that batch; a first batch larger than any bound comes whole; what
// is outside the log is told apart from what is not there yet.
func TestFetchWithinAndBeyond(t *testing.T) {
	for _, transfer := range transfers {
		for _, tail := range []int{0, 64 << 20} {
			t.Run(transfer+"/tail="+strconv.Itoa(tail), func(t *testing.T) {
				b := start(t, proc.Options{Data: t.TempDir(), Properties: []string{"socket.transfer=" + transfer,
					"tidemark.tail.bytes=" + strconv.Itoa(tail)}})
				create(t, b, "t", 1)
				w := dial(t, b.Addr)
				w.fetchOne("t", 0) // a reader at the end: what is appended stays in the tail ring
				large := make([]byte, 80_000)
				for _, value := range [][]byte{[]byte("a"), large, []byte("c")} {
					if r := w.produce("t", 0, batch(nobody(), value, nowMS(), nowMS(), nowMS())); r.ErrorCode != 0 {
						t.Fatalf("%+v", r)
					}
				}
				if held := figure(t, b, "tidemark_tail_bytes"); (held > 0) != (tail > 0) {
					t.Errorf("the tail ring of %d bytes holds %v", tail, held)
				}
				for from := range int64(9) {
					r := fetchRequest("t", map[int32]int64{0: from})
					r.MaxBytes, r.Topics[0].Partitions[0].PartitionMaxBytes = 100, 100
					p := ask[*kmsg.FetchResponse](w, r).Topics[0].Partitions[0]
					got := batches(t, p.RecordBatches)
					if p.ErrorCode != 0 || len(got) == 0 || got[0].FirstOffset != from/3*3 || p.HighWatermark != 9 {
						t.Errorf("fetch at %d with a bound of 100 bytes: error %d, %d bytes, %d batches", from, p.ErrorCode, len(p.RecordBatches), len(got))
					}
				}
				if got := batches(t, w.fetchOne("t", 0).RecordBatches); len(got) != 3 {
					t.Errorf("a fetch of all brings %d batches", len(got))
				}
				if p := w.fetchOne("t", 9); p.ErrorCode != 0 || len(p.RecordBatches) != 0 {
					t.Errorf("fetch at the end: %+v", p)
				}
				for _, from := range []int64{10, 1 << 60, -1} {
					if p := w.fetchOne("t", from); p.ErrorCode != 1 {
						t.Errorf("fetch at %d: error %d, want 1", from, p.ErrorCode)
					}
				}
			})
		}
	}
}

// TestFetchWaits: an empty fetch is answered after max_wait and not before; one that wants more bytes than there are waits
// for a producer, and is answered at once when they come; in a session too.
func TestFetchWaits(t *testing.T) {
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir()})
	create(t, b, "t", 2)
	w, p := dial(t, b.Addr), dial(t, b.Addr)
	const wait = 300 * time.Millisecond
	began := time.Now()
	r := fetchRequest("t", map[int32]int64{0: 0, 1: 0})
	r.MinBytes, r.MaxWaitMillis = 1, int32(wait/time.Millisecond)
	ask[*kmsg.FetchResponse](w, r)
	if took := time.Since(began); took < wait {
		t.Errorf("an empty fetch with max_wait %v is answered after %v", wait, took)
	}

	r.SessionEpoch = 0 // a new session
	session := ask[*kmsg.FetchResponse](w, r)
	if session.SessionID == 0 {
		t.Fatalf("no session: %+v", session)
	}
	r = fetchRequest("t", nil)
	r.Topics, r.SessionID, r.SessionEpoch, r.MinBytes, r.MaxWaitMillis = nil, session.SessionID, 1, 1, int32(wait/time.Millisecond)
	began = time.Now()
	if got := ask[*kmsg.FetchResponse](w, r); got.ErrorCode != 0 || len(got.Topics) != 0 {
		t.Errorf("an incremental fetch of nothing: %+v", got)
	}
	if took := time.Since(began); took < wait {
		t.Errorf("an empty incremental fetch with max_wait %v is answered after %v", wait, took)
	}

	r.SessionEpoch, r.MinBytes, r.MaxWaitMillis = 2, 1000, 120_000
	w.send(r)
	for i := range int64(4) { // 4 batches of about 370 bytes: the third fills the bound
		if got := p.produce("t", 1, batch(nobody(), make([]byte, 300), nowMS())); got.ErrorCode != 0 || got.BaseOffset != i {
			t.Fatalf("%+v", got)
		}
		p.alive()
	}
	got := answer[*kmsg.FetchResponse](w, r)
	if len(got.Topics) != 1 || len(got.Topics[0].Partitions) != 1 || len(batches(t, got.Topics[0].Partitions[0].RecordBatches)) < 3 {
		t.Errorf("a fetch that waits for 1000 bytes is answered with %+v", got)
	}
	r.SessionEpoch, r.MinBytes = 7, 1
	if got := ask[*kmsg.FetchResponse](w, r); got.ErrorCode != 71 {
		t.Errorf("a session's epoch out of order: error %d, want 71", got.ErrorCode)
	}
	r.SessionID, r.SessionEpoch = 12345, 1
	if got := ask[*kmsg.FetchResponse](w, r); got.ErrorCode != 70 {
		t.Errorf("an unknown session: error %d, want 70", got.ErrorCode)
	}
}

// TestAWaitingFetchEndsWithItsTopic: it is answered when the topic is deleted, not at max_wait.
func TestAWaitingFetchEndsWithItsTopic(t *testing.T) {
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir()})
	create(t, b, "t", 1)
	w := dial(t, b.Addr)
	r := fetchRequest("t", map[int32]int64{0: 0})
	r.MinBytes, r.MaxWaitMillis = 1, 10*60_000
	w.send(r)
	if _, err := adminOf(t, b).DeleteTopics(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	if p := answer[*kmsg.FetchResponse](w, r).Topics[0].Partitions[0]; p.ErrorCode == 0 {
		t.Errorf("a fetch of a deleted topic: %+v", p)
	}
}

// TestNoPartitionStarves: in a session whose answers hold less than there is to read, every partition comes again and again.
func TestNoPartitionStarves(t *testing.T) {
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir()})
	const partitions, rounds = 5, 40
	create(t, b, "t", partitions)
	w := dial(t, b.Addr)
	for p := range int32(partitions) {
		size := 1000
		if p == 0 {
			size = 4000
		}
		for range rounds {
			if r := w.produce("t", p, batch(nobody(), make([]byte, size), nowMS())); r.ErrorCode != 0 {
				t.Fatalf("%+v", r)
			}
		}
	}
	at := map[int32]int64{}
	for p := range int32(partitions) {
		at[p] = 0
	}
	r := fetchRequest("t", at)
	r.SessionEpoch, r.MaxBytes = 0, 5000
	session := int32(0)
	served := map[int32]int{}
	for round := range 5 * partitions {
		if round > 0 {
			r = fetchRequest("t", nil)
			r.Topics = nil
			tp := kmsg.NewFetchRequestTopic()
			tp.Topic = "t"
			for p, offset := range at {
				f := kmsg.NewFetchRequestTopicPartition()
				f.Partition, f.FetchOffset, f.PartitionMaxBytes = p, offset, 1<<20
				tp.Partitions = append(tp.Partitions, f)
			}
			if len(at) > 0 {
				r.Topics = append(r.Topics, tp)
			}
			r.SessionID, r.SessionEpoch, r.MaxBytes = session, int32(round), 5000
		}
		resp := ask[*kmsg.FetchResponse](w, r)
		if resp.ErrorCode != 0 {
			t.Fatalf("round %d: error %d", round, resp.ErrorCode)
		}
		session = resp.SessionID
		clear(at)
		for _, tp := range resp.Topics {
			for _, p := range tp.Partitions {
				got := batches(t, p.RecordBatches)
				if len(got) == 0 {
					continue
				}
				served[p.Partition]++
				last := got[len(got)-1]
				at[p.Partition] = last.FirstOffset + int64(last.LastOffsetDelta) + 1
			}
		}
	}
	for p := range int32(partitions) {
		if served[p] < 3 {
			t.Errorf("partition %d was served %d times in %d answers: %v", p, served[p], 5*partitions, served)
		}
	}
}

// TestUnknownTopicIDs fail their own partitions and no others.
func TestUnknownTopicIDs(t *testing.T) {
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir()})
	id := create(t, b, "t", 1)
	fill(t, b, "t", 0, 3, 10)
	w := dial(t, b.Addr)
	for version := int16(13); version <= 18; version++ {
		r := fetchRequest("t", map[int32]int64{0: 0})
		r.Version = version
		r.Topics[0].TopicID = id
		other := r.Topics[0]
		other.TopicID[3]++
		other.Partitions = append([]kmsg.FetchRequestTopicPartition{}, r.Topics[0].Partitions...)
		r.Topics = append([]kmsg.FetchRequestTopic{other}, r.Topics...)
		resp := ask[*kmsg.FetchResponse](w, r)
		codes := map[[16]byte]int16{}
		for _, tp := range resp.Topics {
			codes[tp.TopicID] = tp.Partitions[0].ErrorCode
			if tp.TopicID == id && len(tp.Partitions[0].RecordBatches) == 0 {
				t.Errorf("version %d: nothing of the topic that exists", version)
			}
		}
		if resp.ErrorCode != 0 || codes[id] != 0 || codes[other.TopicID] != 100 {
			t.Errorf("version %d: error %d, by topic %v; want 100 for the unknown one alone", version, resp.ErrorCode, codes)
		}
	}
}

// TestDebugConsumers: kafka-replica-verification fetches as replica -2; in newest versions it says so in ReplicaState. Nobody
// may pose as a broker by it.
func TestDebugConsumers(t *testing.T) {
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir()})
	id := create(t, b, "t", 1)
	fill(t, b, "t", 0, 3, 10)
	w := dial(t, b.Addr)
	for _, version := range []int16{4, 12, 18} {
		for _, replica := range []int32{-2, -1} {
			r := fetchRequest("t", map[int32]int64{0: 0})
			r.Version, r.ReplicaID, r.ReplicaState.ID = version, replica, replica
			r.Topics[0].TopicID = id
			resp := ask[*kmsg.FetchResponse](w, r)
			if p := resp.Topics[0].Partitions[0]; resp.ErrorCode != 0 || p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
				t.Errorf("version %d replica %d: %+v", version, replica, p)
			}
		}
	}
}

// TestManyConsumersOneProducer: records reach every one of many waiting consumers, in order and once.
func TestManyConsumersOneProducer(t *testing.T) {
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir()})
	create(t, b, "t", 3)
	const consumers, records = 20, 300
	done := make(chan error, consumers)
	for range consumers {
		c := newClient(t, b, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		go func() {
			seen := map[string]bool{}
			for len(seen) < records {
				f := c.PollFetches(t.Context())
				if err := f.Err0(); err != nil {
					done <- err
					return
				}
				f.EachRecord(func(r *kgo.Record) { seen[string(r.Value)] = true })
			}
			done <- nil
		}()
	}
	p := newClient(t, b)
	for i := range records {
		p.Produce(t.Context(), &kgo.Record{Topic: "t", Key: []byte(strconv.Itoa(i)), Value: []byte(strconv.Itoa(i))}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range consumers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestFetchSessionsKeepToTheirMemory: a session too large for what all may hold is not given (id 0, and the fetch is served
// all the same), one that grows beyond it is ended, and the next request may begin another.
func TestFetchSessionsKeepToTheirMemory(t *testing.T) {
	b := start(t, proc.Options{Data: t.TempDir()})
	request := func(session, epoch int32, first, n int32) *kmsg.FetchRequest {
		r := fetchRequest(strings.Repeat("t", 249), nil) // a long name is memory for little work
		r.SessionID, r.SessionEpoch = session, epoch
		for i := range n {
			p := kmsg.NewFetchRequestTopicPartition()
			p.Partition = first + i
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, p)
		}
		return r
	}
	const many = 100_000
	one, other := dial(t, b.Addr), dial(t, b.Addr)
	held := ask[*kmsg.FetchResponse](one, request(0, 0, 0, many))
	if held.ErrorCode != 0 || held.SessionID == 0 {
		t.Fatalf("the first session: error %d, id %d", held.ErrorCode, held.SessionID)
	}
	if r := ask[*kmsg.FetchResponse](other, request(0, 0, 0, many)); r.ErrorCode != 0 || r.SessionID != 0 || len(r.Topics[0].Partitions) != many {
		t.Errorf("a session of as many once more: error %d, id %d; want a full answer and no session", r.ErrorCode, r.SessionID)
	}
	if figure(t, b, "tidemark_fetch_session_partitions") != many || figure(t, b, "tidemark_fetch_sessions_refused_total") != 1 {
		t.Error("the figures do not tell of it")
	}
	if r := ask[*kmsg.FetchResponse](one, request(held.SessionID, 1, many, many*7/10)); r.ErrorCode != 70 {
		t.Errorf("a session that grows too large: error %d, want FETCH_SESSION_ID_NOT_FOUND", r.ErrorCode)
	}
	if r := ask[*kmsg.FetchResponse](other, request(0, 0, 0, many/3)); r.ErrorCode != 0 || r.SessionID == 0 {
		t.Errorf("once it is gone: error %d, session %d", r.ErrorCode, r.SessionID)
	}
}

// TestABacklogIsReadWithoutWaiting: a consumer whose fetch.min.bytes is near max.partition.fetch.bytes gets a backlog of small
// segments at once. It would wait an hour for each answer that whole batches or a segment's end leave below its minimum.
func TestABacklogIsReadWithoutWaiting(t *testing.T) {
	b := start(t, proc.Options{Data: t.TempDir()})
	create(t, b, "t", 1, "segment.bytes=1048576")
	const records, size = 60, 100_000
	fill(t, b, "t", 0, records, size, kgo.ProducerBatchCompression(kgo.NoCompression()))
	c := newClient(t, b, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMinBytes(1<<20),
		kgo.FetchMaxPartitionBytes(1<<20), kgo.FetchMaxWait(time.Hour))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for n := 0; (records-n)*size > 1<<20; {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d of %d records: %v", n, records, err)
		}
		n += fetches.NumRecords()
	}
}
