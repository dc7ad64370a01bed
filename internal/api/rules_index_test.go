package api_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/raftsman/raftsman/internal/raw"
)

// rule is one row of the list of what brokers most often get wrong, by its number in that list.
type rule struct {
	number int
	about  string
	later  string // what it waits for; empty: it holds now
	within string // where its tests are when a broker in the test's process can't show it, and why
}

// rules is the whole list. A row that holds now has a test named by its number in this package's rules files, which asks a whole
// broker over sockets, unless it says where else and why.
var rules = []rule{
	{1, "ApiVersions, unknown version", "", ""},
	{2, "ApiVersions never closes", "", ""},
	{3, "ApiVersions, response header", "", ""},
	{4, "client software names", "", ""},
	{5, "Produce advertised from 0", "", ""},
	{6, "unsupported versions close", "", ""},
	{7, "ranges that fit together", "", ""},
	{8, "features", "", ""},
	{9, "order of answers", "", ""},
	{10, "acks=0", "", ""},
	{11, "HTTP and TLS bytes", "", ""},
	{12, "hostile lengths", "", ""},
	{13, "metrics asked for by subscription alone", "", ""},
	{14, "all topics and no topics", "", ""},
	{15, "creation on first use", "", ""},
	{16, "no creation on first use", "", ""},
	{17, "address of the listener", "", ""},
	{18, "no invented leader", "", "internal/api: one healthy node always leads; the test unregisters it"},
	{19, "leader epochs never fall", "", ""},
	{20, "topics never vanish", "", ""},
	{21, "topic ids", "", ""},
	{22, "replication factors", "", ""},
	{23, "defaults of new topics", "", ""},
	{24, "topics only grow", "", ""},
	{25, "names that collide", "", ""},
	{26, "length of names", "", ""},
	{27, "source of a setting", "", ""},
	{28, "synonyms of a setting", "", ""},
	{29, "replacing and changing settings", "", ""},
	{30, "append and subtract", "", ""},
	{31, "log directories", "", ""},
	{32, "cluster and controller", "", ""},
	{33, "elections", "", "internal/meta: one node leads all there is"},
	{34, "cancelled reassignment", "", "internal/meta: one node has nowhere to move a partition"},
	{35, "replaced reassignment", "", "internal/meta: one node has nowhere to move a partition"},
	{36, "feature updates", "", ""},
	{37, "too many partitions", "", ""},
	{38, "size of a batch", "", ""},
	{39, "batch larger than a segment", "", ""},
	{40, "no key in a compacted topic", "", ""},
	{41, "CRC", "", ""},
	{42, "shape of a batch", "", ""},
	{43, "malformed inside", "", ""},
	{44, "append time in the answer", "", ""},
	{45, "append time in the batch", "", ""},
	{46, "commit acknowledged in its own epoch", "", "internal/coord: leadership changes only in a cluster; the test takes it away"},
	{47, "commits to partitions that are not there", "", ""},
	{48, "acks and in-sync replicas", "", ""},
	{49, "repeated batches", "", ""},
	{50, "gap in the sequence", "", ""},
	{51, "sequence wraps", "", ""},
	{52, "negative sequence", "", ""},
	{53, "sequence of a new epoch", "", ""},
	{54, "sequence dies with its topic", "", ""},
	{55, "sequences survive a restart", "", ""},
	{56, "code of fencing by version", "", ""},
	{57, "take-over aborts", "", ""},
	{58, "epochs not burnt", "", "internal/txn: the log takes every record; the test refuses them"},
	{59, "end asked for again", "", ""},
	{60, "retriable codes of the coordinator", "", "internal/txn: one healthy node always leads; the test refuses records"},
	{61, "no unknown error on commit", "", "internal/txn: the log takes every record; the test refuses them"},
	{62, "markers sent again", "", ""},
	{63, "last stable offset", "", ""},
	{64, "no reading past it", "", ""},
	{65, "range of the aborted list", "", ""},
	{66, "aborted list by isolation", "", ""},
	{67, "records outside a transaction", "", ""},
	{68, "producers described", "", ""},
	{69, "fenced transactional commits", "", ""},
	{70, "stable offsets only", "", ""},
	{71, "first batch over the limits", "", ""},
	{72, "fetch waits", "", ""},
	{73, "throttled session", "", ""},
	{74, "session epochs", "", ""},
	{75, "what a session remembers", "", ""},
	{76, "leader epochs in requests", "", ""},
	{77, "ends of leader epochs", "", ""},
	{78, "who may ask for them", "", ""},
	{79, "offsets by time", "", ""},
	{80, "special offsets", "", ""},
	{81, "gaps of compaction", "issue 4: compaction", ""},
	{82, "tombstones", "issue 4: compaction", ""},
	{83, "member ids first", "", ""},
	{84, "static members return", "", ""},
	{85, "codes of classic groups", "", ""},
	{86, "deleting groups and offsets", "", ""},
	{87, "describing and listing groups", "", ""},
	{88, "offsets expire when nobody is there", "", "internal/group: retention is counted in minutes; the test has its own clock"},
	{89, "logging in again", raw.ComesWithSecurity, ""},
	{90, "failed logins", raw.ComesWithSecurity, ""},
	{91, "passwords administered", raw.ComesWithSecurity, ""},
	{92, "matching of access rules", raw.ComesWithSecurity, ""},
	{93, "hidden topics", raw.ComesWithSecurity, ""},
	{94, "quotas", "", ""},
	{95, "share acknowledgements", raw.ComesWithShare, ""},
	{96, "defaults in answers", "", ""},
	{97, "share state", raw.ComesWithShare, ""},
}

