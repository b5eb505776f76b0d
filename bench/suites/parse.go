package suites

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/tidemark/tidemark/loadgen/workload"
)

// textError is an error at a place of a suite.
type textError struct{ text string }

func (e *textError) Error() string { return e.text }
func (e *textError) Unwrap() error { return ErrSuite }

// reader reads one file; the first error stops it and later calls do nothing.
type reader struct {
	file string
	err  error
}

func (r *reader) at(n ast.Node) string {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return r.file
	}
	p := n.GetToken().Position
	return fmt.Sprintf("%s:%d:%d", r.file, p.Line, p.Column)
}

func (r *reader) fail(n ast.Node, format string, a ...any) {
	if r.err == nil {
		r.err = &textError{r.at(n) + ": " + fmt.Sprintf(format, a...)}
	}
}

// field is one key of a mapping and what reads its value.
type field struct {
	name string
	read func(ast.Node)
}

// mapping reads a mapping whose keys are known.
func (r *reader) mapping(n ast.Node, what string, fields []field) {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	r.pairs(n, what, func(key string, k, v ast.Node) {
		for _, f := range fields {
			if f.name == key {
				f.read(v)
				return
			}
		}
		hint := "; known are " + strings.Join(names, ", ")
		if near := workload.Nearest(key, names); near != "" {
			hint = fmt.Sprintf(" (did you mean %q?)", near)
		}
		r.fail(k, "unknown field %q in %s%s", key, what, hint)
	})
}

// pairs walks a mapping in its order and refuses what is none, and repeated keys.
func (r *reader) pairs(n ast.Node, what string, each func(key string, k, v ast.Node)) {
	if r.err != nil {
		return
	}
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		r.fail(n, "%s must be a mapping of fields to values", what)
		return
	}
	seen := map[string]bool{}
	for _, v := range values {
		key := v.Key.GetToken().Value
		if v.Key.IsMergeKey() {
			r.fail(v.Key, "merge keys are not read in suites")
		}
		if seen[key] {
			r.fail(v.Key, "field %q stands twice in %s", key, what)
		}
		seen[key] = true
		if r.err != nil {
			return
		}
		each(key, v.Key, v.Value)
	}
}

// sequence walks a list.
func (r *reader) sequence(n ast.Node, what string, each func(ast.Node)) {
	if r.err != nil {
		return
	}
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		r.fail(n, "%s must be a list: [a, b]", what)
		return
	}
	for _, v := range s.Values {
		each(v)
	}
}

// scalar returns the text of a plain value.
func (r *reader) scalar(n ast.Node, what string) string {
	if r.err != nil {
		return ""
	}
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value
	case *ast.NullNode:
		r.fail(n, "%s has no value", what)
		return ""
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value
	}
	r.fail(n, "%s must be one plain value", what)
	return ""
}

func text(r *reader, what string, into *string) func(ast.Node) {
	return func(n ast.Node) { *into = r.scalar(n, what) }
}

func integer(r *reader, what string, low, high int, into *int) func(ast.Node) {
	return func(n ast.Node) {
		s := r.scalar(n, what)
		v, err := strconv.Atoi(s)
		if err != nil || v < low || v > high {
			r.fail(n, "%s must be a whole number from %d to %d, not %q", what, low, high, s)
		}
		*into = v
	}
}

func decimal(r *reader, what string, low, high float64, into *float64) func(ast.Node) {
	return func(n ast.Node) {
		s := r.scalar(n, what)
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || !(v >= low && v <= high) {
			r.fail(n, "%s must be a number from %g to %g, not %q", what, low, high, s)
		}
		*into = v
	}
}

// share reads "50%" as 0.5; a bare number is refused, for 0.5 and 50 are both plausible.
func (r *reader) share(n ast.Node, what string) float64 {
	s := r.scalar(n, what)
	number, ok := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !ok || err != nil || !(v > 0 && v <= 1000) || math.IsInf(v, 0) {
		r.fail(n, "%s must be a percentage such as 50%%, not %q", what, s)
	}
	return v / 100
}

func share(r *reader, what string, into *float64) func(ast.Node) {
	return func(n ast.Node) { *into = r.share(n, what) }
}

func boolean(r *reader, what string, into *bool) func(ast.Node) {
	return func(n ast.Node) {
		s := r.scalar(n, what)
		if s != "true" && s != "false" {
			r.fail(n, "%s must be true or false, not %q", what, s)
		}
		*into = s == "true"
	}
}

