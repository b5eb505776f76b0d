package result

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/loadgen/workload"
)

// schemaLines lists every field of the schema as its path and kind, one a line.
func schemaLines(t reflect.Type, path string, lines *[]string) {
	switch {
	case t == reflect.TypeFor[workload.Spec]():
		for _, name := range workload.Fields() {
			*lines = append(*lines, path+"."+name)
		}
	case t.Kind() == reflect.Pointer:
		schemaLines(t.Elem(), path, lines)
	case t.Kind() == reflect.Slice:
		schemaLines(t.Elem(), path+"[]", lines)
	case t.Kind() == reflect.Map:
		schemaLines(t.Elem(), path+"{}", lines)
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			schemaLines(t.Field(i).Type, strings.TrimPrefix(path+"."+name, "."), lines)
		}
	default:
		*lines = append(*lines, fmt.Sprintf("%s %s", path, t.Kind()))
	}
}

// TestSchemaOnlyGrows holds every published field of schema 1 to its name and kind. testdata/schema-1.txt is the list as it
// was last published; TIDEMARK_WRITE=1 adds new fields to it. To take one away needs schema 2.
func TestSchemaOnlyGrows(t *testing.T) {
	var now []string
	schemaLines(reflect.TypeFor[Result](), "", &now)
	slices.Sort(now)
	const file = "testdata/schema-1.txt"
	b, err := os.ReadFile(file)
	if err != nil && os.Getenv("TIDEMARK_WRITE") == "" {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); !slices.Contains(now, line) {
			t.Errorf("schema %d had %q: a field that is gone or changed needs a new schema", Schema, line)
		}
	}
	if os.Getenv("TIDEMARK_WRITE") != "" && !t.Failed() {
		if err := os.WriteFile(file, []byte(strings.Join(now, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	name := regexp.MustCompile(`^[a-z][A-Za-z0-9]*$`)
	for _, line := range now {
		path, _, _ := strings.Cut(line, " ")
		if strings.HasPrefix(path, "asked.") {
			continue // the workload's own keys
		}
		for part := range strings.SplitSeq(path, ".") {
			if !name.MatchString(strings.TrimRight(part, "[]{}")) {
				t.Errorf("%s: %q is no name for a field", line, part)
			}
		}
	}
}
