package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
	"github.com/tidemark/tidemark/core/vfs"
)

// TestATopicIsCreatedWithNoSettingThatItCouldNotBeGivenLater: what is too long, or no list of replicas, is refused both ways.
func TestATopicIsCreatedWithNoSettingThatItCouldNotBeGivenLater(t *testing.T) {
	const key = "leader.replication.throttled.replicas"
	for _, c := range []struct {
		value string
		want  kafka.ErrorCode
	}{
		{"*", kafka.None},
		{"", kafka.None},
		{"0:1, 1:1", kafka.None},
		{"foo", kafka.InvalidConfig},
		{"1", kafka.InvalidConfig},
		{"0:1,*", kafka.InvalidConfig},
		{"-1:1", kafka.InvalidConfig},
		{"0:1:2", kafka.InvalidConfig},
		{strings.Repeat("1", maxValueBytes) + ":1", kafka.InvalidConfig},
	} {
		d := &decision{image: metadata.Empty(), config: config.Default(), newTopicID: newTopicID}
		decideRegister(d, metadata.Broker{ID: 0})
		made := decideCreate(d, []NewTopic{{Name: "with", NumPartitions: 1, ReplicationFactor: 1, Configs: map[string]string{key: c.value}},
			{Name: "without", NumPartitions: 1, ReplicationFactor: 1}})
		if made[0].Err != c.want || made[1].Err != kafka.None {
			t.Errorf("%.40q: created with %v %.100s, the topic without with %v", c.value, made[0].Err, made[0].Text, made[1].Err)
		}
		if r := decideAlter(d, alteration("without", key, c.value)); r.Err != c.want {
			t.Errorf("%.40q: altered with %v %.100s", c.value, r.Err, r.Text)
		}
	}
}

func alteration(topic, key, value string) *ConfigAlteration {
	return &ConfigAlteration{Kind: metadata.TopicResource, Name: topic, Changes: []ConfigChange{{Key: key, Value: value}}}
}

// TestNothingIsAddedToMetadataThatNoStartWouldRead: and what makes them smaller is taken.
func TestNothingIsAddedToMetadataThatNoStartWouldRead(t *testing.T) {
	d := &decision{image: metadata.Empty(), config: config.Default(), newTopicID: newTopicID}
	decideRegister(d, metadata.Broker{ID: 0})
	topic := func(name string) []NewTopic { return []NewTopic{{Name: name, NumPartitions: 1, ReplicationFactor: 1}} }
	if r := decideCreate(d, topic("t")); r[0].Err != kafka.None {
		t.Fatal(r)
	}
	if r := decideAlter(d, alteration("t", "retention.ms", "123456")); r.Err != kafka.None || d.bytes == 0 {
		t.Fatal(r, d.bytes)
	}
	d.bytes = maxImageBytes
	for _, try := range []*decision{d, d.scratch()} {
		if r := decideCreate(try, topic("u")); r[0].Err != kafka.PolicyViolation || r[0].Text == "" {
			t.Errorf("a topic: %+v", r)
		}
		if r := decideMorePartitions(try, []MorePartitions{{Name: "t", Count: 2}}); r[0].Err != kafka.PolicyViolation || r[0].Text == "" {
			t.Errorf("a partition: %+v", r)
		}
		if r := decideAlter(try, alteration("t", "retention.ms", "1234567")); r.Err != kafka.PolicyViolation || r.Text == "" {
			t.Errorf("a longer setting: %+v", r)
		}
		if !try.full {
			t.Error("nobody is told that something was refused")
		}
	}
	if r := decideAlter(d, alteration("t", "retention.ms", "1")); r.Err != kafka.None {
		t.Errorf("a shorter setting: %+v", r)
	}
	if r := decideDelete(d, []TopicRef{{Name: "t"}}); r[0].Err != kafka.None {
		t.Errorf("a deletion: %+v", r)
	}
}

// TestPartitionsHaveABound: a snapshot has a few bytes for each, memory has many. What a round has decided counts, and topics that
// brokers need are made all the same.
func TestPartitionsHaveABound(t *testing.T) {
	d := &decision{image: metadata.Empty(), config: config.Default(), newTopicID: newTopicID, most: 20}
	decideRegister(d, metadata.Broker{ID: 0})
	topic := func(name string, n int32) NewTopic {
		return NewTopic{Name: name, NumPartitions: n, ReplicationFactor: 1}
	}
	made := decideCreate(d, []NewTopic{topic("a", 15), topic("b", 6), topic("c", 4), topic("d", 1), topic("e", 1),
		{Name: "f", NumPartitions: -1, ReplicationFactor: -1, Assignments: [][]kafka.BrokerID{{0}}}})
	for i, want := range []kafka.ErrorCode{kafka.None, kafka.PolicyViolation, kafka.None, kafka.None, kafka.PolicyViolation, kafka.PolicyViolation} {
		if r := made[i]; r.Err != want || want != kafka.None && !strings.Contains(r.Text, "20 are the most") {
			t.Errorf("topic %s: %v %q, want %v", r.Name, r.Err, r.Text, want)
		}
	}
	for _, try := range []*decision{d.scratch(), d} {
		if r := decideMorePartitions(try, []MorePartitions{{Name: "d", Count: 2}})[0]; r.Err != kafka.PolicyViolation || r.Text == "" {
			t.Errorf("one partition more: %+v", r)
		}
	}
	decideDelete(d, []TopicRef{{Name: "a"}})
	if r := decideMorePartitions(d, []MorePartitions{{Name: "d", Count: 16}, {Name: "c", Count: 5}}); r[0].Err != kafka.None || r[1].Err != kafka.PolicyViolation {
		t.Errorf("in the room of a deleted topic: %+v", r)
	}
	if r := decideCreateOffsets(d); r.Err != kafka.None {
		t.Errorf("the topic of committed offsets: %+v", r)
	}
}

// TestRoomInTheMetadataIsFoundAgain: what the log has grown by since the last snapshot is only the most that the metadata may have
// grown by. Who is refused for it causes the next one.
func TestRoomInTheMetadataIsFoundAgain(t *testing.T) {
	fs := vfs.NewMem(nil)
	c, err := Open(options(fs))
	if err != nil {
		t.Fatal(err)
	}
	c.imageBytes = maxImageBytes // as if much had been deleted since
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer stop(t, c)
	if _, err := c.RegisterBroker(t.Context(), metadata.Broker{ID: 0}); err != nil {
		t.Fatal(err)
	}
	if r := create(t, c, "t"); r.Err != kafka.PolicyViolation {
		t.Fatalf("%+v", r)
	}
	for deadline := time.Now().Add(3 * time.Minute); ; {
		r := create(t, c, "t")
		if r.Err == kafka.None {
			break
		}
		if r.Err != kafka.PolicyViolation || time.Now().After(deadline) {
			t.Fatalf("%+v", r)
		}
	}
}
