package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
)

// live is shared by all versions of one broker's settings: the newest of them.
type live struct{ now atomic.Pointer[Broker] }

// layers are the places that a broker's settings come from, the strongest first: set at run time for this broker, set at
// run time for all brokers, given at start.
type layers struct{ own, cluster, static map[string]string }

// Now is the settings in force: b with what SetDynamic took last. Whoever acts on a property that may change while the
// broker runs asks for it each time. Any goroutine.
func (b *Broker) Now() *Broker {
	if b.live != nil {
		if n := b.live.now.Load(); n != nil {
			return n
		}
	}
	return b
}

// With is the settings with others set at run time: for all brokers, and for this one alone, which win. Both may hold
// properties that have no effect here. The error names what is wrong; b does not change.
func (b *Broker) With(cluster, own map[string]string) (*Broker, error) {
	for _, m := range []map[string]string{cluster, own} {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if _, err := CheckDynamic(name, m[name]); err != nil {
				return nil, err
			}
		}
	}
	return bindLayers(layers{own: maps.Clone(own), cluster: maps.Clone(cluster), static: b.from.static})
}

// SetDynamic makes the settings of With those that Now gives, on b and on every version of it. After an error the ones in
// force stay.
func (b *Broker) SetDynamic(cluster, own map[string]string) error {
	next, err := b.With(cluster, own)
	if err != nil {
		return err
	}
	next.live = b.live
	b.live.now.Store(next)
	return nil
}

// ReadOnlyError is a property of the broker that takes effect at start only.
type ReadOnlyError struct{ Property string }

// Error says what to do instead.
func (e *ReadOnlyError) Error() string {
	return e.Property + ": cannot be changed while the broker runs; set it in server.properties and start the broker anew"
}

// CheckDynamic judges one property of the broker that is to be set at run time. warning says why nothing follows from it,
// "" when something does. The error is a *ReadOnlyError, or says what is wrong with name or value.
func CheckDynamic(name, value string) (warning string, err error) {
	d := BrokerDefinition(name)
	if d == nil {
		reason, ok := unusedReason(name)
		switch {
		case slices.Contains(unusedDynamic, name):
			return reason, nil
		case ok:
			return "", &ReadOnlyError{name}
		}
		near := ""
		if n := nearest(name, knownNames()); n != "" {
			near = fmt.Sprintf(" (did you mean %q?)", n)
		}
		return "", wrong(name, "unknown broker config name%s", near)
	}
	if !d.Dynamic {
		return "", &ReadOnlyError{name}
	}
	if err := d.check(value); err != nil {
		return "", wrong(name, "invalid value: %s", err)
	}
	return d.Unused, nil
}

// TopicIdle says why nothing follows from a topic's property, "" when something does.
func TopicIdle(name string) string {
	d := TopicDefinition(name)
	if d == nil || d.Unused != "" || len(d.Synonyms) == 0 {
		if d == nil {
			return ""
		}
		return d.Unused
	}
	return BrokerDefinition(d.Synonyms[0]).Unused
}

// ListValue reports whether a property is a list, and what it holds by default: what is appended to where nothing is set.
func (d *Definition) ListValue(text string, set bool) (parts []string, ok bool) {
	if d.Type != List {
		return nil, false
	}
	if !set {
		text = d.Default
	}
	return splitList(text), true
}

// OwnName is the name of this broker as a config resource.
func (b *Broker) OwnName() string { return strconv.Itoa(int(b.NodeID)) }

// bindLayers makes the settings that layers add up to.
func bindLayers(from layers) (*Broker, error) {
	set := maps.Clone(from.static)
	for _, m := range []map[string]string{from.cluster, from.own} {
		for name, text := range m {
			if BrokerDefinition(name) != nil {
				set[name] = text
			}
		}
	}
	b, err := bindSet(set)
	if err != nil {
		return nil, err
	}
	b.from = from
	return b, nil
}
