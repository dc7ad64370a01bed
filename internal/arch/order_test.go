package arch

import (
	"bytes"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPurePackagesDoNotDependOnMapOrder: a machine that ranges over a map decides differently from run to run. Pure packages sort
// the keys first: slices.Sorted(maps.Keys(m)), or a loop that only fills another map.
func TestPurePackagesDoNotDependOnMapOrder(t *testing.T) {
	var pure []string
	for name, rule := range packages {
		if rule.kind == 'p' {
			pure = append(pure, name)
		}
	}
	slices.Sort(pure)
	exports := exportFiles(t, pure)
	fset := token.NewFileSet()
	from := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, name := range pure {
		checkOrder(t, fset, from, name)
	}
}

func checkOrder(t *testing.T, fset *token.FileSet, from types.Importer, name string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("../..", name, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	if _, err := (&types.Config{Importer: from}).Check(module+"/"+name, fset, files, info); err != nil {
		t.Fatalf("%s does not type-check: %v", name, err)
	}
	for _, file := range files {
		sorted := map[ast.Node]bool{}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.CallExpr:
				// What slices.Sorted and its like take is put in order.
				if fn, ok := node.Fun.(*ast.SelectorExpr); ok && strings.HasPrefix(fn.Sel.Name, "Sorted") && len(node.Args) > 0 {
					sorted[node.Args[0]] = true
				}
				if fn, ok := node.Fun.(*ast.SelectorExpr); ok && !sorted[node] {
					if base, ok := fn.X.(*ast.Ident); ok && base.Name == "maps" && slices.Contains([]string{"Keys", "Values", "All"}, fn.Sel.Name) {
						t.Errorf("%s: maps.%s comes in no order: wrap it in slices.Sorted", fset.Position(node.Pos()), fn.Sel.Name)
					}
				}
			case *ast.RangeStmt:
				if tv, ok := info.Types[node.X]; ok {
					if _, isMap := tv.Type.Underlying().(*types.Map); isMap && !onlyFillsMap(node.Body) {
						t.Errorf("%s: a range over a map has no order: range over slices.Sorted(maps.Keys(…))", fset.Position(node.Pos()))
					}
				}
			}
			return true
		})
	}
}

// onlyFillsMap tells whether a loop's body does nothing but set or delete entries of another map, for some entries perhaps: then
// no order can be seen.
func onlyFillsMap(body *ast.BlockStmt) bool {
	for _, statement := range body.List {
		switch s := statement.(type) {
		case *ast.AssignStmt:
			if len(s.Lhs) != 1 {
				return false
			}
			if _, ok := s.Lhs[0].(*ast.IndexExpr); !ok {
				return false
			}
		case *ast.IfStmt:
			if s.Else != nil || !onlyFillsMap(s.Body) {
				return false
			}
		case *ast.ExprStmt:
			call, ok := s.X.(*ast.CallExpr)
			if !ok {
				return false
			}
			if fn, ok := call.Fun.(*ast.Ident); !ok || fn.Name != "delete" {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// exportFiles returns the compiled form of every package that the given ones stand on, by import path.
func exportFiles(t *testing.T, names []string) map[string]string {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	for _, name := range names {
		args = append(args, "./"+name)
	}
	command := exec.Command("go", args...)
	command.Dir = "../.."
	var failure bytes.Buffer
	command.Stderr = &failure
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, failure.String())
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if path, file, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			exports[path] = file
		}
	}
	return exports
}
