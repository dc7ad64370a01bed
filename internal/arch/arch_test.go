// Package arch holds the tests that keep the layout true: who may import whom, what pure means, and the house's own lint.
// They parse the source and run with `go test ./internal/arch`; a failure names the file, the line and the rule.
package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/raftsman/raftsman"

// layers lists every package from the bottom up. A package may import packages of its own layer's "below" list only:
// everything in earlier layers that its kind allows, and what is named beside it.
//
// kind: p pure, e engine, r runtime or edge, s support.
var packages = map[string]struct {
	kind  byte
	under []string // our packages it may import, without the module's prefix
}{
	"internal/kafka":           {'p', nil},
	"internal/invariant":       {'p', nil},
	"internal/chain":           {'p', nil},
	"internal/transcript":      {'s', nil},
	"internal/metric":          {'s', nil},
	"internal/record/compress": {'s', nil},
	"internal/record":          {'p', []string{"internal/kafka", "internal/invariant", "internal/record/compress"}},
	"internal/sysrecord":       {'p', []string{"internal/kafka", "internal/invariant"}},
	"internal/sysrecord/gen":   {'s', nil},
	"internal/config":          {'p', []string{"internal/kafka", "internal/invariant"}},
	"internal/config/gen":      {'s', nil},
	"internal/condition":       {'p', []string{"internal/kafka"}},
	"internal/kraft":           {'p', []string{"internal/kafka", "internal/invariant"}},
	"internal/session":         {'p', []string{"internal/chain", "internal/kafka", "internal/invariant"}},
	"internal/quota":           {'p', []string{"internal/chain", "internal/kafka", "internal/invariant"}},
	"internal/clientmetrics":   {'p', []string{"internal/chain", "internal/kafka", "internal/invariant", "internal/config"}},
	"internal/meta":            {'p', []string{"internal/kafka", "internal/invariant", "internal/sysrecord", "internal/config", "internal/quota"}},
	"internal/plan":            {'p', []string{"internal/kafka"}},
	"internal/group/assign":    {'p', []string{"internal/kafka", "internal/invariant"}},
	"internal/group":           {'p', []string{"internal/kafka", "internal/invariant", "internal/sysrecord", "internal/group/assign"}},
	"internal/txn":             {'p', []string{"internal/kafka", "internal/invariant", "internal/sysrecord"}},
	"internal/producer":        {'p', []string{"internal/kafka", "internal/invariant", "internal/record"}},
	"internal/partition":       {'p', []string{"internal/kafka", "internal/invariant", "internal/record", "internal/producer"}},
	"internal/vfs":             {'e', nil},
	"internal/vfs/faultfs":     {'e', []string{"internal/vfs"}},
	"internal/commitlog":       {'e', []string{"internal/kafka", "internal/invariant", "internal/metric", "internal/record", "internal/record/compress", "internal/producer", "internal/vfs"}},
	"internal/wire/gen":        {'s', nil},
	"internal/commitlog/dump":  {'e', []string{"internal/kafka", "internal/record", "internal/record/compress", "internal/producer", "internal/vfs", "internal/commitlog", "internal/sysrecord"}},
	"internal/wire":            {'r', []string{"internal/kafka", "internal/invariant", "internal/metric", "internal/record"}},
	"internal/peer":            {'r', []string{"internal/kafka", "internal/invariant", "internal/metric", "internal/wire", "internal/kraft", "internal/meta"}},
	"internal/server":          {'r', []string{"internal/kafka", "internal/invariant", "internal/metric", "internal/wire"}},
	"internal/quorum":          {'r', []string{"internal/kafka", "internal/invariant", "internal/metric", "internal/record", "internal/sysrecord", "internal/config", "internal/kraft", "internal/meta", "internal/vfs", "internal/commitlog"}},
	"internal/replica":         {'r', []string{"internal/kafka", "internal/invariant", "internal/metric", "internal/record", "internal/record/compress", "internal/config", "internal/condition", "internal/producer", "internal/partition", "internal/meta", "internal/peer", "internal/vfs", "internal/commitlog"}},
	"internal/coord":           {'r', []string{"internal/kafka", "internal/invariant", "internal/metric", "internal/record", "internal/record/compress", "internal/sysrecord", "internal/group", "internal/txn", "internal/producer", "internal/replica", "internal/meta", "internal/peer", "internal/config"}},
	"internal/telemetry":       {'r', []string{"internal/kafka", "internal/metric", "internal/vfs", "internal/wire", "internal/server", "internal/group", "internal/txn", "internal/quota", "internal/meta", "internal/replica", "internal/coord", "internal/clientmetrics", "internal/otlp"}},
	"internal/otlp":            {'r', []string{"internal/metric"}},
	"internal/api":             {'r', []string{"internal/*"}},
	"internal/clientconf":      {'r', []string{"internal/config"}},
	"internal/scripts":         {'r', []string{"internal/config", "internal/clientconf", "internal/meta"}},
	"internal/arch":            {'s', nil},
	"internal/raw":             {'s', []string{"internal/kafka", "internal/record", "internal/record/compress", "internal/config", "internal/meta"}},
	"broker":                   {'r', []string{"internal/*"}},
	"brokertest":               {'r', []string{"internal/*", "broker"}},
	"cmd/raftsman":             {'r', []string{"internal/*", "broker"}},

	"internal/commitlog/verify": {'e', []string{"internal/kafka", "internal/record", "internal/producer", "internal/vfs", "internal/commitlog", "internal/commitlog/dump"}},
}

