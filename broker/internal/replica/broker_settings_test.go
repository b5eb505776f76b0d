package replica

import (
	"maps"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/broker/internal/partition"
)

// TestSettingsOfTheBrokerReachTopicsWhenTheyCount: a setting of another broker, or one from which nothing follows for topics, costs no
// walk over all of them on the controller's goroutine; one that counts for a topic that has a setting of its own is not missed.
func TestSettingsOfTheBrokerReachTopicsWhenTheyCount(t *testing.T) {
	s, img := newBenchSet(t, 3)
	at := func() map[string]*partition.Config {
		out := map[string]*partition.Config{}
		for topic := range s.topics.all {
			out[topic.name] = topic.cfg.Load()
		}
		return out
	}
	set := func(of metadata.ResourceType, name, key, value string) {
		next, d := change(t, img, &metadata.ConfigRecord{Kind: of, Name: name, Key: key, Value: value})
		if img = next; of == metadata.BrokerResource {
			own := s.o.Config.OwnName()
			if err := s.o.Config.SetDynamic(img.Config(of, ""), img.Config(of, own)); err != nil {
				t.Fatal(err)
			}
		}
		s.Apply(img, d)
	}
	set(metadata.TopicResource, "topic-1", "compression.type", "zstd")
	before := at()
	for _, c := range []struct {
		what, name, key, value string
		changes                bool
	}{
		{"of another broker", "7", "log.retention.ms", "5000", false},
		{"not of topics", "0", "num.io.threads", "9", false},
		{"what it is by default", "", "log.retention.ms", "604800000", false},
		{"of all brokers", "", "log.retention.ms", "5000", true},
		{"hidden by the broker's own", "0", "log.retention.ms", "5000", false},
		{"of topics with a setting of their own alone", "0", "compression.zstd.level", "9", true},
	} {
		set(metadata.BrokerResource, c.name, c.key, c.value)
		after := at()
		if maps.Equal(after, before) == c.changes {
			t.Errorf("%s: topics have changed: %v", c.what, !c.changes)
		}
		before = after
	}
	var levels []int
	for _, name := range slices.Sorted(maps.Keys(before)) {
		levels = append(levels, before[name].Level)
	}
	if !slices.Equal(levels, []int{0, 9, 0}) || before["topic-2"].Log.RetentionMS != 5000 {
		t.Errorf("levels %v, retention %d", levels, before["topic-2"].Log.RetentionMS)
	}
}
