package meta

import "iter"

// TopicChange is one topic that differs between two images: Old is nil for a new one, New for a deleted one. A topic that was
// deleted and created again under its name is one change with two ids.
type TopicChange struct {
	Old, New *Topic
}

// TopicChanges yields the topics that differ between two images, by name. It costs as much as there are changes, not topics:
// what the images share is passed over.
func TopicChanges(old, now *Image) iter.Seq[TopicChange] {
	return func(yield func(TopicChange) bool) {
		diffTrees(&old.topics, &now.topics, func(_ string, a, b *Topic) bool {
			return a == b || yield(TopicChange{a, b})
		})
	}
}

// ConfigChanges yields the resources of which the configuration may differ between two images, in order, at the same cost.
func ConfigChanges(old, now *Image) iter.Seq[Resource] {
	return func(yield func(Resource) bool) {
		diffTrees(&old.configs, &now.configs, func(r Resource, _, _ map[string]string) bool { return yield(r) })
	}
}

// diffTrees calls each with the entries whose nodes the trees do not share, in order; the zero value stands for a missing one.
// Values of entries in both trees may be equal.
func diffTrees[K, V any](a, b *tree[K, V], each func(key K, a, b V) bool) {
	left, right := walkOf(a.root), walkOf(b.root)
	for {
		if !skipShared(&left, &right) {
			return
		}
		var none V
		x, y := left.top(), right.top()
		switch c := compareTops(a.compare, x, y); {
		case c < 0:
			left.pop()
			if !each(x.key, x.value, none) {
				return
			}
		case c > 0:
			right.pop()
			if !each(y.key, none, y.value) {
				return
			}
		default:
			left.pop()
			right.pop()
			if !each(x.key, x.value, y.value) {
				return
			}
		}
	}
}

// walk is a position in a tree: what is still to come, the next on top. An opened step stands for its entry alone, a closed
// one for its whole subtree.
type walk[K, V any] []step[K, V]

type step[K, V any] struct {
	node *treeNode[K, V]
	open bool
}

func walkOf[K, V any](root *treeNode[K, V]) walk[K, V] {
	if root == nil {
		return nil
	}
	return walk[K, V]{{node: root}}
}

func (w *walk[K, V]) top() *treeNode[K, V] {
	if len(*w) == 0 {
		return nil
	}
	return (*w)[len(*w)-1].node
}

func (w *walk[K, V]) pop() { *w = (*w)[:len(*w)-1] }

// closed tells whether a whole subtree is on top.
func (w walk[K, V]) closed() bool { return len(w) > 0 && !w[len(w)-1].open }

// open puts the parts of the subtree on top in its place.
func (w *walk[K, V]) open() {
	n := w.top()
	w.pop()
	if n.right != nil {
		*w = append(*w, step[K, V]{node: n.right})
	}
	*w = append(*w, step[K, V]{node: n, open: true})
	if n.left != nil {
		*w = append(*w, step[K, V]{node: n.left})
	}
}

// skipShared passes over equal subtrees and opens others, the taller one first, until an entry is on top of both walks, or of
// the one that is left. It returns false at the end of both.
func skipShared[K, V any](a, b *walk[K, V]) bool {
	for a.closed() || b.closed() {
		switch {
		case a.closed() && b.closed() && a.top() == b.top():
			a.pop()
			b.pop()
		case a.closed() && (!b.closed() || a.top().height >= b.top().height):
			a.open()
		default:
			b.open()
		}
	}
	return len(*a)+len(*b) > 0
}

func compareTops[K, V any](compare func(a, b K) int, x, y *treeNode[K, V]) int {
	switch {
	case x == nil:
		return 1
	case y == nil:
		return -1
	}
	return compare(x.key, y.key)
}
