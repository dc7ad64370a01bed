package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// getters are the methods of Broker that take a key, with the types that they read.
var getters = map[string][]Type{
	"Int": {Int, Short}, "Int64": {Long, Int, Short}, "Duration": {Long, Int, Short}, "Float": {Double}, "Bool": {Boolean},
	"String": {String, Class, Password}, "List": {List}, "IsSet": nil, "IsNull": nil,
}

// TestKeysThatTheCodeReadsExistAndAct finds getters with the name of a key in all our code. A typo would panic when it is
// reached; a key that is read must be marked in gen/own.tsv, as its description and the docs follow from that.
func TestKeysThatTheCodeReadsExistAndAct(t *testing.T) {
	const root = "../.."
	found := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		own, err := filepath.Rel(filepath.Join(root, "internal", "config"), path)
		if err != nil {
			return err
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || !strings.HasPrefix(own, "..") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			getter, name, ok := getterCall(node)
			if !ok {
				return true
			}
			found++
			k, ok := Lookup(ScopeBroker, name)
			switch at := fset.Position(node.Pos()); {
			case !ok:
				t.Errorf("%s: no broker configuration %q", at, name)
			case getters[getter] != nil && !slices.Contains(getters[getter], k.Type):
				t.Errorf("%s: %s of %q, which is a %s", at, getter, name, k.Type)
			case k.Effect != Acts:
				t.Errorf("%s: %q is read; say so in internal/config/gen/own.tsv and run go generate ./internal/config", at, name)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("found no getter at all")
	}
}

// getterCall tells whether node is a call x.Getter("a.b").
func getterCall(node ast.Node) (getter, name string, ok bool) {
	call, ok := node.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return "", "", false
	}
	method, isMethod := call.Fun.(*ast.SelectorExpr)
	literal, isLiteral := call.Args[0].(*ast.BasicLit)
	if !isMethod || !isLiteral || literal.Kind != token.STRING {
		return "", "", false
	}
	_, isGetter := getters[method.Sel.Name]
	name, err := strconv.Unquote(literal.Value)
	return method.Sel.Name, name, isGetter && err == nil && strings.Contains(name, ".")
}
