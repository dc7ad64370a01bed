package meta

// tree is a sorted map whose versions share what is equal between them: a copy is one assignment, and a change costs one path
// from the root. Nodes made by the owner of a change are changed in place, as nobody else has seen them. The zero value needs
// a compare function.
type tree[K, V any] struct {
	root    *treeNode[K, V]
	compare func(a, b K) int
}

type treeNode[K, V any] struct {
	key         K
	value       V
	left, right *treeNode[K, V]
	size        int
	height      int8
	owner       *edit
}

// edit marks the nodes of one change that is not published yet.
type edit struct{ _ byte }

func newTree[K, V any](compare func(a, b K) int) tree[K, V] { return tree[K, V]{compare: compare} }

func (t *tree[K, V]) len() int { return t.root.count() }

func (t *tree[K, V]) get(key K) (V, bool) {
	for n := t.root; n != nil; {
		switch c := t.compare(key, n.key); {
		case c < 0:
			n = n.left
		case c > 0:
			n = n.right
		default:
			return n.value, true
		}
	}
	var none V
	return none, false
}

func (t *tree[K, V]) set(by *edit, key K, value V) { t.root = t.insert(by, t.root, key, value) }

func (t *tree[K, V]) remove(by *edit, key K) {
	if _, ok := t.get(key); ok {
		t.root = t.cut(by, t.root, key)
	}
}

// from calls each with the entries at and after key, in order, until it returns false.
func (t *tree[K, V]) from(key K, each func(K, V) bool) { t.ascend(t.root, &key, each) }

func (t *tree[K, V]) all(each func(K, V) bool) { t.ascend(t.root, nil, each) }

func (t *tree[K, V]) ascend(n *treeNode[K, V], start *K, each func(K, V) bool) bool {
	if n == nil {
		return true
	}
	c := 1
	if start != nil {
		c = t.compare(n.key, *start)
	}
	if c > 0 && !t.ascend(n.left, start, each) {
		return false
	}
	if c >= 0 && !each(n.key, n.value) {
		return false
	}
	if c >= 0 {
		start = nil
	}
	return t.ascend(n.right, start, each)
}

func (t *tree[K, V]) insert(by *edit, n *treeNode[K, V], key K, value V) *treeNode[K, V] {
	if n == nil {
		return &treeNode[K, V]{key: key, value: value, size: 1, height: 1, owner: by}
	}
	n = n.own(by)
	switch c := t.compare(key, n.key); {
	case c < 0:
		n.left = t.insert(by, n.left, key, value)
	case c > 0:
		n.right = t.insert(by, n.right, key, value)
	default:
		n.key, n.value = key, value
		return n
	}
	return n.balance(by)
}

func (t *tree[K, V]) cut(by *edit, n *treeNode[K, V], key K) *treeNode[K, V] {
	switch c := t.compare(key, n.key); {
	case c < 0:
		n = n.own(by)
		n.left = t.cut(by, n.left, key)
	case c > 0:
		n = n.own(by)
		n.right = t.cut(by, n.right, key)
	case n.left == nil:
		return n.right
	case n.right == nil:
		return n.left
	default:
		n = n.own(by)
		next := n.right
		for next.left != nil {
			next = next.left
		}
		n.key, n.value = next.key, next.value
		n.right = t.cut(by, n.right, next.key)
	}
	return n.balance(by)
}

func (n *treeNode[K, V]) own(by *edit) *treeNode[K, V] {
	if by != nil && n.owner == by {
		return n
	}
	mine := *n
	mine.owner = by
	return &mine
}

func (n *treeNode[K, V]) count() int {
	if n == nil {
		return 0
	}
	return n.size
}

func (n *treeNode[K, V]) tall() int8 {
	if n == nil {
		return 0
	}
	return n.height
}

func (n *treeNode[K, V]) measure() *treeNode[K, V] {
	n.size = n.left.count() + n.right.count() + 1
	n.height = max(n.left.tall(), n.right.tall()) + 1
	return n
}

// balance keeps the heights of n's sides within one of each other; n must belong to the change.
func (n *treeNode[K, V]) balance(by *edit) *treeNode[K, V] {
	switch lean := n.left.tall() - n.right.tall(); {
	case lean > 1:
		if n.left.left.tall() < n.left.right.tall() {
			n.left = n.left.own(by).rotateLeft(by)
		}
		return n.rotateRight(by)
	case lean < -1:
		if n.right.right.tall() < n.right.left.tall() {
			n.right = n.right.own(by).rotateRight(by)
		}
		return n.rotateLeft(by)
	}
	return n.measure()
}

func (n *treeNode[K, V]) rotateLeft(by *edit) *treeNode[K, V] {
	top := n.right.own(by)
	n.right = top.left
	top.left = n.measure()
	return top.measure()
}

func (n *treeNode[K, V]) rotateRight(by *edit) *treeNode[K, V] {
	top := n.left.own(by)
	n.left = top.right
	top.right = n.measure()
	return top.measure()
}
