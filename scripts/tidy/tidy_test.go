package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"
)

const (
	maxFileLines     = 600
	maxTestFileLines = 1000
	maxFuncLines     = 80
)

// topLevel is all that may stand at the root beside dotfiles.
var topLevel = map[string]bool{
	"core": true, "broker": true, "loadgen": true, "profiles": true, "bench": true, "dashboards": true, "scripts": true,
	"results": true, "main.go": true, "go.mod": true, "go.sum": true, "Makefile": true, "README.md": true, "DESIGN.md": true,
}

// ignoredTop holds what builds and runs leave behind; .gitignore names the same.
var ignoredTop = regexp.MustCompile(`^(bin|tidemark|run-.*|.*\.test)$`)

var forbiddenName = regexp.MustCompile(`(^|_)(utils?|common|helpers?|misc|managers?|impl)($|_)`)

var stdlibNames = map[string]bool{
	"bytes": true, "errors": true, "io": true, "net": true, "os": true, "sort": true, "strings": true, "sync": true, "time": true,
	"log": true, "math": true, "rand": true, "context": true, "testing": true, "http": true, "json": true, "hash": true,
}

// file is one parsed Go file.
type file struct {
	path  string // relative to the root
	pkg   string // folder below the root, "" for the root
	test  bool
	ast   *ast.File
	lines int
	src   []byte
}

type tree struct {
	fset  *token.FileSet
	files []*file
	long  int
}

func TestHouseRules(t *testing.T) {
	root := "../.."
	tr := load(t, root)
	checkTop(t, root)
	listed := listedPackages(t, root)
	checkPackages(t, tr, listed)
	for _, f := range tr.files {
		checkNames(t, tr, f)
		checkSize(t, tr, f)
		checkImports(t, tr, f)
		checkDecls(t, tr, f)
		checkCalls(t, tr, f)
	}
	t.Logf("%d files, %d functions marked //tidy:long", len(tr.files), tr.long)
}

func load(t *testing.T, root string) *tree {
	t.Helper()
	tr := &tree{fset: token.NewFileSet()}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			name := d.Name()
			if rel != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || rel == "scripts/tools" ||
				!strings.Contains(rel, "/") && ignoredTop.MatchString(rel)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(tr.fset, path, src, parser.ParseComments)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(rel))
		if pkg == "." {
			pkg = ""
		}
		tr.files = append(tr.files, &file{path: rel, pkg: pkg, test: strings.HasSuffix(rel, "_test.go"), ast: parsed,
			lines: strings.Count(string(src), "\n"), src: src})
		return nil
	})
	if err != nil {
		t.Fatalf("read the tree: %v", err)
	}
	return tr
}

func checkTop(t *testing.T, root string) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !topLevel[e.Name()] && !strings.HasPrefix(e.Name(), ".") && !ignoredTop.MatchString(e.Name()) {
			t.Errorf("%s: not one of the folders of the top level; move it below one that DESIGN.md lists", e.Name())
		}
	}
}

var packageRow = regexp.MustCompile("(?m)^\\| `([a-z0-9/]+)` \\|")

// listedPackages reads the rows of the package table in DESIGN.md.
func listedPackages(t *testing.T, root string) map[string]bool {
	b, err := os.ReadFile(filepath.Join(root, "DESIGN.md"))
	if err != nil {
		t.Fatalf("DESIGN.md: %v; the map of the repository is missing", err)
	}
	out := map[string]bool{}
	for _, m := range packageRow.FindAllStringSubmatch(string(b), -1) {
		out[m[1]] = true
	}
	return out
}

