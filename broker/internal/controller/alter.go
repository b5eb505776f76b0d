package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/broker/config"
	"github.com/tidemark/tidemark/broker/internal/metadata"
	"github.com/tidemark/tidemark/core/kafka"
)

// ConfigOp is what becomes of a setting, by IncrementalAlterConfigs' numbers.
type ConfigOp int8

// Operations on a setting. Append and Subtract are for lists.
const (
	SetConfig      ConfigOp = 0
	DeleteConfig   ConfigOp = 1
	AppendConfig   ConfigOp = 2
	SubtractConfig ConfigOp = 3
)

// ConfigChange changes one setting.
type ConfigChange struct {
	Key   string
	Op    ConfigOp
	Value string // of all but DeleteConfig
}

// ConfigAlteration changes settings of one resource: a topic, a broker by its id, or, as the broker named "", all brokers.
type ConfigAlteration struct {
	Kind    metadata.ResourceType
	Name    string
	Changes []ConfigChange
	Replace bool // settings that Changes does not name go
}

// ConfigResult is the answer for one resource.
type ConfigResult struct {
	Err      kafka.ErrorCode
	Text     string   // "" without error
	Warnings []string // settings that were taken although nothing follows from them
}

// AlterConfigs changes settings, each resource on its own and whole or not at all. validateOnly commits nothing. The
// results stand in the order of the resources.
func (c *Controller) AlterConfigs(ctx context.Context, alterations []ConfigAlteration, validateOnly bool) []ConfigResult {
	var out []ConfigResult
	submit := c.submit
	if small(alterations) {
		submit = c.submitFreeing
	}
	_, err := submit(ctx, func(d *decision) {
		if validateOnly {
			d = d.scratch()
		}
		out = make([]ConfigResult, len(alterations))
		for i := range alterations {
			out[i] = decideAlter(d, &alterations[i])
		}
	})
	if err == nil {
		return out
	}
	failed := make([]ConfigResult, len(alterations))
	for i := range failed {
		failed[i] = ConfigResult{Err: codeOf(err), Text: err.Error()}
	}
	return failed
}

// decideAlter decides on one resource.
func decideAlter(d *decision, a *ConfigAlteration) ConfigResult {
	if a.Kind == metadata.TopicResource && d.image.Topic(a.Name) == nil {
		return ConfigResult{Err: kafka.UnknownTopicOrPartition, Text: fmt.Sprintf("The topic '%.*s' does not exist.", kafka.MaxTopicNameLength, a.Name)}
	}
	if a.Kind == metadata.BrokerResource && a.Name != "" {
		own, bad := d.ownName(a.Name)
		if bad.Err != kafka.None {
			return bad
		}
		named := *a
		named.Name, a = own, &named
	}
	before := d.image.Config(a.Kind, a.Name)
	after, bad := a.apply(before)
	if bad.Err != kafka.None {
		return bad
	}
	result := d.judge(a, after)
	if result.Err != kafka.None {
		return result
	}
	var group []metadata.Record
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, stays := after[key]; !stays {
			group = append(group, &metadata.ConfigRecord{Kind: a.Kind, Name: a.Name, Key: key, Remove: true})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if was, ok := before[key]; !ok || was != after[key] {
			group = append(group, &metadata.ConfigRecord{Kind: a.Kind, Name: a.Name, Key: key, Value: after[key]})
		}
	}
	if settingBytes(a.Name, after) > settingBytes(a.Name, before) && d.tooLarge(group) {
		return ConfigResult{Err: kafka.PolicyViolation, Text: imageFull}
	}
	if len(group) > 0 {
		d.add(group...)
	}
	return result
}

// maxValueBytes bounds one setting: it is kept in memory and in each snapshot.
const maxValueBytes = 256 << 10

// checkValue checks what a client gives a setting, of which a resource's other settings say nothing.
func checkValue(kind metadata.ResourceType, key, value string) error {
	if n := len(value); n > maxValueBytes {
		return fmt.Errorf("%.100s: %d bytes are too many: at most %d", key, n, maxValueBytes)
	}
	if kind == metadata.TopicResource {
		return config.CheckTopicChange(key, value)
	}
	return nil
}

// settingBytes is what a resource's settings take in a snapshot, where each has a record that repeats the resource's name; but for the
// records' lengths and kinds, which are as long for a setting that replaces another.
func settingBytes(name string, settings map[string]string) (n int) {
	for key, value := range settings {
		n += recordHeadBytes + len(name) + len(key) + len(value)
	}
	return n
}

