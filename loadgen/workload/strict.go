package workload

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Place is a position in a YAML text, both counted from 1; the zero Place is unknown.
type Place struct{ Line, Column int }

// Problem is what is wrong with an input, and where.
type Problem struct {
	File  string // empty where the value came from a flag
	Place Place
	Field string // the key, with the keys above it joined by dots
	Text  string // what is wrong and what to do
}

// Error prints file:line:column: text.
func (p *Problem) Error() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Place.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", p.Place.Line, p.Place.Column)
		}
		b.WriteString(": ")
	}
	b.WriteString(p.Text)
	return b.String()
}

// maxDepth bounds the nesting of a document, aliases included; maxNodes what aliases may unfold to.
const (
	maxDepth = 32
	maxNodes = 100000
	maxText  = 1 << 20
)

// Decode reads one YAML document strictly into the struct that into points to; fields that the text does not name keep
// their values. The bench reads its suites with it too. name is the file's name in errors.
//
// Unknown and repeated fields, empty files, second documents, empty values, fractions where whole numbers belong, text
// where numbers belong and units that do not fit are refused, each as a *Problem with its place. Keys are the yaml tags
// of the fields ("name,omitempty"; an embedded struct's fields are the outer one's); a field without tag is not read.
// A type with UnmarshalText reads the scalar's text. The returned map has the place of each key that was read.
func Decode(name string, text []byte, into any) (map[string]Place, error) {
	if len(text) > maxText {
		return nil, &Problem{File: name, Text: fmt.Sprintf("the file has %d bytes, more than the %d that are read", len(text), maxText)}
	}
	d := &decoder{file: name, places: map[string]Place{}, anchors: map[string]ast.Node{}}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, d.syntax(err)
	}
	docs := slices.DeleteFunc(slices.Clone(file.Docs), func(doc *ast.DocumentNode) bool {
		return doc.Body == nil && doc.Start == nil
	})
	if len(docs) == 0 || docs[0].Body == nil {
		return nil, &Problem{File: name, Text: "the file is empty"}
	}
	if len(docs) > 1 {
		p := &Problem{File: name, Text: "a second document (---) in the file: one file holds one"}
		if start := docs[1].Start; start != nil {
			p.Place = placeOf(start)
		} else if docs[1].Body != nil {
			p.Place = placeOf(docs[1].Body.GetToken())
		}
		return nil, p
	}
	if err := d.value(docs[0].Body, reflect.ValueOf(into).Elem(), "", 0); err != nil {
		return nil, err
	}
	return d.places, nil
}

type decoder struct {
	file    string
	places  map[string]Place
	anchors map[string]ast.Node
	nodes   int
}

func placeOf(t *token.Token) Place {
	if t == nil || t.Position == nil {
		return Place{}
	}
	return Place{t.Position.Line, t.Position.Column}
}

func (d *decoder) syntax(err error) error {
	var y yaml.Error
	if errors.As(err, &y) {
		return &Problem{File: d.file, Place: placeOf(y.GetToken()), Text: y.GetMessage()}
	}
	return &Problem{File: d.file, Text: err.Error()}
}

func (d *decoder) fail(n ast.Node, path, format string, a ...any) error {
	p := &Problem{File: d.file, Field: path, Text: fmt.Sprintf(format, a...)}
	if n != nil {
		p.Place = placeOf(n.GetToken())
	}
	if path != "" && !strings.HasPrefix(p.Text, "unknown field") {
		p.Text = path + ": " + p.Text
	}
	return p
}

// resolve follows anchors and aliases to the node that holds the value.
func (d *decoder) resolve(n ast.Node, path string) (ast.Node, error) {
	for range maxDepth {
		switch t := n.(type) {
		case *ast.AnchorNode:
			d.anchors[t.Name.GetToken().Value] = t.Value
			n = t.Value
		case *ast.AliasNode:
			target, ok := d.anchors[t.Value.GetToken().Value]
			if !ok {
				return nil, d.fail(n, path, "alias *%s names no anchor above it", t.Value.GetToken().Value)
			}
			n = target
		default:
			return n, nil
		}
	}
	return nil, d.fail(n, path, "aliases nest too deeply")
}

