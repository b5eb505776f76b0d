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

// TestNoSettingGetsPastTheBound: a record repeats its resource's name and its key, however short the value.
func TestNoSettingGetsPastTheBound(t *testing.T) {
	const list = "leader.replication.throttled.replicas"
	d := &decision{image: metadata.Empty(), config: config.Default(), newTopicID: newTopicID}
	decideRegister(d, metadata.Broker{ID: kafka.BrokerID(d.config.NodeID)})
	decideCreate(d, []NewTopic{{Name: "t", NumPartitions: 1, ReplicationFactor: 1}})
	if r := decideAlter(d, alteration("t", list, "0:1")); r.Err != kafka.None {
		t.Fatal(r)
	}
	d.bytes = maxImageBytes
	two := alteration("t", list, "")
	two.Changes = append(two.Changes, ConfigChange{Key: "follower.replication.throttled.replicas"})
	if r := decideAlter(d, two); r.Err != kafka.PolicyViolation {
		t.Errorf("one setting more, both empty: %+v", r)
	}
	if r := decideAlter(d, alteration("t", list, "")); r.Err != kafka.None {
		t.Errorf("a setting that becomes empty: %+v", r)
	}
}

// TestABrokerHasOneName: what Kafka takes for the same number is one resource, and a long text is none.
func TestABrokerHasOneName(t *testing.T) {
	d := &decision{image: metadata.Empty(), config: config.Default(), newTopicID: newTopicID}
	own := d.config.OwnName()
	decideRegister(d, metadata.Broker{ID: kafka.BrokerID(d.config.NodeID)})
	for name, want := range map[string]kafka.ErrorCode{own: kafka.None, "": kafka.None, "0" + own: kafka.None, "00000" + own: kafka.None,
		"+" + own: kafka.InvalidRequest, "-" + own: kafka.InvalidRequest, " " + own: kafka.InvalidRequest, "x": kafka.InvalidRequest,
		own + "7": kafka.InvalidRequest, "99999999999": kafka.InvalidRequest, strings.Repeat("0", 1<<20) + own: kafka.InvalidRequest} {
		r := decideAlter(d, &ConfigAlteration{Kind: metadata.BrokerResource, Name: name, Changes: []ConfigChange{{Key: "log.retention.ms", Value: "5000"}}})
		if r.Err != want || len(r.Text) > 300 {
			t.Errorf("%.20q: %v %.300s, want %v", name, r.Err, r.Text, want)
		}
	}
	for r := range d.image.Records {
		if c, ok := r.(*metadata.ConfigRecord); ok && c.Name != "" && c.Name != own {
			t.Errorf("there are settings of a broker named %.20q", c.Name)
		}
	}
}

// TestNoSnapshotIsWrittenThatNoStartWouldRead: what it would replace stays, and so does the log.
func TestNoSnapshotIsWrittenThatNoStartWouldRead(t *testing.T) {
	fs := vfs.NewMem(nil)
	if err := fs.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	img, _, err := metadata.Empty().Apply([]metadata.Record{&metadata.ClusterRecord{ClusterID: strings.Repeat("c", 100)}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := snapshot{index: 1, term: 1, image: img}
	whole := int64(len(s.encode()))
	if err := s.write(fs, dir, whole-1); err == nil || !strings.Contains(err.Error(), "delete topics") {
		t.Errorf("it is written: %v", err)
	}
	if names, err := listSnapshots(fs, dir); len(names) != 0 || err != nil || int64(s.bytes) != whole {
		t.Errorf("%v is there, %d bytes (%v)", names, s.bytes, err)
	}
	if err := s.write(fs, dir, whole); err != nil {
		t.Error(err)
	}
}
