package workload

import (
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// Parse reads a workload file over Default. It does not validate, so that flags may still change what the file says:
// call Validate when all is set. name stands in errors, which are *Problem.
func Parse(name string, text []byte) (*Spec, error) {
	s := Default()
	places, err := Decode(name, text, &s)
	if err != nil {
		return nil, err
	}
	s.file, s.places = name, places
	if s.Question == Capacity && s.places["rate"] == (Place{}) {
		s.Rate = 0
	}
	return &s, nil
}

// Marshal prints the whole Spec as YAML that Parse reads back to the same.
func (s *Spec) Marshal() []byte {
	var fields yaml.MapSlice
	for _, f := range specFields(s) {
		if f.optional && f.value.IsZero() {
			continue
		}
		fields = append(fields, yaml.MapItem{Key: f.name, Value: f.value.Interface()})
	}
	b, err := yaml.MarshalWithOptions(fields, yaml.Flow(false))
	if err != nil { // every field is a scalar, a list of numbers or a map of strings
		return fmt.Appendf(nil, "# bug: %v\n", err)
	}
	return b
}

// Hash identifies the settings: SHA-256 of Marshal without Name, Prefix and Seed, which do not change what is asked.
func (s *Spec) Hash() string {
	c := *s
	c.Name, c.Prefix, c.Seed = "", "", 0
	sum := sha256.Sum256(c.Marshal())
	return hex.EncodeToString(sum[:])
}

// MarshalJSON prints the fields under their YAML names, in order, text for the types that have units.
func (s Spec) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for _, f := range specFields(&s) {
		if f.optional && f.value.IsZero() {
			continue
		}
		v, err := json.Marshal(f.value.Interface())
		if err != nil {
			return nil, fmt.Errorf("workload field %s: %w", f.name, err)
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(strconv.AppendQuote(b, f.name), ':')
		b = append(b, v...)
	}
	return append(b, '}'), nil
}

// UnmarshalJSON reads what MarshalJSON prints; unknown fields (of a later version) are ignored.
func (s *Spec) UnmarshalJSON(b []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	for _, f := range specFields(s) {
		if v, ok := raw[f.name]; ok {
			if err := json.Unmarshal(v, f.value.Addr().Interface()); err != nil {
				return fmt.Errorf("workload field %s: %w", f.name, err)
			}
		}
	}
	return nil
}

// field is one setting of a Spec, bound to its value.
type field struct {
	name, help string
	optional   bool
	value      reflect.Value
}

func specFields(s *Spec) []field {
	v := reflect.ValueOf(s).Elem()
	out := make([]field, 0, v.NumField())
	for i := range v.NumField() {
		t := v.Type().Field(i)
		name, opt, _ := strings.Cut(t.Tag.Get("yaml"), ",")
		if name != "" {
			out = append(out, field{name, t.Tag.Get("help"), opt == "omitempty", v.Field(i)})
		}
	}
	return out
}

// Fields lists the names of all settings, in the order of the struct.
func Fields() []string {
	var s Spec
	var names []string
	for _, f := range specFields(&s) {
		names = append(names, f.name)
	}
	return names
}

// Set gives the named setting the value that text says, as a flag or an axis of a matrix does: Set("linger", "5ms"),
// Set("groups", "3,1"), Set("topic-configs", "retention.ms=1000,cleanup.policy=delete"). The error is a *Problem that
// names the nearest setting.
func (s *Spec) Set(name, text string) error {
	for _, f := range specFields(s) {
		if f.name == name {
			if err := f.set(text); err != nil {
				return &Problem{Field: name, Text: name + ": " + err.Error()}
			}
			delete(s.places, name)
			return nil
		}
	}
	return &Problem{Field: name, Text: fmt.Sprintf("unknown setting %q%s", name, didYouMean(name, Fields()))}
}

// Get is the text of the named setting, as Set takes it.
func (s *Spec) Get(name string) (string, bool) {
	for _, f := range specFields(s) {
		if f.name == name {
			return f.text(), true
		}
	}
	return "", false
}

// Clone is a copy that shares nothing.
func (s *Spec) Clone() *Spec {
	c := *s
	c.Groups = slices.Clone(s.Groups)
	c.RecordSize.Weights = slices.Clone(s.RecordSize.Weights)
	if s.TopicConfigs != nil {
		c.TopicConfigs = make(map[string]string, len(s.TopicConfigs))
		for k, v := range s.TopicConfigs {
			c.TopicConfigs[k] = v
		}
	}
	if s.places != nil {
		c.places = make(map[string]Place, len(s.places))
		for k, v := range s.places {
			c.places[k] = v
		}
	}
	return &c
}

func (f field) set(text string) error {
	v := f.value
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("must be true or false, not %q", text)
		}
		v.SetBool(b)
	case reflect.Slice:
		var sizes []int
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part == "" && text == "" {
				break
			}
			n, err := strconv.Atoi(part)
			if err != nil {
				return fmt.Errorf("%q is not a list of whole numbers (3 or 3,1)", text)
			}
			sizes = append(sizes, n)
		}
		v.Set(reflect.ValueOf(sizes))
	case reflect.Map:
		m := map[string]string{}
		for part := range strings.SplitSeq(text, ",") {
			key, value, ok := strings.Cut(part, "=")
			if part == "" && text == "" {
				break
			}
			if !ok || key == "" {
				return fmt.Errorf("%q is not name=value", part)
			}
			m[strings.TrimSpace(key)] = value
		}
		if len(m) == 0 {
			m = nil
		}
		v.Set(reflect.ValueOf(m))
	default:
		return setNumber(v, text)
	}
	return nil
}

func (f field) text() string {
	switch x := f.value.Interface().(type) {
	case fmt.Stringer:
		return x.String()
	case []int:
		parts := make([]string, len(x))
		for i, n := range x {
			parts[i] = strconv.Itoa(n)
		}
		return strings.Join(parts, ",")
	case map[string]string:
		parts := make([]string, 0, len(x))
		for k, v := range x {
			parts = append(parts, k+"="+v)
		}
		slices.Sort(parts)
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(f.value.Interface())
}

// Flag is one setting as a command-line flag; it has the methods of pflag.Value.
type Flag struct {
	Name, Usage string
	spec        *Spec
}

// Flags lists all settings as flags that change s. Register each with VarPF (boolean ones take no argument: NoOptDefVal
// "true" where Type is "bool").
func (s *Spec) Flags() []*Flag {
	var flags []*Flag
	for _, f := range specFields(s) {
		flags = append(flags, &Flag{Name: f.name, Usage: f.help, spec: s})
	}
	return flags
}

// String is the present value.
func (f *Flag) String() string {
	if f.spec == nil {
		return ""
	}
	text, _ := f.spec.Get(f.Name)
	return text
}

// Set changes the setting; the text of the error leaves out the name, which the command adds.
func (f *Flag) Set(text string) error {
	err := f.spec.Set(f.Name, text)
	var p *Problem
	if errors.As(err, &p) {
		return errors.New(strings.TrimPrefix(p.Text, f.Name+": "))
	}
	return err
}

// Type is the word for the value in usage texts.
func (f *Flag) Type() string {
	for _, b := range specFields(f.spec) {
		if b.name != f.Name {
			continue
		}
		switch b.value.Interface().(type) {
		case Duration:
			return "duration"
		case Bytes:
			return "bytes"
		case Keys:
			return "keys"
		case Sizes:
			return "sizes"
		case []int:
			return "ints"
		case map[string]string:
			return "name=value"
		}
		return b.value.Kind().String()
	}
	return ""
}
