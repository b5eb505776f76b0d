package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/core/vfs"
)

// maxFileBytes bounds a properties file: a larger one is some other file given by mistake.
const maxFileBytes = 4 << 20

// Default is a broker's settings with nothing given.
func Default() *Broker {
	b, err := bind(map[string]string{})
	if err != nil {
		return &Broker{} // the tables' defaults are valid: a test holds them to it
	}
	return b
}

// Load reads a server.properties file (path "" reads none) and then the overrides, each name=value, which win over
// the file. Errors name file:line, or the override, and the nearest known name.
func Load(path string, overrides []string) (*Broker, []Warning, error) {
	if path == "" {
		return Parse("", nil, overrides)
	}
	file, err := vfs.ReadFile(vfs.OS{}, path, maxFileBytes)
	if err != nil {
		return nil, nil, fmt.Errorf("read the configuration: %w", err)
	}
	return Parse(path, file, overrides)
}

// given collects what was set and where, for messages.
type given struct {
	set      map[string]string
	where    map[string]string
	warnings []Warning
	problems []error
}

// Parse is Load on bytes already read; name stands for the file in messages. All problems are told at once.
func Parse(name string, file []byte, overrides []string) (*Broker, []Warning, error) {
	g := &given{set: map[string]string{}, where: map[string]string{}}
	properties, err := parseProperties(file)
	if err != nil {
		return nil, nil, fmt.Errorf("%s:%w", name, err)
	}
	for _, p := range properties {
		where := fmt.Sprintf("%s:%d", name, p.line)
		if before, twice := g.where[p.name]; twice {
			g.warn(where, p.name, "was given before at "+before+"; the later value counts")
		}
		g.take(where, p.name, p.value)
	}
	for _, o := range overrides {
		key, value, ok := strings.Cut(o, "=")
		key = strings.TrimSpace(key)
		if !ok || key == "" {
			g.problems = append(g.problems, fmt.Errorf("override %q: want name=value", o))
			continue
		}
		g.take("override "+key, key, strings.TrimSpace(value))
	}
	if len(g.problems) > 0 {
		return nil, g.warnings, errors.Join(g.problems...)
	}
	b, err := bind(g.set)
	if err != nil {
		return nil, g.warnings, g.locate(err)
	}
	if b.ControllerListenerNames != nil {
		g.warnControllerListener(b)
	}
	if _, ok := g.set[queuedMax]; !ok && b.set[queuedMax] != "" {
		const largest = "socket.request.max.bytes"
		g.warn(g.where[largest], largest, fmt.Sprintf("%s, which is not given, is raised with it to %d: set it to bound the memory of all requests",
			queuedMax, b.QueuedMaxRequestBytes))
	}
	return b, g.warnings, nil
}

func (g *given) warn(where, name, text string) {
	g.warnings = append(g.warnings, Warning{Where: where, Property: name, Text: text})
}

// take decides about one property: honoured, accepted with a warning, or refused.
func (g *given) take(where, name, value string) {
	if d := BrokerDefinition(name); d != nil {
		if err := d.check(value); err != nil {
			g.problems = append(g.problems, fmt.Errorf("%s: %s: %w", where, name, err))
			return
		}
		if d.Unused != "" {
			g.warn(where, name, "has no effect here: "+d.Unused)
		}
		g.set[name], g.where[name] = value, where
		return
	}
	g.where[name] = where
	if name == "authorizer.class.name" {
		if value != "" {
			g.problems = append(g.problems, fmt.Errorf("%s: %s: authorizers are not served, and without one every client "+
				"may do everything: remove the line if that is what you want", where, name))
		}
		return
	}
	if reason, ok := unusedReason(name); ok {
		g.warn(where, name, "has no effect here: "+reason)
		return
	}
	if near := nearest(name, knownNames()); near != "" {
		g.problems = append(g.problems, fmt.Errorf("%s: unknown property %q (did you mean %q?)", where, name, near))
		return
	}
	g.problems = append(g.problems, fmt.Errorf("%s: unknown property %q: Kafka 4 has none of that name", where, name))
}

