package servertest

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/record"
)

func produced(t testing.TB, r kmsg.Response, partition int) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	return r.(*kmsg.ProduceResponse).Topics[0].Partitions[partition]
}

func fetched(t testing.TB, r kmsg.Response, partition int) kmsg.FetchResponseTopicPartition {
	t.Helper()
	f := r.(*kmsg.FetchResponse)
	if f.ErrorCode != 0 || len(f.Topics) == 0 {
		t.Fatalf("fetch answered error %d, %d topics", f.ErrorCode, len(f.Topics))
	}
	return f.Topics[0].Partitions[partition]
}

func TestRecordsComeBackInEveryVersionOfProduceAndFetch(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 2)
	c := n.dial()
	next := int64(0)
	for v := int16(3); v <= 13; v++ {
		for _, acks := range []int16{1, -1} {
			b := batch(t, 3, []byte(fmt.Sprintf("version %d acks %d", v, acks)))
			p := produced(t, c.do(produceRequest(v, acks, "t", id, map[int32][]byte{1: b})), 0)
			if p.ErrorCode != 0 || p.BaseOffset != next || p.Partition != 1 {
				t.Fatalf("version %d acks %d: %+v, want base offset %d", v, acks, p, next)
			}
			next += 3
		}
	}
	for v := int16(4); v <= 18; v++ {
		p := fetched(t, c.do(fetchRequest(v, "t", id, map[int32]int64{1: 0})), 0)
		if p.ErrorCode != 0 || p.HighWatermark != next || p.LastStableOffset != next {
			t.Fatalf("version %d: %+v", v, p)
		}
		rest, at := p.RecordBatches, kafka.Offset(0)
		for len(rest) > 0 {
			b, more, err := record.Next(rest)
			must(t, err)
			if b.BaseOffset() != at || b.ComputeCRC() != b.CRC() || b.PartitionLeaderEpoch() != 1 {
				t.Fatalf("version %d: batch at %d epoch %d, want %d", v, b.BaseOffset(), b.PartitionLeaderEpoch(), at)
			}
			at, rest = b.LastOffset()+1, more
		}
		if at != kafka.Offset(next) {
			t.Fatalf("version %d: records up to %d, want %d", v, at, next)
		}
	}
}

func TestFetchWaitsForBytesAndIsCompletedByTheProducer(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 3)
	c, p := n.dial(), n.dial()
	r := fetchRequest(13, "t", id, map[int32]int64{0: 0, 1: 0, 2: 0})
	r.MinBytes, r.MaxWaitMillis = 300, 600_000 // beyond the connection's deadline: only the producer can end the wait
	c.send(r)
	for i := int32(0); i < 3; i++ { // 61 + some bytes each: the third makes it
		p.do(produceRequest(9, 1, "t", id, map[int32][]byte{i: batch(t, 1, make([]byte, 70))}))
	}
	resp, _ := c.receive(r)
	total := 0
	for i := range 3 {
		total += len(fetched(t, resp, i).RecordBatches)
	}
	if total < 300 {
		t.Fatalf("fetch answered %d bytes", total)
	}
}

func TestFetchOfNothingWaitsItsTime(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 1)
	c := n.dial()
	r := fetchRequest(12, "t", id, map[int32]int64{0: 0})
	r.MaxWaitMillis = 120
	began := time.Now()
	p := fetched(t, c.do(r), 0)
	if took := time.Since(began); took < 120*time.Millisecond || len(p.RecordBatches) != 0 || p.ErrorCode != 0 {
		t.Fatalf("answered %+v after %s", p, took)
	}
}

func TestAnswersKeepTheOrderOfRequestsBehindAWaitingFetch(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 1)
	c, p := n.dial(), n.dial()
	f := fetchRequest(12, "t", id, map[int32]int64{0: 0})
	f.MaxWaitMillis = 600_000
	v := kmsg.NewPtrApiVersionsRequest()
	first := c.send(f)
	second := c.send(v)
	p.do(produceRequest(9, 1, "t", id, map[int32][]byte{0: batch(t, 1, []byte("x"))}))
	if _, corr := c.receive(f); corr != first {
		t.Fatalf("first answer is of request %d", corr)
	}
	if _, corr := c.receive(v); corr != second {
		t.Fatalf("second answer is of request %d", corr)
	}
}

