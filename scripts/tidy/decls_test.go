package tidy

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// osFileCalls are the functions of package os by which a broker would go around core/vfs.
var osFileCalls = map[string]bool{
	"Open": true, "OpenFile": true, "Create": true, "CreateTemp": true, "ReadFile": true, "WriteFile": true, "Remove": true,
	"RemoveAll": true, "Rename": true, "Mkdir": true, "MkdirAll": true, "ReadDir": true, "Stat": true, "Lstat": true, "Truncate": true,
	"Link": true, "Symlink": true,
}

// checkDecls judges declarations: comments on exported names, init, package-level variables.
func checkDecls(t *testing.T, tr *tree, f *file) {
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.Name == "init" && d.Recv == nil {
				t.Errorf("%s: init runs before anyone asked; do it in a constructor", tr.at(f, d))
			}
			if !f.test && d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil && f.ast.Name.Name != "main" {
				t.Errorf("%s: %s is exported and has no comment; say what arguments mean, who owns buffers, which errors", tr.at(f, d), d.Name.Name)
			}
		case *ast.GenDecl:
			checkGenDecl(t, tr, f, d)
		}
	}
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	typ := d.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

func checkGenDecl(t *testing.T, tr *tree, f *file, d *ast.GenDecl) {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if !f.test && s.Name.IsExported() && s.Doc == nil && d.Doc == nil && s.Comment == nil {
				t.Errorf("%s: type %s is exported and has no comment", tr.at(f, s), s.Name.Name)
			}
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if !f.test && name.IsExported() && s.Doc == nil && d.Doc == nil && s.Comment == nil {
					t.Errorf("%s: %s is exported and has no comment", tr.at(f, s), name.Name)
				}
			}
			if d.Tok == token.VAR && !f.test && !errorOrTable(s) {
				t.Errorf("%s: package-level variable %s is neither an error nor a table; hand it in through a constructor", tr.at(f, s), s.Names[0].Name)
			}
		}
	}
}

// errorOrTable reports whether a package-level variable is an error value, an interface assertion, or a table that
// nothing changes: a composite literal, a compiled pattern, an embedded file or a value computed by a pure call of
// the standard library's table makers.
func errorOrTable(s *ast.ValueSpec) bool {
	if len(s.Names) == 1 && s.Names[0].Name == "_" {
		return true
	}
	if strings.HasPrefix(strings.ToLower(s.Names[0].Name), "err") {
		return true
	}
	if len(s.Values) == 0 {
		switch x := s.Type.(type) { // //go:embed targets
		case *ast.Ident:
			return x.Name == "string"
		case *ast.ArrayType:
			return true
		case *ast.SelectorExpr:
			return x.Sel.Name == "FS"
		}
		return false
	}
	for _, v := range s.Values {
		if !tableValue(v) {
			return false
		}
	}
	return true
}

func tableValue(v ast.Expr) bool {
	switch x := v.(type) {
	case *ast.CompositeLit:
		if sel, ok := x.Type.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && (id.Name == "sync" || id.Name == "atomic") {
				return false
			}
		}
		return true
	case *ast.CallExpr:
		switch fn := x.Fun.(type) {
		case *ast.SelectorExpr:
			id, ok := fn.X.(*ast.Ident)
			return ok && (id.Name == "regexp" || id.Name == "crc32" || id.Name == "template" || id.Name == "strings" || id.Name == "errors" ||
				id.Name == "fmt" || id.Name == "math" || id.Name == "base64" || id.Name == "slices" || id.Name == "maps")
		case *ast.FuncLit:
			return true // computed once, then a table
		case *ast.ArrayType:
			return true // []byte("...")
		case *ast.Ident:
			return strings.HasPrefix(fn.Name, "build") || strings.HasPrefix(fn.Name, "table")
		}
	case *ast.FuncLit:
		return true
	}
	return false
}

// checkCalls judges calls: os file calls in the broker, panic, sleeps in tests.
func checkCalls(t *testing.T, tr *tree, f *file) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "panic" && !f.test && f.pkg != "core/invariants" {
			t.Errorf("%s: panic belongs to core/invariants; return an error, or use invariants.Check for a broken invariant", tr.at(f, n))
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		inBroker := (strings.HasPrefix(f.pkg, "broker") || strings.HasPrefix(f.pkg, "core/")) && f.pkg != "core/vfs" && f.pkg != "broker/proc"
		if pkg.Name == "os" && osFileCalls[sel.Sel.Name] && inBroker && !f.test {
			t.Errorf("%s: os.%s goes around core/vfs; take a vfs.FS", tr.at(f, n), sel.Sel.Name)
		}
		if pkg.Name == "time" && sel.Sel.Name == "Sleep" && f.test && !strings.Contains(string(f.src), "synctest") {
			t.Errorf("%s: a test that sleeps waits too long or not long enough; poll with a deadline, or use testing/synctest", tr.at(f, n))
		}
		return true
	})
}