func checkPackages(t *testing.T, tr *tree, listed map[string]bool) {
	seen, commented := map[string]*file{}, map[string]bool{}
	for _, f := range tr.files {
		if seen[f.pkg] == nil {
			seen[f.pkg] = f
		}
		if f.ast.Doc != nil {
			commented[f.pkg] = true
		}
	}
	var pkgs []string
	for pkg := range seen {
		pkgs = append(pkgs, pkg)
	}
	sort.Strings(pkgs)
	for _, pkg := range pkgs {
		if !commented[pkg] {
			t.Errorf("%s:1: package has no comment; say what it is for, what it leaves to others and its concurrency", seen[pkg].path)
		}
		if pkg != "" && !listed[pkg] {
			t.Errorf("%s:1: package %s is not in DESIGN.md; add a row to its table of packages", seen[pkg].path, pkg)
		}
		name := seen[pkg].ast.Name.Name
		if forbiddenName.MatchString(name) || stdlibNames[name] {
			t.Errorf("%s:1: package name %q is forbidden; name it for the thing in it", seen[pkg].path, name)
		}
	}
	for pkg := range listed {
		if seen[pkg] == nil {
			t.Errorf("DESIGN.md: lists package %s, which is gone; delete its row", pkg)
		}
	}
}

func checkNames(t *testing.T, tr *tree, f *file) {
	base := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(f.path), ".go"), "_test")
	if forbiddenName.MatchString(base) {
		t.Errorf("%s:1: file name is forbidden; name it for the thing in it", f.path)
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		ts, ok := n.(*ast.TypeSpec)
		if ok && (strings.HasSuffix(ts.Name.Name, "Manager") || strings.HasSuffix(ts.Name.Name, "Impl") || strings.HasSuffix(ts.Name.Name, "Helper")) {
			t.Errorf("%s: type %s: Manager, Impl and Helper say nothing; name what it is", tr.at(f, n), ts.Name.Name)
		}
		return true
	})
}

func checkSize(t *testing.T, tr *tree, f *file) {
	limit := maxFileLines
	if f.test {
		limit = maxTestFileLines
	}
	table := strings.Contains(string(f.src), "//tidy:table")
	if f.lines > limit && !ast.IsGenerated(f.ast) && !table {
		t.Errorf("%s:%d: %d lines, the limit is %d; split it where a second thing has grown", f.path, f.lines, f.lines, limit)
	}
	for _, d := range f.ast.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		n := tr.fset.Position(fn.End()).Line - tr.fset.Position(fn.Pos()).Line + 1
		if fn.Doc != nil && strings.Contains(docText(fn.Doc), "//tidy:long ") {
			tr.long++
			continue
		}
		if n > maxFuncLines {
			t.Errorf("%s: %s has %d lines, the limit is %d; split it, or write //tidy:long and why above it",
				tr.at(f, fn), fn.Name.Name, n, maxFuncLines)
		}
	}
}

func docText(g *ast.CommentGroup) string {
	var b strings.Builder
	for _, c := range g.List {
		b.WriteString(c.Text + "\n")
	}
	return b.String()
}

func checkImports(t *testing.T, tr *tree, f *file) {
	for _, imp := range f.ast.Imports {
		path, _ := strconv.Unquote(imp.Path.Value)
		if path == "unsafe" && f.pkg != "core/buf" && f.pkg != "core/vfs" {
			t.Errorf("%s: unsafe belongs to core/buf and core/vfs; use what they offer", tr.at(f, imp))
		}
		if !strings.HasPrefix(path, module) {
			continue
		}
		to := strings.TrimPrefix(path, module)
		if isFrontDoor(to) && f.path != "main.go" && !f.test {
			t.Errorf("%s: %s is a front door; only main.go and tests import it", tr.at(f, imp), to)
		} else if !mayImport(f.pkg, to, f.test) {
			t.Errorf("%s: %s may not import %s; see DESIGN.md, \"What may import what\"", tr.at(f, imp), orRoot(f.pkg), to)
		}
	}
}

func orRoot(pkg string) string {
	if pkg == "" {
		return "main.go"
	}
	return pkg
}

func (tr *tree) at(f *file, n ast.Node) string {
	return fmt.Sprintf("%s:%d", f.path, tr.fset.Position(n.Pos()).Line)
}
