package config

import (
	"maps"
	"slices"
	"strings"
)

// Source says where a value comes from, by DescribeConfigs' numbers.
type Source int8

// Sources of values.
const (
	DynamicTopicSource         Source = 1
	DynamicBrokerSource        Source = 2
	DynamicDefaultBrokerSource Source = 3
	StaticBrokerSource         Source = 4
	DefaultSource              Source = 5
)

// Synonym is one place from which a value could come.
type Synonym struct {
	Name, Value string
	Source      Source
}

// Entry is one property as DescribeConfigs tells it.
type Entry struct {
	Definition *Definition
	Value      string
	Null       bool // no value at all
	ReadOnly   bool
	Source     Source
	Synonyms   []Synonym // in order of precedence, the one that counts first
}

// Describe tells the broker's properties, in the table's order, and then those without effect that were set at run time.
func (b *Broker) Describe() []Entry {
	out := make([]Entry, 0, len(brokerTable))
	for i := range brokerTable {
		d := &brokerTable[i]
		e := Entry{Definition: d, ReadOnly: !d.Dynamic, Synonyms: b.synonyms(d), Source: DefaultSource}
		if v, ok := b.set[d.Name]; ok {
			e.Value = normal(d, v)
		} else {
			e.Value, e.Null = normal(d, d.Default), d.Null
		}
		if len(e.Synonyms) > 0 {
			e.Source = e.Synonyms[0].Source
		}
		out = append(out, e)
	}
	idle := maps.Clone(b.from.cluster)
	if idle == nil {
		idle = map[string]string{}
	}
	maps.Copy(idle, b.from.own)
	for _, name := range slices.Sorted(maps.Keys(idle)) {
		if BrokerDefinition(name) == nil {
			e := Entry{Definition: idleDefinition(name), Value: idle[name], Synonyms: b.given(name)}
			e.Source = e.Synonyms[0].Source
			out = append(out, e)
		}
	}
	return out
}

// DescribeAll tells what was set at run time for all brokers.
func (b *Broker) DescribeAll() []Entry {
	var out []Entry
	for _, name := range slices.Sorted(maps.Keys(b.from.cluster)) {
		d := BrokerDefinition(name)
		if d == nil {
			d = idleDefinition(name)
		}
		v := normal(d, b.from.cluster[name])
		out = append(out, Entry{Definition: d, Value: v, Source: DynamicDefaultBrokerSource, Synonyms: []Synonym{{name, v, DynamicDefaultBrokerSource}}})
	}
	return out
}

// idleDefinition describes one of Kafka's properties that nothing follows from here.
func idleDefinition(name string) *Definition {
	reason, _ := unusedReason(name)
	return &Definition{Name: name, Type: String, Dynamic: true, Unused: reason, Doc: "Has no effect here: " + reason + "."}
}

// given lists the values that were given for one property.
func (b *Broker) given(name string) (out []Synonym) {
	d := BrokerDefinition(name)
	if d == nil {
		d = idleDefinition(name)
	}
	for _, l := range []struct {
		set    map[string]string
		source Source
	}{{b.from.own, DynamicBrokerSource}, {b.from.cluster, DynamicDefaultBrokerSource}, {b.from.static, StaticBrokerSource}} {
		if v, ok := l.set[name]; ok {
			out = append(out, Synonym{name, normal(d, v), l.source})
		}
	}
	return out
}

// DescribeTopic tells the properties of a topic with the given settings of its own.
func (b *Broker) DescribeTopic(over map[string]string) []Entry {
	out := make([]Entry, 0, len(topicTable))
	for i := range topicTable {
		d := &topicTable[i]
		e := Entry{Definition: d, Value: d.Default, Source: DefaultSource}
		if len(d.Synonyms) > 0 {
			if s := BrokerDefinition(d.Synonyms[0]); s != nil {
				e.Synonyms = b.synonyms(s)
				if v, ok := resolve(b.set, s); ok {
					e.Value = v
				}
			}
		}
		if v, ok := over[d.Name]; ok {
			e.Value = v
			e.Synonyms = append([]Synonym{{d.Name, normal(d, v), DynamicTopicSource}}, e.Synonyms...)
		}
		e.Value = normal(d, e.Value)
		if len(e.Synonyms) > 0 {
			e.Source = e.Synonyms[0].Source
		}
		out = append(out, e)
	}
	return out
}

// synonyms lists what was given for a broker's property and those that stand in for it, and then their defaults.
func (b *Broker) synonyms(d *Definition) []Synonym {
	names := append([]string{d.Name}, d.Synonyms...)
	var out []Synonym
	for _, n := range names {
		out = append(out, b.given(n)...)
	}
	for _, n := range names {
		if s := BrokerDefinition(n); !s.Null {
			out = append(out, Synonym{n, normal(s, s.Default), DefaultSource})
		}
	}
	return out
}

// normal is a value as Kafka prints it.
func normal(d *Definition, v string) string {
	switch d.Type {
	case String, Class, Password:
		return v
	case List:
		return strings.Join(splitList(v), ",")
	case Boolean:
		return strings.ToLower(strings.TrimSpace(v))
	default:
		return strings.TrimSpace(v)
	}
}