// alsoSeen are the list's last rows, which have no numbers, in their order.
var alsoSeen = []rule{
	{1, "in-sync minimum of a single replica", "", ""},
	{2, "end before the markers", "", ""},
	{3, "where a group's offsets lie", "", ""},
	{4, "settings of new topics, and legacy changes", "", ""},
	{5, "clients outlive a topic made anew", "", ""},
	{6, "groups of both protocols", "", ""},
	{7, "expired transactions", "", ""},
}

// ruleTest finds the numbers in the name of a test: TestRule07…, TestRule27And28…, TestRules27To30…, TestRuleH3….
var (
	ruleTest  = regexp.MustCompile(`^TestRules?(H?\d+(?:(?:AndRule|And|Rule|To)\d+)*)`)
	ruleRange = regexp.MustCompile(`^(\d+)To(\d+)$`)
	digits    = regexp.MustCompile(`\d+`)
)

// numbersIn returns the rules that a test is named by.
func numbersIn(name string) (numbers []string) {
	m := ruleTest.FindStringSubmatch(name)
	if m == nil {
		return nil
	}
	if h, ok := strings.CutPrefix(m[1], "H"); ok {
		return []string{"H" + h}
	}
	if r := ruleRange.FindStringSubmatch(m[1]); r != nil {
		first, _ := strconv.Atoi(r[1])
		last, _ := strconv.Atoi(r[2])
		for n := first; n <= last; n++ {
			numbers = append(numbers, strconv.Itoa(n))
		}
		return numbers
	}
	for _, n := range digits.FindAllString(m[1], -1) {
		numbers = append(numbers, strings.TrimLeft(n, "0"))
	}
	return numbers
}

// TestEveryRuleHasItsTest reads the names of the module's tests.
func TestEveryRuleHasItsTest(t *testing.T) {
	black, any := map[string]bool{}, map[string]bool{} // rules tested on a whole broker, and anywhere
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != root:
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv != nil {
				continue
			}
			for _, n := range numbersIn(fn.Name.Name) {
				any[n] = true
				black[n] = black[n] || file.Name.Name == "api_test"
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, r rule) {
		switch {
		case r.later != "":
		case r.within == "" && !black[name]:
			t.Errorf("rule %s, %s: no test of a whole broker is named by it", name, r.about)
		case !any[name]:
			t.Errorf("rule %s, %s: no test is named by it", name, r.about)
		}
	}
	for i, r := range rules {
		if r.number != i+1 {
			t.Fatalf("rule %d stands in the place of %d", r.number, i+1)
		}
		check(strconv.Itoa(r.number), r)
	}
	for _, r := range alsoSeen {
		check("H"+strconv.Itoa(r.number), r)
	}
	for name := range any {
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "H")); err != nil || n < 1 || n > len(rules) || strings.HasPrefix(name, "H") && n > len(alsoSeen) {
			t.Errorf("a test is named by rule %s, which is not in the list", name)
		}
	}
}

func TestRuleNumbersAreRead(t *testing.T) {
	for name, want := range map[string]string{
		"TestRule07VersionsAreCoherent": "7", "TestRule27And28DescribeAnswersAsKafka": "27 28", "TestRules27To30Config": "27 28 29 30",
		"TestRule01Rule02ApiVersionsTooNew": "1 2", "TestRule10And9OverTCP": "10 9", "TestRuleH3Where": "H3", "TestRuler": "", "TestRule96": "96",
	} {
		if got := strings.Join(numbersIn(name), " "); got != want {
			t.Errorf("%s: read %q, want %q", name, got, want)
		}
	}
}