func duration(r *reader, what string, into *time.Duration) func(ast.Node) {
	return func(n ast.Node) {
		s := r.scalar(n, what)
		v, err := time.ParseDuration(s)
		if err != nil || v <= 0 {
			r.fail(n, "%s must be a length of time such as 2s or 400ms, not %q", what, s)
		}
		*into = v
	}
}

func size(r *reader, what string, into *int64) func(ast.Node) {
	return func(n ast.Node) {
		s := r.scalar(n, what)
		var b workload.Bytes
		if err := b.UnmarshalText([]byte(s)); err != nil || b <= 0 {
			r.fail(n, "%s must be a size such as 512MiB, not %q", what, s)
		}
		*into = int64(b)
	}
}

// settings reads workload fields and tries each value on a Spec.
func settings(r *reader, what string, into *[]Setting) func(ast.Node) {
	return func(n ast.Node) {
		r.pairs(n, what, func(key string, k, v ast.Node) { *into = append(*into, r.setting(key, k, v)) })
	}
}

func (r *reader) setting(key string, k, v ast.Node) Setting {
	s := Setting{Field: key, Value: flow(v), At: r.at(v)}
	if Owned(key) {
		r.fail(k, "field %q is set by the bench itself; the suite's own rate, window, warm-up, max-bytes and seed decide", key)
		return s
	}
	spec := workload.Default()
	if err := Apply(&spec, s); err != nil {
		at := v
		if !slices.Contains(workload.Fields(), key) {
			at = k
		}
		r.fail(at, "%s", err)
	}
	return s
}

// flow is a value as workload.Spec.Set takes it: lists as a,b and mappings as a=1,b=2.
func flow(n ast.Node) string {
	var parts []string
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value
	case *ast.SequenceNode:
		for _, e := range v.Values {
			parts = append(parts, flow(e))
		}
	case *ast.MappingNode:
		for _, e := range v.Values {
			parts = append(parts, flow(e))
		}
	case *ast.MappingValueNode:
		return v.Key.GetToken().Value + "=" + flow(v.Value)
	case nil, *ast.NullNode:
		return ""
	default:
		return n.GetToken().Value
	}
	return strings.Join(parts, ",")
}

// Parse reads the text of a suite; file names it in errors.
func Parse(file string, content []byte) (*Suite, error) {
	tree, err := parser.ParseBytes(content, 0)
	if err != nil {
		return nil, &textError{syntaxError(file, err)}
	}
	if len(tree.Docs) == 0 || tree.Docs[0].Body == nil {
		return nil, &textError{file + ": the suite is empty"}
	}
	r := &reader{file: file}
	if len(tree.Docs) > 1 {
		r.fail(tree.Docs[1].Body, "a second document: a suite is one")
	}
	s := defaults(file, content)
	r.suite(tree.Docs[0].Body, s)
	if r.err == nil {
		r.check(tree.Docs[0].Body, s)
	}
	if s.Ladder.Repeats == 0 && !s.Ladder.Search {
		s.Ladder.Repeats = 2
	}
	if r.err != nil {
		return nil, r.err
	}
	return s, nil
}

// syntaxError brings the YAML reader's "[line:column] message" into the form of our other errors.
func syntaxError(file string, err error) string {
	message := strings.SplitN(yaml.FormatError(err, false, false), "\n", 2)[0]
	if place, rest, ok := strings.Cut(strings.TrimPrefix(message, "["), "] "); ok && strings.HasPrefix(message, "[") {
		return file + ":" + place + ": " + rest
	}
	return file + ": " + message
}

func defaults(file string, content []byte) *Suite {
	return &Suite{
		File: file, Text: content, Seed: 1, MaxBytes: 8 << 30, Allowance: 0.05, WarmUp: 400 * time.Millisecond,
		BaselineRepeats: 3,
		Probes:          Probes{Window: 2500 * time.Millisecond, MaxBytes: 256 << 20},
		Matrix:          Matrix{Design: "one-factor", Repeats: 2},
		Capacity:        Capacity{Repeats: 2, Window: 2500 * time.Millisecond, MaxBytes: 512 << 20},
		Profiles:        Profiles{CPU: true, Extra: "baseline"},
	}
}
