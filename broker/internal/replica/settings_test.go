package replica

import (
	"log/slog"
	"testing"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/core/commitlog"
)

// A compacted topic takes no batch that compaction could not open.
func TestACompactedTopicTakesWhatCompactionOpens(t *testing.T) {
	for _, c := range []struct {
		policy string
		limit  int32
		want   int
	}{{"delete", 1 << 30, 1 << 30}, {"compact", 1 << 30, commitlog.MaxOpenedBatch}, {"compact", 1000, 1000}} {
		topic := config.Topic{CleanupPolicy: []string{c.policy}, MaxDecompressedMessageBytes: c.limit}
		if got := Settings(&topic, &config.Broker{}).MaxDecompressed; got != c.want {
			t.Errorf("%s with a limit of %d takes %d, want %d", c.policy, c.limit, got, c.want)
		}
	}
}

// A setting that is wrong, or that contradicts what the broker's have become, takes none of a topic's others away.
func TestATopicKeepsItsOtherSettings(t *testing.T) {
	cfg, _, err := config.Load("", []string{"log.cleaner.max.compaction.lag.ms=60000"})
	if err != nil {
		t.Fatal(err)
	}
	s := &Set{o: Options{Logger: slog.New(slog.DiscardHandler), Config: cfg}}
	for _, own := range []map[string]string{
		{"cleanup.policy": "compact", "min.compaction.lag.ms": "3600000"},
		{"cleanup.policy": "compact", "retention.ms": "never", "an.unknown.one": "1"},
	} {
		if got := s.effective(cfg, "t", own).Log; !got.Compact || got.DeleteOnRetention {
			t.Errorf("%v: compacted %v, deleted by retention %v", own, got.Compact, got.DeleteOnRetention)
		}
	}
}
