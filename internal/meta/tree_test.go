package meta

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTreeIsASortedMapWithHistory compares every version of a tree with a map, after all later changes.
func TestTreeIsASortedMapWithHistory(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	type version struct {
		tree tree[int, int]
		want map[int]int
	}
	now := version{newTree[int, int](cmp.Compare[int]), map[int]int{}}
	var history []version
	for range 200 {
		by := &edit{}
		now.want = maps.Clone(now.want)
		for range random.IntN(20) {
			key := random.IntN(150)
			if random.IntN(3) == 0 {
				now.tree.remove(by, key)
				delete(now.want, key)
			} else {
				now.tree.set(by, key, random.Int())
				now.want[key], _ = now.tree.get(key)
			}
		}
		history = append(history, now)
	}
	for i, v := range history {
		checkTree(t, seed, v.tree.root)
		got := map[int]int{}
		var keys []int
		v.tree.all(func(k, value int) bool {
			keys = append(keys, k)
			got[k] = value
			return true
		})
		if !maps.Equal(got, v.want) || !slices.IsSorted(keys) || v.tree.len() != len(v.want) {
			t.Fatalf("seed %d: version %d has %v, want %v", seed, i, got, v.want)
		}
		from := random.IntN(150)
		var behind []int
		v.tree.from(from, func(k, _ int) bool { behind = append(behind, k); return true })
		want := slices.DeleteFunc(slices.Clone(keys), func(k int) bool { return k < from })
		if !slices.Equal(behind, want) {
			t.Fatalf("seed %d: from %d got %v, want %v", seed, from, behind, want)
		}
		other := history[random.IntN(len(history))]
		checkDiff(t, seed, &v.tree, &other.tree, v.want, other.want)
	}
}

func checkDiff(t *testing.T, seed uint64, a, b *tree[int, int], inA, inB map[int]int) {
	t.Helper()
	differ := map[int]bool{}
	last := -1
	diffTrees(a, b, func(key, x, y int) bool {
		if key <= last {
			t.Fatalf("seed %d: key %d after %d", seed, key, last)
		}
		last = key
		if x != inA[key] || y != inB[key] {
			t.Fatalf("seed %d: key %d differs as %d and %d, want %d and %d", seed, key, x, y, inA[key], inB[key])
		}
		differ[key] = true
		return true
	})
	for key := range 150 {
		x, okA := inA[key]
		y, okB := inB[key]
		if (x != y || okA != okB) && !differ[key] {
			t.Fatalf("seed %d: key %d is %d and %d, and was not found to differ", seed, key, x, y)
		}
	}
}

func checkTree(t *testing.T, seed uint64, n *treeNode[int, int]) {
	t.Helper()
	if n == nil {
		return
	}
	if lean := n.left.tall() - n.right.tall(); lean < -1 || lean > 1 {
		t.Fatalf("seed %d: node %d leans by %d", seed, n.key, lean)
	}
	if n.size != n.left.count()+n.right.count()+1 || n.height != max(n.left.tall(), n.right.tall())+1 {
		t.Fatalf("seed %d: node %d is measured wrong", seed, n.key)
	}
	checkTree(t, seed, n.left)
	checkTree(t, seed, n.right)
}

func TestADiffCostsWhatHasChanged(t *testing.T) {
	big := newTree[int, int](cmp.Compare[int])
	by := &edit{}
	for i := range 100_000 {
		big.set(by, i, i)
	}
	changed := big
	changed.set(&edit{}, 50_000, -1)
	changed.set(&edit{}, 200_000, 1)
	changed.remove(&edit{}, 7)
	seen := 0
	diffTrees(&big, &changed, func(key, a, b int) bool { seen++; return true })
	if seen > 200 {
		t.Errorf("%d of 100000 entries were looked at for 3 changes", seen)
	}
}
