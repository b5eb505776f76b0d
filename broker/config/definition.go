package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Type is a property's type, by DescribeConfigs' numbers.
type Type int8

// Types of properties.
const (
	Boolean  Type = 1
	String   Type = 2
	Int      Type = 3
	Short    Type = 4
	Long     Type = 5
	Double   Type = 6
	List     Type = 7
	Class    Type = 8
	Password Type = 9
)

// String is the type's name in messages.
func (t Type) String() string {
	return [...]string{"unknown", "boolean", "string", "int", "short", "long", "double", "list", "class", "password"}[t]
}

// Definition describes one property.
type Definition struct {
	Name     string
	Type     Type
	Default  string
	Null     bool     // without a default
	Valid    string   // Kafka's notation: "[0,...]", "[1,...,9] or -1", or "[one, two]"; "" takes all
	Dynamic  bool     // Kafka lets it change while the broker runs
	Doc      string   // one or two sentences
	Unused   string   // why nothing follows from a value that is given; "" when something does
	Synonyms []string // properties that stand in when this one is not given, in order
}

// check verifies that text is a value of the property. The error begins with the value.
func (d *Definition) check(text string) error {
	switch d.Type {
	case Boolean:
		if v := strings.ToLower(strings.TrimSpace(text)); v != "true" && v != "false" {
			return fmt.Errorf("%q is neither true nor false", text)
		}
	case Int, Short, Long:
		bits := map[Type]int{Int: 32, Short: 16, Long: 64}[d.Type]
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, bits)
		if err != nil {
			return fmt.Errorf("%q is not a number of type %s", text, d.Type)
		}
		return d.inRange(text, float64(n))
	case Double:
		n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) { // no bound holds NaN back: it is neither below nor above any
			return fmt.Errorf("%q is not a number", text)
		}
		return d.inRange(text, n)
	case List:
		seen := map[string]bool{}
		for _, v := range splitList(text) {
			if err := d.oneOf(v); err != nil {
				return err
			}
			if seen[v] {
				return fmt.Errorf("%q names %s twice", text, v)
			}
			seen[v] = true
		}
	default:
		return d.oneOf(text)
	}
	return nil
}

func (d *Definition) oneOf(v string) error {
	if d.Valid == "" {
		return nil
	}
	known := strings.Split(strings.Trim(d.Valid, "[]"), ", ")
	if slices.Contains(known, v) {
		return nil
	}
	return fmt.Errorf("%q is not one of %s", v, strings.Join(known, ", "))
}

// inRange reads "[low,...]", "[low,...,high]" and "[low,...,high] or -1".
func (d *Definition) inRange(text string, n float64) error {
	if d.Valid == "" {
		return nil
	}
	span, or, _ := strings.Cut(d.Valid, " or ")
	if or != "" && strings.TrimSpace(text) == or {
		return nil
	}
	parts := strings.Split(strings.Trim(span, "[]"), ",")
	low, high := math.Inf(-1), math.Inf(1)
	if v, err := strconv.ParseFloat(parts[0], 64); err == nil {
		low = v
	}
	if v, err := strconv.ParseFloat(parts[len(parts)-1], 64); err == nil && len(parts) > 2 {
		high = v
	}
	switch {
	case n < low:
		return fmt.Errorf("%s is too small: at least %s", strings.TrimSpace(text), parts[0])
	case n > high:
		return fmt.Errorf("%s is too large: at most %s", strings.TrimSpace(text), parts[len(parts)-1])
	}
	return nil
}

// splitList reads Kafka's lists: commas between, white space around entries dropped, no entries in an empty text.
func splitList(text string) []string {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil
	}
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

func find(table []Definition, name string) *Definition {
	for i := range table {
		if table[i].Name == name {
			return &table[i]
		}
	}
	return nil
}

// BrokerDefinition describes a property of the broker; nil for one that it does not honour.
func BrokerDefinition(name string) *Definition { return find(brokerTable, name) }

// TopicDefinition describes a property of a topic; nil for a name that is none.
func TopicDefinition(name string) *Definition { return find(topicTable, name) }

// BrokerDefinitions is every property of the broker that it honours. Read only.
func BrokerDefinitions() []Definition { return brokerTable }

// TopicDefinitions is every property of a topic. Read only.
func TopicDefinitions() []Definition { return topicTable }