// ownName is this broker's name as a resource, by which its settings are kept, for a number that means it.
func (d *decision) ownName(name string) (string, ConfigResult) {
	const mostDigits = 10
	digit := func(r rune) bool { return r >= '0' && r <= '9' }
	id, err := strconv.ParseInt(name[:min(len(name), mostDigits)], 10, 32)
	if len(name) > mostDigits || err != nil || strings.TrimLeftFunc(name, digit) != "" {
		return "", ConfigResult{Err: kafka.InvalidRequest, Text: fmt.Sprintf("Broker id must be an integer, but it is: %.100s", name)}
	}
	own := d.config.OwnName()
	if strconv.FormatInt(id, 10) != own {
		return "", ConfigResult{Err: kafka.InvalidRequest, Text: fmt.Sprintf("Unexpected broker id, expected %s or empty string, but received %s", own, name)}
	}
	return own, ConfigResult{}
}

// apply carries the changes out on a resource's settings, which stay as they are.
func (a *ConfigAlteration) apply(before map[string]string) (map[string]string, ConfigResult) {
	after := map[string]string{}
	if !a.Replace {
		maps.Copy(after, before)
	}
	seen := map[string]bool{}
	for _, change := range a.Changes {
		if seen[change.Key] {
			return nil, ConfigResult{Err: kafka.InvalidRequest, Text: "Error due to duplicate config keys: " + change.Key}
		}
		seen[change.Key] = true
		switch change.Op {
		case SetConfig:
			after[change.Key] = change.Value
		case DeleteConfig:
			delete(after, change.Key)
		case AppendConfig, SubtractConfig:
			text, set := after[change.Key]
			parts, ok := a.list(change.Key, text, set)
			if !ok {
				return nil, ConfigResult{Err: kafka.InvalidConfig, Text: fmt.Sprintf("%s: its type is not list: it can be set or deleted, "+
					"not appended to or subtracted from", change.Key)}
			}
			after[change.Key] = combine(parts, change)
		default:
			return nil, ConfigResult{Err: kafka.InvalidRequest, Text: fmt.Sprintf("%s: unknown operation %d", change.Key, change.Op)}
		}
		if err := checkValue(a.Kind, change.Key, after[change.Key]); err != nil {
			return nil, ConfigResult{Err: kafka.InvalidConfig, Text: err.Error()}
		}
	}
	return after, ConfigResult{}
}

// list is what a property that is a list holds.
func (a *ConfigAlteration) list(key, text string, set bool) ([]string, bool) {
	d := config.BrokerDefinition(key)
	if a.Kind == metadata.TopicResource {
		d = config.TopicDefinition(key)
	}
	if d == nil {
		return nil, false
	}
	return d.ListValue(text, set)
}

// combine appends to a list what it does not hold, or takes out what it holds.
func combine(parts []string, change ConfigChange) string {
	have, named := map[string]bool{}, map[string]bool{}
	for _, p := range parts {
		have[p] = true
	}
	for _, v := range strings.Split(change.Value, ",") {
		v = strings.TrimSpace(v)
		if named[v] = true; change.Op == AppendConfig && v != "" && !have[v] {
			have[v] = true
			parts = append(parts, v)
		}
	}
	if change.Op == SubtractConfig {
		parts = slices.DeleteFunc(parts, func(p string) bool { return named[p] })
	}
	return strings.Join(parts, ",")
}

// judge says whether a resource may have the given settings, and which of those that the request names have no effect.
func (d *decision) judge(a *ConfigAlteration, after map[string]string) (r ConfigResult) {
	var err error
	switch {
	case a.Kind == metadata.TopicResource:
		_, err = d.config.Topic(after)
	case a.Name == "":
		_, err = d.config.With(after, d.image.Config(metadata.BrokerResource, d.config.OwnName()))
	default:
		_, err = d.config.With(d.image.Config(metadata.BrokerResource, ""), after)
	}
	if err != nil {
		r.Err, r.Text = kafka.InvalidConfig, err.Error()
		if a.Kind == metadata.BrokerResource { // as Kafka tells the two apart
			r.Err = kafka.InvalidRequest
		}
		return r
	}
	for _, change := range a.Changes {
		value, ok := after[change.Key]
		if !ok {
			continue // gone, or, as in Kafka, never known
		}
		idle := config.TopicIdle(change.Key)
		if a.Kind == metadata.BrokerResource {
			idle, _ = config.CheckDynamic(change.Key, value)
		}
		if idle != "" {
			r.Warnings = append(r.Warnings, change.Key+" has no effect here: "+idle)
		}
	}
	return r
}
