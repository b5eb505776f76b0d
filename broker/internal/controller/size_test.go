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