// kmsgIn are the packages that may know the wire codec's types.
var kmsgIn = []string{"internal/wire", "internal/api", "internal/peer", "internal/raw", "broker", "brokertest", "internal/scripts", "cmd/raftsman"}

// forbidden lists what the standard library offers and a kind of package must not use.
var forbidden = map[byte][]string{
	'p': {"os", "net", "sync", "sync/atomic", "log", "log/slog", "context", "syscall", "math/rand", "time.Now", "time.Sleep", "time.After", "time.NewTimer", "time.NewTicker", "time.Since"},
	'e': {"net", "log", "log/slog", "context", "time.Now", "time.Sleep", "time.After", "time.Since"},
}

func TestImportsFollowTheLayout(t *testing.T) {
	eachFile(t, func(pkg, path string, fset *token.FileSet, file *ast.File) {
		rule, known := packages[pkg]
		if !known {
			t.Errorf("%s: package %s is not in the layout: add it to internal/arch with what it may import", path, pkg)
			return
		}
		for _, spec := range file.Imports {
			name := strings.Trim(spec.Path.Value, `"`)
			at := fset.Position(spec.Pos())
			if ours, ok := strings.CutPrefix(name, module+"/"); ok && !allowed(rule.under, ours) {
				t.Errorf("%s: %s may not import %s", at, pkg, ours)
			}
			if strings.HasPrefix(name, "github.com/twmb/franz-go/pkg/kmsg") && !slices.Contains(kmsgIn, pkg) {
				t.Errorf("%s: %s may not know kmsg: the wire's types stay at the edge", at, pkg)
			}
			if slices.Contains(forbidden[rule.kind], name) && !exempt(pkg, name) {
				t.Errorf("%s: %s may not import %s", at, pkg, name)
			}
			if name == "unsafe" && pkg != "internal/vfs" {
				t.Errorf("%s: unsafe is for internal/vfs alone", at)
			}
		}
	})
}

// exempt names the few places where an engine is the operating system's neighbour.
func exempt(pkg, name string) bool {
	return pkg == "internal/vfs" && name == "context"
}

func allowed(under []string, name string) bool {
	return slices.ContainsFunc(under, func(pattern string) bool {
		prefix, wild := strings.CutSuffix(pattern, "*")
		return pattern == name || wild && strings.HasPrefix(name, prefix)
	})
}

func TestPurePackagesDecideOnly(t *testing.T) {
	eachFile(t, func(pkg, path string, fset *token.FileSet, file *ast.File) {
		kind := packages[pkg].kind
		if kind != 'p' && kind != 'e' {
			return
		}
		ast.Inspect(file, func(node ast.Node) bool {
			at := func() token.Position { return fset.Position(node.Pos()) }
			switch node := node.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: no go statement in %s: background work is a method that the runtime calls", at(), pkg)
			case *ast.SelectorExpr:
				if base, ok := node.X.(*ast.Ident); ok && slices.Contains(forbidden[kind], base.Name+"."+node.Sel.Name) {
					t.Errorf("%s: %s.%s in %s: time is an argument", at(), base.Name, node.Sel.Name, pkg)
				}
			}
			if kind != 'p' {
				return true
			}
			switch node := node.(type) {
			case *ast.SelectStmt, *ast.ChanType, *ast.SendStmt:
				t.Errorf("%s: no channels in %s", at(), pkg)
			case *ast.UnaryExpr:
				if node.Op == token.ARROW {
					t.Errorf("%s: no channels in %s", at(), pkg)
				}
			}
			return true
		})
	})
}

func TestHouseLint(t *testing.T) {
	eachFile(t, func(pkg, path string, fset *token.FileSet, file *ast.File) {
		for _, decl := range file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: no init(): start-up is told in broker and main", fset.Position(fn.Pos()))
			}
		}
		lines := fset.File(file.Pos()).LineCount()
		if lines > 900 && !generated(file) {
			t.Errorf("%s: %d lines: a file tells one story, in 900 lines at most", path, lines)
		}
		for _, base := range []string{"util", "utils", "common", "types", "helpers", "misc"} {
			if file.Name.Name == base {
				t.Errorf("%s: no package %s: name what it is about", path, base)
			}
		}
	})
}

func generated(file *ast.File) bool { return ast.IsGenerated(file) }

// eachFile parses every non-test Go file of the module.
func eachFile(t *testing.T, visit func(pkg, path string, fset *token.FileSet, file *ast.File)) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	fset, files := token.NewFileSet(), 0
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, _ := filepath.Rel(root, path)
		relative = filepath.ToSlash(relative)
		if entry.IsDir() {
			if name := entry.Name(); relative != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || relative == "test" || relative == "bench" || relative == "tools") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		files++
		pkg := relative[:max(strings.LastIndex(relative, "/"), 0)]
		visit(pkg, relative, fset, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 3 {
		t.Fatalf("only %d files seen under %s: the walk is wrong", files, root)
	}
}
