package api

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
)

// paying is a connection that has so much memory for answers.
type paying struct {
	answered
	left int64
}

func (p *paying) Share(_ *Call, n int64) bool {
	if n > p.left {
		return false
	}
	p.left -= n
	return true
}

// TestTheSettingsOfManyTopicsTakeMemory: the answer is encoded resource by resource and pays for its bytes; beyond what there is its
// connection ends. Topics without settings of their own are told in bytes that they share.
func TestTheSettingsOfManyTopicsTakeMemory(t *testing.T) {
	n := newGroupNode(t)
	const topics = 500
	records := []metadata.Record{}
	led := []metadata.Partition{{Leader: testNode, Replicas: []kafka.BrokerID{testNode}, ISR: []kafka.BrokerID{testNode}}}
	for i := range topics {
		id, plain := kafka.TopicID{1: 1, 14: byte(i >> 8), 15: byte(i)}, kafka.TopicID{1: 2, 14: byte(i >> 8), 15: byte(i)}
		records = append(records, &metadata.TopicRecord{Name: fmt.Sprint("t", i), ID: id},
			&metadata.ConfigRecord{Kind: metadata.TopicResource, Name: fmt.Sprint("t", i), Key: "retention.ms", Value: "77"},
			&metadata.TopicRecord{Name: fmt.Sprint("plain", i), ID: plain},
			&metadata.PartitionsRecord{TopicID: plain, Partitions: led},
			&metadata.PartitionsRecord{TopicID: id, Partitions: led})
	}
	n.change(records...)
	for version := int16(1); version <= 4; version++ {
		const most = 64 << 20
		ask := func(prefix string, names int, left int64) (string, *paying) {
			req := kmsg.NewPtrDescribeConfigsRequest()
			req.IncludeSynonyms, req.IncludeDocumentation = true, true
			req.SetVersion(version)
			for i := range names {
				r := kmsg.NewDescribeConfigsRequestResource()
				r.ResourceType, r.ResourceName = ofTopic, fmt.Sprint(prefix, i)
				req.Resources = append(req.Resources, r)
			}
			frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("client")).AppendRequest(nil, req, 1)
			conn := &paying{make(answered, 1), left}
			c := &Call{Client: &Client{Listener: "PLAINTEXT", ClientHost: "10.1.1.1", Ctx: t.Context()}, Conn: conn}
			c.Frame = n.handlers.Pool.Get(len(frame) - 4)
			copy(c.Frame.B, frame[4:])
			n.handlers.Serve(c, c.Frame.B)
			return string(<-conn.answered), conn
		}
		decode := func(answer string) *kmsg.DescribeConfigsResponse {
			resp := kmsg.NewPtrDescribeConfigsResponse()
			resp.SetVersion(version)
			body := answer[8:]
			if resp.IsFlexible() {
				body = body[1:]
			}
			if err := resp.ReadFrom([]byte(body)); err != nil || int(binary.BigEndian.Uint32([]byte(answer))) != len(answer)-4 {
				t.Fatalf("version %d: %v", version, err)
			}
			return resp
		}
		answer, conn := ask("t", topics, most)
		all := decode(answer)
		if len(all.Resources) != topics {
			t.Fatalf("version %d: %d resources", version, len(all.Resources))
		}
		for i, r := range all.Resources {
			if r.ResourceName != fmt.Sprint("t", i) || r.ErrorCode != 0 || len(r.Configs) != len(all.Resources[0].Configs) || *r.Configs[3].Value == "" {
				t.Fatalf("version %d: resource %d: %+v", version, i, r)
			}
		}
		paid := most - conn.left
		t.Logf("version %d: an answer of %d bytes, %d for each topic, pays %d", version, len(answer), len(answer)/topics, paid)
		if paid < int64(len(answer))-freeAnswerBytes || paid > int64(len(answer))*3/2 {
			t.Errorf("version %d: an answer of %d bytes pays %d", version, len(answer), paid)
		}
		if answer, _ := ask("t", topics, int64(len(answer)/2)); !strings.Contains(answer, "queued.max.request.bytes") {
			t.Errorf("version %d: half the memory gives an answer of %d bytes", version, len(answer))
		}
		one, _ := ask("plain", 1, 0)
		want := decode(one).Resources[0]
		plain, conn := ask("plain", topics, most)
		for i, r := range decode(plain).Resources {
			if r.ResourceName != fmt.Sprint("plain", i) || r.ErrorCode != 0 || !reflect.DeepEqual(r.Configs, want.Configs) || len(r.Configs) != len(all.Resources[0].Configs) {
				t.Fatalf("version %d: resource %d: %+v", version, i, r)
			}
		}
		if paid := most - conn.left; paid == 0 || paid > int64(len(plain))/4 {
			t.Errorf("version %d: an answer of %d bytes that are mostly the same pays %d", version, len(plain), paid)
		}
		if answer, _ := ask("t", 1, 0); len(decode(answer).Resources) != 1 {
			t.Errorf("version %d: one topic pays", version)
		}
	}
}