func TestProduceErrors(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 1, "max.message.bytes", "1000")
	good := func() []byte { return batch(t, 1, []byte("x")) }
	bad := good()
	bad[len(bad)-1] ^= 1
	for _, c := range []struct {
		name  string
		r     *kmsg.ProduceRequest
		code  kafka.ErrorCode
		close bool
	}{
		{"wrong acks", produceRequest(9, 2, "t", id, map[int32][]byte{0: good()}), kafka.InvalidRequiredAcks, false},
		{"unknown topic", produceRequest(9, 1, "nope", id, map[int32][]byte{0: good()}), kafka.UnknownTopicOrPartition, false},
		{"unknown topic id", produceRequest(13, 1, "", kafka.TopicID{1}, map[int32][]byte{0: good()}), kafka.UnknownTopicId, false},
		{"unknown partition", produceRequest(9, 1, "t", id, map[int32][]byte{7: good()}), kafka.UnknownTopicOrPartition, false},
		{"wrong crc", produceRequest(9, 1, "t", id, map[int32][]byte{0: bad}), kafka.CorruptMessage, false},
		{"too large", produceRequest(9, 1, "t", id, map[int32][]byte{0: batch(t, 1, make([]byte, 2000))}), kafka.MessageTooLarge, false},
		{"acks=0 to unknown topic", produceRequest(9, 0, "nope", id, map[int32][]byte{0: good()}), 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl := n.dial()
			if c.close {
				cl.send(c.r)
				if _, _, err := cl.tryReceive(c.r); err == nil {
					t.Fatal("connection stays open")
				}
				return
			}
			if p := produced(t, cl.do(c.r), 0); kafka.ErrorCode(p.ErrorCode) != c.code {
				t.Fatalf("error %v, want %v", kafka.ErrorCode(p.ErrorCode), c.code)
			}
		})
	}
}

func TestFirstBatchIsReturnedWholeAndOthersKeepToTheBound(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 2)
	c := n.dial()
	big := batch(t, 1, make([]byte, 50_000))
	for i := int32(0); i < 2; i++ {
		c.do(produceRequest(9, 1, "t", id, map[int32][]byte{i: bytes.Clone(big)}))
	}
	r := fetchRequest(12, "t", id, map[int32]int64{0: 0, 1: 0})
	r.MaxBytes = 100
	resp := c.do(r)
	if a, b := len(fetched(t, resp, 0).RecordBatches), len(fetched(t, resp, 1).RecordBatches); a != len(big) || b != 0 {
		t.Fatalf("%d and %d bytes, want %d and 0", a, b, len(big))
	}
}

func TestOffsetsOutsideTheLogAreErrors(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := n.topic("t", 1)
	c := n.dial()
	c.do(produceRequest(9, 1, "t", id, map[int32][]byte{0: batch(t, 5, []byte("x"))}))
	for off, code := range map[int64]kafka.ErrorCode{-1: kafka.OffsetOutOfRange, 5: kafka.None, 6: kafka.OffsetOutOfRange, 3: kafka.None} {
		r := fetchRequest(12, "t", id, map[int32]int64{0: off})
		r.MaxWaitMillis = 10
		if p := fetched(t, c.do(r), 0); kafka.ErrorCode(p.ErrorCode) != code {
			t.Errorf("offset %d: error %v, want %v", off, kafka.ErrorCode(p.ErrorCode), code)
		}
	}
}

func TestEveryTransferSendsTheSameBytes(t *testing.T) {
	for _, transfer := range []string{"sendfile", "splice", "copy"} {
		t.Run(transfer, func(t *testing.T) {
			dir := t.TempDir()
			n := startNode(t, dir, "socket.transfer="+transfer)
			id := n.topic("t", 3)
			c := n.dial()
			var want [3][]byte
			for i := range 12 {
				v := bytes.Repeat([]byte{byte(i)}, 300_000)
				b := batch(t, 1, v)
				c.do(produceRequest(9, 1, "t", id, map[int32][]byte{int32(i % 3): b}))
				want[i%3] = append(want[i%3], v...)
			}
			n.stop() // what is read now comes from files
			n = startNode(t, dir, "socket.transfer="+transfer)
			n.topicWithID("t", id, 3)
			c = n.dial()
			var got [3][]byte
			next := map[int32]int64{0: 0, 1: 0, 2: 0}
			for rounds := 0; len(got[0])+len(got[1])+len(got[2]) < 12*300_000 && rounds < 20; rounds++ {
				resp := c.do(fetchRequest(12, "t", id, next)).(*kmsg.FetchResponse)
				for _, p := range resp.Topics[0].Partitions {
					for rest := p.RecordBatches; len(rest) > 0; {
						b, more, err := record.Next(rest)
						must(t, err)
						it, err := b.Records(nil, 0)
						must(t, err)
						for it.Next() {
							got[p.Partition] = append(got[p.Partition], it.Record().Value...)
						}
						next[p.Partition], rest = int64(b.LastOffset())+1, more
					}
				}
			}
			for i := range got {
				if !bytes.Equal(got[i], want[i]) {
					t.Fatalf("partition %d: %d bytes differ from the %d that were sent", i, len(got[i]), len(want[i]))
				}
			}
		})
	}
}
