package config

import (
	"fmt"
	"reflect"
	"strings"
)

// TopicError is a topic's setting that is wrong: Kafka's INVALID_CONFIG in words.
type TopicError struct {
	Property string
	Text     string
}

// Error says which setting is wrong and why.
func (e *TopicError) Error() string { return e.Property + ": " + e.Text }

// bindTopicDefaults fills the settings of a topic that sets nothing from the broker's.
func (b *Broker) bindTopicDefaults() {
	v := reflect.ValueOf(&b.defaults).Elem()
	for i := range v.NumField() {
		d := TopicDefinition(v.Type().Field(i).Tag.Get("property"))
		text := d.Default
		if len(d.Synonyms) > 0 {
			if s, ok := resolve(b.set, BrokerDefinition(d.Synonyms[0])); ok {
				text = s
			}
		}
		setField(v.Field(i), text)
	}
	b.defaults.RetentionMS = max(b.defaults.RetentionMS, -1)
}

// Topic is the settings of a topic with the given settings of its own, property name to text. The error is a
// *TopicError.
func (b *Broker) Topic(over map[string]string) (Topic, error) {
	t := b.defaults
	if len(over) == 0 {
		return t, nil
	}
	if err := ValidateTopic(over); err != nil {
		return t, err
	}
	v := reflect.ValueOf(&t).Elem()
	for i := range v.NumField() {
		if text, ok := over[v.Type().Field(i).Tag.Get("property")]; ok {
			setField(v.Field(i), text)
		}
	}
	if t.MinCompactionLagMS > t.MaxCompactionLagMS {
		return t, &TopicError{"min.compaction.lag.ms", fmt.Sprintf("%d is more than max.compaction.lag.ms, %d",
			t.MinCompactionLagMS, t.MaxCompactionLagMS)}
	}
	return t, nil
}

// ValidateTopic checks each of a topic's own settings by itself. The error is a *TopicError.
func ValidateTopic(over map[string]string) error {
	for name, text := range over {
		d := TopicDefinition(name)
		if d == nil {
			return &TopicError{name, unknownTopicSetting(name)}
		}
		if err := d.check(text); err != nil {
			return &TopicError{name, "invalid value: " + err.Error()}
		}
		if name == "remote.storage.enable" && strings.EqualFold(strings.TrimSpace(text), "true") {
			return &TopicError{name, "tiered storage is not served: only false is taken"}
		}
	}
	return nil
}

// CheckTopicChange checks what a client gives a setting of a topic beyond what ValidateTopic asks: what an older broker has
// stored is not to make a topic's other settings void. The error is a *TopicError.
func CheckTopicChange(name, text string) error {
	if name != "leader.replication.throttled.replicas" && name != "follower.replication.throttled.replicas" || strings.TrimSpace(text) == "*" {
		return nil
	}
	for _, replica := range splitList(text) {
		partition, broker, ok := strings.Cut(replica, ":")
		if replica != "" && (!ok || !digits(partition) || !digits(broker)) {
			return &TopicError{name, fmt.Sprintf("%.40q is no replica: give * or a list of partition:broker, such as 0:1,1:1", replica)}
		}
	}
	return nil
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// removedTopicSettings are names that Kafka knew before 4.0, and what to do without them.
var removedTopicSettings = map[string]string{
	"message.format.version":              "records are always stored in the newest format; leave it out",
	"message.downconversion.enable":       "no client that needs it is served any more; leave it out",
	"message.timestamp.difference.max.ms": "use message.timestamp.before.max.ms and message.timestamp.after.max.ms",
}

func unknownTopicSetting(name string) string {
	if advice, ok := removedTopicSettings[name]; ok {
		return "unknown topic config name: removed in Kafka 4.0; " + advice
	}
	if n := nearest(strings.ToLower(name), topicNames()); n != "" {
		return fmt.Sprintf("unknown topic config name (did you mean %q?)", n)
	}
	return "unknown topic config name"
}

func topicNames() []string {
	names := make([]string, len(topicTable))
	for i := range topicTable {
		names[i] = topicTable[i].Name
	}
	return names
}
