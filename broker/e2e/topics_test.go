package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/proc"
)

func timeOf(ms int64) time.Time { return time.UnixMilli(ms) }

func metadataOf(w *wire, version int16, create bool, topics ...string) *kmsg.MetadataResponse {
	w.t.Helper()
	r := kmsg.NewPtrMetadataRequest()
	r.Version, r.AllowAutoTopicCreation = version, create
	for _, name := range topics {
		tp := kmsg.NewMetadataRequestTopic()
		tp.Topic = kmsg.StringPtr(name)
		r.Topics = append(r.Topics, tp)
	}
	return ask[*kmsg.MetadataResponse](w, r)
}

// TestAutoCreation: asking for a topic makes it, in every version; the first answer may say that it does not know it (3) or
// has no leader yet (5), but that does not stick. It does not happen to names that are not allowed, nor when it is not
// wanted.
func TestAutoCreation(t *testing.T) {
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir()})
	w := dial(t, b.Addr)
	for version := range int16(14) {
		name := fmt.Sprint("auto-", version)
		until(t, name+" is made", func() bool {
			topic := metadataOf(w, version, true, name).Topics[0]
			if topic.ErrorCode != 0 && topic.ErrorCode != 3 && topic.ErrorCode != 5 {
				t.Fatalf("version %d: error %d", version, topic.ErrorCode)
			}
			return topic.ErrorCode == 0 && len(topic.Partitions) == 1 && topic.Partitions[0].Leader == b.NodeID
		})
		if r := w.produce(name, 0, batch(nobody(), []byte("v"), nowMS())); r.ErrorCode != 0 {
			t.Errorf("version %d: produce to the new topic: %+v", version, r)
		}
	}
	for _, bad := range []string{"a b", "", "..", ".", strings.Repeat("x", 250), "ä"} {
		if topic := metadataOf(w, 9, true, bad).Topics[0]; topic.ErrorCode != 17 {
			t.Errorf("topic %q: error %d, want 17", bad, topic.ErrorCode)
		}
	}
	for range 3 {
		if topic := metadataOf(w, 9, false, "unwanted").Topics[0]; topic.ErrorCode != 3 {
			t.Errorf("without auto creation: error %d, want 3", topic.ErrorCode)
		}
	}
	// A producer that knows nothing writes to a topic that is not there.
	c := newClient(t, b, kgo.AllowAutoTopicCreation())
	if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "by-producer", Value: []byte("v")}).FirstErr(); err != nil {
		t.Error(err)
	}
}

// TestACreatedTopicIsUsableAtOnce: the answer to CreateTopics means that produce, fetch and metadata know the topic; so with
// new partitions, and the answer to DeleteTopics means that they do not.
func TestACreatedTopicIsUsableAtOnce(t *testing.T) {
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir(), Properties: []string{"auto.create.topics.enable=false"}})
	admin := adminOf(t, b)
	w := dial(t, b.Addr)
	var before [16]byte
	for i := range 20 {
		id := create(t, b, "t", 2)
		if id == before {
			t.Fatalf("round %d: the topic has its old id again", i)
		}
		before = id
		if r := w.produce("t", 1, batch(nobody(), []byte("v"), nowMS())); r.ErrorCode != 0 || r.BaseOffset != 0 {
			t.Fatalf("round %d: produce: %+v", i, r)
		}
		if m := metadataOf(w, 12, false, "t").Topics[0]; m.ErrorCode != 0 || len(m.Partitions) != 2 || m.TopicID != id {
			t.Fatalf("round %d: metadata: %+v", i, m)
		}
		if r, err := admin.UpdatePartitions(t.Context(), 3, "t"); err != nil || r.Error() != nil {
			t.Fatal(err, r.Error())
		}
		if r := w.produce("t", 2, batch(nobody(), []byte("v"), nowMS())); r.ErrorCode != 0 || r.BaseOffset != 0 {
			t.Fatalf("round %d: produce to the new partition: %+v", i, r)
		}
		if r, err := admin.UpdatePartitions(t.Context(), 2, "t"); err != nil || r["t"].Err == nil {
			t.Fatalf("round %d: fewer partitions: %+v %v", i, r, err)
		}
		r := fetchRequest("t", map[int32]int64{0: 0})
		r.Version, r.Topics[0].TopicID = 15, id
		if resp, err := admin.DeleteTopics(t.Context(), "t"); err != nil || resp.Error() != nil {
			t.Fatal(err, resp.Error())
		}
		if r := w.produce("t", 1, batch(nobody(), []byte("v"), nowMS())); r.ErrorCode != 3 {
			t.Fatalf("round %d: produce after the deletion: %+v", i, r)
		}
		if code := ask[*kmsg.FetchResponse](w, r).Topics[0].Partitions[0].ErrorCode; code != 100 {
			t.Fatalf("round %d: fetch after the deletion: error %d, want 100", i, code)
		}
	}
}