func (d *decoder) value(n ast.Node, v reflect.Value, path string, depth int) error {
	n, err := d.resolve(n, path)
	if err != nil {
		return err
	}
	if d.nodes++; depth > maxDepth || d.nodes > maxNodes {
		return d.fail(n, path, "the document is nested too deeply or too large")
	}
	if _, empty := n.(*ast.NullNode); n == nil || empty {
		return d.fail(n, path, "has no value")
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		s, err := d.scalar(n, path)
		if err != nil {
			return err
		}
		if err := u.UnmarshalText([]byte(s)); err != nil {
			return d.fail(n, path, "%s", err.Error())
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		if err := d.value(n, p.Elem(), path, depth+1); err != nil {
			return err
		}
		v.Set(p)
		return nil
	case reflect.Struct:
		return d.structure(n, v, path, depth)
	case reflect.Map:
		return d.mapping(n, v, path, depth)
	case reflect.Slice:
		return d.sequence(n, v, path, depth)
	default:
		return d.leaf(n, v, path)
	}
}

func pairs(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch t := n.(type) {
	case *ast.MappingNode:
		return t.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{t}, true
	}
	return nil, false
}

func (d *decoder) structure(n ast.Node, v reflect.Value, path string, depth int) error {
	values, ok := pairs(n)
	if !ok {
		return d.fail(n, path, "must be fields (name: value), not %s", describe(n))
	}
	fields := map[string]reflect.Value{}
	collect(v, fields)
	for _, pair := range values {
		key := pair.Key.GetToken().Value
		field, ok := fields[key]
		if !ok {
			known := make([]string, 0, len(fields))
			for k := range fields {
				known = append(known, k)
			}
			slices.Sort(known)
			if inner := misplaced(pair.Value, known); inner != "" {
				return d.fail(pair.Key, join(path, key), "unknown field %q: %s in it stands one level higher, beside the others", key, inner)
			}
			return d.fail(pair.Key, join(path, key), "unknown field %q%s", key, didYouMean(key, known))
		}
		if err := d.entry(pair, field, join(path, key), depth); err != nil {
			return err
		}
	}
	return nil
}

// misplaced is the first known field among those of a value that is fields itself.
func misplaced(n ast.Node, known []string) string {
	values, _ := pairs(n)
	for _, pair := range values {
		if key := pair.Key.GetToken().Value; slices.Contains(known, key) {
			return key
		}
	}
	return ""
}

func (d *decoder) entry(pair *ast.MappingValueNode, v reflect.Value, path string, depth int) error {
	place := placeOf(pair.Key.GetToken())
	if _, twice := d.places[path]; twice {
		return d.fail(pair.Key, path, "the field is given twice")
	}
	d.places[path] = place
	if _, empty := pair.Value.(*ast.NullNode); pair.Value == nil || empty {
		return d.fail(pair.Key, path, "has no value")
	}
	return d.value(pair.Value, v, path, depth+1)
}

// collect maps the yaml keys of a struct, those of embedded structs included, to its fields.
func collect(v reflect.Value, into map[string]reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct && tag == "":
			collect(v.Field(i), into)
		case f.IsExported() && tag != "" && tag != "-":
			into[tag] = v.Field(i)
		}
	}
}

func (d *decoder) mapping(n ast.Node, v reflect.Value, path string, depth int) error {
	values, ok := pairs(n)
	if !ok {
		return d.fail(n, path, "must be fields (name: value), not %s", describe(n))
	}
	m := reflect.MakeMapWithSize(v.Type(), len(values))
	for _, pair := range values {
		key := pair.Key.GetToken().Value
		e := reflect.New(v.Type().Elem()).Elem()
		if err := d.entry(pair, e, join(path, key), depth); err != nil {
			return err
		}
		m.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), e)
	}
	v.Set(m)
	return nil
}

func (d *decoder) sequence(n ast.Node, v reflect.Value, path string, depth int) error {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return d.fail(n, path, "must be a list ([a, b] or lines that begin with -), not %s", describe(n))
	}
	s := reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values))
	for i, e := range seq.Values {
		if err := d.value(e, s.Index(i), join(path, strconv.Itoa(i)), depth+1); err != nil {
			return err
		}
	}
	v.Set(s)
	return nil
}

// scalar is the text of a scalar as written, without its quotes.
func (d *decoder) scalar(n ast.Node, path string) (string, error) {
	switch t := n.(type) {
	case *ast.StringNode:
		return t.Value, nil
	case *ast.LiteralNode:
		return t.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, nil
	}
	return "", d.fail(n, path, "must be one value, not %s", describe(n))
}

func (d *decoder) leaf(n ast.Node, v reflect.Value, path string) error {
	text, err := d.scalar(n, path)
	if err != nil {
		return err
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
		return nil
	case reflect.Bool:
		b, ok := n.(*ast.BoolNode)
		if !ok {
			return d.fail(n, path, "must be true or false, not %q", text)
		}
		v.SetBool(b.Value)
		return nil
	}
	if kind := n.GetToken().Type; kind == token.SingleQuoteType || kind == token.DoubleQuoteType {
		return d.fail(n, path, "must be a number, not %q", text)
	}
	if err := setNumber(v, text); err != nil {
		return d.fail(n, path, "%s", err.Error())
	}
	return nil
}

func setNumber(v reflect.Value, text string) error {
	plain := strings.ReplaceAll(text, "_", "")
	switch v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		i, err := strconv.ParseInt(plain, 0, v.Type().Bits())
		if err != nil {
			return wholeNumber(text, err)
		}
		v.SetInt(i)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		u, err := strconv.ParseUint(plain, 0, v.Type().Bits())
		if err != nil {
			return wholeNumber(text, err)
		}
		v.SetUint(u)
	case reflect.Float64, reflect.Float32:
		f, err := strconv.ParseFloat(plain, 64)
		if err != nil || f != f || f-f != 0 {
			return fmt.Errorf("must be a number, not %q", text)
		}
		v.SetFloat(f)
	default:
		return fmt.Errorf("bug: a field of type %s cannot be read", v.Type())
	}
	return nil
}

func wholeNumber(text string, err error) error {
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("%s is out of range", text)
	}
	return fmt.Errorf("must be a whole number, not %q", text)
}

func describe(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "fields"
	case *ast.SequenceNode:
		return "a list"
	case *ast.TagNode:
		return "a value with a tag (!...)"
	case *ast.NullNode, nil:
		return "nothing"
	}
	return fmt.Sprintf("%q", n.GetToken().Value)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
