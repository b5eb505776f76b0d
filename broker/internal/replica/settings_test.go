package replica

import (
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