// TestTopicsSurviveRestarts: what was created, changed and deleted is so after a kill; deleted folders go.
func TestTopicsSurviveRestarts(t *testing.T) {
	data := t.TempDir()
	b := start(t, proc.Options{NoAdmin: true, Data: data, Properties: []string{"log.segment.delete.delay.ms=100"}})
	cluster := b.ClusterID
	ids := map[string]kadm.TopicID{}
	for i := range 10 {
		name := fmt.Sprint("t", i)
		ids[name] = create(t, b, name, int32(1+i%3), "retention.ms=12345678")
		fill(t, b, name, 0, 1+i, 10)
	}
	admin := adminOf(t, b)
	if _, err := admin.UpdatePartitions(t.Context(), 7, "t2"); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		name := fmt.Sprint("t", 5+i)
		if _, err := admin.DeleteTopics(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		delete(ids, name)
	}
	b.Kill()
	b = start(t, proc.Options{NoAdmin: true, Data: data, Properties: []string{"log.segment.delete.delay.ms=100"}})
	if b.ClusterID != cluster {
		t.Errorf("cluster id %s, before %s", b.ClusterID, cluster)
	}
	admin = adminOf(t, b)
	got, err := admin.ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(ids) {
		t.Errorf("topics %v, want %v", got.Names(), ids)
	}
	for name, id := range ids {
		if got[name].ID != id {
			t.Errorf("%s has id %v, before %v", name, got[name].ID, id)
		}
	}
	if n := len(got["t2"].Partitions); n != 7 {
		t.Errorf("t2 has %d partitions, want 7", n)
	}
	configs, err := admin.DescribeTopicConfigs(t.Context(), "t1")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range configs[0].Configs {
		if c.Key == "retention.ms" && (c.MaybeValue() != "12345678" || c.Source != kmsg.ConfigSourceDynamicTopicConfig) {
			t.Errorf("retention.ms is %s from %v", c.MaybeValue(), c.Source)
		}
	}
	until(t, "the deleted topics' folders are gone", func() bool {
		entries, err := os.ReadDir(data)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if name := e.Name(); len(name) > 2 && name[0] == 't' && name[1] >= '5' && name[1] <= '9' {
				return false
			}
		}
		return true
	})
}

// TestRefusedSettings: a topic with an unknown or wrong setting is not made, and the answer says why.
func TestRefusedSettings(t *testing.T) {
	b := start(t, proc.Options{NoAdmin: true, Data: t.TempDir()})
	admin := adminOf(t, b)
	for setting, want := range map[string]error{"retention.mss=1": kerr.InvalidConfig, "retention.ms=much": kerr.InvalidConfig,
		"segment.bytes=1": kerr.InvalidConfig, "cleanup.policy=burn": kerr.InvalidConfig} {
		name, value, _ := strings.Cut(setting, "=")
		r, err := admin.CreateTopic(t.Context(), 1, 1, map[string]*string{name: &value}, "t")
		if err != want || !strings.Contains(r.ErrMessage, name) {
			t.Errorf("%s: %v %q", setting, err, r.ErrMessage)
		}
	}
	if r, err := admin.CreateTopic(t.Context(), 1, 3, nil, "t"); err != kerr.InvalidReplicationFactor {
		t.Errorf("factor 3 on one broker: %v %q", err, r.ErrMessage)
	}
	if r, err := admin.CreateTopic(t.Context(), 0, 1, nil, "t"); err != kerr.InvalidPartitions {
		t.Errorf("no partitions: %v %q", err, r.ErrMessage)
	}
}
