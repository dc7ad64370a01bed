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
	"Int": {Int, Short}, "ListenerInt": {Int, Short}, "Int64": {Long, Int, Short}, "Duration": {Long, Int, Short}, "Float": {Double}, "Bool": {Boolean},
	"String": {String, Class, Password}, "List": {List}, "IsSet": nil, "IsNull": nil,
}

// TestKeysThatTheCodeReadsExistAndAct finds getters with the name of a key in all our code. A typo would panic when it is
// reached; a key that is read must be marked in gen/own.tsv, as its description and the docs follow from that.
func TestKeysThatTheCodeReadsExistAndAct(t *testing.T) {
	found := 0
	eachNode(t, func(at func() token.Position, node ast.Node) {
		getter, name, ok := getterCall(node)
		if !ok {
			return
		}
		found++
		k, ok := Lookup(ScopeBroker, name)
		switch {
		case !ok:
			t.Errorf("%s: no broker configuration %q", at(), name)
		case getters[getter] != nil && !slices.Contains(getters[getter], k.Type):
			t.Errorf("%s: %s of %q, which is a %s", at(), getter, name, k.Type)
		case k.Effect != Acts:
			t.Errorf("%s: %q is read; say so in internal/config/gen/own.tsv and run go generate ./internal/config", at(), name)
		}
	})
	if found == 0 {
		t.Error("found no getter at all")
	}
}

// readHere are keys that package config resolves for everyone.
var readHere = []string{
	"advertised.listeners", "broker.id", "controller.listener.names", "cordoned.log.dirs", "controller.quorum.bootstrap.servers", "controller.quorum.voters",
	"inter.broker.listener.name", "listener.security.protocol.map", "listeners", "log.dir", "log.dirs", "metadata.log.dir", "node.id",
	"process.roles", "raftsman.client.metrics.otlp.headers", "raftsman.config.strict", "security.inter.broker.protocol",
	"group.consumer.assignor.offload.enable",
	"group.consumer.assignment.interval.ms", "group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms",
	"group.consumer.max.assignment.interval.ms", "group.consumer.max.heartbeat.interval.ms", "group.consumer.max.session.timeout.ms",
	"group.consumer.min.assignment.interval.ms", "group.consumer.min.heartbeat.interval.ms", "group.consumer.min.session.timeout.ms",
}

// TestKeysThatActAreRead is the other way round: what the docs say to have an effect is read by somebody.
func TestKeysThatActAreRead(t *testing.T) {
	read := map[string]bool{}
	eachNode(t, func(_ func() token.Position, node ast.Node) {
		if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				read[text] = true
			}
		}
	})
	for _, name := range readHere {
		read[name] = true
	}
	for _, k := range Keys(ScopeTopic) {
		for _, s := range k.Synonyms {
			read[s.Name] = read[s.Name] || k.Effect == Acts
		}
	}
	for _, k := range Keys(ScopeBroker) {
		if k.Effect == Acts && !read[k.Name] && !readInParts(read, k.Name) {
			t.Errorf("%s acts, says internal/config/gen/own.tsv, but nothing reads it", k.Name)
		}
	}
}

// readInParts tells whether a key is put together of two texts that the code has, the first one with a dot at its end.
func readInParts(read map[string]bool, name string) bool {
	for i := range name {
		if name[i] == '.' && read[name[:i+1]] && read[name[i+1:]] {
			return true
		}
	}
	return false
}

// eachNode visits the syntax of all our code but tests and this package.
func eachNode(t *testing.T, visit func(at func() token.Position, node ast.Node)) {
	t.Helper()
	const root = "../.."
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
			if node != nil {
				visit(func() token.Position { return fset.Position(node.Pos()) }, node)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
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
