package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func entryOf(entries []Entry, name string) string {
	for _, e := range entries {
		if e.Definition.Name == name {
			text := fmt.Sprintf("%s from %d", e.Value, e.Source)
			for _, s := range e.Synonyms {
				text += fmt.Sprintf(", %s=%s from %d", s.Name, s.Value, s.Source)
			}
			return text
		}
	}
	return "none"
}

// TestSettingsMadeAtRunTime: this broker's before those of all brokers, these before those given at start; topics follow.
func TestSettingsMadeAtRunTime(t *testing.T) {
	b, _, err := Parse("", nil, []string{"log.retention.hours=2", "message.max.bytes=1000"})
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, wantRetention int64, wantMax int32, wantEntry string) {
		t.Helper()
		now := b.Now()
		if got := now.TopicDefaults(); now.LogRetentionMS != wantRetention || got.RetentionMS != wantRetention || now.MessageMaxBytes != wantMax || got.MaxMessageBytes != wantMax {
			t.Errorf("%s: retention %d and %d, largest message %d and %d", what, now.LogRetentionMS, got.RetentionMS, now.MessageMaxBytes, got.MaxMessageBytes)
		}
		if got := entryOf(now.Describe(), "message.max.bytes"); got != wantEntry {
			t.Errorf("%s: message.max.bytes is %s, want %s", what, got, wantEntry)
		}
	}
	tail := "message.max.bytes=1000 from 4, message.max.bytes=1048588 from 5"
	check("start", 7200_000, 1000, "1000 from 4, "+tail)
	set := func(cluster, own map[string]string) {
		t.Helper()
		if err := b.SetDynamic(cluster, own); err != nil {
			t.Fatal(err)
		}
	}
	set(map[string]string{"message.max.bytes": "2000", "log.retention.ms": "5"}, nil)
	check("all brokers", 5, 2000, "2000 from 3, message.max.bytes=2000 from 3, "+tail)
	set(map[string]string{"message.max.bytes": "2000"}, map[string]string{"message.max.bytes": "3000"})
	check("this broker", 7200_000, 3000, "3000 from 2, message.max.bytes=3000 from 2, message.max.bytes=2000 from 3, "+tail)
	if topic, err := b.Now().Topic(map[string]string{"max.message.bytes": "7"}); err != nil || topic.MaxMessageBytes != 7 {
		t.Errorf("a topic's own setting: %d, %v", topic.MaxMessageBytes, err)
	}
	if got := entryOf(b.Now().DescribeAll(), "message.max.bytes"); got != "2000 from 3, message.max.bytes=2000 from 3" {
		t.Errorf("settings of all brokers: %s", got)
	}
	set(map[string]string{"num.io.threads": "9"}, nil)
	if got := entryOf(b.Now().Describe(), "num.io.threads"); got != "9 from 3, num.io.threads=9 from 3" {
		t.Errorf("a setting without effect: %s", got)
	}
	if err := b.SetDynamic(nil, map[string]string{"message.max.bytes": "many"}); err == nil {
		t.Error("a wrong value was taken")
	}
	set(nil, nil)
	check("nothing left", 7200_000, 1000, "1000 from 4, "+tail)
}

func TestCheckDynamic(t *testing.T) {
	for _, c := range []struct{ name, value, warning, err string }{
		{"log.retention.ms", "7", "", ""},
		{"log.retention.ms", "soon", "", `invalid value: "soon" is not a number`},
		{"log.retention.msec", "7", "", `did you mean "log.retention.ms"?`},
		{"log.dirs", "/d", "", "start the broker anew"},
		{"num.io.threads", "9", "no thread pools", ""},
		{"broker.heartbeat.interval.ms", "9", "", "start the broker anew"},
		{"ssl.key.password", "secret", "", "start the broker anew"},
		{"unclean.leader.election.enable", "true", "between brokers only", ""},
	} {
		warning, err := CheckDynamic(c.name, c.value)
		text := fmt.Sprint(err)
		if (err != nil) != (c.err != "") || !strings.Contains(text, c.err) && c.err != "" || !strings.Contains(warning, c.warning) || (warning != "") != (c.warning != "") {
			t.Errorf("%s=%s: warning %q, error %q", c.name, c.value, warning, text)
		}
		if readOnly := (*ReadOnlyError)(nil); errors.As(err, &readOnly) != strings.Contains(c.err, "anew") {
			t.Errorf("%s: %T", c.name, err)
		}
	}
}

// TestIdleTopicSettings: a topic's setting is idle when it says so itself, or when the broker's that it falls back to is.
func TestIdleTopicSettings(t *testing.T) {
	for name, idle := range map[string]bool{"retention.ms": false, "remote.copy.lag.ms": true, "unclean.leader.election.enable": true,
		"leader.replication.throttled.replicas": true, "no.such.setting": false} {
		if got := TopicIdle(name); (got != "") != idle {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestWhatKafkasCleanerMayChangeAtRunTime: every property of Kafka's LogCleaner.RECONFIGURABLE_CONFIGS may be altered.
func TestWhatKafkasCleanerMayChangeAtRunTime(t *testing.T) {
	for name, value := range map[string]string{
		"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "2000000", "log.cleaner.io.buffer.load.factor": "0.5",
		"log.cleaner.io.buffer.size": "1000", "message.max.bytes": "1000", "log.cleaner.io.max.bytes.per.second": "1000",
		"log.cleaner.backoff.ms": "77",
	} {
		if _, err := CheckDynamic(name, value); err != nil {
			t.Error(err)
		}
	}
	b, _, err := Parse("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.SetDynamic(map[string]string{"log.cleaner.backoff.ms": "77"}, nil); err != nil || b.Now().LogCleanerBackoffMS != 77 {
		t.Error(b.Now().LogCleanerBackoffMS, err)
	}
}

// TestTheListsOfPropertiesAgree: a property has a row of its own or is one of those without effect, and what may change among the
// latter is among them.
func TestTheListsOfPropertiesAgree(t *testing.T) {
	for _, u := range unusedTable {
		for _, name := range u.Names {
			if BrokerDefinition(name) != nil {
				t.Errorf("%s has an effect, and is in the list of those without", name)
			}
		}
	}
	for _, name := range unusedDynamic {
		if _, ok := unusedReason(name); !ok {
			t.Errorf("%s may change, and is not in the list of those without effect", name)
		}
	}
}