// unusedReason says why nothing follows from one of Kafka's properties. A property for one listener alone
// (listener.name.NAME.property) is judged by the property.
func unusedReason(name string) (string, bool) {
	if rest, ok := strings.CutPrefix(name, "listener.name."); ok {
		if _, property, ok := strings.Cut(rest, "."); ok {
			parts := strings.Split(property, ".")
			for i := range parts { // a SASL mechanism may stand before the property
				of := strings.Join(parts[i:], ".")
				if reason, ok := unusedReason(of); ok {
					return reason, true
				}
				if BrokerDefinition(of) != nil {
					return "settings are not kept for each listener", true
				}
			}
		}
		return "", false
	}
	for _, group := range unusedTable {
		for _, n := range group.Names {
			if n == name {
				return group.Reason, true
			}
		}
	}
	if strings.HasPrefix(name, "rsm.config.") || strings.HasPrefix(name, "rlmm.config.") {
		return "tiered storage is not served", true
	}
	return "", false
}

func knownNames() []string {
	var names []string
	for i := range brokerTable {
		names = append(names, brokerTable[i].Name)
	}
	for _, group := range unusedTable {
		names = append(names, group.Names...)
	}
	return names
}

// propertyError is a value that does not go with the others.
type propertyError struct {
	name, text string
}

func (e *propertyError) Error() string { return e.name + ": " + e.text }

// locate puts where the property stands in front of a propertyError.
func (g *given) locate(err error) error {
	var p *propertyError
	if !errors.As(err, &p) {
		return err
	}
	if where, ok := g.where[p.name]; ok {
		return fmt.Errorf("%s: %w", where, err)
	}
	return err
}

// resolve is the text that counts for a property: its own, a synonym's, or a default. Null is reported by false.
func resolve(set map[string]string, d *Definition) (text string, ok bool) {
	if v, ok := set[d.Name]; ok {
		return v, true
	}
	for _, s := range d.Synonyms {
		if v, ok := set[s]; ok {
			return inUnitsOf(d.Name, s, v), true
		}
	}
	if !d.Null {
		return d.Default, true
	}
	for _, s := range d.Synonyms {
		if sd := find(brokerTable, s); sd != nil && !sd.Null {
			return inUnitsOf(d.Name, s, sd.Default), true
		}
	}
	return "", false
}

// inUnitsOf turns a synonym's hours or minutes into the milliseconds of the property that it stands in for. Negative
// times, which mean "for ever", stay what they are.
func inUnitsOf(name, synonym, text string) string {
	factor := int64(1)
	switch {
	case !strings.HasSuffix(name, ".ms"):
		return text
	case strings.HasSuffix(synonym, ".hours"):
		factor = 3600_000
	case strings.HasSuffix(synonym, ".minutes"):
		factor = 60_000
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 0 {
		return text
	}
	return strconv.FormatInt(n*factor, 10)
}

// bind makes the settings of a start from checked texts.
func bind(set map[string]string) (*Broker, error) {
	b, err := bindLayers(layers{static: set})
	if err != nil {
		return nil, err
	}
	b.live = &live{}
	return b, nil
}

// bindSet makes the struct from checked texts and then checks what only shows when values stand together.
func bindSet(set map[string]string) (*Broker, error) {
	b := &Broker{set: set}
	v := reflect.ValueOf(b).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("property")
		if name == "" {
			continue
		}
		if text, ok := resolve(set, BrokerDefinition(name)); ok {
			setField(v.Field(i), text)
		}
	}
	if err := b.validate(); err != nil {
		return nil, err
	}
	b.bindTopicDefaults()
	return b, nil
}

// setField stores a text that check has accepted.
func setField(f reflect.Value, text string) {
	trimmed := strings.TrimSpace(text)
	switch f.Kind() {
	case reflect.Bool:
		f.SetBool(strings.EqualFold(trimmed, "true"))
	case reflect.Int16, reflect.Int32, reflect.Int64:
		n, _ := strconv.ParseInt(trimmed, 10, 64)
		f.SetInt(n)
	case reflect.Float64:
		x, _ := strconv.ParseFloat(trimmed, 64)
		f.SetFloat(x)
	case reflect.Slice:
		f.Set(reflect.ValueOf(splitList(text)))
	default:
		f.SetString(text)
	}
}
