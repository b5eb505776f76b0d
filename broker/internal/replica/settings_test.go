package replica

import (
	"log/slog"
	"testing"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/core/commitlog"
)

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

// A log that nobody has used since the start is looked at for the same reasons as one that is open.
func TestAnIdleLogExpiresAsAnOpenOneDoes(t *testing.T) {
	const now, day = 1_700_000_000_000, 86_400_000
	keeps := commitlog.Config{RetentionMS: -1, RetentionBytes: -1, DeleteOnRetention: true}
	week := keeps
	week.RetentionMS = 7 * day
	compacts := week
	compacts.DeleteOnRetention = false
	of := func(timestamp, written int64) *commitlog.Summary {
		return &commitlog.Summary{Segments: []commitlog.Segment{{Size: 100, MaxTimestamp: timestamp, LastWriteMS: written}, {Base: 5, Size: 10}}, End: 9}
	}
	deleted := of(now, now)
	deleted.Start = 5
	for what, c := range map[string]struct {
		cfg  commitlog.Config
		sum  *commitlog.Summary
		want bool
	}{
		"young":                                  {week, of(now-day, now-day), false},
		"old":                                    {week, of(now-8*day, now-8*day), true},
		"old by its timestamps, written lately":  {week, of(now-8*day, now), true},
		"old, with timestamps of the far future": {week, of(now+100*day, now-8*day), true},
		"old, without timestamps":                {week, of(-1, now-8*day), true},
		"old, compacted alone":                   {compacts, of(now-8*day, now-8*day), false},
		"kept, and deleted up to its second":     {keeps, deleted, true},
		"kept":                                   {keeps, of(now-8*day, now-8*day), false},
	} {
		if got := expires(&c.cfg, c.sum, now); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}
